"""Leases: renewed, lost, given back; and held by a process that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis

from forks import ended_well, forked
from redis_throttle import Lease, LeaseLostError, LimitedError, Limiter, OutageError, Slots, fixed, rate
from redis_throttle._leases import lease as lease_module
from redis_throttle._server.pool import pool_arguments
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import FakeLimiter
from servers import PATIENCE, Server, await_true

TTL, LONGER = "3s", 3.5
"""How long leases last that a holder of a busy machine has to renew in time, and a time in seconds after which they
would have lapsed."""


def test_a_lease_outlives_its_ttl_and_ends_with_the_statement(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        with limiter.lease("k", slots=1, ttl=TTL) as lease:
            ends = time.monotonic() + LONGER
            while time.monotonic() < ends:
                lease.check()
                with pytest.raises(LimitedError):
                    limiter.lease("k", slots=1, ttl=TTL).take()
                time.sleep(0.02)  # for the thread that renews: on a busy machine it waits for the other's lock
        assert lease.lost
        assert server.do("EXISTS", "k") == 0


async def test_so_does_one_of_asyncio(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        async with limiter.lease("k", slots=1, ttl=TTL) as lease:
            ends = time.monotonic() + LONGER
            while time.monotonic() < ends:
                await asyncio.sleep(0.05)
                lease.check()
        assert server.do("EXISTS", "k") == 0


def test_a_call_that_a_full_line_turns_away_is_denied_at_once_and_asked_once() -> None:
    server = Server()
    try:
        server.do("CONFIG", "SET", "throttle.max-waiting", "1")
        with Limiter.from_url(server.url) as limiter, limiter.lease("jobs", slots=1, ttl="1h"), redis.Redis(port=server.port) as waits:
            server.do("CL.LIMIT", "k", "FIXED", "1/365d")
            waiting = threading.Thread(target=lambda: waits.execute_command("CL.WAIT", "k", "FIXED", "1/365d", "TIMEOUT", "0"))
            waiting.start()

            def numbers() -> str:
                return str(server.do("INFO", "throttle"))

            await_true(lambda: "'throttle_waiting': 1," in numbers(), "somebody waits")
            with pytest.raises(LimitedError) as denied:
                limiter.wait("k", fixed(1, "365d"), timeout="1h")
            assert denied.value.result.retry_after
            with pytest.raises(LimitedError):
                limiter.lease("jobs", slots=1, ttl="1h", timeout="1h").take()
            assert "'throttle_turned_away': 2," in numbers()
            assert "'throttle_calls_wait': 2," in numbers()
            server.do("DEL", "k")
            waiting.join(PATIENCE)
    finally:
        server.stop()


def test_a_lease_that_somebody_deletes_is_lost(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        with pytest.raises(LeaseLostError, match="lapsed"), limiter.lease("k", slots=1, ttl="600ms") as lease:  # noqa: PT012
            server.do("DEL", "k")
            await_true(lambda: lease.lost, "the lease is lost")
            with pytest.raises(LeaseLostError):
                lease.check()
        with pytest.raises(ZeroDivisionError), limiter.lease("k", slots=1, ttl="600ms") as lease:  # noqa: PT012 the work's own error goes on
            server.do("DEL", "k")
            await_true(lambda: lease.lost, "the lease is lost")
            _ = 1 / 0
        with limiter.lease("k", slots=1, ttl="600ms") as lease:
            lease.release()  # before the end, which is no loss


async def test_work_under_a_lost_lease_is_cancelled(server: Server) -> None:
    cancelled = False
    async with AsyncLimiter.from_url(server.url) as limiter:
        async def work() -> None:
            nonlocal cancelled
            async with limiter.lease("k", slots=1, ttl="600ms"):
                server.do("DEL", "k")
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled = True
                    raise

        with pytest.raises(LeaseLostError):
            await work()
    assert cancelled


async def test_a_cancellation_from_outside_goes_on(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        entered = asyncio.Event()

        async def work() -> None:
            async with limiter.lease("k", slots=1, ttl="1m"):
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.do("EXISTS", "k") == 0


def test_a_server_that_stands_still_loses_the_lease_no_later_than_it_lapses(own_server: Server) -> None:
    limiter = Limiter.from_url(own_server.url)
    with pytest.raises(LeaseLostError), limiter.lease("k", slots=1, ttl="400ms") as lease:  # noqa: PT012
        own_server.pause()
        paused = time.monotonic()
        assert lease.until <= paused + 0.4, "nothing that comes later is believed"
        await_true(lambda: lease.lost, "the lease is lost")
        assert lease.until <= paused + 0.4
        own_server.resume()
    limiter.close()


HOLDER = """
import sys, time
from redis_throttle import Limiter
with Limiter.from_url(sys.argv[1], timeout="2s").lease("k", slots=1, ttl=sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_slot_of_a_process_that_is_killed_becomes_free(server: Server) -> None:
    """It is held as long as the process lives, also after the ttl, and for a ttl at most after kill -9."""
    with Limiter.from_url(server.url) as limiter:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, server.url, TTL], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ends = time.monotonic() + LONGER
        while time.monotonic() < ends:
            with pytest.raises(LimitedError):
                limiter.lease("k", slots=1, ttl="1m").take()
            time.sleep(0.02)
        holder.kill()
        holder.wait()
        holder.stdout.close()
        with limiter.lease("k", slots=1, ttl="1m", timeout="30s"):
            pass


def test_a_caller_that_waits_gets_the_slot_that_is_released(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        first = limiter.lease("k", slots=1, ttl="1m").take()
        got = threading.Event()

        def second() -> None:
            with limiter.lease("k", slots=1, ttl="1m", timeout="30s", group="b", priority=1):
                got.set()

        thread = threading.Thread(target=second)
        thread.start()
        await_true(lambda: int(server.client().info("throttle")["throttle_leases_waiting"]) == 1, "the second is in line")
        assert not got.is_set()
        first.release()
        thread.join(30)
        assert got.is_set()


def ttl_of(server: Server) -> int:
    return int(server.do("PTTL", "k"))


@pytest.fixture
def _long_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have leases last for five minutes at first: a renewal that is not at once comes long after the patience of a
    test."""
    monkeypatch.setattr(lease_module, "_FIRST", timedelta(minutes=5))


@pytest.mark.usefixtures("_long_first")
def test_a_lease_is_extended_to_its_ttl_at_once(server: Server) -> None:
    """Until the holder has the reply it is short: a call that runs after its caller has left shuts the slot for 3 s at
    most."""
    with Limiter.from_url(server.url) as limiter:
        taken = time.monotonic()
        with limiter.lease("k", slots=1, ttl="1h") as lease:
            await_true(lambda: ttl_of(server) > 1_000_000, "it lasts for its ttl")
            await_true(lambda: lease.until - taken > 1000, "the holder knows")


@pytest.mark.usefixtures("_long_first")
async def test_so_is_one_of_asyncio(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        taken = time.monotonic()
        async with limiter.lease("k", slots=1, ttl="1h") as lease, asyncio.timeout(PATIENCE):
            while ttl_of(server) < 1_000_000 or lease.until - taken < 1000:
                await asyncio.sleep(0.005)


def test_a_lease_is_short_at_first() -> None:
    assert FakeLimiter().lease("k", slots=1, ttl="1m").first == timedelta(seconds=3)
    assert FakeLimiter().lease("k", slots=1, ttl="2s").first == timedelta(seconds=2)


def test_work_goes_on_while_the_server_is_away_for_less_than_the_ttl(own_server: Server) -> None:
    with Limiter.from_url(own_server.url) as limiter, limiter.lease("k", slots=1, ttl="30s") as lease:
        await_true(lambda: ttl_of(own_server) > 20_000, "it is extended")
        own_server.pause()
        paused = time.monotonic()
        await_true(lambda: time.monotonic() - paused > 3.5, "longer than the first ttl")
        lease.check()
        own_server.resume()


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_leases_that_end_together_leave_no_slot_held(server: Server, library: str) -> None:
    """A pool of ten connections, that an eleventh caller gets an error from."""
    with Limiter.from_url(server.url.replace("redis", library), options={"max_connections": 10}) as limiter:
        leases = [limiter.lease("k", slots=150, ttl="1m").take() for _ in range(150)]
        together = threading.Barrier(150)

        def end(lease: Lease) -> None:
            together.wait()
            lease.release()

        threads = [threading.Thread(target=end, args=(lease,)) for lease in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await_true(lambda: server.do("EXISTS", "k") == 0, "all slots are free", patience=20)


async def test_so_do_those_of_asyncio(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url, options={"max_connections": 10}) as limiter:
        leases = [await limiter.lease("k", slots=150, ttl="1m").take() for _ in range(150)]
        await asyncio.gather(*(lease.release() for lease in leases))
        assert server.do("EXISTS", "k") == 0


def test_a_release_that_meets_overload_is_tried_again(server: Server) -> None:
    """Another user of the pool has all of its connections for a while."""
    client = redis.Redis(port=server.port, max_connections=2, socket_timeout=2, socket_connect_timeout=2)
    with Limiter(client) as limiter:
        lease = limiter.lease("k", slots=1, ttl="2m").take()
        await_true(lambda: ttl_of(server) > 100_000, "it is extended")
        taken: list[Any] = []

        def taking() -> bool:
            with contextlib.suppress(redis.ConnectionError):  # the renewal has one for a moment more
                taken.append(client.connection_pool.get_connection(*pool_arguments(client.connection_pool)))
            return len(taken) == 2

        await_true(taking, "the pool is used up")
        lease.release()
        assert server.do("EXISTS", "k") == 1
        for connection in taken:
            client.connection_pool.release(connection)
        await_true(lambda: server.do("EXISTS", "k") == 0, "the slot is free", patience=20)


async def test_a_release_that_is_cancelled_goes_on(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the only connection, which has a call that the server does not answer yet."""
    monkeypatch.setattr(lease_module, "_FIRST", timedelta(seconds=PATIENCE))  # a busy machine may be late by three seconds
    async with AsyncLimiter.from_url(own_server.url, timeout="10s", options={"max_connections": 1}) as limiter:
        lease = await limiter.lease("k", slots=1, ttl="5m").take()
        while ttl_of(own_server) < 200_000:
            await asyncio.sleep(0.005)
        own_server.pause()
        stuck = asyncio.create_task(limiter.limit("other", rate(1, "1s")))
        releasing = asyncio.create_task(lease.release())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        own_server.resume()
        await stuck
        async with asyncio.timeout(PATIENCE):
            while own_server.do("EXISTS", "k"):
                await asyncio.sleep(0.005)


@contextlib.contextmanager
def read_only(server: Server) -> Iterator[None]:
    """Have a server refuse to decide, and keep what it has."""
    server.do("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        server.do("REPLICAOF", "NO", "ONE")


def repeaters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "throttle-later"]


def test_releases_that_meet_an_outage_are_repeated_by_one_thread(own_server: Server) -> None:
    with Limiter.from_url(own_server.url) as limiter:
        leases = [limiter.lease(f"k{i}", slots=1, ttl="5m").take() for i in range(20)]
        await_true(lambda: all(int(own_server.do("PTTL", f"k{i}")) > 200_000 for i in range(20)), "they are extended")
        with read_only(own_server):
            for lease in leases:
                lease.release()
            assert len(repeaters()) == 1
        await_true(lambda: own_server.do("DBSIZE") == 0, "all slots are free", patience=20)
        await_true(lambda: not repeaters(), "the thread has ended")


async def test_so_are_those_of_asyncio(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url) as limiter:
        leases = [await limiter.lease(f"k{i}", slots=1, ttl="5m").take() for i in range(20)]
        async with asyncio.timeout(PATIENCE):
            while any(int(own_server.do("PTTL", f"k{i}")) < 200_000 for i in range(20)):
                await asyncio.sleep(0.005)
            with read_only(own_server):
                for lease in leases:
                    await lease.release()
            while own_server.do("DBSIZE"):
                await asyncio.sleep(0.005)


def test_an_id_that_takes_its_lease_again_keeps_it(own_server: Server) -> None:
    """What an earlier try left to be released is not released any more: the slot would have two holders."""
    with Limiter.from_url(own_server.url) as limiter:
        with read_only(own_server):
            with pytest.raises(OutageError):
                limiter.lease("k", slots=1, ttl="5m", id="mine").take()
            assert repeaters()
        limiter.lease("k", slots=1, ttl="5m", id="mine").take()
        await_true(lambda: not repeaters(), "nothing is repeated any more", patience=20)
        assert own_server.do("ZCARD", "k") == 1


async def test_so_does_one_of_asyncio_that_takes_it_again(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url) as limiter:
        with read_only(own_server), pytest.raises(OutageError):
            await limiter.lease("k", slots=1, ttl="5m", id="mine").take()
        lease = await limiter.lease("k", slots=1, ttl="5m", id="mine").take()
        task = next(iter(limiter._later._queues.values()))._task
        assert task is not None
        await asyncio.wait_for(task, PATIENCE)
        assert own_server.do("ZCARD", "k") == 1
        await lease.release()


def test_a_settlement_that_meets_an_outage_is_repeated_for_so_long(own_server: Server) -> None:
    tokens = rate(1000, "365d", take=500)
    keys = {"{k}:tokens": tokens, "{k}:slots": Slots(1, "5m")}
    end = {"{k}:tokens": tokens.replace(used=200), "{k}:slots": Slots()}
    with Limiter.from_url(own_server.url) as limiter:
        limiter.admit(keys, id="a").take()
        with read_only(own_server):
            with pytest.raises(OutageError):
                limiter.settle(end, id="a")
            assert not repeaters(), "without repeat it is sent once"
            with pytest.raises(OutageError):
                limiter.settle(end, id="a", repeat="1ms")
            await_true(lambda: not repeaters(), "it is given up")
            with pytest.raises(OutageError):
                limiter.settle(end, id="a", repeat="5m")
        await_true(lambda: own_server.do("EXISTS", "{k}:slots") == 0, "the slot is free", patience=20)
        assert limiter.peek("{k}:tokens", rate(1000, "365d")).remaining == 800


def test_a_shadow_that_was_not_charged_is_not_settled(server: Server) -> None:
    tried, over = fixed(20, "1d", take=5, shadow=True), fixed(20, "1h", take=30, shadow=True)
    keys: dict[str, Any] = {"{s}:units": [rate(1000, "365d", take=10), tried, over], "{s}:slots": Slots(1, "5m")}
    with Limiter.from_url(server.url) as limiter:
        limiter.limit("{s}:units", over.replace(take=12))
        with limiter.admit(keys) as admission:
            assert admission.result is not None
            assert admission.result.shadowed
            admission.used("{s}:units", 15)
        assert [each.remaining for each in limiter.peek("{s}:units", *keys["{s}:units"], cost=0, each=True).each] == [985, 5, 8]


async def test_so_is_one_of_asyncio_settled(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url) as limiter:
        await limiter.admit({"k": Slots(1, "5m")}, id="a").take()
        with read_only(own_server), pytest.raises(OutageError):
            await limiter.settle({"k": Slots()}, id="a", repeat="5m")
        async with asyncio.timeout(PATIENCE):
            while own_server.do("EXISTS", "k"):
                await asyncio.sleep(0.005)


def test_leases_that_nobody_got_need_no_thread_each() -> None:
    """In an outage, every attempt may have been granted all the same."""
    with Limiter.from_url("redis://127.0.0.1:1") as limiter:
        for i in range(30):
            with pytest.raises(OutageError):
                limiter.lease(f"k{i}", slots=1, ttl="5m").take()
        assert len(repeaters()) == 1
    await_true(lambda: not repeaters(), "closing the limiter ends it")


def test_a_child_process_repeats_its_own_releases(own_server: Server) -> None:
    """The thread of its parent is not there."""
    with Limiter.from_url(own_server.url) as limiter:
        leases = [limiter.lease(f"k{i}", slots=1, ttl="5m").take() for i in range(2)]
        await_true(lambda: all(int(own_server.do("PTTL", f"k{i}")) > 200_000 for i in range(2)), "they are extended")
        with read_only(own_server):
            leases[0].release()
            child = forked(leases[1].release, lambda: await_true(lambda: own_server.do("EXISTS", "k1") == 0, "the child gives its slot back", patience=20))
        ended_well(child)
        await_true(lambda: own_server.do("DBSIZE") == 0, "so does the parent", patience=20)
