"""Time limits that count no time in which the loop could not read."""

from __future__ import annotations

import asyncio
import time

import pytest

from redis_throttle._server.lateness import Lateness, Within


async def test_what_takes_too_long_is_over() -> None:
    lateness = Lateness()
    with pytest.raises(TimeoutError):
        async with Within(lateness, 0.02):
            await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert lateness._watchers == 0


async def test_time_in_which_the_loop_read_nothing_does_not_count() -> None:
    async with Within(Lateness(), 0.2):
        for _ in range(5):
            time.sleep(0.3)
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)


async def test_a_limit_that_is_restarted_counts_anew() -> None:
    async with Within(Lateness(), 0.2) as within:
        for _ in range(4):
            await asyncio.sleep(0.1)
            within.restart()


async def test_one_that_is_restarted_when_its_time_is_over_ends_nothing() -> None:
    """What arrived is seen some turns after the timer was found."""
    async with Within(Lateness(), 30) as within:
        within._began -= 60
        within._over()
        await asyncio.sleep(0)
        within.restart()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    lateness = Lateness()
    within = Within(lateness, 30)

    async def work() -> None:
        async with within:
            await asyncio.Event().wait()

    for is_over in (False, True):
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if is_over:
            within._is_over = True
            task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert lateness._watchers == 0
