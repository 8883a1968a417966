"""Remembered denials, so that a caller that keeps asking while it is limited costs the server nothing."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, replace
from datetime import timedelta

from .._core.call import Call, Key
from .._core.duration import Duration, seconds
from .._core.forked import unlocked_in_children
from .._core.result import ZERO, Result
from .._core.steps import Steps, run, run_async
from .._core.verbs import AsyncDecider, Decider
from .layer import AsyncLayer, Layer, behind, check_counts
from .reports import AsyncReports, Reports

_GIVES_BACK = ("refund", "ban", "settle", "reset")
_KNOWN = {"verb", "keys", "cost", "charge", "any", "ban", "max_wait", "group", "weight", "priority", "id", "each", "several"}
_UNKNOWN = tuple(field for field in fields(Call) if field.name not in _KNOWN)
"""Options of which nobody knows here whether a denial holds with them: such a call is handed on."""


def id_of(call: Call) -> bytes:
    """Return what is the same for calls with the same verb, keys, limits, cost and options, however long the keys."""
    return hashlib.blake2b(repr((call.words(), call.each)).encode("utf-8", "backslashreplace"), digest_size=20).digest()


def has_unknown(call: Call) -> bool:
    """Whether a call has an option that came later than the layers before a decider."""
    return any(getattr(call, field.name) != field.default for field in _UNKNOWN)


class Denials:
    """The last denials, by call. They are safe for use by several threads."""

    def __init__(self, most: int, max_age: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._max_age, self._clock = most, max_age, clock
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")
        self._by_call: OrderedDict[Hashable, tuple[Result, float, float, float]] = OrderedDict()
        self._forgotten: OrderedDict[str, float] = OrderedDict()
        self._forgotten_all = -1.0

    def __len__(self) -> int:
        return len(self._by_call)

    def now(self) -> float:
        """Return the time, in seconds."""
        return self._clock()

    def remember(self, id: Hashable, result: Result, asked: float) -> None:
        """Keep the server's denial of a call that was asked then."""
        if not result.limited or result.by != "server" or not result.retry_after:
            return
        until = asked + min(result.retry_after.total_seconds(), self._max_age)
        with self._lock:
            self._by_call[id] = (replace(result, by="cache"), asked, self._clock(), until)
            self._by_call.move_to_end(id)
            while len(self._by_call) > self._most:
                self._by_call.popitem(last=False)

    def recall(self, id: Hashable, keys: Iterable[Key]) -> Result | None:
        """Return the denial of a call, counted down, if it is remembered and still holds."""
        with self._lock:
            found = self._by_call.get(id)
            if found is None:
                return None
            result, asked, answered, until = found
            now = self._clock()
            if now >= until or asked <= self._forgotten_all or any(asked <= self._forgotten.get(_short(key.name), -1.0) for key in keys):
                del self._by_call[id]
                return None
            self._by_call.move_to_end(id)
        return _after(result, timedelta(seconds=max(now - answered, 0)))

    def forget(self, name: str) -> None:
        """Drop all denials of calls on a key that were asked by now, also those that are still on their way here."""
        with self._lock:
            self._forgotten[_short(name)] = self._clock()
            self._forgotten.move_to_end(_short(name))
            while len(self._forgotten) > self._most:  # too many keys to tell which: everything of that time goes
                self._forgotten_all = max(self._forgotten_all, self._forgotten.popitem(last=False)[1])


def _short(name: str) -> str:
    return name if len(name) <= 64 else hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def _after(result: Result, passed: timedelta) -> Result:
    """Return a denial as it reads when time has passed."""
    retry = max((result.retry_after or ZERO) - passed, ZERO)
    following = result.next_after - passed
    each = tuple(replace(one, retry_after=one.retry_after if one.retry_after is None else max(one.retry_after - passed, ZERO),
                         reset_after=max(one.reset_after - passed, ZERO)) for one in result.each)
    # A unit has come where nothing is left of next_after; by the end of retry_after another one has, at the latest.
    return replace(result, retry_after=retry, reset_after=max(result.reset_after - passed, ZERO),
                   next_after=following if following > ZERO else retry, each=each)


class Remembering:
    """Remembers denials, and reports those that it answers."""

    _reporting: type[Reports] = Reports

    def __init__(self, next: object, denials: int, max_age: float) -> None:
        self._next = behind(next)
        self._reports = self._reporting(next)
        self._denials = Denials(denials, max_age)

    def forget(self, key: str) -> None:
        """Forget the denials of all calls on a key, such as after a refund in another process."""
        self._denials.forget(key)

    def _hand_on(self, call: Call) -> Steps:
        """Send a call of which nothing is remembered."""
        try:
            return (yield call)
        finally:
            if call.verb in _GIVES_BACK:
                for key in call.keys:
                    self.forget(key.name)


class _Caching(Remembering):
    """What the caches for threads and for asyncio share."""

    def __init__(self, next: object, denials: int, max_age: Duration) -> None:
        check_counts(denials=denials)
        super().__init__(next, denials, seconds(max_age, "max_age"))

    def _steps(self, call: Call) -> Steps:
        if not _rememberable(call):
            return (yield from self._hand_on(call))
        asked = self._denials.now()
        if len(self._denials):  # to hash a call takes longer than to look its denial up
            remembered = self._denials.recall(id_of(call), call.keys)
            if remembered is not None:
                self._reports.count(remembered.key)
                return remembered
        result = yield call
        if result.limited:
            self._denials.remember(id_of(call), result, asked)
        return result


def _rememberable(call: Call) -> bool:
    """Whether a denial of a call holds until its retry_after."""
    return (call.verb == "limit" and call.charge in (None, "up_to") and not call.id and not any(key.leased for key in call.keys) and not has_unknown(call))


class Cached(_Caching, Layer):
    """Remembers denials, and answers the same call itself until its `retry_after` is over, or `max_age`.

        limiter = Limiter(Cached(Guard(Remote(client))))

    Two calls are the same if they have the same keys, limits, cost and options. Only denials by the server are
    remembered. Allowed calls, errors, denials that no waiting ends, all verbs but `limit`, and calls that charge a
    denied call or take slots go to the server. `Result.by` is `"cache"` then, and its times are counted down.

    A refund, a ban, a reset and a settlement that pass through make it forget their keys. Of those in other processes
    it learns nothing until `max_age` is over (10 s): it may be too strict for that long. `forget` helps where you know
    better. `denials` is how many are remembered at most; those used least recently are forgotten. The server is told of
    the denials that it answers, for its CL.TOP.

    Put it before a `Guard`, so that remembered denials hold during an outage, too.
    """

    def __init__(self, next: Decider, *, denials: int = 10_000, max_age: Duration = "10s") -> None:
        super().__init__(next, denials, max_age)

    def decide(self, call: Call, /) -> Result:
        """Answer a call whose denial is remembered, and hand on any other."""
        return run(self._steps(call), self._next.decide)


class AsyncCached(_Caching, AsyncLayer):
    """As `redis_throttle.Cached`, for asyncio."""

    _reporting = AsyncReports

    def __init__(self, next: AsyncDecider, *, denials: int = 10_000, max_age: Duration = "10s") -> None:
        super().__init__(next, denials, max_age)

    async def decide(self, call: Call, /) -> Result:
        """Answer a call whose denial is remembered, and hand on any other."""
        return await run_async(self._steps(call), self._next.decide)
