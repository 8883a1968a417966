"""Units that are taken from the server by the batch, for keys with thousands of calls a second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sched
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from .._core.call import Call, Key
from .._core.duration import Duration, seconds
from .._core.limit import Limit
from .._core.result import ZERO, Result
from .._core.steps import Steps, run, run_async
from .._core.undecided import log
from .._core.verbs import AsyncDecider, Decider
from .cached import Denials, Remembering, has_unknown
from .layer import AsyncLayer, Layer, check_counts
from .reports import AsyncReports

_GIVE_BACK = 1.0
"""How long units are worth giving back, in seconds."""
_REPORTED = 0.001
"""How far a time in a result is rounded up, in seconds."""
_SPARES = ("limit", "peek", "wait")
"""The verbs that ask for units which may be held by others."""

Behind = TypeVar("Behind", Decider, AsyncDecider)


class _Pot:
    """The units of one key and its limits."""

    def __init__(self, id: bytes, key: Key, asked: Key) -> None:
        self.id, self.key, self.asked = id, key, asked
        self.fixed = len(key.limits) == 1 and key.limits[0].kind == "FIXED"
        self.units = self.used = self.giving = 0
        self.until = self.counted = self.came = self.passed_by = 0.0
        self.batch = Result()
        self.size = 1
        self.waiters: list[_Waiter] = []  # in order of arrival
        self.leader: _Waiter | None = None  # who fetches
        self.timed = False

    def take(self, units: int, now: float) -> Result:
        """Hand out units that are there."""
        self.units -= units
        self.used += units
        passed = timedelta(seconds=max(now - self.came, 0))
        reset = max(self.batch.reset_after - passed, ZERO)
        following = max(self.batch.next_after - passed, min(timedelta(seconds=_REPORTED), reset))
        return replace(self.batch, reset_after=reset, next_after=following, remaining=min(self.batch.remaining + self.units, self.batch.limit),
                       granted=units, by="batch")

    def serve(self, first: _Waiter, now: float) -> None:
        """Hand out units in order of arrival. The caller that they were fetched for gets them even if they have ended
        meanwhile."""
        for waiter in self.waiters:
            if not waiter.done and self.units >= waiter.units and (waiter is first or waiter.came < self.until):
                waiter.get(replace(self.take(waiter.units, now), by="server" if waiter is first else "batch"))

    def tidy(self) -> list[_Waiter]:
        """Drop the callers that have their answers or have left, and return who waits yet."""
        self.waiters = [waiter for waiter in self.waiters if not waiter.done]
        return self.waiters


@dataclass(eq=False)
class _Waiter:
    """A call that waits for a batch."""

    pot: _Pot
    turn: Any
    """A condition, by which it is told that it has its answer, or that it is the first."""
    units: int = 0
    came: float = 0.0
    done: bool = False
    """Whether it has its answer, or has left."""
    answer: Result | Exception | None = None
    """With None it asks the decider behind by itself."""

    def get(self, answer: Result | Exception | None) -> None:
        """Answer it, if it waits yet."""
        if not self.done:
            self.done, self.answer = True, answer
            self.turn.notify()


class _Batching(Remembering, Generic[Behind]):
    """What both kinds share: the pots, and what becomes of each reply. `_lock` guards all of it, but no call to the
    server. Without threads there is nobody to guard it from."""

    _turn: Callable[[], Any]

    def __init__(self, next: Behind, *, units: int = 100, max_age: Duration = "100ms", processes: int | None = None, keys: int = 10_000,
                 denial_age: Duration = "10s", on_error: Callable[[Exception], object] | None = None) -> None:
        check_counts(units=units, processes=1 if processes is None else processes, keys=keys)
        self._units, self._most, self._on_error = units, keys, on_error
        self._max_age, self._denial_age = seconds(max_age, "max_age"), seconds(denial_age, "denial_age")
        self._reserve = units * (processes or 0)
        super().__init__(next, keys, self._denial_age)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pots: dict[bytes, _Pot] = {}
        self._closed = False

    def _batches(self, call: Call) -> bool:
        """Whether units of a batch serve for a call."""
        limits = call.keys[0].limits
        return (call.verb == "limit" and not call.several and 1 <= call.cost <= self._units and bool(limits)
                and call.charge is None and call.ban is None and call.max_wait is None and not call.each and not has_unknown(call)
                and all(limit.take is None and not limit.shadow and limit.count for limit in limits))

    def _spared(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """Return limits as they are asked, so that they hold with all that the processes hold."""
        if not self._reserve or (len(limits) == 1 and limits[0].kind == "FIXED"):
            return limits
        asked = []
        for limit in limits:
            room = limit.capacity - limit.spare
            if limit.count and room <= self._reserve:
                raise ValueError(f"{limit}: units x processes, {self._reserve}, leave nothing of the limit")
            if limit.count and limit.kind != "RATE" and 2 * self._reserve > room:
                raise ValueError(f"{limit}: units x processes, {self._reserve}, leave only {room - self._reserve} of {room} units: take at most half")
            asked.append(limit.replace(spare=limit.spare + self._reserve) if limit.count else limit)
        return tuple(asked)

    def _hand_on(self, call: Call) -> Steps:
        if self._reserve and call.verb in _SPARES:
            call = replace(call, keys=tuple(replace(key, limits=self._spared(key.limits)) for key in call.keys))
        return super()._hand_on(call)

    def _told(self, answer: Result | Exception) -> Result:
        """Return an answer to the caller. A denial that another call has brought is counted."""
        if isinstance(answer, Exception):
            raise answer
        if answer.limited and answer.by == "cache":
            self._reports.count(answer.key)
        return answer

    def _enter(self, call: Call) -> Result | _Waiter | None:
        """Answer a call at once, or return what waits for a batch, or None to ask the decider behind. The lock is
        held."""
        now, key, units = time.monotonic(), call.keys[0], call.cost
        id = repr((key.name, [limit.words for limit in key.limits])).encode("utf-8", "backslashreplace")
        pot = self._pots.get(id)
        if pot is None:
            denied = self._denials.recall(_need(id, units), call.keys)
            if denied is not None:
                return denied
            if self._closed or len(self._pots) >= self._most:
                return None
            pot = self._pots[id] = _Pot(id, key, replace(key, limits=self._spared(key.limits)))
        elif self._closed or now < pot.passed_by:
            return None
        self._end(pot, now)
        if pot.units >= units:
            return pot.take(units, now)
        denied = self._denials.recall(_need(id, units - pot.units), call.keys)
        if denied is not None:
            return denied
        waiter = _Waiter(pot, self._turn(), units, now)
        pot.waiters.append(waiter)
        return waiter

    def _fetch(self, pot: _Pot) -> Generator[Call | None, Result, None]:
        """Ask the server once or twice, and answer the first that waits, unless its units were handed out to others
        meanwhile. None is a step, too: wait until units were given back."""
        first = pot.tidy()[0]
        self._end(pot, time.monotonic())
        wanted = sum(waiter.units for waiter in pot.waiters)
        need = first.units - pot.units
        n = min(max(pot.size, wanted - pot.units), self._units - pot.units - pot.giving)
        if n >= need:
            yield from self._ask(pot, first, need, n, up_to=True)
            if first.done:
                return
        need = first.units - pot.units
        if need < 1:
            pot.serve(first, time.monotonic())
        elif pot.units + need + pot.giving > self._units:  # what is being given back counts as held
            yield None
        else:  # it costs more than there is, and only the server knows when it can be had
            yield from self._ask(pot, first, need, need, up_to=False)

    def _ask(self, pot: _Pot, first: _Waiter, need: int, n: int, up_to: bool) -> Generator[Call | None, Result, None]:
        """Ask for a batch, and tell the callers that wait."""
        asked = time.monotonic()
        try:
            result = yield Call("limit", (pot.asked,), cost=n, charge="up_to" if up_to else None)
        except Exception as error:
            for waiter in pot.waiters:
                waiter.get(error)
            return
        now = time.monotonic()
        if result.by != "server":
            self._pass_by(pot, first, result, now)
        elif not result.limited:
            self._add(pot, result, asked, now)
            pot.serve(first, now)
        elif need == 1 or not up_to:
            self._deny(pot, first, need, result, asked)

    def _deny(self, pot: _Pot, first: _Waiter, need: int, result: Result, asked: float) -> None:
        """Answer a caller that was limited, and all that ask for as much and came before there were units again."""
        self._denials.remember(_need(pot.id, need), result, asked)
        first.get(result)
        after = None if result.retry_after is None else result.retry_after.total_seconds()
        for waiter in pot.waiters:
            if waiter.units == first.units and (not after or waiter.came < asked + after):
                waiter.get(replace(result, by="cache"))

    def _pass_by(self, pot: _Pot, first: _Waiter, result: Result, now: float) -> None:
        """Answer the first by what was decided without the server, and send all others to the decider behind for a
        while: units that the server does not know of are not kept."""
        pot.passed_by, pot.size = now + self._max_age, 1
        self._schedule(pot, self._max_age)
        if result.limited or result.by != "local" or result.granted >= first.units:
            first.get(replace(result, granted=min(result.granted, first.units)))
        for waiter in pot.waiters:
            waiter.get(None)

    def _add(self, pot: _Pot, batch: Result, asked: float, now: float) -> None:
        """Put a batch into the pot."""
        self._end(pot, now)
        counted = asked + batch.reset_after.total_seconds() - _REPORTED
        ends = min(asked + self._max_age, counted) if pot.fixed else asked + self._max_age
        pot.until = ends if not pot.units else min(pot.until, ends)
        pot.counted = counted if not pot.units else min(pot.counted, counted)
        pot.size = min(2 * pot.size, self._units)
        pot.units += batch.granted
        pot.used, pot.batch, pot.came = 0, batch, now
        self._schedule(pot, pot.until - now)

    def _end(self, pot: _Pot, now: float) -> None:
        """Take units that are too old out of the pot."""
        units = pot.units
        if units and now >= pot.until:
            pot.units, pot.size = 0, max(pot.used, 1)
            self._give_back(pot, units, now)

    def _give_back(self, pot: _Pot, units: int, now: float) -> None:
        """Return units where the server still counts them."""
        if now < pot.counted:
            pot.giving += units
            self._in_background(self._refund(pot, units))

    def _refund(self, pot: _Pot, units: int) -> Generator[Call, Result, None]:
        failed = None
        try:
            yield Call("refund", (pot.key,), cost=units)
        except Exception as error:
            failed = error
        finally:
            with self._lock:
                pot.giving -= units
                if pot.leader is not None:  # it may wait for this
                    pot.leader.turn.notify()
                self._drop(pot)
        if failed is not None and self._on_error is not None:
            try:
                self._on_error(failed)
            except Exception:
                log.exception("on_error of a Batched has failed")

    def _leave(self, waiter: _Waiter) -> None:
        """Note that a caller has left. Units that it got at the same moment go back. The lock is held."""
        waiter.done, answer = True, waiter.answer
        if not isinstance(answer, Result) or answer.limited or answer.by not in ("server", "batch"):
            return
        pot, now = waiter.pot, time.monotonic()
        if now < pot.until:
            pot.units += waiter.units
            pot.used -= waiter.units
        else:
            self._give_back(pot, waiter.units, now)

    def _schedule(self, pot: _Pot, after: float) -> None:
        if not pot.timed:
            pot.timed = True
            self._later(after, partial(self._look, pot))

    def _look(self, pot: _Pot) -> None:
        """End what is too old."""
        with self._lock:
            now, pot.timed = time.monotonic(), False
            left = max(pot.until, pot.passed_by) - now
            if left > 0:
                self._schedule(pot, left)
            else:
                self._end(pot, now)
                self._drop(pot)

    def _end_all(self) -> bool:
        """End all units. Return whether some are being fetched, which are to end as well, or given back."""
        with self._lock:
            for pot in self._pots.values():
                pot.until = 0.0
                self._end(pot, time.monotonic())
            return any(pot.giving or pot.leader for pot in self._pots.values())

    def _drop(self, pot: _Pot) -> None:
        """Forget a pot that nobody needs."""
        idle = not pot.units and not pot.giving and not pot.waiters and pot.leader is None
        if idle and time.monotonic() >= max(pot.until, pot.passed_by) and self._pots.get(pot.id) is pot:
            del self._pots[pot.id]

    def _later(self, after: float, work: Callable[[], None]) -> None:
        raise NotImplementedError

    def _in_background(self, refund: Generator[Call, Result, None]) -> None:
        raise NotImplementedError


def _need(id: bytes, units: int) -> bytes:
    return b"%d %b" % (units, id)


class _Keeper:
    """A daemon thread that runs what is due, and ends when nothing is."""

    def __init__(self) -> None:
        self._due = sched.scheduler(time.monotonic, self._wait)
        self._lock = threading.Lock()
        self._added = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, after: float, work: Callable[[], None]) -> None:
        with self._lock:
            self._due.enter(after, 0, work)
            self._added.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="throttle-batched", daemon=True)
                self._thread.start()

    def _wait(self, seconds: float) -> None:
        self._added.wait(seconds)
        self._added.clear()

    def _run(self) -> None:
        while self._thread is not None:
            self._due.run()
            with self._lock:
                if self._due.empty():
                    self._thread = None


class Batched(_Batching[Decider], Layer):
    """Takes batches of units from the server and hands them out in the process. Use it for keys with thousands of calls
    a second.

        limiter = Limiter(Batched(Guard(Remote(client))))

    A unit is charged on the server before it is handed out, and handed out once, up to `max_age` later (100 ms). So in
    any interval all processes together hand out at most what the limits let through in an interval that is longer by
    `max_age`, and at most `units` (100) for each process more than the limits let through in it.

    With `processes`, at most how many take batches at the same time, the bound is the limit itself: every call has
    `units` x `processes` added to the `spare` of its limits. All calls on the key have to go through a `Batched` like
    this one then, and less can be had at once; a limit of which too little would be left is a `ValueError`. A `fixed`
    that is the only limit needs none of this.

    What it withholds: `units` for each process and key at most, for `max_age` at most. Batches begin with one unit,
    double while they are used up, and shrink to what was used when they are not. What is left is returned, and `close`
    returns the rest; a process that crashes leaves its units charged. `on_error` is told of units that could not be
    returned.

    Not batched: all verbs but `limit`, calls that cost more than `units` or nothing, with other options than `cost`, or
    with limits that have `take` or `shadow`; and all calls on a key for `max_age` after the decider behind decided
    without the server. At most `keys` keys have units at a time. Denials are remembered for `denial_age` at most, as by
    `Cached`. `Result.by` is `"batch"` for a unit of a batch.
    """

    def _begin(self) -> None:
        super()._begin()
        self._turn = partial(threading.Condition, self._lock)
        self._keeper = _Keeper()

    def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        if not self._batches(call):
            return run(self._hand_on(call), self._next.decide)
        if self._process != os.getpid():  # forked: what is held is the parent's
            self._begin()
            self._denials = Denials(self._most, self._denial_age)
        with self._lock:
            answer: Any = self._enter(call)
            if isinstance(answer, _Waiter):
                answer = self._wait(answer)
        return run(self._hand_on(call), self._next.decide) if answer is None else self._told(answer)

    def _wait(self, mine: _Waiter) -> Any:
        """Wait for an answer. The first in line fetches batches until it has its own. The lock is held."""
        pot = mine.pot
        try:
            while not mine.done:
                if (pot.leader or pot.waiters[0]) is mine:
                    pot.leader = mine
                    run(self._fetch(pot), partial(self._send, mine))
                else:
                    mine.turn.wait()
        except BaseException:
            self._leave(mine)
            raise
        finally:
            if pot.leader in (mine, None):
                pot.leader = None
                for following in pot.tidy()[:1]:
                    following.turn.notify()
                self._drop(pot)
        return mine.answer

    def _send(self, mine: _Waiter, step: Call | None) -> Result:
        """Take a step of fetching without the lock."""
        if step is None:
            mine.turn.wait()
            return Result()
        self._lock.release()
        try:
            return self._next.decide(step)  # type: ignore[no-any-return]
        finally:
            self._lock.acquire()

    def _later(self, after: float, work: Callable[[], None]) -> None:
        self._keeper.add(after, work)

    def _in_background(self, refund: Generator[Call, Result, None]) -> None:
        self._keeper.add(0, partial(run, refund, self._next.decide))

    def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        self._closed, ends = True, time.monotonic() + _GIVE_BACK
        while self._end_all() and time.monotonic() < ends:
            time.sleep(0.005)
        super().close()


class _Turn(asyncio.Event):
    """A condition of one task."""

    notify = asyncio.Event.set

    async def wait(self) -> Literal[True]:
        """Wait until somebody notifies, or has."""
        await super().wait()
        self.clear()
        return True


class AsyncBatched(_Batching[AsyncDecider], AsyncLayer):
    """As `redis_throttle.Batched`, for asyncio.

    It batches in one loop at a time: calls of another one that runs meanwhile go on one by one. When its loop is
    closed, what it holds stays charged, and the next loop begins with nothing.
    """

    _reporting = AsyncReports
    _turn = _Turn

    def _begin(self) -> None:
        super()._begin()
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._loop: asyncio.AbstractEventLoop | None = None

    def _is_here(self) -> bool:
        """Whether the running loop is the one that batches."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed() and self._process == os.getpid():
                return False
            closed = self._closed
            self._begin()
            self._closed, self._loop = closed, loop
        return True

    async def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        answer: Any = None
        if self._batches(call) and self._is_here():
            answer = self._enter(call)
            if isinstance(answer, _Waiter):
                answer = await self._wait(answer)
        return await run_async(self._hand_on(call), self._next.decide) if answer is None else self._told(answer)

    async def _wait(self, mine: _Waiter) -> Any:
        pot = mine.pot
        if pot.leader is None:
            pot.leader = leader = _Waiter(pot, _Turn())
            self._run(self._lead(pot, leader))
        try:
            while not mine.done:
                await mine.turn.wait()
        except asyncio.CancelledError:
            self._leave(mine)
            raise
        return mine.answer

    async def _lead(self, pot: _Pot, leader: _Waiter) -> None:
        """Fetch batches until nobody waits."""
        try:
            while pot.tidy():
                await run_async(self._fetch(pot), partial(self._send, leader))
        finally:
            pot.leader = None
            for waiter in pot.waiters:  # of a task that was cancelled
                waiter.get(None)
            self._drop(pot)

    async def _send(self, leader: _Waiter, step: Call | None) -> Result:
        if step is not None:
            return await self._next.decide(step)  # type: ignore[no-any-return]
        await leader.turn.wait()
        return Result()

    def _later(self, after: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(after, work)

    def _in_background(self, refund: Generator[Call, Result, None]) -> None:
        self._run(run_async(refund, self._next.decide))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK):
                while self._is_here():
                    self._end_all()  # what is fetched is given back as well
                    if not self._tasks:
                        break
                    await asyncio.wait(self._tasks)
        await super().close()
