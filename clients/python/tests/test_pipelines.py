"""Calls that are under way at the same time share pipelines: fewer writes and reads, and each call has its own reply or
error."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import threading
import time
from collections import deque
from typing import Any

import pytest

from forks import ended_well, forked, held_by_a_thread
from redis_throttle import Cached, Guard, Limiter, MistakeError, OutageError, OverloadError, fixed, rate
from redis_throttle._server import asynctransport, transport
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import PATIENCE, Cluster, Server, await_true

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


@pytest.mark.parametrize("library", ["redis", "valkey"])
@pytest.mark.parametrize("turns", [*range(12), 20, 40])
async def test_a_task_may_be_cancelled_at_any_point(server: Server, library: str, turns: int) -> None:
    """Each key has a limit of its own, so that a reply that is read by another call would be seen. The first two calls
    are sent at once, and the others share a pipeline."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with AsyncLimiter.from_url(server.url.replace("redis", library, 1), timeout="10s") as limiter:

        async def call(n: int) -> bool:
            return (await limiter.limit(f"k{n}", fixed(1000 + n, "1d"))).limit == 1000 + n

        for victim in range(5):
            tasks = [asyncio.create_task(call(n)) for n in range(5)]
            for _ in range(turns):
                await asyncio.sleep(0)
            tasks[victim].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [end for n, end in enumerate(ended) if n != victim and end is not True] == []
            assert ended[victim] is True or isinstance(ended[victim], asyncio.CancelledError)
            assert await asyncio.gather(*(call(n) for n in range(5))) == [True] * 5
        transport = await limiter.decider._next._lines.here()  # type: ignore[attr-defined]
        assert [transport._under_way, transport._queue, transport._timer, transport._lateness._watchers] == [0, deque(), None, 0]
        assert {one.socket_timeout for one in transport.pool._available_connections} == {10.0}, "the library's own limits are back"
    gc.collect()
    assert problems == []


async def test_a_call_waits_for_a_pipeline_for_a_second_at_most(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asynctransport, "ROOM", 0.05)
    async with AsyncLimiter.from_url(own_server.url, timeout="30s") as limiter:
        await limiter.limit("k", PLENTY)
        own_server.pause()
        tasks = [asyncio.create_task(limiter.limit("k", PLENTY)) for _ in range(6)]
        waited = await asyncio.gather(*tasks[2:], return_exceptions=True)
        assert [(type(end), "none became free" in str(end)) for end in waited] == [(OverloadError, True)] * 4
        own_server.resume()
        assert all(result.allowed for result in await asyncio.gather(*tasks[:2]))
        assert (await limiter.limit("k", PLENTY)).remaining == 1_000_000 - 4, "the others were not sent"


UNANSWERED = (OutageError, OverloadError)
"""What a call ends in when a server stands still: the second where the process, with so many callers, was late to see
it."""


@pytest.fixture
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no call be told of an overload before the server's time is over."""
    for module in (transport, asynctransport):
        monkeypatch.setattr(module, "ROOM", PATIENCE)


async def test_what_arrives_while_the_loop_computes_is_in_time(server: Server) -> None:
    """Time in which the process could read nothing is none of the server's, nor of the wait for a pipeline."""
    async with AsyncLimiter.from_url(server.url) as limiter:  # with the timeout of 200 ms

        async def compute() -> None:
            for _ in range(10):
                time.sleep(0.3)
                await asyncio.sleep(0)

        await limiter.limit("k", PLENTY)
        *results, _ = await asyncio.gather(*(limiter.limit("k", PLENTY) for _ in range(250)), compute())
        assert all(result is not None and result.allowed for result in results)


@pytest.mark.parametrize("kind", ["a server", "a cluster", "a server of a client", "a call that waits"])
@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_to_connect_while_the_loop_computes_is_in_time(server: Server, cluster: Cluster, library: str, kind: str) -> None:
    """Each read comes late, of those by which a client connects and looks for the nodes, too."""
    url = (cluster if kind == "a cluster" else server).url.replace("redis", library, 1)
    module = importlib.import_module(f"{library}.asyncio")
    client = getattr(module, library.capitalize())(port=server.port)
    limiter = AsyncLimiter(client, timeout="100ms") if kind == "a server of a client" else AsyncLimiter.from_url(url, timeout="100ms")
    called = asyncio.create_task(limiter.wait("k", PLENTY) if kind == "a call that waits" else limiter.limit("k", PLENTY))
    async with asyncio.timeout(4 * PATIENCE):
        while not called.done():
            time.sleep(0.13)
            await asyncio.sleep(0)
    assert (await called).allowed
    await limiter.close()


@pytest.mark.usefixtures("_room")
async def test_nobody_in_the_queue_waits_for_a_second_timeout(own_server: Server) -> None:
    """The calls that share a pipeline, and those behind it, end with it."""
    loop = asyncio.get_running_loop()
    async with AsyncLimiter.from_url(own_server.url, timeout="1s") as limiter:
        await limiter.limit("k", PLENTY)
        own_server.pause()
        began = loop.time()
        ended = await asyncio.gather(*(limiter.limit("k", PLENTY) for _ in range(250)), return_exceptions=True)
        assert [end for end in ended if not isinstance(end, UNANSWERED)] == []
        assert loop.time() - began < PATIENCE, "one by one it would be four minutes, and two at a time two"
        own_server.resume()


@pytest.mark.usefixtures("_room")
def test_threads_in_the_queue_end_with_it_too(own_server: Server) -> None:
    with Limiter.from_url(own_server.url, timeout="1s") as limiter:
        limiter.limit("k", PLENTY)
        own_server.pause()
        ended: list[BaseException] = []

        def act(n: int) -> None:
            try:
                limiter.limit("k", PLENTY)
            except UNANSWERED as error:
                ended.append(error)

        together(40, act)
        assert len(ended) == 40
        own_server.resume()


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_a_child_process_does_not_wait_for_locks_of_its_parent(server: Server, library: str) -> None:
    with Limiter.from_url(server.url.replace("redis", library)) as behind:
        guard = Guard(behind, policy="local")
        limiter = Limiter(Cached(guard))
        limiter.limit("k", PLENTY)
        pool = behind.client.connection_pool
        locks = [pool._lock, pool._fork_lock, guard._lock, guard._nodes[""].breaker._lock]
        locks += [guard._local._lock, limiter.decider._denials._lock]  # type: ignore[attr-defined, union-attr]
        with held_by_a_thread(locks):
            ended_well(forked(lambda: limiter.limit("child", PLENTY).raise_if_limited(), limiter.close))
        assert limiter.limit("k", PLENTY).remaining == 1_000_000 - 2
        assert server.do("EXISTS", "child") == 1


def test_a_child_process_does_not_wait_for_calls_of_its_parent(own_server: Server) -> None:
    with Limiter.from_url(own_server.url, timeout="10s") as limiter:
        limiter.limit("k", PLENTY)
        own_server.pause()
        threads = [threading.Thread(target=limiter.limit, args=("k", PLENTY)) for _ in range(4)]
        for thread in threads:
            thread.start()
        await_true(lambda: limiter.decider._next._transport._under_way == 2, "calls are under way")  # type: ignore[attr-defined]
        ended_well(forked(lambda: os.kill(own_server.process.pid, signal.SIGCONT), lambda: limiter.limit("child", PLENTY)))
        for thread in threads:
            thread.join()


class GoneError(Exception):
    """As gevent.Timeout is, wherever its caller is."""


async def test_a_task_that_leaves_while_its_pipeline_connects_is_not_charged(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url, timeout="20s") as limiter:
        await limiter.limit("k", PLENTY)
        behind: Any = await limiter.decider._next._lines.here()  # type: ignore[attr-defined]
        own_server.pause()
        first = [asyncio.ensure_future(limiter.limit("k", PLENTY)) for _ in range(2)]
        await asyncio.sleep(0)
        connect, gate = behind._connection, asyncio.Event()
        shared = [asyncio.ensure_future(limiter.limit("k", PLENTY)) for _ in range(3)]
        while behind._under_way < 2 or len(behind._queue) < 3:
            await asyncio.sleep(0.001)
        connecting = asyncio.Event()

        async def later() -> Any:
            connecting.set()
            await gate.wait()
            return await connect()

        behind._connection = later
        own_server.resume()
        await asyncio.gather(*first)
        await connecting.wait()
        shared[1].cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(shared[0], shared[2])
        assert (await limiter.peek("k", PLENTY)).remaining == 1_000_000 - 5


def test_a_thread_that_leaves_while_its_pipeline_connects_is_not_charged(own_server: Server) -> None:
    def interrupt(*_: Any) -> None:
        raise GoneError

    with Limiter.from_url(own_server.url, timeout="20s") as limiter:
        limiter.limit("k", PLENTY)
        behind: Any = limiter.decider._next._transport  # type: ignore[attr-defined]
        own_server.pause()
        first = [threading.Thread(target=limiter.limit, args=("k", PLENTY)) for _ in range(2)]
        for thread in first:
            thread.start()
        await_true(lambda: behind._under_way == 2, "calls are under way")
        sender = threading.Thread(target=limiter.limit, args=("k", PLENTY))
        sender.start()
        await_true(lambda: len(behind._queue) == 1, "a call waits")
        connect, connecting, gate = behind.pool.get_connection, threading.Event(), threading.Event()

        def later(*arguments: Any) -> Any:
            connecting.set()
            gate.wait(PATIENCE)
            return connect(*arguments)

        def leave() -> None:
            await_true(lambda: len(behind._queue) == 2, "the one that leaves waits, too")
            await_true(lambda: behind.pool._in_use_connections != [], "calls are sent")
            behind.pool.get_connection = later
            own_server.resume()
            connecting.wait(PATIENCE)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, interrupt)
        leaver = threading.Thread(target=leave)
        leaver.start()
        try:
            with pytest.raises(GoneError):
                limiter.limit("k", PLENTY)
        finally:
            leaver.join()
            signal.signal(signal.SIGUSR1, before)
            gate.set()
        for thread in [*first, sender]:
            thread.join()
        assert limiter.peek("k", PLENTY).remaining == 1_000_000 - 4
