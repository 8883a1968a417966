"""What is packed, that it works where nothing else is installed, and that the README's examples run."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile

import pytest

from servers import ROOT, Server

PACKAGE = ROOT / "clients/python"
SOURCE = PACKAGE / "src/redis_throttle"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("dist")
    ran = subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, PACKAGE], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def test_the_version_is_that_of_the_module() -> None:
    go = (ROOT / "module/version.go").read_text()
    version = ".".join(match[1] for name in ("major", "minor", "patch") if (match := re.search(rf"{name} = (\d+)", go)))
    assert tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["version"] == version


def test_the_wheel_and_the_source_hold_the_package_and_nothing_else(packed: dict[str, pathlib.Path]) -> None:
    modules = {str(path.relative_to(SOURCE.parent)) for path in SOURCE.rglob("*") if path.suffix in (".py", ".lua") or path.name == "py.typed"}
    with zipfile.ZipFile(packed["wheel"]) as wheel:
        names = {re.sub(r"^redis_throttle-[0-9.]+\.dist-info", "info", name) for name in wheel.namelist()}
    assert names == modules | {"info/METADATA", "info/WHEEL", "info/RECORD", "info/entry_points.txt", "info/licenses/LICENSE"}
    with tarfile.open(packed["sdist"]) as sdist:
        files = {name.partition("/")[2] for name in sdist.getnames()}
        license = sdist.extractfile(next(name for name in sdist.getnames() if name.endswith("/LICENSE")))
        assert license is not None
        assert license.read() == (ROOT / "LICENSE").read_bytes()
    assert files - {".gitignore"} == {f"src/{name}" for name in modules} | {"PKG-INFO", "README.md", "LICENSE", "pyproject.toml", "hatch_build.py"}


def test_it_works_from_the_wheel_alone(server: Server, packed: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv/bin/python"
    target = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True).stdout.strip()
    libraries = pathlib.Path(sys.modules["redis"].__file__ or "").parents[1]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, packed["wheel"]], check=True)
    # An empty environment with the one library that was chosen.
    (pathlib.Path(target) / "redis").symlink_to(libraries / "redis")
    ran = subprocess.run([python, "-I", "-c", f"""
import redis_throttle, sys
from redis_throttle import Limiter, rate
assert "venv" in redis_throttle.__file__
with Limiter.from_url({server.url!r}) as limiter:
    print([limiter.limit("k", rate(2, "1h")).limited for _ in range(3)])
assert not [name for name in sys.modules if name.split(".")[0] in ("limits", "celery", "django", "litellm", "valkey")]
"""], capture_output=True, text=True)
    assert ran.stdout == "[False, False, True]\n", ran.stderr


EXAMPLES = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_readme_runs(server: Server, number: int) -> None:
    code = EXAMPLES[number].replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
    ran = subprocess.run([sys.executable, "-W", "error::SyntaxWarning", "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    if number == 0:
        assert ran.stdout == "go ahead; 9 left\n"


def test_names_of_the_readme_exist() -> None:
    import importlib

    from django.conf import settings

    if not settings.configured:  # the throttles are defined by it
        settings.configure()
    for name in set(re.findall(r"redis_throttle(?:\.\w+)+", (PACKAGE / "README.md").read_text())):
        parts = name.split(".")
        found: object = importlib.import_module(".".join(parts[:2]))
        for part in parts[2:]:
            found = getattr(found, part)


OF_LIBRARIES_WITHOUT_TYPES = {
    "redis_throttle.celery.LimitedTask", "redis_throttle.django.Unavailable", "redis_throttle.django.SimpleRateThrottle",
    "redis_throttle.django.AnonRateThrottle", "redis_throttle.django.UserRateThrottle", "redis_throttle.django.ScopedRateThrottle",
}
"""Their base classes, of Celery and Django REST framework, have no types, so that theirs cannot be complete."""


def test_every_public_name_has_a_type() -> None:
    program = pathlib.Path(sys.executable).parent / "pyright"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    ran = subprocess.run([program, "--pythonpath", sys.executable, "--verifytypes", "redis_throttle", "--ignoreexternal", "--outputjson"],
                         cwd=PACKAGE, capture_output=True, text=True, env=environment)
    symbols = json.loads(ran.stdout)["typeCompleteness"]["symbols"]
    public = {symbol["name"]: symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"] for symbol in symbols if symbol["isExported"]}
    assert len(public) > 150
    assert {name for name, complete in public.items() if not complete} <= OF_LIBRARIES_WITHOUT_TYPES


@pytest.mark.parametrize("name", sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")))
def test_every_module_says_what_it_is_for(name: str) -> None:
    text = (SOURCE / name).read_text()
    assert text.startswith('"""')
    with contextlib.suppress(ImportError):
        compile(text, name, "exec")
