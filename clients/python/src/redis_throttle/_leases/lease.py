"""Leases: at most so many callers at a time, in all processes together."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Coroutine
from datetime import timedelta
from typing import Any

from .._core.call import Call, Key
from .._core.duration import Duration, nanoseconds
from .._core.errors import LeaseLostError, ThrottleError
from .._core.result import Result
from .._core.steps import run, run_async
from .later import AsyncHome, Home, giving_back, taking

_FIRST = timedelta(seconds=3)
"""How long a lease lasts at first. It is extended to its ttl in the background as soon as the holder has the reply:
until then nobody knows whether there is a holder, and a call that the server runs after its caller has left must not
shut the slot for long."""

_LOST = "the lease has lapsed: its slot may be somebody else's"


class _Held:
    """What both kinds of leases know."""

    def __init__(self, key: str, slots: int, ttl: Duration, timeout: Duration | None, group: str, weight: int, priority: int,
                 id: str) -> None:
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise TypeError(f"slots must be an integer, not {slots!r}")
        ns = nanoseconds(ttl, "ttl")
        if ns < 1_000_000:
            raise ValueError(f"ttl: {ttl!r} is shorter than a millisecond")
        self.key: str = key
        self.id: str = id or uuid.uuid4().hex
        self.ttl: timedelta = timedelta(microseconds=ns // 1000)
        self.first: timedelta = min(self.ttl, _FIRST)
        self.until: float = -math.inf
        self._lapses: float = -math.inf
        self._renewal = Call("renew", (Key(key, ttl=self.ttl),), id=self.id)
        self._call = Call("lease", (Key(key, slots=slots, ttl=self.first, leased=True),), max_wait=timeout, group=group,
                          weight=weight, priority=priority, id=self.id)

    @property
    def lost(self) -> bool:
        """Whether somebody else may have the slot."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise a `LeaseLostError` if somebody else may have the slot. Call it between the steps of the work."""
        if self.lost:
            raise LeaseLostError(_LOST)

    def _took(self, result: Result, sent: float) -> bool:
        """Return whether there is something to renew and to give back. No server knows of a caller that the policy of
        an outage let in."""
        if result.raise_if_limited().by == "policy":
            self.until = self._lapses = math.inf
            return False
        # The ttl begins when the slot is granted: after the wait, which was rounded up.
        self._believe(sent + max(result.wait.total_seconds() - 0.001, 0), self.first)
        return True

    def _believe_no_more(self) -> None:
        self.until = self._lapses = -math.inf

    def _believe(self, began: float, ttl: timedelta) -> None:
        """Set until when the holder takes the lease for its own: a little less, since timers of a busy process are
        late."""
        self._lapses = began + ttl.total_seconds()
        self.until = began + ttl.total_seconds() * 0.95

    def _give_back(self) -> Call:
        return Call("release", (Key(self.key),), id=self.id)


class Lease(_Held):
    """A slot that is held until it is released. It renews itself in a thread, three times within `ttl`.

        with limiter.lease("reports", slots=3, ttl="1m", timeout="10s") as lease:
            for page in pages:
                lease.check()   # stop when the lease was lost
                work(page)

    `ttl` is after which time the slot of a process that has died is free. `timeout` is how long to wait for a slot;
    without it the answer comes at once. If no slot is free, entering raises a `LimitedError`. `group` with its
    `weight`, and `priority`, say which of the callers that wait comes first. If its release meets an outage or an
    overload, it is repeated in the background until the lease lapses: after `ttl` the slot is free anyway.

    If the lease was lost, the `with` raises a `LeaseLostError` at its end, unless the work raised an error itself.
    """

    def __init__(self, limiter: Home, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "",
                 weight: int = 1, priority: int = 0, id: str = "") -> None:
        super().__init__(key, slots, ttl, timeout, group, weight, priority, id)
        self._limiter = limiter
        self._ended = threading.Event()
        self._ended.set()
        self._lock = threading.Lock()

    def take(self) -> Lease:
        """Take the slot, or raise a `LimitedError`. `release` gives it back."""
        undo, later = self._give_back(), self._limiter._later
        later.forget(undo)  # what an earlier try with this id left to be released
        sent = time.monotonic()
        if self._took(run(taking(self._call, undo, later, self.first.total_seconds()), self._limiter.decide), sent):
            self._ended.clear()
            threading.Thread(target=self._renew, name="throttle-renew", daemon=True).start()
        return self

    def _renew(self) -> None:
        lasts = self.first
        pause = timedelta(0) if self.ttl > lasts else lasts / 3
        while not self._ended.wait(pause.total_seconds()):
            sent = time.monotonic()
            if sent >= self.until:
                return
            try:
                result = self._limiter.decide(self._renewal)
            except ThrottleError:
                pause = lasts / 10  # until the lease lapses
                continue
            if result.limited:
                self._believe_no_more()
                return
            lasts, pause = self.ttl, self.ttl / 3
            if not self._extend(sent):
                return

    def _extend(self, sent: float) -> bool:
        """Believe in the lease for its ttl from now on, unless it was released meanwhile."""
        with self._lock:
            if self._ended.is_set():
                return False
            self._believe(sent, self.ttl)
            return True

    def release(self) -> None:
        """Give the slot back. If that meets an outage or an overload, it goes on in the background until the lease
        lapses."""
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
            lapses = self._lapses
            self._believe_no_more()
        run(giving_back(self._give_back(), self._limiter._later, lapses), self._limiter.decide)

    def __enter__(self) -> Lease:
        return self.take()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        lost = self.lost and not self._ended.is_set()
        self.release()
        if lost and kind is None:
            raise LeaseLostError(_LOST)


class AsyncLease(_Held):
    """A slot that is held until it is released. It renews itself in a task, three times within `ttl`.

        async with limiter.lease("reports", slots=3, ttl="1m", timeout="10s"):
            await work()

    If the lease is lost, the work is cancelled, and the `async with` raises a `LeaseLostError`. See `Lease` for the
    arguments.
    """

    def __init__(self, limiter: AsyncHome, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "",
                 weight: int = 1, priority: int = 0, id: str = "") -> None:
        super().__init__(key, slots, ttl, timeout, group, weight, priority, id)
        self._limiter = limiter
        self._ended: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._holder: asyncio.Task[object] | None = None
        self._cancelled = False

    async def take(self) -> AsyncLease:
        """Take the slot, or raise a `LimitedError`. `release` gives it back. Losing the lease then cancels nothing:
        `check` it."""
        undo, later = self._give_back(), self._limiter._later
        await later.forget(undo)
        sent = time.monotonic()
        if self._took(await run_async(taking(self._call, undo, later, self.first.total_seconds()), self._limiter.decide), sent):
            self._ended = asyncio.Event()
            self._in_background(self._renew(self._ended))
        return self

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew(self, ended: asyncio.Event) -> None:
        lasts = self.first
        pause = timedelta(0) if self.ttl > lasts else lasts / 3
        while True:
            left = self.until - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), min(pause.total_seconds(), left))
            if ended.is_set():
                return
            sent = time.monotonic()
            left = self.until - sent
            if left <= 0:
                break
            try:
                result = await asyncio.wait_for(self._limiter.decide(self._renewal), left)
            except (TimeoutError, ThrottleError):
                pause = lasts / 10
                continue
            if ended.is_set():
                return
            if result.limited:
                break
            lasts, pause = self.ttl, self.ttl / 3
            self._believe(sent, lasts)
        if ended.is_set():
            return
        self._believe_no_more()
        if self._holder is not None:
            self._cancelled = True
            self._holder.cancel()

    async def release(self) -> None:
        """Give the slot back. If that meets an outage or an overload, it goes on in the background until the lease
        lapses."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        ended.set()  # a renewal on its way finds no lease; cancelling it would close its connection
        lapses = self._lapses
        self._believe_no_more()
        await run_async(giving_back(self._give_back(), self._limiter._later, lapses), self._limiter.decide)

    async def __aenter__(self) -> AsyncLease:
        await self.take()
        self._holder = asyncio.current_task()
        return self

    @contextlib.asynccontextmanager
    async def _held(self) -> AsyncGenerator[AsyncLease]:
        """Hold a lease that was taken already, as `async with` holds one that it takes."""
        self._holder = asyncio.current_task()
        try:
            yield self
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        await self.__aexit__(None, None, None)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        holder, self._holder = self._holder, None
        lost = self._cancelled
        # Only our own cancellation turns into LeaseLostError; one from outside goes on.
        ours = lost and holder is not None and holder.uncancel() == 0
        await self.release()
        if ours and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise LeaseLostError(_LOST)
