"""The storage for `limits`: its own conformance tests, its users Flask-Limiter and slowapi, and what is promised
beyond."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from typing import Any

import limits
import pytest
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES
from starlette.requests import Request

from boundary import around_a_boundary, most_within
from redis_throttle import OutageError
from redis_throttle._core.errors import LeftAloneError
from redis_throttle.limits import ThrottleStorage
from servers import PATIENCE, ROOT, Cluster, Server, await_true

CONFORMANCE = '''
import asyncio, os, sys, pytest, redis
pytest.register_assert_rewrite("tests.test_storage", "tests.aio.test_storage")
import redis_throttle.limits as throttle
import tests.utils

URI = os.environ["CONFORMANCE_URI"]

@pytest.fixture
def emptied():
    port = int(URI.rpartition(":")[2])
    with redis.Redis(port=port) as client:
        client.flushall()

from pytest_lazy_fixtures import lf

ours = pytest.mark.parametrize("uri, args, fixture", [pytest.param("throttle+" + URI, {"timeout": "5s"}, lf("emptied"), id="throttle")])
ours_async = pytest.mark.parametrize("uri, args, fixture", [pytest.param("async+throttle+" + URI, {"timeout": "5s"}, lf("emptied"), id="throttle")])
for name in ("all_storage", "moving_window_storage", "sliding_window_counter_storage"):
    setattr(tests.utils, name, ours)
    setattr(tests.utils, "async_" + name, ours_async)

import tests.test_storage, tests.aio.test_storage

for module, prefix, kind in ((tests.test_storage, "", throttle.ThrottleStorage), (tests.aio.test_storage, "async+", throttle.AsyncThrottleStorage)):
    module.TestConcreteStorages.pytestmark = [pytest.mark.parametrize(
        "uri, args, expected_instance, fixture", [pytest.param(prefix + "throttle+" + URI, {"timeout": "5s"}, kind, lf("emptied"), id="throttle")])]
'''

# These tests of `limits` look at the two counters that it approximates a sliding window by. This storage has an exact
# window.
APPROXIMATION = ["test_sliding_window_counter_current_window", "test_sliding_window_counter_previous_window",
                 "test_sliding_window_counter_total_reset"]


@pytest.mark.timeout(240)
def test_conformance_of_limits(server: Server, tmp_path: pathlib.Path) -> None:
    version = limits.__version__
    sources = pathlib.Path(os.environ.get("THROTTLE_LIMITS_SDIST") or ROOT / "build/python/sdist") / f"limits-{version}.tar.gz"
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / f"limits-{version}"
    (folder / "tests/conftest.py").write_text(CONFORMANCE)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nmarkers =\n" + "".join(
        f"  {name}\n" for name in ("unit", "integration", "redis", "redis_sentinel", "redis_cluster", "memory", "mongodb", "memcached",
                                 "valkey", "valkey_cluster", "flaky")))
    # The installed library is tested, not the folder's.
    (folder / "limits").rename(folder / "limits-source")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not " + " and not ".join(APPROXIMATION),
         "tests/test_strategy.py", "tests/aio/test_strategy.py", "tests/test_storage.py", "tests/aio/test_storage.py"],
        cwd=folder, env={**os.environ, "CONFORMANCE_URI": server.url}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    assert " failed" not in ran.stdout


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the storages that a test makes: one that is thrown away leaves its connections to some later test."""
    made: list[ThrottleStorage] = []
    init = ThrottleStorage.__init__

    def noted(self: ThrottleStorage, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(ThrottleStorage, "__init__", noted)
    yield
    for storage in made:
        storage.limiter.close()


def hits(server: Server, strategy: str, item: str, n: int) -> list[bool]:
    limiter = STRATEGIES[strategy](storage_from_string(f"throttle+{server.url}"))
    return [limiter.hit(limits.parse(item), "user") for _ in range(n)]


@pytest.mark.parametrize("strategy", ["fixed-window", "moving-window", "sliding-window-counter", "gcra", "token-bucket"])
def test_every_strategy_lets_through_what_the_limit_says(server: Server, strategy: str) -> None:
    assert hits(server, strategy, "3/day", 5) == [True, True, True, False, False]


@pytest.mark.parametrize("strategy", ["fixed-window", "moving-window", "sliding-window-counter", "gcra"])
def test_a_hit_is_one_round_trip(server: Server, strategy: str) -> None:
    hits(server, strategy, "3/day", 1)  # with what a new connection says
    limiter = STRATEGIES[strategy](storage_from_string(f"throttle+{server.url}"))
    limiter.hit(limits.parse("3/day"), "user")
    with server.client() as client:
        before = client.info("stats")["total_commands_processed"]
        for _ in range(10):
            limiter.hit(limits.parse("3/day"), "user")
        assert client.info("stats")["total_commands_processed"] - before == 11, "ten hits, and the INFO before"


def test_a_denied_hit_of_a_fixed_window_is_not_counted(server: Server) -> None:
    limiter = STRATEGIES["fixed-window"](storage_from_string(f"throttle+{server.url}"))
    item = limits.parse("10/hour")
    assert limiter.hit(item, "user", cost=7)
    assert not limiter.hit(item, "user", cost=7)
    assert limiter.hit(item, "user", cost=3), "limits' own storages have counted the denied hit"


def test_a_moving_window_is_never_exceeded(server: Server) -> None:
    """As many hits as there can be, for three windows; no interval of a second has more than the limit."""
    limiter = STRATEGIES["moving-window"](storage_from_string(f"throttle+{server.url}"))
    item, passed = limits.parse("20/second"), list[tuple[float, float]]()
    ends = time.monotonic() + PATIENCE
    while len(passed) <= 2 * 20 and time.monotonic() < ends:
        before = time.monotonic()
        if limiter.hit(item, "user"):
            passed.append((before, time.monotonic()))
    for i in range(len(passed) - 20):
        # The later of the two was decided before its reply came, and the earlier one after it was sent.
        assert passed[i + 20][1] - passed[i][0] >= 1, f"21 hits within a second, from hit {i}"
    assert len(passed) > 2 * 20


@pytest.mark.parametrize("scheme", ["throttle+", "async+throttle+"])
@pytest.mark.parametrize("strategy", ["fixed-window", "moving-window", "sliding-window-counter", "gcra", "token-bucket"])
def test_what_gets_through_around_a_boundary(server: Server, strategy: str, scheme: str) -> None:
    """Of twice the limit on both sides: the limit in all within a window that moves, the limit on each side with fixed
    windows, and what refills."""
    item, limit = limits.parse("50/second"), 50
    storage: Any = storage_from_string(f"{scheme}{server.url}")
    if scheme == "throttle+":
        limiter = STRATEGIES[strategy](storage)
        passed = around_a_boundary(lambda: limiter.hit(item, "user"), 1, 2 * limit)
    else:
        with asyncio.Runner() as runner:
            strategies: Any = limits.aio.strategies.STRATEGIES
            later = strategies[strategy](storage)
            passed = around_a_boundary(lambda: runner.run(later.hit(item, "user")), 1, 2 * limit)
            runner.run(storage.limiter.close())
    assert len(passed) >= limit
    if strategy in ("gcra", "token-bucket"):
        for i, (sent, _) in enumerate(passed):
            for j, (_, answered) in enumerate(passed[i:], 1):
                assert j <= limit + limit * (answered - sent), f"{j} got through within {answered - sent} s"
    else:
        assert most_within(passed, 1) <= (2 * limit if strategy == "fixed-window" else limit)


def test_the_fixed_windows_of_limits_meet_around_a_boundary(server: Server) -> None:
    """So the test above can fail."""
    limiter, item = STRATEGIES["fixed-window"](storage_from_string(server.url)), limits.parse("50/second")
    rounds = iter(range(1000))

    def more_than_the_limit() -> bool:
        user = str(next(rounds))
        return most_within(around_a_boundary(lambda: limiter.hit(item, user), 1, 50), 1) > 50

    await_true(more_than_the_limit, "more than the limit gets through within a second", 120)


def test_only_throttle_storages_have_buckets() -> None:
    with pytest.raises(NotImplementedError, match="throttle"):
        STRATEGIES["gcra"](storage_from_string("memory://"))


def test_an_outage_is_an_error_of_the_storage(own_server: Server) -> None:
    plain: Any = storage_from_string(f"throttle+{own_server.url}")
    wrapped: Any = storage_from_string(f"throttle+{own_server.url}", wrap_exceptions=True)
    assert plain.check()
    own_server.kill()
    assert not plain.check()
    with pytest.raises(OutageError):
        plain.incr("LIMITER/3/1/day", 86400)
    with pytest.raises(limits.errors.StorageError):
        wrapped.acquire_entry("LIMITER/3/1/day", 3, 86400)
    own_server.start()
    assert plain.check()


@pytest.mark.parametrize("scheme", ["", "async+"])
def test_what_forgets_keys_raises_errors_of_the_storage_too(scheme: str) -> None:
    storage: Any = storage_from_string(f"{scheme}throttle+redis://127.0.0.1:1", wrap_exceptions=True)
    for forget in (lambda: storage.clear("k"), storage.reset, lambda: storage.clear_sliding_window("k", 60)):
        with pytest.raises(limits.errors.StorageError):
            asyncio.run(forget()) if scheme else forget()


async def test_a_prefix_is_no_pattern(server: Server) -> None:
    server.do("SET", "a1bc:LIMITER", "somebody else's")
    storage: Any = storage_from_string(f"throttle+{server.url}", key_prefix="a[1]*?\\")
    assert storage.incr("LIMITER/3/1/day", 86400) == 1
    assert storage.reset() == 1
    storage = storage_from_string(f"async+throttle+{server.url}", key_prefix="a[1]*?\\")
    async with storage.limiter:
        assert await storage.incr("LIMITER/3/1/day", 86400) == 1
        assert await storage.reset() == 1
    assert server.do("KEYS", "*") == [b"a1bc:LIMITER"]


def test_a_window_that_is_used_up_at_once_is_not_said_to_reset_now(server: Server) -> None:
    limiter = STRATEGIES["sliding-window-counter"](storage_from_string(f"throttle+{server.url}"))
    item = limits.parse("5/minute")
    for user in range(20):  # less than a millisecond after the hit, for most
        assert limiter.hit(item, str(user), cost=5)
        assert limiter.get_window_stats(item, str(user)).reset_time > time.time() + 50


@pytest.mark.parametrize("scheme", ["throttle+", "async+throttle+"])
async def test_a_server_that_is_away_is_left_alone(scheme: str) -> None:
    """As by a limiter: after five hits in a row none waits for it."""
    storage: Any = storage_from_string(f"{scheme}redis://127.0.0.1:1")
    kinds: Any = limits.aio.strategies.STRATEGIES if scheme.startswith("async") else STRATEGIES
    limiter, errors = kinds["moving-window"](storage), []
    for _ in range(6):
        try:
            hit = limiter.hit(limits.parse("10/hour"), "user")
            await hit
        except OutageError as error:
            errors.append(error)
    assert [isinstance(error, LeftAloneError) for error in errors] == [False] * 5 + [True]


def test_a_cluster(cluster: Cluster) -> None:
    storage: Any = storage_from_string(f"throttle+{cluster.url}")
    item = limits.parse("2/day")
    for strategy in ("fixed-window", "moving-window", "gcra"):
        limiter = STRATEGIES[strategy](storage)
        for user in range(10):
            assert [limiter.hit(item, strategy, str(user)) for _ in range(3)] == [True, True, False]
    assert storage.reset() == 30


def test_flask_limiter_works_by_its_uri(server: Server) -> None:
    from flask import Flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    for strategy in ("fixed-window", "moving-window", "token-bucket"):
        app = Flask(strategy)
        limiter = Limiter(get_remote_address, app=app, storage_uri=f"throttle+{server.url}", strategy=strategy, headers_enabled=True)

        @app.get(f"/{strategy}")
        @limiter.limit("2/hour")
        def page() -> str:
            return "hello"

        with app.test_client() as client:
            answers = [client.get(f"/{strategy}") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429], strategy
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"], strategy


def test_flask_limiter_falls_back_in_an_outage(own_server: Server) -> None:
    from flask import Flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    app = Flask("fallback")
    limiter = Limiter(get_remote_address, app=app, storage_uri=f"throttle+{own_server.url}", in_memory_fallback=["1/hour"])

    @app.get("/")
    @limiter.limit("9/hour")
    def page() -> str:
        return "hello"

    with app.test_client() as client:
        assert client.get("/").status_code == 200
        own_server.kill()
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]


async def test_slowapi_works_by_its_uri(server: Server) -> None:
    import httpx
    from fastapi import FastAPI
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded
    from slowapi.util import get_remote_address

    limiter = Limiter(get_remote_address, storage_uri=f"throttle+{server.url}", strategy="moving-window")
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]

    @app.get("/")
    @limiter.limit("2/hour")
    def page(request: Request) -> str:
        return "hello"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert [(await client.get("/")).status_code for _ in range(3)] == [200, 200, 429]


STRATEGY_NAMES = ["fixed-window", "moving-window", "sliding-window-counter", "gcra", "token-bucket"]


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_only_failures_are_charged_where_flask_limiter_deducts_them(server: Server, strategy: str) -> None:
    """The login protection of Flask-Limiter's manual: wrong passwords count, and the sixth is not looked at. It never
    refunds."""
    from flask import Flask, Response, abort
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    for failures in (lambda response: response.status_code == 401, lambda response: response.status_code != 200):
        server.do("FLUSHALL")
        app = Flask("login")
        limiter = Limiter(get_remote_address, app=app, storage_uri=f"throttle+{server.url}", strategy=strategy)

        @app.get("/<password>")
        @limiter.limit("5/hour", deduct_when=failures)
        def login(password: str) -> str:
            return "hello" if password == "right" else abort(Response(status=401))

        with app.test_client() as client:
            assert [client.get("/right").status_code for _ in range(20)] == [200] * 20
            assert [client.get("/wrong").status_code for _ in range(40)] == [401] * 5 + [429] * 35
            assert client.get("/right").status_code == 429


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_flask_limiter_denies_at_a_limit_of_0(server: Server, strategy: str) -> None:
    from flask import Flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    app = Flask("nobody")
    limiter = Limiter(get_remote_address, app=app, storage_uri=f"throttle+{server.url}", strategy=strategy, headers_enabled=True)

    @app.get("/")
    @limiter.limit("0/minute")
    def page() -> str:
        return "hello"

    with app.test_client() as client:
        got = client.get("/")
    assert (got.status_code, got.headers["X-RateLimit-Limit"], got.headers["X-RateLimit-Remaining"]) == (429, "0", "0")


@pytest.mark.parametrize("scheme", ["throttle+", "async+throttle+"])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_limit_of_0_lets_nobody_through(server: Server, strategy: str, scheme: str) -> None:
    storage: Any = storage_from_string(f"{scheme}{server.url}")
    item = limits.parse("0/minute")
    if scheme == "throttle+":
        limiter = STRATEGIES[strategy](storage)
        hit, test, stats = limiter.hit(item, "user", cost=2), limiter.test(item, "user"), limiter.get_window_stats(item, "user")
    else:
        strategies: Any = limits.aio.strategies.STRATEGIES
        later = strategies[strategy](storage)

        async def ask() -> Any:
            said = await later.hit(item, "user", cost=2), await later.test(item, "user"), await later.get_window_stats(item, "user")
            await storage.limiter.close()
            return said

        hit, test, stats = asyncio.run(ask())
    assert (hit, test, stats.remaining) == (False, False, 0)
    assert stats.reset_time <= time.time() + 60
    assert server.do("DBSIZE") == 0


async def test_slowapi_denies_at_a_limit_of_0(server: Server) -> None:
    import httpx
    from fastapi import FastAPI
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded
    from slowapi.util import get_remote_address

    limiter = Limiter(get_remote_address, storage_uri=f"throttle+{server.url}")
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]

    @app.get("/")
    @limiter.limit("0/hour")
    def page(request: Request) -> str:
        return "hello"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.get("/")).status_code == 429


@pytest.mark.parametrize("strategy", ["gcra", "token-bucket"])
def test_a_bucket_says_when_there_is_one_unit_more(server: Server, strategy: str) -> None:
    """Three a minute: after the third, the next comes in 20 s, and the bucket is full in 60."""
    from flask import Flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    app = Flask(strategy)
    limiter = Limiter(get_remote_address, app=app, storage_uri=f"throttle+{server.url}", strategy=strategy, headers_enabled=True)

    @app.get("/")
    @limiter.limit("3/minute")
    def page() -> str:
        return "hello"

    with app.test_client() as client:
        answers = [client.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[3].headers["Retry-After"]) <= 21


def test_a_bucket_of_asyncio_says_so_too(server: Server) -> None:
    storage: Any = storage_from_string(f"async+throttle+{server.url}")
    strategies: Any = limits.aio.strategies.STRATEGIES
    limiter, item = strategies["gcra"](storage), limits.parse("3/minute")

    async def ask() -> Any:
        for _ in range(3):
            assert await limiter.hit(item, "user")
        stats = await limiter.get_window_stats(item, "user")
        await storage.limiter.close()
        return stats

    stats = asyncio.run(ask())
    assert stats.remaining == 0
    assert stats.reset_time - time.time() <= 20


@pytest.mark.parametrize("scheme", ["throttle+", "async+throttle+"])
async def test_an_option_says_what_the_server_is_sent(own_server: Server, scheme: str) -> None:
    storage: Any = storage_from_string(f"{scheme}{own_server.url}", commands="functions", poll="50ms", timeout="5s")
    kinds: Any = limits.aio.strategies.STRATEGIES if scheme.startswith("async") else STRATEGIES
    hit = kinds["moving-window"](storage).hit(limits.parse("10/hour"), "user")
    assert (await hit if scheme.startswith("async") else hit)
    if scheme.startswith("async"):
        await storage.limiter.close()
    sent = own_server.do("INFO", "commandstats")
    assert "cmdstat_fcall" in sent
    assert "cmdstat_cl.limit" not in sent
    with pytest.raises(ValueError, match="commands must be"):
        storage_from_string(f"{scheme}{own_server.url}", commands="lua")
