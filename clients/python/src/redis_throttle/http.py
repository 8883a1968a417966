"""What the middlewares share: which limits a request counts for, and what its response says.

The header fields are RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11; a request that is denied gets
status 429 with Retry-After and a problem document (RFC 9457).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Generic, Literal, TypeVar

from .call import Call, many, one
from .errors import OutageError, OverloadError
from .limit import Limit, Limits, as_limits
from .result import Result

Request = TypeVar("Request")
Answer = Literal["let through", "unavailable", "error"]
"""What becomes of a request that nobody could decide about: served without a limit, status 503, or the error itself."""

Header = tuple[str, str]
log = logging.getLogger("redis_throttle")


def seconds(duration: timedelta) -> int:
    """Return a duration in whole seconds, rounded up."""
    return ceil(duration.total_seconds())


def _text(value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise ValueError(f"a name in header fields is printable ASCII, not {value!r}")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Policies:
    """The header fields of the limits of one key."""

    limits: tuple[Limit, ...]

    def name(self, rule: int) -> str:
        """Return what a limit is called: its name, or else default, with several limits limit-1, limit-2 and so on."""
        return self.limits[rule].name or ("default" if len(self.limits) == 1 else f"limit-{rule + 1}")

    def policy(self) -> list[str]:
        """Return the items of RateLimit-Policy: q units come back in w seconds."""
        items = []
        for rule, limit in enumerate(self.limits):
            # A full limit of q units takes so long to get all its units back.
            whole = ceil(limit.seconds * limit.capacity / limit.count) if limit.kind == "RATE" else ceil(limit.seconds)
            if not limit.shadow:
                items.append(f"{_text(self.name(rule))};q={limit.capacity};w={whole}" + (f";qu={_text(limit.unit)}" if limit.unit else ""))
        return items

    def item(self, rule: int, remaining: int, after: timedelta) -> str:
        """Return an item of RateLimit: r units remain, and the next one comes in t seconds."""
        return f"{_text(self.name(rule))};r={remaining};t={seconds(after)}"


class Policy(Generic[Request]):
    """Which limits a request counts for, and what its response says. See `redis_throttle.asgi` and `redis_throttle.wsgi`."""

    def __init__(
        self,
        limits: Limits | Callable[[Request], Limits] | None = None,
        *,
        key: Callable[[Request], str | None] | None = None,
        keys: Callable[[Request], Mapping[str, Limits]] | None = None,
        cost: Callable[[Request], int] | None = None,
        outage: Answer = "let through",
        overload: Answer = "unavailable",
        mistake: Answer = "error",
        retry_after: int = 1,
        x_ratelimit: Literal["seconds", "unix"] | None = None,
        on_error: Callable[[Request, Exception], None] | None = None,
    ) -> None:
        if (keys is None) == (limits is None):
            raise TypeError("give limits, with a key, or keys, which returns the limits of several keys")
        self._fixed = None if limits is None or callable(limits) else as_limits(limits)
        self._limits = limits if callable(limits) else None
        self._key, self._keys, self._cost = key, keys, cost
        self._answers: dict[str, Answer] = {"outage": outage, "overload": overload, "mistake": mistake}
        self._retry_after, self._x, self._on_error = retry_after, x_ratelimit, on_error
        self._logged: dict[str, float] = {}

    def call(self, request: Request) -> Call | None:
        """Return the call for a request; None if it is not limited."""
        cost = self._cost(request) if self._cost else 1
        if self._keys is not None:
            several = {name: as_limits(limits) for name, limits in self._keys(request).items()}
            return many("limit", several, cost=cost, each=True) if several else None
        name = self._key(request) if self._key else None
        if not name:
            return None
        limits = self._fixed if self._limits is None else as_limits(self._limits(request))
        # With one limit, the fields of the reply say all.
        return one("limit", name, limits, cost=cost, each=len(limits) > 1) if limits else None

    def fields(self, call: Call, result: Result) -> list[Header]:
        """Return the header fields of a response."""
        policies = [Policies(key.limits) for key in call.keys]
        fields = [("RateLimit-Policy", ", ".join(item for p in policies for item in p.policy()))]
        decided = policies[result.key]
        if result.banned:
            after = result.retry_after or result.reset_after
            items = [decided.item(rule, 0, after) for rule, limit in enumerate(decided.limits) if not limit.shadow]
        elif result.each:
            items = []
            for each in result.each:
                if not policies[each.key].limits[each.rule].shadow:
                    mine = (each.key, each.rule) == (result.key, result.rule)
                    items.append(policies[each.key].item(each.rule, each.remaining, result.next_after if mine else each.reset_after))
        else:
            items = [decided.item(result.rule, result.remaining, result.next_after)]
        fields.append(("RateLimit", ", ".join(items)))
        if result.limited and result.retry_after is not None:
            fields.append(("Retry-After", str(max(1, seconds(result.retry_after)))))
        if self._x:
            reset = seconds(result.reset_after) + (ceil(time.time()) if self._x == "unix" else 0)
            fields += [("X-RateLimit-Limit", str(result.limit)), ("X-RateLimit-Remaining", str(result.remaining)), ("X-RateLimit-Reset", str(reset))]
        return [field for field in fields if field[1]]

    def problem(self, call: Call, result: Result) -> tuple[list[Header], bytes]:
        """Return the content type and the body of a response to a request that is denied."""
        document: dict[str, object] = {
            "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
            "title": "Abnormal Usage Detected",
            "status": 429,
        }
        if not result.banned:
            document |= {
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Quota Exceeded",
                "violated-policies": [Policies(call.keys[result.key].limits).name(result.rule)],
            }
        body = json.dumps(document).encode() + b"\n"
        return [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))], body

    def failed(self, request: Request, error: Exception) -> Answer:
        """Report an error, and return what becomes of the request."""
        kind = "outage" if isinstance(error, OutageError) else "overload" if isinstance(error, OverloadError) else "mistake"
        if self._on_error is not None:
            self._on_error(request, error)
        elif time.monotonic() - self._logged.get(kind, -60.0) > 10:  # of each kind one line in ten seconds
            self._logged[kind] = time.monotonic()
            log.error("%s: a request could not be checked against its rate limit: %s", kind, error)
        return self._answers[kind]

    def unavailable(self) -> tuple[list[Header], bytes]:
        """Return the header fields and the body of a response with status 503."""
        body = b"Service Unavailable\n"
        fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        return ([("Retry-After", str(self._retry_after))] if self._retry_after else []) + fields, body


def merge(fields: Iterable[Header], more: Sequence[Header]) -> list[Header]:
    """Return fields with more; those that are lists are joined, so that middlewares may be nested."""
    merged = list(fields)
    for name, value in more:
        at = next((i for i, (there, _) in enumerate(merged) if there.lower() == name.lower()), None)
        if at is None:
            merged.append((name, value))
        elif name in ("RateLimit", "RateLimit-Policy"):
            merged[at] = (name, f"{value}, {merged[at][1]}")
    return merged
