"""Units that are taken from the server by the batch, for keys with thousands of calls a second."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import os
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from .._core.call import Call, Key
from .._core.duration import Duration, seconds
from .._core.limit import Limit
from .._core.result import ZERO, Result
from .._core.verbs import AsyncDecider, Decider, is_decider
from .cached import Denials, has_unknown
from .reports import AsyncReports, Reports

_GIVE_BACK = 1.0
"""How long units are worth giving back, in seconds."""
_REPORTED = 0.001
"""How far a time in a result is rounded up, in seconds."""
_SPARES = ("limit", "peek", "wait")
"""The verbs that ask for units which may be held by others."""

_Worker = Generator[Call | None, Result, None]
"""Fetches batches: it yields calls to be sent, or None to wait until units were given back."""


class _Waiter:
    """A call that waits for a batch."""

    def __init__(self, pot: _Pot, units: int, came: float, done: Callable[[], None]) -> None:
        self.units, self.came, self.done = units, came, done
        self.pot = pot
        self.answer: Result | Exception | None = None
        self.direct = self.gone = self.leads = False

    @property
    def answered(self) -> bool:
        return self.answer is not None or self.direct

    def get(self, answer: Result | Exception | None) -> None:
        """Answer it; None has it ask the decider behind by itself."""
        self.answer, self.direct = answer, answer is None
        self.done()


class _Pot:
    """The units of one key and its limits."""

    def __init__(self, id: bytes, key: Key, asked: Key) -> None:
        self.id, self.key, self.asked = id, key, asked
        self.fixed = len(key.limits) == 1 and key.limits[0].kind == "FIXED"
        self.units = self.used = self.giving = 0
        self.until = self.counted = self.came = self.passed_by = 0.0
        self.batch = Result()
        self.size = 1
        self.waiters: list[_Waiter] = []
        self.worker: _Worker | None = None
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


class _Batching:
    """What both kinds share: the pots, and what becomes of each reply. `_lock` guards all of it, but no call to the
    server."""

    _reporting: type[Reports] = Reports

    def __init__(self, next: object, units: int, max_age: Duration, processes: int | None, keys: int, denial_age: Duration,
                 on_error: Callable[[Exception], object] | None) -> None:
        if not is_decider(next):
            raise TypeError(f"next must be a decider, such as a Guard or a Remote, not {next!r}")
        for name, number in (("units", units), ("processes", 1 if processes is None else processes), ("keys", keys)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {number!r}")
        self._next: Any = next
        self._reports = self._reporting(next)
        self._units, self._most, self._on_error = units, keys, on_error
        self._max_age, self._denial_age = seconds(max_age, "max_age"), seconds(denial_age, "denial_age")
        self._reserve = units * (processes or 0)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pots: dict[bytes, _Pot] = {}
        self._denials = Denials(self._most, self._denial_age)
        self._closed = False

    def forget(self, key: str) -> None:
        """Forget the denials of all calls on a key, such as after a refund in another process. Units of the key
        stay."""
        self._denials.forget(key)

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

    def _handed_on(self, call: Call) -> Call:
        if not self._reserve or call.verb not in _SPARES:
            return call
        return replace(call, keys=tuple(replace(key, limits=self._spared(key.limits)) for key in call.keys))

    def _handed(self, call: Call) -> None:
        if call.verb not in _SPARES and call.verb != "denied":
            for key in call.keys:
                self._denials.forget(key.name)

    def _counted(self, result: Result) -> Result:
        """Count a denial that another call has brought."""
        if result.limited and result.by == "cache":
            self._reports.count(result.key)
        return result

    def _enter(self, call: Call, done: Callable[[], None]) -> Result | _Waiter | None:
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
        self._end_old(pot, now)
        if pot.units >= units:
            return pot.take(units, now)
        denied = self._denials.recall(_need(id, units - pot.units), call.keys)
        if denied is not None:
            return denied
        waiter = _Waiter(pot, units, now, done)
        pot.waiters.append(waiter)
        if pot.worker is None:
            pot.worker = self._work(pot)
            waiter.leads = True
        return waiter

    def _work(self, pot: _Pot) -> _Worker:
        """Fetch batches until nobody waits."""
        while True:
            pot.waiters = [waiter for waiter in pot.waiters if not waiter.gone and not waiter.answered]
            if not pot.waiters:
                return
            yield from self._fetch(pot, pot.waiters[0])

    def _fetch(self, pot: _Pot, first: _Waiter) -> _Worker:
        """Ask the server once or twice, and answer the first that waits, unless its units were handed out to others
        meanwhile."""
        self._end_old(pot, time.monotonic())
        wanted = sum(waiter.units for waiter in pot.waiters)
        need = first.units - pot.units
        n = min(max(pot.size, wanted - pot.units), self._units - pot.units - pot.giving)
        if n >= need:
            done = yield from self._ask(pot, first, need, n, up_to=True)
            if done or first.gone or first.answered:
                return
        need = first.units - pot.units
        if need < 1:
            self._serve(pot, first, time.monotonic())
        elif pot.units + need + pot.giving > self._units:  # what is being given back counts as held
            yield None
        else:  # it costs more than there is, and only the server knows when it can be had
            yield from self._ask(pot, first, need, need, up_to=False)

    def _ask(self, pot: _Pot, first: _Waiter, need: int, n: int, up_to: bool) -> Generator[Call | None, Result, bool]:
        """Ask for a batch. Return whether the callers that wait have been told."""
        asked = time.monotonic()
        try:
            result = yield Call("limit", (pot.asked,), cost=n, charge="up_to" if up_to else None)
        except Exception as error:
            for waiter in pot.waiters:
                waiter.get(error)
            return True
        now = time.monotonic()
        if result.by != "server":
            self._pass_by(pot, first, result, now)
            return True
        if not result.limited:
            self._add(pot, result, asked, now)
            self._serve(pot, first, now)
        elif need == 1 or not up_to:
            self._deny(pot, first, need, result, asked)
        return False

    def _serve(self, pot: _Pot, first: _Waiter, now: float) -> None:
        """Hand out units in order of arrival. The caller that they were fetched for gets them even if they have ended
        meanwhile."""
        for waiter in pot.waiters:
            if waiter.gone or waiter.answered or pot.units < waiter.units or (waiter is not first and waiter.came >= pot.until):
                continue
            result = pot.take(waiter.units, now)
            waiter.get(replace(result, by="server") if waiter is first else result)

    def _deny(self, pot: _Pot, first: _Waiter, need: int, result: Result, asked: float) -> None:
        """Answer a caller that was limited, and all that ask for as much and came before there were units again."""
        self._denials.remember(_need(pot.id, need), result, asked)
        after = None if result.retry_after is None else result.retry_after.total_seconds()
        for waiter in pot.waiters:
            if waiter is first:
                waiter.get(result)
            elif not waiter.answered and waiter.units == first.units and (not after or waiter.came < asked + after):
                waiter.get(replace(result, by="cache"))

    def _pass_by(self, pot: _Pot, first: _Waiter, result: Result, now: float) -> None:
        """Answer the first by what was decided without the server, and send all others to the decider behind for a
        while: units that the server does not know of are not kept."""
        pot.passed_by, pot.size = now + self._max_age, 1
        self._schedule(pot, self._max_age)
        for waiter in pot.waiters:
            if waiter is not first or (not result.limited and result.by == "local" and result.granted < waiter.units):
                waiter.get(None)
            else:
                waiter.get(replace(result, granted=min(result.granted, waiter.units)))

    def _add(self, pot: _Pot, batch: Result, asked: float, now: float) -> None:
        """Put a batch into the pot."""
        self._end_old(pot, now)
        counted = asked + batch.reset_after.total_seconds() - _REPORTED
        ends = min(asked + self._max_age, counted) if pot.fixed else asked + self._max_age
        pot.until = ends if not pot.units else min(pot.until, ends)
        pot.counted = counted if not pot.units else min(pot.counted, counted)
        pot.size = min(2 * pot.size, self._units)
        pot.units += batch.granted
        pot.used, pot.batch, pot.came = 0, batch, now
        self._schedule(pot, pot.until - now)

    def _end_old(self, pot: _Pot, now: float) -> None:
        if now >= pot.until:
            self._end(pot, now)

    def _end(self, pot: _Pot, now: float) -> None:
        """Take the units out of the pot, and give them back where the server still counts them."""
        units = pot.units
        if not units:
            return
        pot.units, pot.size = 0, max(pot.used, 1)
        if pot.counted - now > 0:
            pot.giving += units
            self._give_back(pot, units)

    def _leave(self, waiter: _Waiter) -> None:
        """Note that a caller has left. Units that it got at the same moment go back. The lock is held."""
        waiter.gone = True
        answer, pot = waiter.answer, waiter.pot
        if not isinstance(answer, Result) or answer.limited or answer.by not in ("server", "batch"):
            return
        now = time.monotonic()
        if now < pot.until:
            pot.units += waiter.units
            pot.used -= waiter.units
        elif now < pot.counted:
            pot.giving += waiter.units
            self._give_back(pot, waiter.units)

    def _timer(self, pot: _Pot) -> float | None:
        """End what is too old. Return after how many seconds to look again; None is not again. The lock is held."""
        now = time.monotonic()
        left = max(pot.until, pot.passed_by) - now
        if left > 0:
            return left
        pot.timed = False
        self._end(pot, now)
        self._drop(pot)
        return None

    def _drop(self, pot: _Pot) -> None:
        """Forget a pot that nobody needs."""
        now = time.monotonic()
        if not pot.units and not pot.giving and pot.worker is None and now >= pot.until and now >= pot.passed_by and self._pots.get(pot.id) is pot:
            del self._pots[pot.id]

    def _given(self, pot: _Pot, units: int) -> None:
        pot.giving -= units
        self._drop(pot)

    def _tell(self, error: Exception | None) -> None:
        if error is not None and self._on_error is not None:
            self._on_error(error)

    def _schedule(self, pot: _Pot, after: float) -> None:
        raise NotImplementedError

    def _give_back(self, pot: _Pot, units: int) -> None:
        raise NotImplementedError


def _need(id: bytes, units: int) -> bytes:
    return b"%d %b" % (units, id)


class _Keeper:
    """A daemon thread that runs what is due, and ends when nothing is."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._running = False

    def add(self, after: float, work: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + after, next(self._numbers), work))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="throttle-batched", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._due and not self._changed.wait(1.0) and not self._due:
                    self._running = False
                    return
                if not self._due:
                    continue
                left = self._due[0][0] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                work = heapq.heappop(self._due)[2]
            work()


class Batched(_Batching):
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

    def __init__(self, next: Decider, *, units: int = 100, max_age: Duration = "100ms", processes: int | None = None, keys: int = 10_000,
                 denial_age: Duration = "10s", on_error: Callable[[Exception], object] | None = None) -> None:
        super().__init__(next, units, max_age, processes, keys, denial_age, on_error)

    def _begin(self) -> None:
        super()._begin()
        self._keeper = _Keeper()
        self._back = threading.Condition(self._lock)

    def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        if not self._batches(call):
            return self._direct(call)
        if self._process != os.getpid():  # forked: what is held is the parent's
            self._begin()
        done = threading.Event()
        with self._lock:
            entered = self._enter(call, done.set)
        if isinstance(entered, Result):
            return self._counted(entered)
        if entered is None:
            return self._direct(call)
        pot = entered.pot
        try:
            while not entered.answered:
                if entered.leads:
                    self._lead(pot, entered)
                else:
                    done.wait()
                    done.clear()
        except BaseException:
            with self._lock:
                self._leave(entered)
                if entered.leads:
                    self._follow(pot)
            raise
        if isinstance(entered.answer, Exception):
            raise entered.answer
        return self._direct(call) if entered.answer is None else self._counted(entered.answer)

    def _lead(self, pot: _Pot, mine: _Waiter) -> None:
        """Fetch batches until this caller has its answer, then have the next one go on."""
        with self._lock:
            worker = pot.worker
            assert worker is not None
            try:
                step = next(worker)
                while True:
                    if step is None:
                        self._back.wait()
                        step = next(worker)
                        continue
                    self._lock.release()
                    try:
                        result: Result | Exception = self._next.decide(step)
                    except Exception as error:
                        result = error
                    finally:
                        self._lock.acquire()
                    step = worker.throw(result) if isinstance(result, Exception) else worker.send(result)
                    if mine.answered:
                        worker.close()
                        break
            except StopIteration:
                pass
            self._follow(pot)

    def _follow(self, pot: _Pot) -> None:
        """Have the next caller that waits fetch. The lock is held."""
        pot.waiters = [waiter for waiter in pot.waiters if not waiter.gone and not waiter.answered]
        if pot.waiters:
            pot.worker = self._work(pot)
            pot.waiters[0].leads = True
            pot.waiters[0].done()
        else:
            pot.worker = None
            self._drop(pot)

    def _direct(self, call: Call) -> Result:
        result: Result = self._next.decide(self._handed_on(call))
        self._handed(call)
        return result

    def _schedule(self, pot: _Pot, after: float) -> None:
        if not pot.timed:
            pot.timed = True
            self._keeper.add(after, lambda: self._look(pot))

    def _look(self, pot: _Pot) -> None:
        with self._lock:
            again = self._timer(pot)
        if again is not None:
            self._keeper.add(again, lambda: self._look(pot))

    def _give_back(self, pot: _Pot, units: int) -> None:
        self._keeper.add(0, lambda: self._refund(pot, units))

    def _refund(self, pot: _Pot, units: int) -> None:
        failed = None
        try:
            self._next.decide(Call("refund", (pot.key,), cost=units))
        except Exception as error:
            failed = error
        with self._lock:
            self._given(pot, units)
            self._back.notify_all()
        self._tell(failed)

    def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        with self._lock:
            self._closed = True
            ends = time.monotonic() + _GIVE_BACK
            while time.monotonic() < ends:
                for pot in list(self._pots.values()):  # what workers fetch is given back as well
                    self._end(pot, time.monotonic())
                if not any(pot.giving or pot.worker for pot in self._pots.values()):
                    break
                self._back.wait(0.05)
        close = getattr(self._next, "close", None)
        if close is not None:
            close()


class AsyncBatched(_Batching):
    """As `redis_throttle.Batched`, for asyncio.

    It batches in one loop at a time: calls of another one that runs meanwhile go on one by one. When its loop is
    closed, what it holds stays charged, and the next loop begins with nothing.
    """

    _reporting = AsyncReports

    def __init__(self, next: AsyncDecider, *, units: int = 100, max_age: Duration = "100ms", processes: int | None = None, keys: int = 10_000,
                 denial_age: Duration = "10s", on_error: Callable[[Exception], object] | None = None) -> None:
        super().__init__(next, units, max_age, processes, keys, denial_age, on_error)

    def _begin(self) -> None:
        super()._begin()
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._back: list[asyncio.Event] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def _is_here(self) -> bool:
        """Whether the running loop is the one that batches."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed() and self._process == os.getpid():
                return False
            closed, denials = self._closed, self._denials
            self._begin()
            self._closed, self._denials, self._loop = closed, denials, loop
        return True

    async def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        if not self._batches(call) or not self._is_here():
            return await self._direct(call)
        done = asyncio.Event()
        entered = self._enter(call, done.set)
        if isinstance(entered, Result):
            return self._counted(entered)
        if entered is None:
            return await self._direct(call)
        if entered.leads:
            self._in_background(self._lead(entered.pot))
        try:
            await done.wait()
        except asyncio.CancelledError:
            self._leave(entered)
            raise
        if isinstance(entered.answer, Exception):
            raise entered.answer
        return await self._direct(call) if entered.answer is None else self._counted(entered.answer)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lead(self, pot: _Pot) -> None:
        """Fetch batches until nobody waits."""
        worker = pot.worker
        assert worker is not None
        try:
            step = next(worker)
            while True:
                if step is None:
                    back = asyncio.Event()
                    self._back.append(back)
                    await back.wait()
                    step = next(worker)
                    continue
                try:
                    result = await self._next.decide(step)
                except Exception as error:
                    step = worker.throw(error)
                else:
                    step = worker.send(result)
        except StopIteration:
            pass
        finally:
            pot.worker = None
            for waiter in pot.waiters:  # of a task that was cancelled
                if not waiter.answered:
                    waiter.get(None)
            self._drop(pot)

    async def _direct(self, call: Call) -> Result:
        result: Result = await self._next.decide(self._handed_on(call))
        self._handed(call)
        return result

    def _schedule(self, pot: _Pot, after: float) -> None:
        if not pot.timed:
            pot.timed = True
            asyncio.get_running_loop().call_later(after, self._look, pot)

    def _look(self, pot: _Pot) -> None:
        again = self._timer(pot)
        if again is not None:
            asyncio.get_running_loop().call_later(again, self._look, pot)

    def _give_back(self, pot: _Pot, units: int) -> None:
        self._in_background(self._refund(pot, units))

    async def _refund(self, pot: _Pot, units: int) -> None:
        failed = None
        try:
            await self._next.decide(Call("refund", (pot.key,), cost=units))
        except Exception as error:
            failed = error
        self._given(pot, units)
        self._tell(failed)
        back, self._back = self._back, []
        for event in back:
            event.set()

    async def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK):
                while self._is_here():
                    for pot in list(self._pots.values()):  # what workers fetch is given back as well
                        self._end(pot, time.monotonic())
                    if not self._tasks:
                        break
                    await asyncio.wait(set(self._tasks))
        close: Callable[[], Awaitable[None]] | None = getattr(self._next, "close", None)
        if close is not None:
            await close()
