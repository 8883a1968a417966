"""What the adapters for outgoing requests share: whose limits a request counts for, and that it waits its turn or fails
fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .._core.call import one
from .._core.duration import Duration, nanoseconds
from .._core.limit import Limits, as_limits
from .._core.result import Result
from .._core.undecided import Answer, Undecided
from .._core.verbs import AsyncDecider, Decider
from .http import Now, Steps, check_decider

Request = TypeVar("Request")


class Outgoing(Generic[Request]):
    """Decides whether a request may be sent."""

    def __init__(self, limiter: Decider | AsyncDecider, limits: Limits, key: str | Callable[[Request], Now[str | None]],
                 cost: Callable[[Request], Now[int]] | None, max_wait: Duration | None, outage: Answer, overload: Answer, mistake: Answer,
                 *, asynchronous: bool) -> None:
        check_decider(limiter, asynchronous)
        if not callable(key) and not (isinstance(key, str) and key):
            raise TypeError(f"key must be a name, such as 'partner', or a function of the request, not {key!r}")
        if cost is not None and not callable(cost):
            raise TypeError(f"cost must be a function of the request, not {cost!r}")
        if max_wait is not None and nanoseconds(max_wait, "max_wait") <= 0:
            raise ValueError(f"max_wait must be a length of time, or None for no waiting, not {max_wait!r}")
        self._limits = as_limits(limits)
        if not self._limits:
            raise ValueError("limits: there must be at least one, such as rate(10, '1s')")
        self._limiter, self._key, self._cost, self._max_wait = limiter, key, cost, max_wait
        self._undecided = Undecided(outage, overload, mistake)

    def steps(self, request: Request) -> Steps[None]:
        """Return once a request may be sent. One that may not raises a LimitedError."""
        try:
            name: Any = self._key if isinstance(self._key, str) else (yield self._key(request))
            if name is None:
                return
            cost = (yield self._cost(request)) if self._cost else 1
            call = (one("limit", name, self._limits, cost=cost) if self._max_wait is None
                    else one("wait", name, self._limits, cost=cost, max_wait=self._max_wait))
            result: Result = yield self._limiter.decide(call)
        except Exception as error:
            if self._undecided.to(error) == "allow":
                self._undecided.tell(error, "a request to another service")
                return
            raise
        result.raise_if_limited()
