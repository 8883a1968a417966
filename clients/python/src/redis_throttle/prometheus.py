"""Metrics of decisions for Prometheus, by prometheus_client.

    limiter = Limiter(Observed(Guard(Remote(client)), Metrics()))

They are called as those of the Go client:

| metric | labels |
|---|---|
| `ratelimit_decisions_total` | `verb`, `outcome`, `policy`, `by` |
| `ratelimit_shadowed_total` | `policy` |
| `ratelimit_decision_duration_seconds` | `verb`, `by` |

The outcome is `Decision.outcome`, the policy is the name of the limit that decided (`""` where none did), and by is
where it was decided. Of shadowed it is the name of the limit that would have denied the call if it were enforced.

There is no label for keys: each value would be a time series, callers could make as many as they like, and keys may
hold addresses or secrets. CL.TOP shows which keys are limited most. For the same reason names of limits must come from
the program, never from a request.
"""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from ._layers.observed import BUCKETS, Decision

__all__ = ["Metrics"]


class Metrics:
    """An observer for `Observed`, of threads and of asyncio.

    `registry` is prometheus_client's own without another one, `namespace` what the names begin with, and `buckets` are
    the upper bounds of durations in seconds: from 50 us (a local decision, a cache) to 1 s. A second one in the same
    registry needs a namespace of its own.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, namespace: str = "ratelimit", buckets: Sequence[float] = BUCKETS) -> None:
        self._decisions = Counter("decisions_total",
                                  "Decisions of the rate limiter, by verb, by outcome, by the limit that decided, and by where it was decided.",
                                  ("verb", "outcome", "policy", "by"), namespace=namespace, registry=registry)
        self._shadowed = Counter("shadowed_total", "Decisions that a limit would have denied if it were enforced, by that limit.", ("policy",),
                                 namespace=namespace, registry=registry)
        self._durations = Histogram("decision_duration_seconds", "How long callers waited for a decision of the rate limiter, by where it was decided.",
                                    ("verb", "by"), namespace=namespace, registry=registry, buckets=buckets)

    def __call__(self, decision: Decision) -> None:
        """Count and time a decision."""
        verb, by = decision.call.verb, decision.by
        self._decisions.labels(verb, decision.outcome, decision.policy, by).inc()
        if decision.shadowed:
            self._shadowed.labels(decision.shadowed).inc()
        self._durations.labels(verb, by).observe(decision.duration.total_seconds())
