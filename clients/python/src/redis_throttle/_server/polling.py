"""A call that waits where the server has no module, and so cannot make it wait: it asks until the call is let through.

Nobody stands in line then: who asks at the right moment gets the units. Limits that are all rates are asked once, since
the server reserves their units in order of arrival.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import timedelta

from .._core.call import Call
from .._core.duration import FOREVER
from .._core.errors import MistakeError
from .._core.result import Result


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so long, in seconds. A caller that leaves meanwhile has `refund` sent in its place, if there is one."""

    seconds: float
    refund: Call | None = None


Polling = Generator[Call | Pause, Result, Result]


def polling(call: Call, poll: float | None, clock: Callable[[], float] = time.monotonic) -> Polling:
    """Yield the calls that are to be decided, and the pauses between them."""
    if call.group or call.priority or call.weight != 1:
        raise MistakeError(f"{call.command}: group, weight and priority need the module, which keeps the line")
    if poll is None:
        raise MistakeError(f"{call.command} needs the module, or the option poll: a function cannot make its caller wait")
    timeout = call.timeout
    assert timeout is not None
    began = clock()
    ends = math.inf if timeout == FOREVER else began + timeout.total_seconds()
    if call.verb == "wait":
        question = Call("limit", call.keys, cost=call.cost, each=call.each)
        reserves = all(limit.policy.startswith("RATE ") for limit in call.keys[0].limits)
    else:
        question, reserves = call.at_once(), False
    while True:
        left = ends - clock()
        if reserves:
            question = replace(question, max_wait=FOREVER if left == math.inf else timedelta(seconds=left) if left >= 0.001 else None)
        result = yield question
        if not result.limited and result.wait:
            yield Pause(result.wait.total_seconds(), Call("refund", call.keys, cost=call.cost))
        after = result.retry_after
        # What is reserved, or a ban, ends when it was said to: the module, too, tells a caller at once that it is too
        # late for it.
        if not result.limited or after is None or left <= 0 or (reserves and not result.banned) or (result.banned and after.total_seconds() > left):
            waited = clock() - began
            return replace(result, wait=timedelta(milliseconds=int(waited * 1000)))
        yield Pause(min(pause(after.total_seconds(), poll), left))


def pause(after: float, poll: float) -> float:
    """Return how long a caller pauses that can succeed after some seconds. Callers that were told the same come
    apart."""
    return max(0.001, after + random.uniform(0, after / 10) if after <= poll else random.uniform(poll / 2, poll))
