"""Observers, which are told of each decision: for metrics, traces and logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from .._core.call import Call
from .._core.errors import is_outage, is_overload
from .._core.limit import label
from .._core.result import Result
from .._core.steps import Steps, run, run_async
from .._core.undecided import log
from .._core.verbs import AsyncDecider, Decider
from .layer import AsyncLayer, Layer, behind

Outcome = Literal["allowed", "limited", "outage", "overload", "mistake", "cancelled"]

BUCKETS = (50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1.0)
"""Upper bounds of durations for metrics, in seconds."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an observer learns of one decision: the call, its result or its error, and how long the caller waited for
    it.

    The keys of a call may hold addresses or secrets of clients: they do not belong into metrics.
    """

    call: Call
    result: Result | None
    error: BaseException | None
    duration: timedelta

    @property
    def outcome(self) -> Outcome:
        """How it went, in one word."""
        if self.result is not None:
            return "limited" if self.result.limited else "allowed"
        assert self.error is not None
        if not isinstance(self.error, Exception):
            return "cancelled"
        return "outage" if is_outage(self.error) else "overload" if is_overload(self.error) else "mistake"

    @property
    def by(self) -> str:
        """Where it was decided: see `Result.by`. A call that failed was to be decided by the server."""
        return "server" if self.result is None else self.result.by

    @property
    def policy(self) -> str:
        """The name of the limit that decided, as the RateLimit header fields have it; nothing where no limit did."""
        if self.result is None or self.result.banned or self.result.by == "policy":
            return ""
        return self._name(self.result.key_index, self.result.rule)

    @property
    def shadowed(self) -> str:
        """The name of the limit with `shadow` that would have denied the call; nothing if there is none."""
        if self.result is None or not self.result.shadowed:
            return ""
        return self._name(self.result.shadow_key_index, self.result.shadow)

    def _name(self, key: int, rule: int) -> str:
        if self.result is None or key >= len(self.call.keys):
            return ""
        applied = self.result.policies[key] if self.result.policies else None
        limits = self.call.keys[key].limits if applied is None else applied.limits
        return label(limits, rule) if rule < len(limits) else ""


class _Observing:
    """What both kinds share."""

    def __init__(self, next: object, observers: tuple[Callable[[Decision], object], ...]) -> None:
        for observer in observers:
            if not callable(observer):
                raise TypeError(f"observers must be functions of a Decision, not {observer!r}")
        self._next = behind(next, "a Limiter")
        self._observers = observers

    def _steps(self, call: Call) -> Steps:
        if call.verb == "denied":  # which decides nothing; whoever denied those calls was observed
            return (yield call)
        began = time.perf_counter()
        try:
            result = yield call
        except BaseException as error:
            self._tell(Decision(call, None, error, timedelta(seconds=time.perf_counter() - began)))
            raise
        self._tell(Decision(call, result, None, timedelta(seconds=time.perf_counter() - began)))
        return result

    def _tell(self, decision: Decision) -> None:
        for observer in self._observers:
            try:
                observer(decision)
            except Exception:
                log.exception("an observer of decisions has failed")


class Observed(_Observing, Layer):
    """Tells observers of each decision, in their order, in the thread of the caller, which waits for them.

        def tell(decision):
            log.debug("%s by %s in %s", decision.outcome, decision.by, decision.duration)

        limiter = Limiter(Observed(Cached(Guard(Remote(client))), tell, redis_throttle.prometheus.Metrics()))

    `redis_throttle.prometheus` and `redis_throttle.opentelemetry` have observers for metrics. Put it around
    everything else: it then sees what was decided where (`Decision.by`). What an observer raises is logged, and changes
    nothing of the decision.
    """

    def __init__(self, next: Decider, *observers: Callable[[Decision], object]) -> None:
        super().__init__(next, observers)

    def decide(self, call: Call, /) -> Result:
        """Have the decider behind decide, and tell the observers."""
        return run(self._steps(call), self._next.decide)


class AsyncObserved(_Observing, AsyncLayer):
    """As `redis_throttle.Observed`, for asyncio. Observers are plain functions, and quick."""

    def __init__(self, next: AsyncDecider, *observers: Callable[[Decision], object]) -> None:
        super().__init__(next, observers)

    async def decide(self, call: Call, /) -> Result:
        """Have the decider behind decide, and tell the observers."""
        return await run_async(self._steps(call), self._next.decide)
