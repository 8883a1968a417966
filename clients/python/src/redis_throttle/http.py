"""For routes that are written by hand: the header fields of a response, and the problem document of one that is denied.

    limits = (rate(100, "1m"),)
    result = limiter.limit(f"search:{user}", *limits)
    headers = dict(header_fields(limits, result))
    if result.limited:
        return Response(problem_document(limits, result), 429, headers, content_type=PROBLEM)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ._core.limit import Limit, Limits, as_limits
from ._core.result import Result
from ._web.fields import Header, XRateLimit
from ._web.fields import header_fields as _header_fields
from ._web.http import PROBLEM, named
from ._web.http import problem as _problem

__all__ = ["PROBLEM", "header_fields", "problem_document"]


def _of_each_key(limits: Limits | Mapping[str, Limits]) -> list[tuple[Limit, ...]]:
    keys = limits.values() if isinstance(limits, Mapping) else [limits]
    return [as_limits(some) for some in cast("Iterable[Limits]", keys)]


def header_fields(limits: Limits | Mapping[str, Limits], result: Result, *, x_ratelimit: XRateLimit | None = None) -> list[Header]:
    """Return RateLimit-Policy, RateLimit and, for a denied call, Retry-After. No field tells of shadows.

    `limits` are those of the call: of its key, or a mapping of the limits of each key. With several, ask with
    `each=True`, or only the limit that decided is told of. `x_ratelimit` adds X-RateLimit fields, whose Reset is in
    `"seconds"` or since the epoch (`"unix"`).
    """
    return _header_fields(named(None, _of_each_key(limits), result), result, x_ratelimit)


def problem_document(limits: Limits | Mapping[str, Limits], result: Result) -> bytes:
    """Return the body of a response with status 429: a problem document (RFC 9457), of the type `PROBLEM`."""
    return _problem(named(None, _of_each_key(limits), result), result)
