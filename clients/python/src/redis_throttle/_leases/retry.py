"""Waiting until a call that was denied can succeed."""

from __future__ import annotations

import asyncio
import time

from .._core.result import LimitedError, Result

_STEP = 3600.0
"""Sleeps no longer than this at a time, in seconds: no timer is too long then, whatever the quota."""


def _ends(result: Result) -> float:
    """Return when a retry makes sense, by the monotonic clock. A call that never can succeed raises a LimitedError."""
    if not result.limited:
        return 0.0
    if result.retry_after is None:
        raise LimitedError(result)
    return time.monotonic() + result.retry_after.total_seconds()


def until_retry(result: Result) -> None:
    """Wait until a retry of a call that was denied makes sense, by `Result.retry_after`. The retry may be denied again.

        while (result := limiter.limit("report", fixed(1, "1y"))).limited:
            until_retry(result)

    It returns at once if the call was not denied, and raises a `LimitedError` if the call never can succeed.
    """
    ends = _ends(result)
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, _STEP))


async def until_retry_async(result: Result) -> None:
    """As `until_retry`, for asyncio: `redis_throttle.asyncio.until_retry`."""
    ends = _ends(result)
    while (left := ends - time.monotonic()) > 0:
        await asyncio.sleep(min(left, _STEP))
