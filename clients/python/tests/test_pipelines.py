"""Calls that are under way at the same time share pipelines: fewer writes and reads, and each call has its own reply or error."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import traceback
from typing import Any

import pytest

from redis_throttle import Limiter, MistakeError, OutageError, fixed, rate
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Server

PLENTY = fixed(1_000_000, "1d")


def reads(server: Server) -> int:
    with server.client() as client:
        return int(client.info("stats")["total_reads_processed"])


def together(calls: int, act: Any) -> None:
    barrier = threading.Barrier(calls)

    def call(n: int) -> None:
        barrier.wait()
        act(n)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def test_calls_of_tasks_share_pipelines(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url, timeout="5s") as limiter:
        await limiter.limit("k", PLENTY)
        before = reads(server)
        results = await asyncio.gather(*(limiter.limit(f"k{n}", rate(n + 1, "1h")) for n in range(300)))
        assert [result.limit for result in results] == list(range(1, 301)), "each has its own reply"
        assert reads(server) - before < 60


def test_calls_of_threads_share_pipelines(server: Server) -> None:
    with Limiter.from_url(server.url, timeout="5s") as limiter:
        limiter.limit("k", PLENTY)
        before, got = reads(server), {}

        def act(n: int) -> None:
            for _ in range(20):
                got[n] = limiter.limit(f"k{n}", rate(n + 1, "1h", burst=n + 1)).limit

        together(32, act)
        assert got == {n: n + 1 for n in range(32)}, "each has its own reply"
        assert reads(server) - before < 32 * 20 * 0.6


async def test_an_error_is_that_of_its_own_call(server: Server) -> None:
    server.do("LPUSH", "wrong", "1")
    async with AsyncLimiter.from_url(server.url, timeout="5s") as limiter:
        ended = await asyncio.gather(*(limiter.limit("wrong" if n % 3 == 0 else "k", PLENTY) for n in range(90)), return_exceptions=True)
        assert [isinstance(end, MistakeError) for end in ended] == [n % 3 == 0 for n in range(90)]
    with Limiter.from_url(server.url, timeout="5s") as blocking:
        wrong: list[int] = []

        def act(n: int) -> None:
            try:
                blocking.limit("wrong" if n % 3 == 0 else "k", PLENTY)
            except MistakeError:
                wrong.append(n)

        together(30, act)
        assert sorted(wrong) == list(range(0, 30, 3))


async def test_a_task_that_is_cancelled_in_the_queue_is_not_sent(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url, timeout="10s") as limiter:
        await limiter.limit("k", PLENTY)
        own_server.pause()
        tasks = [asyncio.create_task(limiter.limit(f"k{n}", PLENTY)) for n in range(10)]
        await asyncio.sleep(0)
        tasks[-1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[-1]
        own_server.resume()
        assert all(result.allowed for result in await asyncio.gather(*tasks[:-1]))
        assert own_server.do("EXISTS", "k8") == 1
        assert own_server.do("EXISTS", "k9") == 0


async def test_nobody_in_the_queue_waits_for_a_second_timeout(own_server: Server) -> None:
    """The calls that share a pipeline, and those behind it, end with it."""
    loop = asyncio.get_running_loop()
    async with AsyncLimiter.from_url(own_server.url, timeout="300ms") as limiter:
        await limiter.limit("k", PLENTY)
        own_server.pause()
        began = loop.time()
        ended = await asyncio.gather(*(limiter.limit("k", PLENTY) for _ in range(250)), return_exceptions=True)
        assert all(isinstance(end, OutageError) for end in ended)
        assert loop.time() - began < 3, "one by one it would be over a minute"
        own_server.resume()


def test_threads_in_the_queue_end_with_it_too(own_server: Server) -> None:
    with Limiter.from_url(own_server.url, timeout="300ms") as limiter:
        limiter.limit("k", PLENTY)
        own_server.pause()
        ended: list[BaseException] = []

        def act(n: int) -> None:
            try:
                limiter.limit("k", PLENTY)
            except OutageError as error:
                ended.append(error)

        together(40, act)
        assert len(ended) == 40
        own_server.resume()


def test_a_child_process_does_not_wait_for_calls_of_its_parent(own_server: Server) -> None:
    with Limiter.from_url(own_server.url, timeout="10s") as limiter:
        limiter.limit("k", PLENTY)
        own_server.pause()
        threads = [threading.Thread(target=limiter.limit, args=("k", PLENTY)) for _ in range(4)]
        for thread in threads:
            thread.start()
        while limiter.decider._next._transport._under_way < 2:  # type: ignore[attr-defined]
            pass
        pid = os.fork()
        if not pid:
            try:
                os.kill(own_server.process.pid, signal.SIGCONT)
                os._exit(0 if limiter.limit("child", PLENTY).allowed else 1)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        for thread in threads:
            thread.join()
