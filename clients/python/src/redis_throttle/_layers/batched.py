"""Units that are taken from the server by the batch, for keys with thousands of calls a second."""

from __future__ import annotations

import asyncio
import sched
import threading
import time
from collections.abc import Callable, Generator, Hashable
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from .._core.call import Call, Key
from .._core.duration import Duration, seconds
from .._core.forked import begun_in_children
from .._core.limit import Limit
from .._core.result import ZERO, Result
from .._core.steps import Steps, run, run_async
from .._core.undecided import log
from .._core.verbs import AsyncDecider, Decider
from .cached import Remembering
from .layer import AsyncLayer, Layer, check_counts
from .reports import AsyncReports

_GIVE_BACK = 1.0
"""How long units are worth giving back, in seconds."""
_REPORTED = 0.001
"""How far a time in a result is rounded up, in seconds."""
_SPARES = ("limit", "peek", "wait")
"""The verbs that ask for units which may be held by others."""
_options = attrgetter(*(field.name for field in fields(Call) if field.name not in ("verb", "keys", "cost")))
_PLAIN = _options(Call("limit", (Key(""),)))

Behind = TypeVar("Behind", Decider, AsyncDecider)
Waiting = Generator[Any, Any, Any]
"""Steps each of which is a call to send, or an event to wait for."""


class _Pot:
    """The units of one key and its limits."""

    def __init__(self, id: Hashable, key: Key, asked: Key) -> None:
        self.id, self.key, self.asked = id, key, asked
        self.fixed = len(key.limits) == 1 and key.limits[0].kind == "FIXED"
        self.units = self.used = self.giving = 0  # to hand out; handed out since the last batch came; being given back
        self.until = self.counted = 0.0  # when the units end; until when the server counts them
        self.passed_by = 0.0  # until when calls go to the decider behind
        self.batch, self.came = Result(), 0.0  # what the last batch came with, and when
        self.size = 1  # of the next batch
        self.waiters: list[_Waiter] = []  # in order of arrival: the first fetches, unless a task does
        self.has_task = self.has_timer = False

    def take(self, units: int, now: float, by: Any = "batch") -> Result:
        """Hand out units that are there."""
        self.units -= units
        self.used += units
        passed = timedelta(seconds=max(now - self.came, 0))
        reset = max(self.batch.reset_after - passed, ZERO)
        following = max(self.batch.next_after - passed, min(timedelta(seconds=_REPORTED), reset))
        remaining = min(self.batch.remaining + self.units, self.batch.limit)
        return replace(self.batch, reset_after=reset, next_after=following, remaining=remaining, granted=units, by=by)

    def serve(self, first: _Waiter, now: float) -> None:
        """Hand out units in order of arrival. The caller that they were fetched for gets them even if they have ended
        meanwhile."""
        for waiter in self.waiters:
            if not waiter.done and self.units >= waiter.units and (waiter is first or waiter.came < self.until):
                waiter.get(self.take(waiter.units, now, "server" if waiter is first else "batch"))

    def tidy(self) -> list[_Waiter]:
        """Drop the callers that have their answers or have left, and return who waits yet."""
        self.waiters = [waiter for waiter in self.waiters if not waiter.done]
        return self.waiters


class _Waiter:
    """A call that waits for a batch. Its event says that it has its answer, or is the first, or has to look again."""

    def __init__(self, pot: _Pot, units: int, came: float, event: Any) -> None:
        self.pot, self.units, self.came, self.event = pot, units, came, event
        self.exact = False  # a batch did not do: only the server knows when its units can be had
        self.done = False  # it has its answer, or has left
        self.answer: Result | Exception | None = None  # with None it asks the decider behind by itself

    def get(self, answer: Result | Exception | None) -> None:
        """Answer it, if it waits yet."""
        if not self.done:
            self.done, self.answer = True, answer
            self.event.set()

    def wait(self) -> Waiting:
        """Wait for the event."""
        yield self.event
        self.event.clear()


class _Batching(Remembering, Generic[Behind]):
    """What both kinds share: the pots, and the steps of a call. `_lock` guards the pots, and is held by no step."""

    _event: Callable[[], Any]

    def __init__(self, next: Behind, *, units: int = 100, max_age: Duration = "100ms", processes: int | None = None, keys: int = 10_000,
                 denial_age: Duration = "10s", on_error: Callable[[Exception], object] | None = None) -> None:
        check_counts(units=units, processes=1 if processes is None else processes, keys=keys)
        self._units, self._most, self._on_error = units, keys, on_error
        self._max_age = seconds(max_age, "max_age")
        self._reserve = units * (processes or 0)
        self._closed = False
        super().__init__(next, keys, seconds(denial_age, "denial_age"))
        self._begin()
        begun_in_children(self, type(self)._begin)  # what is held is the parent's

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a call that is collected while it is held leaves, too
        self._pots: dict[Hashable, _Pot] = {}

    def _is_here(self) -> bool:
        """Whether calls of the running thread or loop are batched."""
        return True

    def _batches(self, call: Call) -> bool:
        """Whether units of a batch serve for a call."""
        limits = call.keys[0].limits
        return (call.verb == "limit" and _options(call) == _PLAIN and 1 <= call.cost <= self._units and bool(limits)
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

    def _steps(self, call: Call) -> Generator[Any, Any, Result]:
        """Hand out units of a batch, and fetch one when there are too few."""
        answer: Any = None
        if self._batches(call) and self._is_here():
            with self._lock:
                answer = self._enter(call)
            if isinstance(answer, _Waiter):
                answer = yield from self._wait(answer)
        if answer is None:
            return (yield from self._hand_on(call))
        if isinstance(answer, Exception):
            raise answer
        if answer.limited and answer.by == "cache":
            self._reports.count(answer.key)
        return answer  # type: ignore[no-any-return]

    def _enter(self, call: Call) -> Result | _Waiter | None:
        """Answer a call at once, or return what waits for a batch, or None to ask the decider behind."""
        now, key, units = time.monotonic(), call.keys[0], call.cost
        id = (key.name, tuple(limit.words for limit in key.limits))
        pot = self._pots.get(id)
        if pot is not None:
            if self._closed or now < pot.passed_by:
                return None
            self._end(pot, now)
            if pot.units >= units:
                return pot.take(units, now)
        denied = self._denials.recall((id, units - (pot.units if pot else 0)), call.keys)
        if denied is not None:
            return denied
        if pot is None:
            if self._closed or len(self._pots) >= self._most:
                return None
            pot = self._pots[id] = _Pot(id, key, replace(key, limits=self._spared(key.limits)))
        waiter = _Waiter(pot, units, now, self._event())
        pot.waiters.append(waiter)
        return waiter

    def _wait(self, mine: _Waiter) -> Waiting:
        """Wait for an answer. The first in line fetches batches until it has its own."""
        pot = mine.pot
        try:
            while not mine.done:
                with self._lock:
                    leads = not pot.has_task and pot.waiters[:1] == [mine]
                yield from self._fetch(pot) if leads else mine.wait()
            return mine.answer
        except BaseException:
            self._leave(mine)
            raise
        finally:
            with self._lock:
                if not pot.has_task and pot.waiters[:1] == [mine]:
                    for following in pot.tidy()[:1]:
                        following.event.set()
                    self._look(pot)

    def _leave(self, waiter: _Waiter) -> None:
        """Note that a caller has left. Units that it got at the same moment go back."""
        with self._lock:
            waiter.done, answer = True, waiter.answer
            if isinstance(answer, Result) and not answer.limited and answer.by in ("server", "batch"):
                waiter.pot.units += waiter.units
                waiter.pot.used -= waiter.units
                self._end(waiter.pot, time.monotonic())

    def _fetch(self, pot: _Pot) -> Waiting:
        """Ask the server once, and answer those who wait, or wait until units were given back."""
        with self._lock:
            first, asked = pot.tidy()[0], time.monotonic()
            self._end(pot, asked)
            need, room = first.units - pot.units, self._units - pot.units - pot.giving  # what is being given back counts as held
            n = min(max(pot.size, sum(waiter.units for waiter in pot.waiters) - pot.units), room)
            up_to = n >= need and not first.exact
            if need < 1:
                return pot.serve(first, asked)
        if need > room:
            return (yield from first.wait())
        result: Any
        try:
            result = yield Call("limit", (pot.asked,), cost=n if up_to else need, charge="up_to" if up_to else None)
        except Exception as error:
            result = error
        with self._lock:
            now, first.exact = time.monotonic(), up_to
            if isinstance(result, Exception):
                for waiter in pot.waiters:
                    waiter.get(result)
            elif result.by != "server":
                self._pass_by(pot, first, result, now)
            elif not result.limited:
                self._add(pot, result, asked, now)
                pot.serve(first, now)
            elif need == 1 or not up_to:
                self._denials.remember((pot.id, need), result, asked)
                self._deny(pot, first, result, asked)
            self._look(pot)

    def _deny(self, pot: _Pot, first: _Waiter, result: Result, asked: float) -> None:
        """Answer a caller that was limited, and all that ask for as much and came before there were units again."""
        first.get(result)
        after = None if result.retry_after is None else result.retry_after.total_seconds()
        for waiter in pot.waiters:
            if waiter.units == first.units and (not after or waiter.came < asked + after):
                waiter.get(replace(result, by="cache"))

    def _pass_by(self, pot: _Pot, first: _Waiter, result: Result, now: float) -> None:
        """Answer the first by what was decided without the server, and send all others to the decider behind for a
        while: units that the server does not know of are not kept."""
        pot.passed_by, pot.size = now + self._max_age, 1
        if result.limited or result.by != "local" or result.granted >= first.units:
            first.get(replace(result, granted=min(result.granted, first.units)))
        for waiter in pot.waiters:
            waiter.get(None)

    def _add(self, pot: _Pot, batch: Result, asked: float, now: float) -> None:
        """Put a batch into the pot."""
        self._end(pot, now)
        counted = asked + batch.reset_after.total_seconds() - _REPORTED
        until = min(asked + self._max_age, counted) if pot.fixed else asked + self._max_age
        pot.until, pot.counted = (min(pot.until, until), min(pot.counted, counted)) if pot.units else (until, counted)
        pot.size = min(2 * pot.size, self._units)
        pot.units += batch.granted
        pot.used, pot.batch, pot.came = 0, batch, now

    def _end(self, pot: _Pot, now: float) -> None:
        """Take units that are too old out of the pot, and give them back where the server still counts them."""
        units = pot.units
        if units and now >= pot.until:
            pot.units, pot.size = 0, max(pot.used, 1)
            if now < pot.counted:
                pot.giving += units
                self._run(self._refund(pot, units))

    def _refund(self, pot: _Pot, units: int) -> Waiting:
        failed = None
        try:
            yield Call("refund", (pot.key,), cost=units)
        except Exception as error:
            failed = error
        finally:
            with self._lock:
                pot.giving -= units
                for first in pot.waiters[:1]:  # it may wait for this
                    first.event.set()
                self._look(pot)
        if failed is not None and self._on_error is not None:
            try:
                self._on_error(failed)
            except Exception:
                log.exception("on_error of a Batched has failed")

    def _look(self, pot: _Pot) -> None:
        """End what is too old, look again when the rest is, and forget a pot that nobody needs. The lock is held."""
        now = time.monotonic()
        self._end(pot, now)
        left = max(pot.until, pot.passed_by) - now
        if left > 0 and not pot.has_timer:
            pot.has_timer = True
            self._later(left, partial(self._ring, pot))
        elif left <= 0 and not (pot.units or pot.giving or pot.waiters) and self._pots.get(pot.id) is pot:
            del self._pots[pot.id]

    def _ring(self, pot: _Pot) -> None:
        with self._lock:
            pot.has_timer = False
            self._look(pot)

    def _closing(self) -> Generator[float, None, None]:
        """End all units, and yield pauses while some are being fetched, which are to end as well, or given back."""
        self._closed, ends = True, time.monotonic() + _GIVE_BACK
        while self._is_here():
            with self._lock:
                for pot in self._pots.values():
                    pot.until = 0.0
                    self._end(pot, time.monotonic())
                if time.monotonic() >= ends or not any(pot.giving or pot.waiters for pot in self._pots.values()):
                    return
            yield 0.005

    def _later(self, after: float, work: Callable[[], None]) -> None:
        raise NotImplementedError

    def _run(self, steps: Waiting) -> None:
        """Take steps in the background. The lock is held."""
        raise NotImplementedError


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

    _event = threading.Event

    def _begin(self) -> None:
        super()._begin()
        self._due = sched.scheduler(time.monotonic, self._pause)
        self._added = threading.Event()
        self._is_kept = False

    def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        return run(self._steps(call), self._step)

    def _step(self, step: Any) -> Any:
        return self._next.decide(step) if isinstance(step, Call) else step.wait()

    def _later(self, after: float, work: Callable[[], None]) -> None:
        self._due.enter(after, 0, work)
        self._added.set()
        if not self._is_kept:
            threading.Thread(target=self._keep, name="throttle-batched", daemon=True).start()
            self._is_kept = True

    def _pause(self, seconds: float) -> None:
        self._added.wait(seconds)
        self._added.clear()

    def _keep(self) -> None:
        """Run what is due, and end when nothing is."""
        while True:
            self._due.run()
            with self._lock:
                if self._due.empty():
                    self._is_kept = False
                    return

    def _run(self, steps: Waiting) -> None:
        self._later(0, partial(run, steps, self._step))

    def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        for pause in self._closing():
            time.sleep(pause)
        super().close()


class AsyncBatched(_Batching[AsyncDecider], AsyncLayer):
    """As `redis_throttle.Batched`, for asyncio.

    It batches in one loop at a time: calls of another one that runs meanwhile go on one by one. When its loop is
    closed, what it holds stays charged, and the next loop begins with nothing.
    """

    _reporting = AsyncReports
    _event = asyncio.Event

    def _begin(self) -> None:
        super()._begin()
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._loop: asyncio.AbstractEventLoop | None = None

    def _is_here(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                return False
            self._begin()
            self._loop = loop
        return True

    async def decide(self, call: Call, /) -> Result:
        """Hand out units of a batch, and fetch one when there are too few."""
        return await run_async(self._steps(call), self._step)

    async def _step(self, step: Any) -> Any:
        return await (self._next.decide(step) if isinstance(step, Call) else step.wait())

    def _enter(self, call: Call) -> Result | _Waiter | None:
        answer = super()._enter(call)
        if isinstance(answer, _Waiter) and not answer.pot.has_task:
            answer.pot.has_task = True
            self._run(self._lead(answer.pot))
        return answer

    def _lead(self, pot: _Pot) -> Waiting:
        """Fetch batches until nobody waits, also for callers that leave."""
        try:
            while pot.tidy():
                yield from self._fetch(pot)
        finally:
            with self._lock:
                pot.has_task = False
                for waiter in pot.waiters:  # of a task that was cancelled
                    waiter.get(None)
                pot.tidy()
                self._look(pot)

    def _later(self, after: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(after, work)

    def _run(self, steps: Waiting) -> None:
        # Made by hand, as no task factory begins it at once: the lock is held.
        task = asyncio.Task(run_async(steps, self._step), loop=asyncio.get_running_loop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give back what is left, then close the decider behind. Later calls go to it."""
        for pause in self._closing():
            await asyncio.sleep(pause)
        await super().close()
