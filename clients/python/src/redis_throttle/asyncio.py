"""The limiter for asyncio. Its methods are those of `redis_throttle.Limiter`, awaited; so is what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, cast

from ._core.call import Call, Holdings, many
from ._core.duration import Duration, nanoseconds
from ._core.inspection import Inspection
from ._core.result import Result
from ._core.verbs import AsyncDecider as Decider
from ._core.verbs import Verbs
from ._layers.batched import AsyncBatched as Batched
from ._layers.cached import AsyncCached as Cached
from ._layers.guard import AsyncGuard as Guard
from ._layers.observed import AsyncObserved as Observed
from ._layers.policies import AsyncPolicies as Policies
from ._leases.admission import AsyncAdmission as Admission
from ._leases.later import AsyncLater, may_repeat
from ._leases.lease import AsyncLease as Lease
from ._leases.retry import until_retry_async as until_retry
from ._limiter import client_of, inspector_of, over
from ._server.asyncremote import Remote
from ._server.doors import Commands
from ._server.pool import AsyncClient

__all__ = ["Admission", "Batched", "Cached", "Decider", "Guard", "Lease", "Limiter", "Observed", "Policies", "Remote", "until_retry"]



class Limiter(Verbs[Coroutine[Any, Any, Result], Coroutine[Any, Any, int], Coroutine[Any, Any, bool], Coroutine[Any, Any, timedelta]]):
    """The verbs over a client of `redis.asyncio` or `valkey.asyncio`, or over any other decider of asyncio.

    It is safe for use by several tasks of one loop. See `redis_throttle.Limiter`.
    """

    def __init__(self, next: AsyncClient | Decider, *, timeout: Duration | None = None, patience: Duration | None = None,
                 commands: Commands | None = None, poll: Duration | None = None) -> None:
        self.decider: Decider
        self.decider, self._behind_its_guard = over(next, Remote, Guard, timeout=timeout, patience=patience, commands=commands, poll=poll)
        self._later = AsyncLater(self.decide)

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

    async def decide(self, call: Call, /) -> Result:
        """Decide any call."""
        return await self.decider.decide(call)

    async def _act(self, call: Call, read: Callable[[Result], object] | None = None) -> Any:
        result = await self.decider.decide(call)
        return result if read is None else read(result)

    async def settle(self, keys: Holdings, *, id: str, repeat: Duration | None = None) -> bool:
        """As that of `redis_throttle.Limiter`."""
        call = many("settle", keys, id=id)
        seconds = 0.0 if repeat is None else nanoseconds(repeat, "repeat") / 1e9
        try:
            return (await self.decide(call)).allowed
        except BaseException as error:
            if may_repeat(error):
                self._later.add(call, seconds)
            raise

    def lease(self, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "", weight: int = 1,
              priority: int = 0, id: str = "") -> Lease:
        """Hold one of `slots` slots during an `async with` statement, or raise a `LimitedError` (CL.LEASE). See
        `Lease`."""
        return Lease(self, key, slots=slots, ttl=ttl, timeout=timeout, group=group, weight=weight, priority=priority, id=id)

    def admit(self, keys: Holdings, *, cost: int = 1, strict: bool = False, id: str = "") -> Admission:
        """Take units of limits and slots, all of them or nothing, during an `async with` statement, or raise a
        `LimitedError` (CL.MLIMIT).

        At the end the slots are freed, and what was used is charged in place of the estimate. See
        `redis_throttle.Admission`.
        """
        return Admission(self, keys, cost=cost, strict=strict, id=id)

    async def inspect(self, key: str | bytes) -> Inspection:
        """Tell what a key holds and until when, to somebody who does not know its limits (CL.INSPECT). See
        `redis_throttle.Limiter`."""
        return cast(Inspection, await inspector_of(self._behind_its_guard).inspect(key))

    async def close(self) -> None:
        """Close what this limiter opened. What is repeated in the background is given up. A client that you gave it
        stays open."""
        self._later.close()
        close = getattr(self.decider, "close", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Limiter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
