"""What stands before a decider, told once for threads and for asyncio: a generator yields each call that is to be sent,
and gets its result or its error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar, cast

from .call import Call
from .result import Result

S = TypeVar("S")
T = TypeVar("T")
Steps = Generator[Call, Result, Result]


def run(steps: Generator[S, Result, T], decide: Callable[[S], Result]) -> T:
    """Take the steps of a decision, and return what they return."""
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
        return cast(T, end.value)


async def run_async(steps: Generator[S, Result, T], decide: Callable[[S], Awaitable[Result]]) -> T:
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
        return cast(T, end.value)
