"""Tells the server of calls that were denied without it, for its CL.TOP."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from .._core.call import Call, Key
from .._core.errors import is_outage, is_overload
from .._core.forked import begun_in_children, unlocked_in_children
from .._core.result import Result
from .._core.steps import Steps, run, run_async

EVERY = 1.0
"""How often reports are sent, in seconds."""
PER_ROUND = 100
"""How many are sent at a time: a round is at most so many calls."""
MOST = 10_000
"""How many keys may wait to be reported."""
_LONGEST = 1024  # how many characters a key may have
_AT_ONCE = 10_000  # what CL.DENIED takes
UNTIL_ON = 60.0
"""How long nothing is counted after the server said that CL.TOP is off, or was out of reach."""
UNTIL_KNOWN = 3600.0
"""That time after it refused the command: its module is older, it has none, or the user has no right. Each try may be
noted in its ACL LOG."""


class Reports:
    """Counts denials by key, and tells the server in the background. Nobody waits for it, and it forgets what it cannot
    tell."""

    def __init__(self, next: Any) -> None:
        self._next = next
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")
        begun_in_children(self, lambda reports: reports._counts.clear())  # the parent reports what it has counted
        self._counts: dict[str | bytes, int] = {}  # those that were denied first are reported first
        self._silent = 0.0  # until when nothing is counted
        self._round: threading.Thread | None = None  # that is due, or under way; one that a fork has left behind is not alive

    def count(self, key: str | bytes) -> None:
        """Count a call on a key that was denied."""
        with self._lock:
            n = self._counts.get(key, 0)
            if not n and (len(self._counts) >= MOST or len(key) > _LONGEST or time.monotonic() < self._silent):
                return
            self._counts[key] = n + 1
            self._begin()

    def _begin(self) -> None:
        """See to it that a round is due. The lock is held."""
        if self._round is None or not self._round.is_alive():
            self._round = timer = threading.Timer(EVERY, self._send)
            timer.daemon = True
            timer.start()

    def _send(self) -> None:
        run(self._steps(), self._next.decide)
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._round = None
            if self._counts:
                self._begin()

    def _steps(self) -> Steps:
        """Take the steps of a round. One call follows the other."""
        for _ in range(PER_ROUND):
            with self._lock:
                if not self._counts:
                    break
                name = next(iter(self._counts))
                n = min(self._counts[name], _AT_ONCE)
                self._counts[name] -= n
                if not self._counts[name]:
                    del self._counts[name]
            try:
                result = yield Call("denied", (Key(name),), cost=n)  # type: ignore[arg-type]
            except Exception as error:
                self._forget(UNTIL_ON if is_outage(error) or is_overload(error) else UNTIL_KNOWN)
                break
            if result.granted != n:
                self._forget(UNTIL_ON)
                break
        return Result()

    def _forget(self, pause: float) -> None:
        with self._lock:
            self._counts.clear()
            self._silent = time.monotonic() + pause


class AsyncReports(Reports):
    """As `Reports`, for asyncio. A round is a task of the loop in which a call was denied."""

    def __init__(self, next: Any) -> None:
        super().__init__(next)
        self._loop: asyncio.AbstractEventLoop | None = None  # in which a round is due, or under way
        self._task: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
            self._loop.call_later(EVERY, self._send)

    def _send(self) -> None:
        if self._loop is not None:
            self._task = self._loop.create_task(self._take_round())  # a loop alone keeps no task

    async def _take_round(self) -> None:
        try:
            await run_async(self._steps(), self._next.decide)
        finally:
            with self._lock:
                self._loop = None
                if self._counts:
                    self._begin()
