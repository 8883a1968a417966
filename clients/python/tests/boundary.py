"""What gets through around the boundary of a window. The tests and the benchmark use it."""

from __future__ import annotations

import time
from collections.abc import Callable

Passed = list[tuple[float, float]]
"""Of each hit that got through: when it was sent, and when its reply was there, in seconds."""


def around_a_boundary(hit: Callable[[], bool], seconds: float, n: int) -> Passed:
    """Send 2 x n hits around the boundary of a window. The first begins the window, n - 1 come right before its end and
    n right after."""
    passed, began = [], time.perf_counter()
    for start, hits in ((0, 1), (0.9, n - 1), (1.01, n)):
        while time.perf_counter() - began < start * seconds:
            time.sleep(0.001)
        for _ in range(hits):
            sent = time.perf_counter()
            if hit():
                passed.append((sent, time.perf_counter()))
    return passed


def most_within(passed: Passed, seconds: float) -> int:
    """Return how many got through at most within an interval. They did: the first was not sent before it began, the
    last was answered before it ended."""
    return max(sum(1 for sent, answered in passed if sent >= first and answered < first + seconds) for first, _ in passed)
