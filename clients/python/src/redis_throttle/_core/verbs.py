"""A decider decides a call, and a limiter has the verbs over any decider, for threads and for asyncio alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from .call import Call, Charge, Key, Keys, many, one
from .duration import FOREVER, Duration
from .limit import Limits
from .result import Result


@runtime_checkable
class Decider(Protocol):
    """What decides calls: a `Limiter`, a `Guard`, a `Cached`, a fake of `redis_throttle.testing`, or a class of yours.

    A denied call is no error: `Result.limited` says so. Without a decision it raises an `OutageError`, an
    `OverloadError` or a `MistakeError`. It is safe for use by several threads.
    """

    def decide(self, call: Call, /) -> Result:
        """Decide a call."""
        ...


@runtime_checkable
class AsyncDecider(Protocol):
    """As `Decider`, for asyncio."""

    def decide(self, call: Call, /) -> Awaitable[Result]:
        """Decide a call."""
        ...


Decided = TypeVar("Decided", covariant=True)
Units = TypeVar("Units", covariant=True)
Found = TypeVar("Found", covariant=True)
Lasts = TypeVar("Lasts", covariant=True)


class Verbs(ABC, Generic[Decided, Units, Found, Lasts]):
    """The verbs. Each makes a call, and `_act` has it decided and reads what the verb returns from the result."""

    @abstractmethod
    def _act(self, call: Call, read: Callable[[Result], object] | None = None) -> Any:
        """Decide a call, and return its result, or what `read` makes of it."""

    def limit(self, key: str, *limits: Limits, cost: int = 1, charge: Charge | None = None, ban: Duration | None = None, ban_after: str | None = None,
              max_wait: Duration | None = None, each: bool = False) -> Decided:
        """Take `cost` units of all limits of a key, or none (CL.LIMIT).

            result = limiter.limit("user:42", rate(5, "1s", burst=10), fixed(100_000, "1mo"))
            if result.limited:
                print("try again in", result.retry_after)

        A cost of 0 only looks, and is denied by a ban alone. `charge` says what is charged where there is less than the
        cost: see `Charge`; without it nothing is. `ban` bans the key of a denied call for this long; with `ban_after`,
        such as `"10/1h"`, only with the tenth call that is denied within an hour of the first one. `max_wait` reserves
        units of rates that come within it; the caller holds its request for `Result.wait`. `each` fills `Result.each`.
        """
        call = one("limit", key, limits, cost=cost, charge=charge, ban=ban, ban_after=ban_after, max_wait=max_wait, each=each)
        return self._act(call)  # type: ignore[no-any-return]

    def limit_all(self, keys: Keys, *, cost: int = 1, charge: Charge | None = None, ban: Duration | None = None, ban_after: str | None = None,
                  max_wait: Duration | None = None, each: bool = False) -> Decided:
        """Take `cost` units of the limits of several keys: all keys are charged, or none is (CL.MLIMIT).

            limiter.limit_all({"{acme}:ann": rate(5, "1s"), "{acme}": rate(100, "1s")})

        In a cluster the keys need a common hash tag, such as `{acme}`. `Result.key` is the one that decided. See
        `limit` for the options.
        """
        return self._act(many("limit", keys, cost=cost, charge=charge, ban=ban, ban_after=ban_after, max_wait=max_wait, each=each))  # type: ignore[no-any-return]

    def limit_any(self, keys: Keys, *, cost: int = 1, charge: Charge | None = None, max_wait: Duration | None = None,
                  each: bool = False) -> Decided:
        """Take `cost` units of one key: the first, in the order given, that has room (CL.MLIMIT ANY).

            result = limiter.limit_any({"{mail}:fast": rate(10, "1s"), "{mail}:slow": rate(50, "1s")})
            send_over(result.key)

        When the call is limited, the result is about the key with the shortest `retry_after`.
        """
        return self._act(many("limit", keys, cost=cost, charge=charge, any=True, max_wait=max_wait, each=each))  # type: ignore[no-any-return]

    def peek(self, key: str, *limits: Limits, cost: int = 1, each: bool = False) -> Decided:
        """Tell what `limit` would answer, and charge nothing (CL.PEEK)."""
        return self._act(one("peek", key, limits, cost=cost, each=each))  # type: ignore[no-any-return]

    def wait(self, key: str, *limits: Limits, cost: int = 1, timeout: Duration = FOREVER, group: str = "", weight: int = 1,
             priority: int = 0, each: bool = False) -> Decided:
        """Block until the units are there, and take them, in order of arrival (CL.WAIT).

        It raises a `LimitedError` if that would take longer than `timeout`. `group` with its `weight`, and `priority`,
        order callers that wait for windows. The call has a connection of its own.
        """
        call = one("wait", key, limits, cost=cost, max_wait=timeout, group=group, weight=weight, priority=priority, each=each)
        return self._act(call, Result.raise_if_limited)  # type: ignore[no-any-return]

    def refund(self, key: str, *limits: Limits, cost: int = 1) -> Units:
        """Return `cost` units to all limits, never above full (CL.REFUND). Return how many the tightest of them got."""
        return self._act(one("refund", key, limits, cost=cost), lambda result: -result.granted)  # type: ignore[no-any-return]

    def ban(self, key: str, duration: Duration) -> Lasts:
        """Ban a key: every call on it is limited for so long; `"0"` lifts the ban (CL.BAN). Return how long it is
        banned now.

        A ban is never shortened.
        """
        return self._act(Call("ban", (Key(key),), ban=duration), lambda result: result.lasts)  # type: ignore[no-any-return]

    def reset(self, key: str) -> Found:
        """Forget a key: all of its limits are full, no ban is in force, and no lease is held (DEL). Return whether
        there was anything."""
        return self._act(Call("reset", (Key(key),)), lambda result: result.granted != 0)  # type: ignore[no-any-return]

    def renew(self, key: str, *, id: str, ttl: Duration) -> Found:
        """Make a lease last for `ttl` from now on (CL.RENEW). Return whether it was found: a lease that has lapsed is
        lost."""
        return self._act(Call("renew", (Key(key, ttl=ttl),), id=id), lambda result: result.allowed)  # type: ignore[no-any-return]

    def release(self, key: str, *, id: str) -> Found:
        """End a lease (CL.RELEASE). Return whether it was found."""
        return self._act(Call("release", (Key(key),), id=id), lambda result: result.granted != 0)  # type: ignore[no-any-return]


OfThreads = Verbs[Result, int, bool, timedelta]


def is_decider(something: object) -> bool:
    """Whether something has the method of a decider."""
    return callable(getattr(something, "decide", None))
