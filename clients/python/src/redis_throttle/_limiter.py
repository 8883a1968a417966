"""The limiter for threads and processes; `redis_throttle.asyncio` has the one for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ._core.call import Call, Holdings, many
from ._core.duration import Duration, nanoseconds
from ._core.errors import MistakeError
from ._core.inspection import Inspection
from ._core.result import Result
from ._core.verbs import Decider, OfThreads, is_decider
from ._layers.guard import Guard
from ._leases.admission import Admission
from ._leases.later import Later, may_repeat
from ._leases.lease import Lease
from ._server.doors import Commands
from ._server.pool import Client
from ._server.remote import Remote


class Limiter(OfThreads):
    """The verbs over a client of Redis or Valkey, or over any other decider. It is safe for use by several threads.

        limiter = Limiter(redis.Redis())
        limiter = Limiter.from_url("redis://127.0.0.1:6379")
        limiter = Limiter(Guard(Remote.from_url("redis://127.0.0.1:6379"), policy="local", processes=8))

    Over a client it has a `Guard` with the policy `"fail"`: a server that hangs costs `timeout` (200 ms), and after
    five calls in a row nothing, until it is back. `timeout`, `patience`, `commands` and `poll` are those of `Remote`.
    Every method raises an `OutageError`, an `OverloadError` or a `MistakeError` when there is no decision.
    """

    def __init__(self, next: Client | Decider, *, timeout: Duration | None = None, patience: Duration | None = None,
                 commands: Commands | None = None, poll: Duration | None = None) -> None:
        self.decider: Decider
        self.decider, self._behind_its_guard = over(next, Remote, Guard, timeout=timeout, patience=patience, commands=commands, poll=poll)
        self._later = Later(self.decide)

    @classmethod
    def from_url(cls, url: str, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto", poll: Duration | None = None,
                 options: Mapping[str, Any] | None = None) -> Limiter:
        """Return a limiter with a client for a URL that fails fast: see `redis_throttle.connect`. Closing it closes the
        client."""
        limiter = cls(remote := Remote.from_url(url, timeout=timeout, patience=patience, commands=commands, poll=poll, options=options))
        limiter.decider, limiter._behind_its_guard = Guard(remote), remote
        return limiter

    @property
    def client(self) -> Any:
        """The client of redis-py or valkey-py that decides in the end. An AttributeError says that there is none."""
        return client_of(self.decider)

    def decide(self, call: Call, /) -> Result:
        """Decide any call."""
        return self.decider.decide(call)

    def _act(self, call: Call, read: Callable[[Result], object] | None = None) -> Any:
        result = self.decider.decide(call)
        return result if read is None else read(result)

    def settle(self, keys: Holdings, *, id: str, repeat: Duration | None = None) -> bool:
        """End an admission: free its slots, and charge or return the difference between `used` and `take` (CL.SETTLE).

        `admit` does that by itself; this is for an admission that another process settles. Each is settled once,
        however often you call this. Return whether there was one.

        With `repeat`, a settlement that meets an outage or an overload, or is interrupted, raises its error all the
        same, and is repeated in the background for so long, until the server has answered. Give it the ttl of the
        slots, after which there is nothing to settle. Without it the call is sent once.
        """
        call = many("settle", keys, id=id)
        seconds = 0.0 if repeat is None else nanoseconds(repeat, "repeat") / 1e9
        try:
            return self.decide(call).allowed
        except BaseException as error:
            if may_repeat(error):
                self._later.add(call, seconds)
            raise

    def lease(self, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "", weight: int = 1,
              priority: int = 0, id: str = "") -> Lease:
        """Hold one of `slots` slots during a `with` statement, or raise a `LimitedError` (CL.LEASE). See `Lease`."""
        return Lease(self, key, slots=slots, ttl=ttl, timeout=timeout, group=group, weight=weight, priority=priority, id=id)

    def admit(self, keys: Holdings, *, cost: int = 1, strict: bool = False, id: str = "") -> Admission:
        """Take units of limits and slots, all of them or nothing, during a `with` statement, or raise a `LimitedError`
        (CL.MLIMIT).

        At the end the slots are freed, and what was used is charged in place of the estimate. See `Admission`.
        """
        return Admission(self, keys, cost=cost, strict=strict, id=id)

    def inspect(self, key: str | bytes) -> Inspection:
        """Tell what a key holds and until when, to somebody who does not know its limits: the first question when a
        customer calls (CL.INSPECT).

        It charges nothing and writes nothing. A limiter over another decider than a client raises a `MistakeError`.
        """
        return cast(Inspection, inspector_of(self._behind_its_guard).inspect(key))

    def close(self) -> None:
        """Close what this limiter opened. What is repeated in the background is given up. A client that you gave it
        stays open."""
        self._later.close()
        close = getattr(self.decider, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Limiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def over(next: Any, remote: Callable[..., Any], guard: Callable[..., Any], **options: object) -> tuple[Any, Any]:
    """Return the decider that a limiter is over, and what a guard takes in its place: one on a client has a guard of
    its own."""
    given = {name: value for name, value in options.items() if value is not None}
    if is_decider(next):
        if given:
            raise TypeError(f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for a limiter on a client: give what has the client this option")
        return next, next
    made = remote(next, **given)
    return guard(made), made


def inspector_of(decider: Any) -> Any:
    """Return a decider that can look into keys, or raise a `MistakeError`."""
    if not hasattr(decider, "inspect"):
        raise MistakeError("inspect needs a limiter on a client: what stands in front of one keeps no keys")
    return decider


def client_of(decider: Any) -> Any:
    """Return the client of a decider, or of that behind it."""
    seen = decider
    while seen is not None:
        if "client" in getattr(seen, "__dict__", ()):
            return seen.client
        seen = getattr(seen, "_next", None) or getattr(seen, "decider", None)
    raise AttributeError(f"a {type(decider).__name__} has no client")
