"""How late a loop is: for how long it could not read what had arrived, since it was busy or had no processor. A call
that had no reply in that time says nothing about the server."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

_TICK = 0.005
_LEAST = 0.003
"""A timer is a little late by itself."""


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

    @property
    def seconds(self) -> float:
        """How late the loop was so far, while somebody watched. Only differences mean something."""
        return self._late + (self._since(time.monotonic()) if self._ticking else 0.0)

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
    """Bounds what is done within it, as `asyncio.timeout`, by time in which the loop could read."""

    def __init__(self, lateness: Lateness, seconds: float) -> None:
        self._lateness, self._seconds = lateness, seconds
        self._bound = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._bound.__aenter__()
        self._lateness.watch()
        self._seen = self._lateness.seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_later(self._seconds, self._over)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lateness.unwatch()
        self._timer.cancel()
        await self._bound.__aexit__(kind, error, trace)

    def _over(self) -> None:
        more = self._lateness.seconds - self._seen
        self._seen += more
        # A loop that was busy finds timers in the turn in which it finds what has arrived, which tasks see in the next.
        self._timer = self._loop.call_later(more, self._over) if more >= 0.001 else self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._bound.reschedule(self._loop.time())
