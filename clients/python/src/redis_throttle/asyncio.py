"""The limiter for asyncio. Its methods are those of `redis_throttle.Limiter`, awaited."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from ._asynctransport import AsyncTransport
from ._call import Call, Key, Keys, many
from ._connect import connect, sentinels_of
from ._duration import Duration, nanoseconds
from ._later import AsyncLater, may_repeat
from ._lease import AsyncLease
from ._result import Result
from ._retry import until_retry_async as until_retry
from ._verbs import Acts

__all__ = ["Limiter", "until_retry"]


class Limiter(Acts[Coroutine[Any, Any, Result]]):
    """Sends calls to Redis or Valkey with the module. It is safe for use by several tasks of one loop.

    `client` is a client of `redis.asyncio` or `valkey.asyncio`: for one server, a cluster, or the master of a Sentinel. Give it short timeouts
    and no retries, or let `Limiter.from_url` make it. `patience`, in seconds, is how long a call that waits goes on without a
    sign of life of the server, which is asked meanwhile.

    Every method raises an `OutageError`, `OverloadError` or `MistakeError` when there is no decision.
    """

    def __init__(self, client: Any, *, patience: float = 3.0) -> None:
        if not hasattr(client, "execute_command"):
            raise TypeError(f"client must be one of redis.asyncio or valkey.asyncio, not {client!r}")
        self.client = client
        self._transport = AsyncTransport(client, patience)
        self._later = AsyncLater(self.decide)
        self._sentinels: list[Any] = []

    @classmethod
    def from_url(cls, url: str, *, patience: float = 3.0, **options: Any) -> Limiter:
        """Return a limiter with a client for a URL that fails fast: see `redis_throttle.connect`."""
        limiter = cls(connect(url, asynchronous=True, **options), patience=patience)
        limiter._sentinels = sentinels_of(limiter.client)
        return limiter

    async def decide(self, call: Call) -> Result:
        """Send a call."""
        if call.timeout is None:
            return call.result(await self._transport.decide(call))
        if call.verb == "lease":  # most often a slot is free, and no connection of its own is needed; nobody is overtaken
            result = await self.decide(call.at_once())
            if not result.limited:
                return result
        return call.result(await self._transport.wait(call))

    async def settle(self, keys: Keys, *, id: str, each: bool = False, repeat: Duration | None = None) -> Result:
        """End an admission of `mlimit`: free its slots, and charge or return the difference between `used` and `take` (CL.SETTLE).

        Each admission is settled once, however often you call this. `Result.limited` says that there was nothing to settle.

        With `repeat`, a settlement that meets an outage or an overload, or is interrupted, raises its error all the same, and is
        repeated in the background for so long, until the server has answered. Give it the ttl of the slots, after which there is
        nothing to settle. Without it the call is sent once.
        """
        call = many("settle", keys, id=id, each=each)
        seconds = 0.0 if repeat is None else nanoseconds(repeat, "repeat") / 1e9
        try:
            return await self.decide(call)
        except BaseException as error:
            if may_repeat(error):
                self._later.add(call, seconds)
            raise

    async def ban(self, key: str, duration: Duration) -> timedelta:
        """Ban a key: every call on it is limited for so long; `"0"` lifts the ban (CL.BAN). Return how long it is banned now."""
        return (await self.decide(Call("ban", (Key(key),), ban=duration))).lasts

    def lease(self, key: str, *, slots: int, ttl: Duration, timeout: Duration | None = None, group: str = "", priority: int = 0,
              id: str = "") -> AsyncLease:
        """Hold one of so many slots during an `async with` statement (CL.LEASE). See `AsyncLease`."""
        return AsyncLease(self, key, slots=slots, ttl=ttl, timeout=timeout, group=group, priority=priority, id=id)

    async def release(self, key: str, *, id: str) -> bool:
        """End a lease (CL.RELEASE), and return whether there was one."""
        return (await self.decide(Call("release", (Key(key),), id=id))).granted != 0

    async def close(self) -> None:
        """Close the client, and what `from_url` opened to Sentinels for it. What is repeated in the background is given up."""
        self._later.close()
        for client in (self.client, *self._sentinels):
            await getattr(client, "aclose", client.close)()
        if self._transport.cluster:
            # After a call that lost its connection, redis-py takes itself for closed, and closes nothing.
            for nodes in ("nodes_cache", "startup_nodes"):
                manager = self.client.nodes_manager
                await (getattr(manager, "aclose", None) or manager.close)(nodes)

    async def __aenter__(self) -> Limiter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
