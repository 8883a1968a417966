"""Limits of 0: they let nobody through, and the adapters deny such calls themselves.

The commands take counts from 1. A caller that turns a service off with `rate(0, "1m")`, or that divides a limit by a number of
workers, wants every request to be denied, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ._limit import Limit
from ._result import Result


def denied(limits: Iterable[Sequence[Limit]]) -> Result | None:
    """Return the result of a call that a limit of 0 denies; None if there is no such limit. limits has one sequence for each key."""
    for key, some in enumerate(limits):
        for rule, limit in enumerate(some):
            if limit.count == 0 and not limit.shadow:
                return Result(limited=True, key_index=key, rule=rule, retry_after=None)
    return None


def asked(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Return the limits that the server can be asked for: without shadows of 0, which decide nothing."""
    return tuple(limit for limit in limits if limit.count)
