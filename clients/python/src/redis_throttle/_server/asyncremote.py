"""As `_remote`, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, cast

from .._seam.call import Call
from .._seam.duration import Duration, seconds
from .._seam.errors import MistakeError, ThrottleError
from .._seam.result import Result
from .asynctransport import AsyncTransport
from .connect import connect, sentinels_of
from .doors import Commands, check
from .polling import Pause, polling
from .pool import AsyncClient


class Remote:
    """Sends calls to Redis or Valkey, as `redis_throttle.Remote`, over a client of `redis.asyncio` or `valkey.asyncio`."""

    def __init__(self, client: AsyncClient, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto",
                 poll: Duration | None = None) -> None:
        self.client = client
        self._poll = check(commands, poll)
        self._transport = AsyncTransport(client, seconds(timeout, "timeout"), seconds(patience, "patience"), commands)
        self._mine: list[Any] = []

    @classmethod
    def from_url(cls, url: str, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto", poll: Duration | None = None,
                 options: Mapping[str, Any] | None = None) -> Remote:
        """Return one with a client for a URL that fails fast: see `redis_throttle.connect`. Closing it closes the client."""
        remote = cls(connect(url, asynchronous=True, timeout=timeout, options=options), timeout=timeout, patience=patience, commands=commands, poll=poll)
        remote._mine = [remote.client, *sentinels_of(remote.client)]
        return remote

    async def decide(self, call: Call, /) -> Result:
        """Send a call."""
        if call.timeout is None:
            return call.result(await self._transport.decide(call))
        if call.verb == "lease":  # most often a slot is free, and no connection of its own is needed; nobody is overtaken
            result = await self.decide(call.at_once())
            if not result.limited:
                return result
        if self._transport.without_module(call.keys[0].name):
            return await self._polled(call)
        try:
            return call.result(await self._transport.wait(call))
        except MistakeError as error:
            if not self._transport.doors.lacks(error):
                raise
        await self._transport.find_door(call.keys[0].name)
        return await self._polled(call)

    async def _polled(self, call: Call) -> Result:
        steps = polling(call, self._poll)
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._pause(step) if isinstance(step, Pause) else await self.decide(step))
        except StopIteration as end:
            return cast(Result, end.value)

    async def _pause(self, pause: Pause) -> Result:
        try:
            await asyncio.sleep(pause.seconds)
        except asyncio.CancelledError:
            if pause.refund is not None:
                self._transport.in_background(self._refund(pause.refund))
            raise
        return Result()

    async def _refund(self, call: Call) -> None:
        with contextlib.suppress(ThrottleError):
            await self.decide(call)

    def node_of(self, key: str) -> str:
        """Return the name of the node of a cluster that has a key; nothing where there is one server, or while the cluster is unknown."""
        return self._transport.node_of(key)

    async def close(self) -> None:
        """Close the client of `from_url`, and what it opened to Sentinels."""
        await self._transport.close()
        for client in self._mine:
            await getattr(client, "aclose", client.close)()
        if self._mine and self._transport.cluster:
            # After a call that lost its connection, redis-py takes itself for closed, and closes nothing.
            for nodes in ("nodes_cache", "startup_nodes"):
                manager = self._mine[0].nodes_manager
                await (getattr(manager, "aclose", None) or manager.close)(nodes)

    async def __aenter__(self) -> Remote:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
