"""As `remote`, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, cast

from .._core.call import Call
from .._core.duration import Duration, seconds
from .._core.errors import MistakeError, ThrottleError
from .._core.inspection import Inspection, read_inspection
from .._core.result import Result
from .asynctransport import AsyncTransport
from .connect import connect
from .doors import Commands, check
from .loops import Lines, copy_of_client
from .polling import Pause, polling
from .pool import AsyncClient


class Remote:
    """Sends calls to Redis or Valkey, as `redis_throttle.Remote`, over a client of `redis.asyncio` or `valkey.asyncio`.

    It may be used in any number of event loops, one after the other or at a time. Each has connections of its own,
    closed with the loop: the first uses those of the client, and the others those of a copy.
    """

    def __init__(self, client: AsyncClient, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto",
                 poll: Duration | None = None) -> None:
        self.client = client
        self._poll = check(commands, poll)
        self._timeout, self._patience = seconds(timeout, "timeout"), seconds(patience, "patience")
        self._commands: Commands = commands
        self._given = AsyncTransport(client, self._timeout, self._patience, commands)
        self._lines = Lines(self._transport)

    def _transport(self, first: bool) -> AsyncTransport:
        """Return what sends the calls of a loop."""
        if first:
            return self._given
        made = AsyncTransport(copy_of_client(self.client), self._timeout, self._patience, self._commands, self._given.doors)
        made.own()
        return made

    @classmethod
    def from_url(cls, url: str, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto", poll: Duration | None = None,
                 options: Mapping[str, Any] | None = None) -> Remote:
        """Return one with a client for a URL that fails fast: see `redis_throttle.connect`. Closing it closes the
        client."""
        remote = cls(connect(url, asynchronous=True, timeout=timeout, options=options), timeout=timeout, patience=patience, commands=commands, poll=poll)
        remote._given.own()
        return remote

    async def decide(self, call: Call, /) -> Result:
        """Send a call."""
        transport = await self._lines.here()
        if call.timeout is None:
            return call.result(await transport.decide(call))
        if call.verb == "lease":  # most often a slot is free, and no connection of its own is needed; nobody is overtaken
            result = await self.decide(call.at_once())
            if not result.limited:
                return result
        if transport.without_module(call.keys[0].name):
            return await self._polled(call)
        try:
            return call.result(await transport.wait(call))
        except MistakeError as error:
            if not transport.doors.lacks(error):
                raise
        await transport.find_door(call.keys[0].name)
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
                (await self._lines.here()).in_background(self._refund(pause.refund))
            raise
        return Result()

    async def _refund(self, call: Call) -> None:
        with contextlib.suppress(ThrottleError):
            await self.decide(call)

    async def inspect(self, key: str | bytes) -> Inspection:
        """Tell what a key holds (CL.INSPECT)."""
        transport = await self._lines.here()
        return read_inspection(await transport.ask(["CL.INSPECT", key], key, "CL.INSPECT"))

    def node_of(self, key: str) -> str:
        """Return the name of the node of a cluster that has a key; nothing where there is one server, or while the
        cluster is unknown."""
        return next((name for line in self._lines.all() if (name := line.node_of(key))), "")

    async def close(self) -> None:
        """Close the client of `from_url`, what it opened to Sentinels, and the connections of other loops, which close
        them in their next turn."""
        await self._lines.close()
        await self._given.close()

    async def __aenter__(self) -> Remote:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
