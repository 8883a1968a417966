"""Results: what the server answered, for one limit and for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, NoReturn

from .errors import Code, ThrottleError
from .limit import Limit

ZERO = timedelta(0)

By = Literal["server", "cache", "batch", "policy", "local", "none"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a policy has put in place of the limits of a key: see `redis_throttle.Policies`."""

    name: str
    """The name of the policy."""
    field: str = dataclasses.field(repr=False)
    """The field of the hash that counted: `api`, `api/premium:*` or `api/user:42`."""
    limits: tuple[Limit, ...]
    """The limits that decided; none of a key that is let through."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a call, and the state after it of the limit that decided. Times are rounded up to 1 ms.

    A result is neither true nor false: ask `allowed` or `limited`, or have `raise_if_limited` raise a `LimitedError`.
    """

    limited: bool = False
    """Whether the call was denied; of a renewal and a settlement, that there was no lease any more."""
    key: str = field(default="", repr=False)
    """The key that decided, was charged or is banned."""
    key_index: int = 0
    """The index of that key in the call."""
    rule: int = 0
    """The index in that key's limits of the limit that decided; 0 of a banned key."""
    banned: bool = False
    """Whether a ban denied the call, and no limit."""
    limit: int = 0
    """How many units that limit holds when it is full, or how many slots there are."""
    remaining: int = 0
    """How many units could be taken right now, or how many slots are free."""
    retry_after: timedelta | None = ZERO
    """Until the same call can succeed if nobody else asks: 0 when it was not limited, None when it never can."""
    reset_after: timedelta = ZERO
    """Until the limit is full."""
    next_after: timedelta = ZERO
    """Until there is one unit more; 0 when the limit is full."""
    granted: int = 0
    """How many units were charged. If it is negative, units were returned."""
    wait: timedelta = ZERO
    """How long the caller has to hold its request (`max_wait`), or how long it has waited (`wait`, `lease`)."""
    lasts: timedelta = ZERO
    """How long a lease lasts if it is not renewed, or how long a key is banned."""
    shadowed: bool = False
    """Whether a limit with `shadow` would have denied the call: limit `shadow` of key `shadow_key`."""
    shadow: int = 0
    shadow_key: str = field(default="", repr=False)
    shadow_key_index: int = 0
    each: tuple[Result, ...] = ()
    """With `each=True`, every limit by itself: `limited`, `limit`, `remaining`, `retry_after`, `reset_after`, `key`,
    `rule`."""
    by: By = "server"
    """Where it was decided: by the server, or in its place by a `Cached`, a `Batched`, the policy of a `Guard` or its
    local limits.

    `"none"` is a call that a policy lets through without a limit."""
    policies: tuple[Applied | None, ...] = ()
    """For each key of the call what a policy has put in place of its limits, or None. It is empty where all limits are
    those of the call."""

    @property
    def allowed(self) -> bool:
        """Whether the call was let through."""
        return not self.limited

    def raise_if_limited(self) -> Result:
        """Return the result, or raise a `LimitedError` when the call was denied."""
        if self.limited:
            raise LimitedError(self)
        return self

    def __bool__(self) -> NoReturn:
        raise TypeError("a Result is neither true nor false: ask result.allowed or result.limited")


def in_force(limits: Sequence[tuple[Limit, ...]], result: Result) -> list[tuple[Limit, ...]]:
    """Return the limits that decided, of each key: those of the call, or what policies have put in their place."""
    if not result.policies:
        return list(limits)
    return [some if applied is None else applied.limits for some, applied in zip(limits, result.policies, strict=True)]


class LimitedError(ThrottleError):
    """A call was denied. `result` says by what, and when to try again."""

    code: ClassVar[Code] = "LIMITED"

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result: Result = result

    def __str__(self) -> str:
        after = self.result.retry_after
        if after is None:
            return f"limited: the call costs more than the limit of {self.result.limit}"
        banned = "banned, " if self.result.banned else ""
        return f"limited: {banned}retry after {after.total_seconds():g} s"
