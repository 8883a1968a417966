"""Denials that a layer answers by itself, and what the server is told of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis
import redis.asyncio

from redis_throttle import Batched, Cached, Call, Guard, Key, Limiter, MistakeError, OutageError, Remote, Result, rate
from redis_throttle._layers import reports
from redis_throttle.asyncio import Batched as AsyncBatched
from redis_throttle.asyncio import Cached as AsyncCached
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Remote as AsyncRemote
from servers import Server, await_true, module

ONCE = rate(1, "1h")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server("--loadmodule", module(), "top", "100", with_module=False)
    yield server
    server.stop()


def top(server: Server, key: str) -> int:
    """How often CL.TOP says that a key was limited."""
    for row in server.do("CL.TOP", "100"):
        fields = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
        if fields[b"key"] == key.encode():
            return int(fields[b"limited"])
    return 0


def test_cl_top_counts_what_a_layer_denies(server: Server) -> None:
    with server.client() as client:
        remote = Remote(client)
        for key, layer in (("cached", Cached(Guard(remote))), ("batched", Batched(remote))):
            limiter = Limiter(layer)
            assert limiter.limit(key, ONCE).allowed
            for _ in range(300):
                assert limiter.limit(key, ONCE).limited
        await_true(lambda: top(server, "cached") == 300, "all of the cache are counted")
        await_true(lambda: top(server, "batched") == 300, "all of the batches are counted")


def test_cl_top_counts_what_a_layer_of_asyncio_denies(server: Server) -> None:
    async def ask() -> None:
        client = redis.asyncio.Redis(port=server.port)
        remote = AsyncRemote(client)
        for key, layer in (("async cached", AsyncCached(remote)), ("async batched", AsyncBatched(remote))):
            limiter = AsyncLimiter(layer)
            assert (await limiter.limit(key, ONCE)).allowed
            for _ in range(300):
                assert (await limiter.limit(key, ONCE)).limited
            while top(server, key) != 300:
                await asyncio.sleep(0.02)
        await client.aclose()

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_child_process_reports_what_it_denies(server: Server) -> None:
    with server.client() as client:
        limiter = Limiter(Cached(Remote(client)))
        assert limiter.limit("forked", ONCE).allowed
        for _ in range(3):
            assert limiter.limit("forked", ONCE).limited
        child = os.fork()
        if child == 0:
            limiter.limit("forked", ONCE)
            signal.pause()
        try:
            await_true(lambda: top(server, "forked") == 4, "those of both are counted, once")
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


class Taking:
    """A server that takes reports as it is told."""

    def __init__(self, take: Callable[[Call], int]) -> None:
        self.take = take
        self.reports: list[Call] = []

    def decide(self, call: Call, /) -> Result:
        if call.verb != "denied":
            return Result(limited=True, key=call.keys[0].name, retry_after=timedelta(days=30))
        self.reports.append(call)
        return Result(granted=self.take(call))


def test_ten_thousand_keys_wait_and_a_hundred_are_reported_at_a_time() -> None:
    taking = Taking(lambda call: call.cost)
    it = reports.Reports(taking)
    it._begin = lambda: None  # type: ignore[method-assign]  # rounds are taken here
    for i in range(100_000):
        it.count(str(i))
        it.count(str(i))
    it.count("k" * 1025)
    for rounds in range(1, 111):
        it._send()
        assert len(taking.reports) == min(rounds, 100) * reports.PER_ROUND
    assert all(call.cost == 2 for call in taking.reports)


def _raises(error: Exception) -> Callable[[Call], int]:
    def take(call: Call) -> int:
        raise error
    return take


@pytest.mark.parametrize(("take", "pause"), [
    (lambda call: 0, reports.UNTIL_ON), (_raises(OutageError("away")), reports.UNTIL_ON), (_raises(MistakeError("unknown command")), reports.UNTIL_KNOWN),
])
def test_a_server_that_counts_nothing_is_asked_rarely(take: Callable[[Call], int], pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    taking = Taking(take)
    it = reports.Reports(taking)
    it._begin = lambda: None  # type: ignore[method-assign]
    for asked in (1, 2, 3):
        for _ in range(2):
            it.count("a")
            it.count("b")
            it._send()
            assert len(taking.reports) == asked
        now += pause


def test_a_report_in_words() -> None:
    assert Call("denied", (Key("k"),), cost=3).words() == ["CL.DENIED", "k", "3"]
    with pytest.raises(ValueError, match="denied takes no limits"):
        Call("denied", (Key("k", (ONCE,)),))
