"""Metrics of decisions through OpenTelemetry, and denials and errors as events of the spans of requests.

    limiter = Limiter(Observed(Guard(Remote(client)), Metrics()))

They are called as those of the Go client:

| instrument | attributes |
|---|---|
| `ratelimit.decisions` | `ratelimit.verb`, `ratelimit.outcome`, `ratelimit.policy`, `ratelimit.by` |
| `ratelimit.shadowed` | `ratelimit.policy` |
| `ratelimit.decision.duration`, in seconds | `ratelimit.verb`, `ratelimit.by` |

The outcome is `Decision.outcome`, the policy is the name of the limit that decided (`""` where none did), and by is
where it was decided. Of shadowed it is the name of the limit that would have denied the call if it were enforced.

There is no attribute for keys: each value would be a time series, callers could make as many as they like, and keys may
hold addresses or secrets. CL.TOP shows which keys are limited most. For the same reason names of limits must come from
the program, never from a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.trace import get_current_span
from opentelemetry.util.types import AttributeValue

from ._layers.observed import BUCKETS, Decision

__all__ = ["Metrics"]

_MS = timedelta(milliseconds=1)


class Metrics:
    """An observer for `Observed`, of threads and of asyncio.

    `meter_provider` is the global one without another one. `attributes` are added to all measurements, such as which
    limiter of several this is. With `events`, the current span gets an event `ratelimit` when a call is denied or
    fails: the attributes above, and of a denied one `ratelimit.remaining` and `ratelimit.retry_after_ms`, which is -1
    for never.
    """

    def __init__(self, meter_provider: MeterProvider | None = None, *, attributes: Mapping[str, AttributeValue] | None = None, events: bool = True) -> None:
        meter = (meter_provider or get_meter_provider()).get_meter("redis_throttle")
        self._decisions = meter.create_counter("ratelimit.decisions", unit="{decision}", description="Decisions of the rate limiter.")
        self._shadowed = meter.create_counter("ratelimit.shadowed", unit="{decision}",
                                              description="Decisions that a limit would have denied if it were enforced.")
        self._durations = meter.create_histogram("ratelimit.decision.duration", unit="s", explicit_bucket_boundaries_advisory=BUCKETS,
                                                 description="How long callers waited for a decision of the rate limiter.")
        self._attributes = dict(attributes or {})
        self._events = events

    def __call__(self, decision: Decision) -> None:
        """Count and time a decision."""
        outcome = decision.outcome
        where: dict[str, AttributeValue] = {"ratelimit.verb": decision.call.verb, "ratelimit.by": decision.by}
        what: dict[str, AttributeValue] = {**where, "ratelimit.outcome": outcome, "ratelimit.policy": decision.policy}
        self._decisions.add(1, {**self._attributes, **what})
        self._durations.record(decision.duration.total_seconds(), {**self._attributes, **where})
        if decision.shadowed:
            self._shadowed.add(1, {**self._attributes, "ratelimit.policy": decision.shadowed})
        if not self._events or outcome in ("allowed", "cancelled"):
            return
        span = get_current_span()
        if not span.is_recording():
            return
        if decision.result is not None:  # the text of an error may name the server
            after = decision.result.retry_after
            what |= {"ratelimit.remaining": decision.result.remaining, "ratelimit.retry_after_ms": -1 if after is None else after // _MS}
        span.add_event("ratelimit", what)
