"""Leases: at most so many callers at a time, in all processes together."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .call import Call, Key
from .duration import Duration, nanoseconds
from .errors import LeaseLostError, MistakeError, OutageError, OverloadError, ThrottleError

if TYPE_CHECKING:
    from .asyncio import Limiter as AsyncLimiter
    from .limiter import Limiter

_FIRST = timedelta(seconds=3)
"""How long a lease lasts at first. It is extended to its ttl in the background as soon as the holder has the reply: until then nobody
knows whether there is a holder, and a call that the server runs after its caller has left must not shut the slot for long."""

_LOST = "the lease has lapsed: its slot may be somebody else's"


class _Held:
    """What both kinds of leases know."""

    def __init__(self, key: str, slots: int, ttl: Duration, timeout: Duration | None, group: str, priority: int, id: str) -> None:
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise TypeError(f"slots must be an integer, not {slots!r}")
        ns = nanoseconds(ttl, "ttl")
        if ns < 1_000_000:
            raise ValueError(f"ttl: {ttl!r} is shorter than a millisecond")
        self.key, self.id = key, id or uuid.uuid4().hex
        self.ttl = timedelta(microseconds=ns // 1000)
        self.first = min(self.ttl, _FIRST)
        self.until = -math.inf
        self._call = Call("lease", (Key(key, slots=slots, ttl=self.first, leased=True),), max_wait=timeout, group=group,
                          priority=priority, id=self.id)

    @property
    def lost(self) -> bool:
        """Whether somebody else may have the slot."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise a `LeaseLostError` if somebody else may have the slot. Call it between the steps of the work."""
        if self.lost:
            raise LeaseLostError(_LOST)

    def _granted(self, sent: float, wait: timedelta) -> None:
        # The ttl begins when the slot is granted: after the wait, which was rounded up.
        began = sent + max(wait.total_seconds() - 0.001, 0)
        self._believe(began, self.first)

    def _believe(self, began: float, ttl: timedelta) -> None:
        """Set until when the holder takes the lease for its own: a little less, since timers of a busy process are late."""
        self.until = began + ttl.total_seconds() * 0.95


class Lease(_Held):
    """A slot that is held until it is released. It renews itself in a thread, three times within `ttl`.

        with limiter.lease("reports", slots=3, ttl="1m", timeout="10s") as lease:
            for page in pages:
                lease.check()   # stop when the lease was lost
                work(page)

    `ttl` is after which time the slot of a process that has died is free. `timeout` is how long to wait for a slot; without it
    the answer comes at once. If no slot is free, entering raises a `LimitedError`. `group` and `priority` say which of the
    callers that wait comes first. In an outage at the end, the slot is free after `ttl`.

    If the lease was lost, the `with` raises a `LeaseLostError` at its end, unless the work raised an error itself.
    """

    def __init__(self, limiter: Limiter, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "",
                 priority: int = 0, id: str = "") -> None:
        super().__init__(key, slots, ttl, timeout, group, priority, id)
        self._limiter = limiter
        self._ended = threading.Event()
        self._ended.set()
        self._lock = threading.Lock()

    def take(self) -> Lease:
        """Take the slot, or raise a `LimitedError`. `release` gives it back."""
        sent = time.monotonic()
        try:
            result = self._limiter.decide(self._call)
        except BaseException as error:
            # The server may have granted it all the same, unless it said itself what is wrong.
            if not isinstance(error, (ThrottleError, ValueError, TypeError)) or isinstance(error, OutageError):
                threading.Thread(target=self._abandon, name="throttle-abandon", daemon=True).start()
            raise
        result.raise_if_limited()
        self._granted(sent, result.wait)
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
                result = self._limiter.renew(self.key, id=self.id, ttl=self.ttl)
            except ThrottleError:
                pause = lasts / 10  # until the lease lapses
                continue
            if result.limited:
                self.until = -math.inf
                return
            lasts, pause = self.ttl, self.ttl / 3
            if not self._extend(sent):
                return

    def _abandon(self) -> None:
        """Give back a slot that the server may grant yet. One that stood still runs what it finds in its sockets in any order."""
        ends, pause, none = time.monotonic() + self.first.total_seconds() + 5, 0.05, 0
        while none < 2 and time.monotonic() < ends:
            try:
                if self._limiter.release(self.key, id=self.id):
                    return
                none += 1
            except ThrottleError:
                pass
            time.sleep(pause)
            pause = min(pause * 2, 5)

    def _extend(self, sent: float) -> bool:
        """Believe in the lease for its ttl from now on, unless it was released meanwhile."""
        with self._lock:
            if self._ended.is_set():
                return False
            self._believe(sent, self.ttl)
            return True

    def release(self) -> None:
        """Give the slot back. If the server is away, the slot is free after `ttl`. In an overload it is tried again until then."""
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
            until, self.until = self.until, -math.inf
        try:
            self._limiter.release(self.key, id=self.id)
        except OutageError:
            pass
        except MistakeError:
            raise
        except BaseException as error:  # an overload, or a caller that is interrupted
            threading.Thread(target=self._release_later, args=(until,), name="throttle-release", daemon=True).start()
            if not isinstance(error, OverloadError):
                raise

    def _release_later(self, until: float) -> None:
        pause = 0.05
        while time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 2, 1)
            with contextlib.suppress(OverloadError):
                with contextlib.suppress(OutageError, MistakeError):
                    self._limiter.release(self.key, id=self.id)
                return

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

    If the lease is lost, the work is cancelled, and the `async with` raises a `LeaseLostError`. See `Lease` for the arguments.
    """

    def __init__(self, limiter: AsyncLimiter, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "",
                 priority: int = 0, id: str = "") -> None:
        super().__init__(key, slots, ttl, timeout, group, priority, id)
        self._limiter = limiter
        self._ended: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._holder: asyncio.Task[object] | None = None
        self._cancelled = False

    async def take(self) -> AsyncLease:
        """Take the slot, or raise a `LimitedError`. `release` gives it back. Losing the lease then cancels nothing: `check` it."""
        sent = time.monotonic()
        try:
            result = await self._limiter.decide(self._call)
        except BaseException as error:
            if not isinstance(error, (ThrottleError, ValueError, TypeError)) or isinstance(error, OutageError):
                self._in_background(self._abandon())
            raise
        result.raise_if_limited()
        self._granted(sent, result.wait)
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
                result = await asyncio.wait_for(self._limiter.renew(self.key, id=self.id, ttl=self.ttl), left)
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
        self.until = -math.inf
        if self._holder is not None:
            self._cancelled = True
            self._holder.cancel()

    async def _abandon(self) -> None:
        ends, pause, none = time.monotonic() + self.first.total_seconds() + 5, 0.05, 0
        while none < 2 and time.monotonic() < ends:
            try:
                if await self._limiter.release(self.key, id=self.id):
                    return
                none += 1
            except ThrottleError:
                pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5)

    async def release(self) -> None:
        """Give the slot back. If the server is away, the slot is free after `ttl`. In an overload it is tried again until then."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        ended.set()  # a renewal on its way finds no lease; cancelling it would close its connection
        until, self.until = self.until, -math.inf
        try:
            await self._limiter.release(self.key, id=self.id)
        except OutageError:
            pass
        except MistakeError:
            raise
        except BaseException as error:  # an overload, or a caller that is cancelled
            self._in_background(self._release_later(until))
            if not isinstance(error, OverloadError):
                raise

    async def _release_later(self, until: float) -> None:
        pause = 0.05
        while time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1)
            with contextlib.suppress(OverloadError):
                with contextlib.suppress(OutageError, MistakeError):
                    await self._limiter.release(self.key, id=self.id)
                return

    async def __aenter__(self) -> AsyncLease:
        await self.take()
        self._holder = asyncio.current_task()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        holder, self._holder = self._holder, None
        lost = self._cancelled
        # Only our own cancellation turns into LeaseLostError; one from outside goes on.
        ours = lost and holder is not None and holder.uncancel() == 0
        await self.release()
        if ours and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise LeaseLostError(_LOST)
