"""Leases: renewed, lost, given back; and held by a process that is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from redis_throttle import LeaseLostError, LimitedError, Limiter
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Server, await_true


def test_a_lease_outlives_its_ttl_and_ends_with_the_statement(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        with limiter.lease("k", slots=1, ttl="300ms") as lease:
            ends = time.monotonic() + 1
            while time.monotonic() < ends:
                lease.check()
                with pytest.raises(LimitedError):
                    limiter.lease("k", slots=1, ttl="300ms").take()
        assert lease.lost
        assert server.do("EXISTS", "k") == 0


async def test_so_does_one_of_asyncio(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        async with limiter.lease("k", slots=1, ttl="300ms") as lease:
            for _ in range(20):
                await asyncio.sleep(0.05)
                lease.check()
        assert server.do("EXISTS", "k") == 0


def test_a_lease_that_somebody_deletes_is_lost(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter, limiter.lease("k", slots=1, ttl="600ms") as lease:
        server.do("DEL", "k")
        await_true(lambda: lease.lost, "the lease is lost")
        with pytest.raises(LeaseLostError):
            lease.check()


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
    limiter = Limiter.from_url(own_server.url, socket_timeout=0.1)
    with limiter.lease("k", slots=1, ttl="400ms") as lease:
        own_server.pause()
        paused = time.monotonic()
        await_true(lambda: lease.lost, "the lease is lost")
        assert time.monotonic() - paused < 5, "it lapses after 400 ms"
        own_server.resume()
    limiter.close()


HOLDER = """
import sys, time
from redis_throttle import Limiter
with Limiter.from_url(sys.argv[1]).lease("k", slots=1, ttl="500ms"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_slot_of_a_process_that_is_killed_becomes_free(server: Server) -> None:
    """It is held as long as the process lives, also after the ttl, and for a ttl at most after kill -9."""
    with Limiter.from_url(server.url) as limiter:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, server.url], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ends = time.monotonic() + 1.5
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
