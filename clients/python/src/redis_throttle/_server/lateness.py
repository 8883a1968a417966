"""How late a loop is: for how long it could not read what had arrived, since it was busy or had no processor. A call
that had no reply in that time says nothing about the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_TICK = 0.005
_LEAST = 0.003
"""A timer is a little late by itself."""
_TURNS = 2
"""After how many turns of the loop tasks have seen what had arrived when a timer was due."""


class Lateness:
    """Measures how late the running loop is, while somebody watches."""

    def __init__(self) -> None:
        self._watchers = 0
        self._ticking = False
        self._last = 0.0  # when it ticked
        self._late = 0.0  # of all ticks

    def watch(self) -> None:
        """Begin to watch, until `unwatch`."""
        self._watchers += 1
        if not self._ticking:
            self._ticking, self._last = True, time.monotonic()
            asyncio.get_running_loop().call_later(_TICK, self._tick)

    def unwatch(self) -> None:
        """End what `watch` began."""
        self._watchers -= 1

    def clock(self) -> float:
        """Return a time, in seconds, that stands still while the loop can't read. Only differences mean something,
        while somebody watches."""
        now = time.monotonic()
        return now - self._late - (self._since(now) if self._ticking else 0.0)

    def again(self, began: float, seconds: float, look: Callable[[int], object], turn: int) -> asyncio.Handle | None:
        """Have a timer look again whether time is over that began then, or return None: it is.

        A loop that was busy finds timers in the turn in which it finds what has arrived, which tasks see in the next.
        """
        loop, left = asyncio.get_running_loop(), seconds - (self.clock() - began)
        if left >= 0.001:
            return loop.call_later(left, look, 0)
        return loop.call_soon(look, turn + 1) if turn < _TURNS else None

    def _since(self, now: float) -> float:
        return now - self._last - _TICK if now - self._last >= _TICK + _LEAST else 0.0

    def _tick(self) -> None:
        now = time.monotonic()
        self._late += self._since(now)
        self._last = now
        self._ticking = self._watchers > 0
        if self._ticking:
            asyncio.get_running_loop().call_later(_TICK, self._tick)


class Within:
    """Bounds what a task does within it, as `asyncio.timeout`, by time in which the loop could read."""

    def __init__(self, lateness: Lateness, seconds: float) -> None:
        self._lateness, self._seconds = lateness, seconds
        self._is_over = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._lateness.watch()
        self._began = self._lateness.clock()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_later(self._seconds, self._over)
        return self

    def restart(self) -> None:
        """Begin to count anew."""
        self._began = self._lateness.clock()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lateness.unwatch()
        self._timer.cancel()
        # Somebody else may have cancelled the task, too.
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _over(self, turn: int = 0) -> None:
        again = self._lateness.again(self._began, self._seconds, self._over, turn)
        if again is None:
            self._is_over = True
            self._task.cancel()
        else:
            self._timer = again
