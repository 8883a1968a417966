"""What stands before a decider, told once for threads and for asyncio: a generator yields each call that is to be sent,
and gets its result or its error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from .call import Call
from .result import Result

Steps = Generator[Call, Result, Result]


def run(steps: Steps, decide: Callable[[Call], Result]) -> Result:
    """Take the steps of a decision."""
    try:
        call = next(steps)
        while True:
            try:
                result = decide(call)
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return _result(end)


async def run_async(steps: Steps, decide: Callable[[Call], Awaitable[Result]]) -> Result:
    """Take the steps of a decision, and await each."""
    try:
        call = next(steps)
        while True:
            try:
                result = await decide(call)
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return _result(end)


def _result(end: StopIteration) -> Result:
    value: Any = end.value
    assert isinstance(value, Result)
    return value
