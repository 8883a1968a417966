"""What a key holds, on a server with the module and without, by both kinds of limiter."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from redis_throttle import Inspection, Limiter, MistakeError, OutageError, fixed, rate, window
from redis_throttle._core.inspection import read_inspection
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import FakeLimiter
from servers import Server


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    server = Server(with_module=False)
    yield server
    server.stop()


Look = Callable[[str], Inspection]


def by_threads(url: str, key: str) -> Inspection:
    with Limiter.from_url(url) as limiter:
        return limiter.inspect(key)


def by_tasks(url: str, key: str) -> Inspection:
    async def run() -> Inspection:
        async with AsyncLimiter.from_url(url) as limiter:
            return await limiter.inspect(key)

    return asyncio.run(run())


@pytest.mark.parametrize("look", [by_threads, by_tasks])
@pytest.mark.parametrize("module", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
def test_what_a_key_holds(server: Server, bare: Server, look: Callable[[str, str], Inspection], module: bool, protocol: int) -> None:
    here = server if module else bare
    here.do("FLUSHALL")
    url = f"redis://127.0.0.1:{here.port}?protocol={protocol}"
    none = look(url, "nobody")
    assert (none.kind, none.expires_at, none.banned, none.limits) == ("none", None, False, ())
    with Limiter.from_url(url) as limiter:
        limiter.limit("lone", rate(60, "1h", burst=10), cost=3)
        limiter.ban("lone", "1m")
        limiter.limit("three", [window(100, "1h"), fixed(1000, "1mo"), fixed(50, "10m", first=True)], cost=2)
        with limiter.lease("jobs", slots=2, ttl="1m"):
            jobs = look(url, "jobs")
    lone = look(url, "lone")
    bucket = lone.limits[0]
    assert (lone.kind, lone.banned, bucket.kind, bucket.period, bucket.used, bucket.next_at) == ("rate", True, "RATE", None, None, None)
    assert bucket.reset_at is not None
    assert timedelta(minutes=2) < bucket.reset_at - lone.now <= timedelta(minutes=3, milliseconds=1)
    three = look(url, "three")
    assert three.kind == "limits"
    assert [(limit.kind, limit.period, limit.used, limit.entries, limit.reset_at is None) for limit in three.limits] == [
        ("WINDOW", timedelta(hours=1), 2, 1, False), ("FIXED", None, 2, 0, True), ("FIRST", timedelta(minutes=10), 2, 0, False)]
    assert (jobs.kind, jobs.held, jobs.waiting) == ("leases", 1, 0)
    assert jobs.lapses_at == jobs.expires_at is not None


def test_what_is_no_limiters_is_a_mistake(server: Server) -> None:
    server.do("SET", "foreign", "hello")
    with pytest.raises(MistakeError, match=r"CL\.INSPECT: WRONGTYPE The string"):
        by_threads(f"redis://127.0.0.1:{server.port}", "foreign")
    with pytest.raises(MistakeError, match=r"CL\.INSPECT: WRONGTYPE The string"):
        by_tasks(f"redis://127.0.0.1:{server.port}", "foreign")


def test_an_outage_is_told() -> None:
    with pytest.raises(OutageError, match=r"CL\.INSPECT"):
        by_threads("redis://127.0.0.1:1", "k")


def test_a_limiter_without_a_client_has_no_keys_to_look_into() -> None:
    with pytest.raises(MistakeError, match="inspect needs a limiter on a client"):
        Limiter(FakeLimiter()).inspect("k")


@pytest.mark.parametrize("reply", [b"OK", [], [b"kind", b"none"], {b"kind": b"none"}, 7])
def test_an_odd_reply_is_a_mistake(reply: Any) -> None:
    with pytest.raises(MistakeError, match="not what a key holds"):
        read_inspection(reply)
