"""The packages of throttle-dev and throttle-replay for pip and npm, installed from the packed files. No Go is needed,
and no PATH."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Sequence

import pytest

from redis_throttle import Limiter, fixed
from redis_throttle.testing import ThrottleDev
from servers import ROOT

TARGET = "linux/arm64" if platform.machine() in ("aarch64", "arm64") else "linux/amd64"
PROGRAM = pathlib.Path(os.environ.get("THROTTLE_DEV") or ROOT / "build/throttle-dev")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The packages of throttle-dev and throttle-replay for this system, as `make release` packs them."""
    folder, out = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("packed")
    shutil.copy(PROGRAM, folder / "throttle-dev")
    subprocess.run([str(ROOT / "scripts/build-replay"), str(folder / "throttle-replay")], check=True)
    for name in ("LICENSE", "THIRD_PARTY_LICENSES.txt"):
        shutil.copy(ROOT / "LICENSE", folder / name)
    for words in ([sys.executable, str(folder), str(out), TARGET], ["main", str(out)]):
        ran = subprocess.run([str(ROOT / "scripts/pack-dev"), *words], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return out


USE = """
from redis_throttle import Limiter, fixed
from redis_throttle.testing import ThrottleDev
with ThrottleDev() as server, Limiter.from_url(server.url) as limiter:
    print([limiter.limit("acme", fixed(1, "1mo")).allowed for _ in range(2)])
    server.advance("1mo")
    print(limiter.limit("acme", fixed(1, "1mo")).allowed)
"""


def test_pip_brings_the_program(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--find-links", packed, "redis-throttle-dev"], check=True)
    assert os.access(tmp_path / "venv/bin/throttle-dev", os.X_OK)
    libraries = pathlib.Path(sys.modules["redis"].__file__ or "").parents[1]
    environment = {"PYTHONPATH": f"{ROOT / 'clients/python/src'}:{libraries}", "PATH": "/nowhere"}
    ran = subprocess.run([python, "-c", USE], capture_output=True, text=True, env=environment)
    assert ran.stdout == "[True, False]\nTrue\n", ran.stderr


SECOND = '203.0.113.9 - - [02/Nov/2026:08:00:0%d +0000] "GET / HTTP/1.1" 200 9 "-" "-"\n'


def denied(command: Sequence[str | pathlib.Path], cwd: pathlib.Path) -> tuple[str, int]:
    """The version of a throttle-replay, and how many of three requests it would have denied."""
    version = subprocess.run([*command, "--version"], cwd=cwd, capture_output=True, text=True, check=True).stdout
    log = "".join(SECOND % second for second in (1, 2, 3))
    ran = subprocess.run([*command, "--limit", "FIXED 2/m", "--json", "-"], cwd=cwd, input=log, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return version, json.loads(ran.stdout)["sets"][0]["denied"]


def test_pip_and_npm_bring_throttle_replay(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    version = subprocess.run([str(ROOT / "scripts/version")], capture_output=True, text=True, check=True).stdout
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--find-links", packed, "redis-throttle-dev"], check=True)
    install_npm(packed, tmp_path)
    commands: list[Sequence[str | pathlib.Path]] = [[tmp_path / "venv/bin/throttle-replay"], ["npx", "--offline", "throttle-replay"]]
    for command in commands:
        assert denied(command, tmp_path) == (f"throttle-replay {version}", 1)


def test_ctrl_c_has_throttle_replay_report_through_npx(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A terminal interrupts npx, the script of the package and the program at once, and each of the first two passes it
    on."""
    install_npm(packed, tmp_path)
    with subprocess.Popen(["npx", "--offline", "throttle-replay", "-", "--json", "-"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, start_new_session=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("".join(SECOND % (n % 10) for n in range(20_000)))  # more than pipes hold, so that the program reads by now
        process.stdin.flush()
        os.killpg(process.pid, signal.SIGINT)
        report = json.load(process.stdout)
    assert report["interrupted"]
    assert report["requests"] > 0


def test_a_wheel_says_which_systems_it_is_for(packed: pathlib.Path) -> None:
    [wheel] = packed.glob("*.whl")
    machine = "aarch64" if TARGET.endswith("arm64") else "x86_64"
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}.whl")


def install_npm(packed: pathlib.Path, folder: pathlib.Path) -> None:
    """Install the packages for npm in a project of its own."""
    (folder / "package.json").write_text('{"private": true}')
    files = sorted(packed.glob("*.tgz"))
    assert len(files) == 2
    subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", *files], cwd=folder, check=True)


def test_npm_brings_the_program(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    install_npm(packed, tmp_path)
    program = subprocess.run(["node", "-p", 'require("@redis-throttle/dev")'], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
    with ThrottleDev(program) as server, Limiter.from_url(server.url) as limiter:
        assert limiter.limit("acme", fixed(1, "1mo")).allowed
    said = [subprocess.run([command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
            for command in (program, tmp_path / "node_modules/.bin/throttle-dev")]
    assert said[0] == said[1] != ""
    with ThrottleDev(tmp_path / "node_modules/.bin/throttle-dev") as server:  # ends with the signal that ThrottleDev sends
        assert server.port


def test_without_a_package_for_the_system_npm_says_what_is_missing(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "package.json").write_text('{"private": true}')
    [main] = [file for file in packed.glob("*.tgz") if "linux" not in file.name]
    subprocess.run(["npm", "install", "--offline", "--omit", "optional", "--no-audit", "--no-fund", "--silent", main], cwd=tmp_path, check=True)
    ran = subprocess.run(["node", "-p", 'require("@redis-throttle/dev")'], cwd=tmp_path, capture_output=True, text=True)
    assert "has no package @redis-throttle/dev-linux-" in ran.stderr
