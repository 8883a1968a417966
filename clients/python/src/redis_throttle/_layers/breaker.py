"""A circuit breaker: after a few failures a server is left alone, and from time to time one call tries it.

Its rules are those of the Go client, which has gobreaker; spec/clients/breaker.json holds both to them. The packages
for Python that were looked at count only failures in a row, or have no asyncio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from .._core.forked import unlocked_in_children

Outcome = Literal["success", "failure"] | None
"""How a call went that was let through; None says nothing about the server."""
State = Literal["closed", "open", "half-open"]

WINDOW = 10.0
"""For how long failures are counted together that are not in a row, in seconds."""


class Breaker:
    """Whether a server is left alone. It is safe for use by several threads, and never waits.

    It opens after `failures` failures in a row, or four times as many within ten seconds if at least half of all calls
    failed. After `pause` seconds one call tries the server: `enter` lets it through, and what it says to `leave` closes
    the breaker or opens it again.
    """

    def __init__(self, failures: int, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures, self._pause, self._clock = failures, pause, clock
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")
        self._state: State = "closed"
        self._generation = 0
        self._begin(clock())

    def _begin(self, now: float) -> None:
        """Begin to count anew. What began before counts no more."""
        self._generation += 1
        self._calls = self._under_way = self._unjudged = self._failed = self._in_a_row = self._together = 0
        self._ends = now + (self._pause if self._state == "open" else WINDOW)

    def _turn(self, state: State, now: float) -> None:
        self._state = state
        self._begin(now)

    def _now(self) -> float:
        now = self._clock()
        if self._state == "closed" and now > self._ends:  # a row goes on: its calls may take seconds to fail
            self._calls, self._failed, self._together, self._ends = self._under_way, 0, 0, now + WINDOW
        elif self._state == "open" and now > self._ends:
            self._turn("half-open", now)
        return now

    @property
    def state(self) -> State:
        """What it is now."""
        with self._lock:
            self._now()
            return self._state

    @property
    def out(self) -> bool:
        """Whether the server is left alone, or just being tried again."""
        return self.state != "closed"

    def until_retry(self) -> float:
        """Return the time until the server is tried again, in seconds: once more where that is being done."""
        with self._lock:
            left = self._ends - self._now()
            return left if self._state == "open" and left > 0 else self._pause

    def enter(self) -> int | None:
        """Return a number for `leave`, or None if the call must not be sent."""
        with self._lock:
            self._now()
            if self._state == "open" or (self._state == "half-open" and self._calls > self._unjudged):
                return None
            self._calls += 1
            self._under_way += 1
            return self._generation

    def leave(self, entered: int, outcome: Outcome) -> State | None:
        """Note how a call went. Return the state if this has changed it."""
        with self._lock:
            now = self._now()
            if entered != self._generation:
                return None
            self._under_way -= 1
            if outcome is None:
                self._unjudged += 1
            elif outcome == "success":
                self._in_a_row = 0
                if self._state == "half-open":
                    self._turn("closed", now)
                    return "closed"
            elif self._state == "half-open":
                self._turn("open", now)
                return "open"
            else:
                self._failed += 1
                self._in_a_row += 1
                if self._failed == 1:
                    self._together = 0
                failed = self._failed + self._together
                if self._in_a_row >= self._failures or (self._failed >= 4 * self._failures and 2 * failed >= self._calls):
                    self._turn("open", now)
                    return "open"
            return None

    def failed_together(self) -> None:
        """Note a call that failed with one that was counted, such as in the same pipeline."""
        with self._lock:
            self._together += 1
