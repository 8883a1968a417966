"""Batches of units: fewer calls to the server, and never a unit too many."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from forks import ended_well, forked, held_by_a_thread
from redis_throttle import Batched, Call, Key, Limiter, OutageError, Result, Slots, fixed, rate, window
from redis_throttle.asyncio import Batched as AsyncBatched
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import PATIENCE, Server, await_true

PLENTY = window(1_000_000, "1h")
LONG = "1m"
"""So that no unit ends by its age in a test."""


def used(server: FakeLimiter | AsyncFakeLimiter, limit: Any, key: str = "k") -> int:
    """Return how many units the server has charged."""
    return limit.count - server._run(Call("peek", (Key(key, (limit,)),))).remaining  # type: ignore[no-any-return]


def test_a_hot_key_costs_few_calls(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    results = [limiter.limit("k", PLENTY) for _ in range(10_000)]
    assert all(result.allowed and result.granted == 1 for result in results)
    assert {result.by for result in results} == {"server", "batch"}
    assert len(throttle.asked) < 120
    limiter.close()
    assert used(throttle, PLENTY) == 10_000, "what was left is returned"
    assert [limiter.limit(key, PLENTY).by for key in ("k", "l") for _ in range(3)] == ["server"] * 6, "closed, it hands calls on"


def test_a_batch_grows_while_it_is_used_up(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, units=10, max_age=LONG))
    for _ in range(35):
        limiter.limit("k", PLENTY)
    assert [call.cost for call in throttle.asked] == [1, 2, 4, 8, 10, 10]
    limiter.close()


@pytest.mark.parametrize(("taken", "after"), [(8, 3), (10, 5)])
def test_a_call_that_costs_more_than_there_is_learns_when_it_can_be_had(throttle: FakeLimiter, taken: int, after: int) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    limiter.limit("k", rate(10, "10s"), cost=taken)
    result = limiter.limit("k", rate(10, "10s"), cost=5)
    assert result.limited
    assert result.retry_after == timedelta(seconds=after)
    limiter.close()


@pytest.mark.parametrize("cost", [1, 3])
def test_threads_never_get_a_unit_too_many_nor_too_few(throttle: FakeLimiter, cost: int) -> None:
    limit = window(999, "1h")
    limiter, allowed = Limiter(Batched(throttle, max_age=LONG)), []

    def work() -> None:
        for _ in range(100):
            allowed.append(limiter.limit("k", limit, cost=cost).allowed)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert allowed.count(True) * cost == 999
    limiter.close()


async def test_nor_do_tasks(async_throttle: AsyncFakeLimiter) -> None:
    limit = window(999, "1h")
    limiter = AsyncLimiter(AsyncBatched(async_throttle, max_age=LONG))
    results = await asyncio.gather(*(limiter.limit("k", limit) for _ in range(2000)))
    assert sum(result.allowed for result in results) == 999
    assert len(async_throttle.asked) < 60
    await limiter.close()


def test_units_that_are_too_old_are_returned(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, max_age="50ms"))
    for _ in range(5):
        limiter.limit("k", PLENTY)
    await_true(lambda: used(throttle, PLENTY) == 5, "they are given back")
    limiter.close()


async def test_so_are_those_of_asyncio(async_throttle: AsyncFakeLimiter) -> None:
    limiter = AsyncLimiter(AsyncBatched(async_throttle, max_age="50ms"))
    for _ in range(5):
        await limiter.limit("k", PLENTY)
    async with asyncio.timeout(20):
        while used(async_throttle, PLENTY) != 5:
            await asyncio.sleep(0.005)
    await limiter.close()


def test_the_limit_holds_for_all_processes_with_processes(throttle: FakeLimiter) -> None:
    """Two processes with 10 units each: 20 are spared, so that what they hold comes on top of less."""
    limit = rate(100, "1h")
    limiters = [Limiter(Batched(throttle, units=10, processes=2, max_age=LONG)) for _ in range(2)]
    got = [limiter.limit("k", limit).allowed for _ in range(100) for limiter in limiters]
    assert 80 <= got.count(True) <= 100
    assert throttle.asked[0].keys[0].limits[0].spare == 20
    with pytest.raises(ValueError, match="leave nothing"):
        limiters[0].limit("k", rate(20, "1h"))
    with pytest.raises(ValueError, match="at most half"):
        limiters[0].limit("k", window(30, "1h"))
    assert limiters[0].limit("lone", fixed(5, "1d")).allowed
    assert limiters[0].peek("k", limit).remaining == throttle.peek("k", limit.replace(spare=20)).remaining


PASSED_ON: list[Callable[[Limiter], Any]] = [
    lambda limiter: limiter.peek("k", PLENTY), lambda limiter: limiter.limit("k", PLENTY, cost=101), lambda limiter: limiter.limit("k", PLENTY, cost=0),
    lambda limiter: limiter.limit("k", PLENTY, charge="up_to"), lambda limiter: limiter.limit("k", PLENTY, each=True),
    lambda limiter: limiter.limit("k", PLENTY.replace(take=2)), lambda limiter: limiter.limit("k", PLENTY.replace(shadow=True)),
    lambda limiter: limiter.limit_all({"k": PLENTY}), lambda limiter: limiter.limit("k", PLENTY, ban="1s"), lambda limiter: limiter.limit("k", fixed(0, "1d")),
    lambda limiter: limiter.admit({"k": Slots(1, "1m")}).take().settle(),
]


@pytest.mark.parametrize("act", range(len(PASSED_ON)))
def test_what_is_not_batched_is_handed_on(throttle: FakeLimiter, act: int) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    for _ in range(2):
        PASSED_ON[act](limiter)
    assert len(throttle.asked) == (4 if act == 10 else 2)
    limiter.close()


def test_denials_are_remembered(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    got = [limiter.limit("k", fixed(5, "1d")) for _ in range(50)]
    assert [result.limited for result in got] == [False] * 5 + [True] * 45
    assert {result.by for result in got[6:]} == {"cache"}
    assert len(throttle.asked) < 8
    limiter.reset("k")
    assert limiter.limit("k", fixed(5, "1d")).allowed
    limiter.close()


def test_an_error_is_that_of_everybody_who_waits(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    throttle.fail()
    for _ in range(3):
        with pytest.raises(OutageError):
            limiter.limit("k", PLENTY)
    throttle.heal()
    assert limiter.limit("k", PLENTY).allowed
    limiter.close()


class Locally:
    """A decider that decides without the server."""

    def __init__(self, next: FakeLimiter) -> None:
        self.next, self.by = next, "local"

    def decide(self, call: Call, /) -> Result:
        return replace(self.next.decide(call), by=self.by)  # type: ignore[arg-type]


def test_units_that_the_server_does_not_know_of_are_not_kept(throttle: FakeLimiter) -> None:
    local = Locally(throttle)
    limiter = Limiter(Batched(local, max_age="20ms"))
    assert [limiter.limit("k", PLENTY).by for _ in range(20)] == ["local"] * 20
    assert [(call.cost, call.charge) for call in throttle.asked] == [(1, "up_to")] + [(1, None)] * 19
    local.by = "server"
    await_true(lambda: limiter.limit("k", PLENTY).by == "batch", "it is batched again")
    limiter.close()


async def test_all_who_wait_ask_by_themselves_then(async_throttle: AsyncFakeLimiter) -> None:
    class AsyncLocally:
        async def decide(self, call: Call, /) -> Result:
            return replace(await async_throttle.decide(call), by="local")

    limiter = AsyncLimiter(AsyncBatched(AsyncLocally()))
    results = await asyncio.gather(*(limiter.limit("k", PLENTY) for _ in range(3)))
    assert [(result.by, result.granted) for result in results] == [("local", 1)] * 3
    assert [(call.cost, call.charge) for call in async_throttle.asked] == [(3, "up_to"), (1, None), (1, None)]
    await limiter.close()


def test_units_end_with_their_window_and_are_not_returned_then(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(throttle, max_age=LONG))
    for _ in range(2):
        limiter.limit("k", fixed(5, "50ms"))
    time.sleep(0.1)
    assert limiter.limit("k", fixed(5, "50ms")).by == "server"
    limiter.close()
    assert {call.verb for call in throttle.asked} == {"limit"}


def test_units_that_cannot_be_returned_are_told(throttle: FakeLimiter) -> None:
    errors: list[Exception] = []
    limiter = Limiter(Batched(throttle, max_age="1s", on_error=errors.append))
    for _ in range(2):
        limiter.limit("k", rate(100, "1h"))
    throttle.fail()
    await_true(lambda: bool(errors), "it is told")
    throttle.heal()
    assert all(isinstance(error, OutageError) for error in errors)
    limiter.close()


class Held:
    """A decider that holds calls of a verb back until it is told to go on."""

    def __init__(self, next: FakeLimiter, verb: str) -> None:
        self.next, self.verb = next, verb
        self.asked, self.go_on = threading.Event(), threading.Event()

    def decide(self, call: Call, /) -> Result:
        if call.verb == self.verb:
            self.asked.set()
            assert self.go_on.wait(PATIENCE)
        return self.next.decide(call)


class AsyncHeld:
    """As `Held`, for asyncio."""

    def __init__(self, next: AsyncFakeLimiter, verb: str) -> None:
        self.next, self.verb = next, verb
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def decide(self, call: Call, /) -> Result:
        if call.verb == self.verb:
            self.asked.set()
            await self.go_on.wait()
        return await self.next.decide(call)


def leave_units(limiter: Limiter, are_back: Callable[[], bool], key: str = "k") -> None:
    """Take two units at a time, of which batches of 20 ms leave some over, until those are on their way back. Calls at
    a steady pace may use up every batch."""
    def leave() -> bool:
        assert all(limiter.limit(key, PLENTY).allowed for _ in range(2))
        time.sleep(0.05)
        return are_back()

    await_true(leave, "units are on their way back")


def test_units_on_their_way_back_count_as_held(throttle: FakeLimiter) -> None:
    held, got = Held(throttle, "refund"), []
    batches = Batched(held, units=4, max_age="20ms")
    limiter = Limiter(batches)
    leave_units(limiter, held.asked.is_set)
    thread = threading.Thread(target=lambda: got.append(limiter.limit("k", PLENTY, cost=4)))
    thread.start()
    [pot] = batches._pots.values()
    await_true(lambda: bool(pot.waiters) and bool(pot.waiters[0].event._cond._waiters), "it waits for them")
    held.go_on.set()
    thread.join(PATIENCE)
    assert got[0].allowed
    limiter.close()


async def test_so_they_do_in_asyncio(async_throttle: AsyncFakeLimiter) -> None:
    held = AsyncHeld(async_throttle, "refund")
    limiter = AsyncLimiter(AsyncBatched(held, units=4, max_age="20ms"))
    async with asyncio.timeout(PATIENCE):
        while not held.asked.is_set():  # as `leave_units`
            for _ in range(2):
                assert (await limiter.limit("k", PLENTY)).allowed
            await asyncio.sleep(0.05)
    before = len(async_throttle.asked)
    task = asyncio.create_task(limiter.limit("k", PLENTY, cost=4))
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(async_throttle.asked) == before
    held.go_on.set()
    assert (await asyncio.wait_for(task, PATIENCE)).allowed
    await limiter.close()


@pytest.mark.parametrize("limit", [PLENTY, rate(1, "20ms")], ids=["units that have ended", "a denial that is over"])
async def test_a_caller_that_comes_late_gets_nothing_of_an_earlier_reply(async_throttle: AsyncFakeLimiter, limit: Any) -> None:
    held = AsyncHeld(async_throttle, "limit")
    limiter = AsyncLimiter(AsyncBatched(held, max_age="20ms"))
    held.go_on.set()
    assert (await limiter.limit("k", limit)).allowed
    held.go_on.clear()
    held.asked.clear()
    tasks = [asyncio.create_task(limiter.limit("k", limit))]
    await held.asked.wait()
    await asyncio.sleep(0.05)
    tasks.append(asyncio.create_task(limiter.limit("k", limit)))
    await asyncio.sleep(0)
    held.go_on.set()
    assert [result.by for result in await asyncio.gather(*tasks)] == ["server", "server"]
    await limiter.close()


def test_a_thread_that_is_interrupted_has_the_next_one_fetch(throttle: FakeLimiter) -> None:
    class Interrupted(Held):
        def decide(self, call: Call, /) -> Result:
            first = not self.asked.is_set()
            result = super().decide(call)
            if first:
                raise KeyboardInterrupt
            return result

    ended: list[object] = []
    held = Interrupted(throttle, "limit")
    batches = Batched(held, units=4)
    limiter = Limiter(batches)

    def work() -> None:
        try:
            ended.append(limiter.limit("k", PLENTY).allowed)
        except KeyboardInterrupt as error:
            ended.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    await_true(lambda: sum(len(pot.waiters) for pot in batches._pots.values()) == 6, "all of them wait")
    held.go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert [end for end in ended if end is not True and not isinstance(end, KeyboardInterrupt)] == []
    assert ended.count(True) == 5
    limiter.close()


class Lost:
    """A decider that loses the replies to a verb."""

    def __init__(self, next: FakeLimiter, verb: str) -> None:
        self.next, self.verb = next, verb

    def decide(self, call: Call, /) -> Result:
        result = self.next.decide(call)
        if call.verb == self.verb:
            raise OutageError("the reply was lost")
        return result


def test_an_on_error_that_raises_ends_no_later_refund(throttle: FakeLimiter) -> None:
    told: list[Exception] = []

    def tell(error: Exception) -> None:
        told.append(error)
        raise error

    limiter = Limiter(Batched(Lost(throttle, "refund"), max_age="20ms", on_error=tell))
    for n in (1, 2):
        leave_units(limiter, lambda n=n: len(told) >= n, f"k{n}")  # type: ignore[misc]
    limiter.close()


def test_a_child_process_hands_out_no_units_of_its_parent(throttle: FakeLimiter) -> None:
    batches = Batched(throttle, max_age=LONG)
    limiter = Limiter(batches)
    assert [limiter.limit("k", PLENTY).by for _ in range(2)] == ["server", "server"], "and holds one more"

    def call() -> None:
        assert [limiter.limit("k", PLENTY).by for _ in range(3)] == ["server", "server", "batch"]

    with held_by_a_thread([batches._lock]):
        ended_well(forked(call, limiter.close))
    assert limiter.limit("k", PLENTY).by == "batch"
    limiter.close()


def test_a_reset_without_a_reply_forgets_denials(throttle: FakeLimiter) -> None:
    limiter = Limiter(Batched(Lost(throttle, "reset")))
    assert [limiter.limit("k", fixed(1, "1d")).allowed for _ in range(3)] == [True, False, False]
    with pytest.raises(OutageError):
        limiter.reset("k")
    assert limiter.limit("k", fixed(1, "1d")).allowed
    limiter.close()


@pytest.mark.parametrize(("options", "says"), [
    ({"units": 0}, "units"), ({"processes": 0}, "processes"), ({"max_age": 0.1}, "max_age.*unit"), ({"keys": True}, "keys"),
    ({"denial_age": "0"}, "denial_age"),
])
def test_options_are_checked_at_construction(throttle: FakeLimiter, options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        Batched(throttle, **options)
    with pytest.raises(TypeError, match="decider"):
        Batched(None)  # type: ignore[arg-type]


async def test_a_task_that_leaves_keeps_nobody_waiting(async_throttle: AsyncFakeLimiter) -> None:
    limiter = AsyncLimiter(AsyncBatched(async_throttle, max_age=LONG))
    tasks = [asyncio.create_task(limiter.limit("k", PLENTY)) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result.allowed for result in ended[1::2])  # type: ignore[union-attr]
    await limiter.close()
    assert used(async_throttle, PLENTY) == len([end for end in ended if isinstance(end, Result)])


class Collects(str):
    """The name of a key that has garbage collected whenever it is looked up."""

    __slots__ = ()
    __eq__ = str.__eq__

    def __hash__(self) -> int:
        gc.collect()
        return super().__hash__()


def test_calls_that_a_closed_loop_left_are_collected_at_any_time(async_throttle: AsyncFakeLimiter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # asyncio complains of calls whose loop was closed
    held = AsyncHeld(async_throttle, "limit")
    limiter, ended = AsyncLimiter(AsyncBatched(held)), []

    async def wait() -> None:
        calls = [asyncio.ensure_future(limiter.limit("k", PLENTY)) for _ in range(3)]
        await held.asked.wait()
        assert not any(call.done() for call in calls)

    def work() -> None:
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(wait())
        held.verb, held.go_on = "none", asyncio.Event()
        ended.append(asyncio.run(limiter.limit(Collects("l"), PLENTY)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    gc.collect()
    assert [result.allowed for result in ended] == [True]


def test_a_hot_key_on_a_server(server: Server) -> None:
    with Limiter.from_url(server.url) as behind:
        limiter = Limiter(Batched(behind, max_age="5s"))
        before = server.client().info("commandstats").get("cmdstat_cl.limit", {"calls": 0})["calls"]
        assert all(limiter.limit("k", PLENTY).allowed for _ in range(1000))
        assert server.client().info("commandstats")["cmdstat_cl.limit"]["calls"] - before < 30
        limiter.close()
    with Limiter.from_url(server.url) as look:
        assert look.peek("k", PLENTY).remaining == 1_000_000 - 1000
