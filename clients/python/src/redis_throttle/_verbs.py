"""The acts that a limiter has, for threads and for asyncio alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ._call import Call, Key, Keys, many, one
from ._duration import FOREVER, Duration
from ._limit import Limit

R = TypeVar("R")
"""What an act returns: a `Result`, or for asyncio something to await that gives one."""


class Acts(ABC, Generic[R]):
    """The acts. All of them are a call that `decide` sends."""

    @abstractmethod
    def decide(self, call: Call) -> R:
        """Send a call."""

    def limit(self, key: str, *limits: Limit, cost: int = 1, upto: bool = False, strict: bool = False, force: bool = False,
              ban: Duration | None = None, max_wait: Duration | None = None, each: bool = False) -> R:
        """Take `cost` units of all limits, or none (CL.LIMIT).

        `upto` takes as much of the cost as there is. `strict` charges a denied call as well, so that a caller that keeps retrying
        stays blocked. `force` charges the cost even if it is not there, into debt. `ban` bans the key of a denied call for
        this long. `max_wait` reserves units that come within it; the caller holds its request for `Result.wait`. `each` fills
        `Result.each`.
        """
        return self.decide(one("limit", key, limits, cost=cost, upto=upto, strict=strict, force=force, ban=ban, max_wait=max_wait, each=each))

    def mlimit(self, keys: Keys, *, cost: int = 1, upto: bool = False, strict: bool = False, force: bool = False, any: bool = False,
               ban: Duration | None = None, max_wait: Duration | None = None, id: str = "", each: bool = False) -> R:
        """Take units of the limits of several keys, and slots, all of them or nothing (CL.MLIMIT).

        With `any` one key is enough: the first that has room. With `Slots` the call takes a lease for `id`; the same id again
        renews it and is charged nothing. `settle` ends it.
        """
        return self.decide(many("limit", keys, cost=cost, upto=upto, strict=strict, force=force, any=any, ban=ban, max_wait=max_wait, id=id, each=each))

    def peek(self, key: str, *limits: Limit, cost: int = 1, each: bool = False) -> R:
        """Tell what `limit` would answer, and charge nothing (CL.PEEK)."""
        return self.decide(one("peek", key, limits, cost=cost, each=each))

    def refund(self, key: str, *limits: Limit, cost: int = 1, each: bool = False) -> R:
        """Return units, never above full (CL.REFUND). `Result.granted` is negative then."""
        return self.decide(one("refund", key, limits, cost=cost, each=each))

    def wait(self, key: str, *limits: Limit, cost: int = 1, timeout: Duration = FOREVER, group: str = "", priority: int = 0,
             each: bool = False) -> R:
        """Block until the units are there, and take them, in order of arrival (CL.WAIT).

        The result is limited if that would take longer than `timeout`. `group` and `priority` order callers that wait for windows.
        """
        return self.decide(one("wait", key, limits, cost=cost, max_wait=timeout, group=group, priority=priority, each=each))

    def renew(self, key: str, *, id: str, ttl: Duration) -> R:
        """Make a lease last for `ttl` from now on (CL.RENEW). It is lost if the result is limited."""
        return self.decide(Call("renew", (Key(key, ttl=ttl),), id=id))
