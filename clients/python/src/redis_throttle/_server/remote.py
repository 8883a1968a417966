"""The decider on a client of redis-py or valkey-py, for threads."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Mapping
from typing import Any, cast

from .._core.call import Call
from .._core.duration import Duration, seconds
from .._core.errors import MistakeError, OutageError, ThrottleError
from .._core.inspection import Inspection, read_inspection
from .._core.result import Result
from .connect import AwayCluster, connect, sentinels_of
from .doors import Commands, check
from .polling import Pause, polling
from .pool import Client
from .transport import Transport


class Remote:
    """Sends calls to Redis or Valkey. A `Limiter` on a client has one.

    `client` is a client of redis-py or valkey-py: for one server, a cluster, or the master of a Sentinel. It stays
    yours to close. `patience` is how long a call that waits goes on without a sign of life of the server, which is
    asked meanwhile: 3 s.

    A server with the module is sent its commands. One without it gets the function library, which this package carries,
    and is sent functions, or scripts where it refuses functions. A line of the log says so. `commands` fixes the
    choice: `"module"` or `"functions"` (and scripts) in place of `"auto"`. A function cannot make its caller wait:
    `poll` is the longest pause between two questions of a call that waits. Without it such a call is a mistake there.
    """

    def __init__(self, client: Client, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto",
                 poll: Duration | None = None) -> None:
        self.client = client
        self._poll = check(commands, poll)
        self._transport = Transport(client, seconds(timeout, "timeout"), seconds(patience, "patience"), commands)
        self._mine: list[Any] = []

    @classmethod
    def from_url(cls, url: str, *, timeout: Duration = "200ms", patience: Duration = "3s", commands: Commands = "auto", poll: Duration | None = None,
                 options: Mapping[str, Any] | None = None) -> Remote:
        """Return one with a client for a URL that fails fast: see `redis_throttle.connect`. Closing it closes the
        client."""
        make = functools.partial(connect, url, timeout=timeout, options=options)
        try:
            client = make()
        except OutageError:  # of a cluster; a client for one server connects when it is used
            client = AwayCluster(make)
        remote = cls(client, timeout=timeout, patience=patience, commands=commands, poll=poll)
        remote._mine = [remote.client, *sentinels_of(remote.client)]
        return remote

    def decide(self, call: Call, /) -> Result:
        """Send a call."""
        if call.timeout is None:
            return call.result(self._transport.decide(call))
        if call.verb == "lease":  # most often a slot is free, and no connection of its own is needed; nobody is overtaken
            result = self.decide(call.at_once())
            if not result.limited:
                return result
        if self._transport.without_module(call.keys[0].name):
            return self._polled(call)
        try:
            return call.result(self._transport.wait(call))
        except MistakeError as error:
            if not self._transport.doors.lacks(error):
                raise
        self._transport.find_door(call.keys[0].name)
        return self._polled(call)

    def _polled(self, call: Call) -> Result:
        steps = polling(call, self._poll)
        try:
            step = next(steps)
            while True:
                step = steps.send(self._pause(step) if isinstance(step, Pause) else self.decide(step))
        except StopIteration as end:
            return cast(Result, end.value)

    def _pause(self, pause: Pause) -> Result:
        try:
            time.sleep(pause.seconds)
        except BaseException:  # such as gevent.Timeout
            if pause.refund is not None:
                threading.Thread(target=self._refund, args=(pause.refund,), name="throttle-leave", daemon=True).start()
            raise
        return Result()

    def _refund(self, call: Call) -> None:
        with contextlib.suppress(ThrottleError):
            self.decide(call)

    def inspect(self, key: str | bytes) -> Inspection:
        """Tell what a key holds (CL.INSPECT)."""
        return read_inspection(self._transport.ask(["CL.INSPECT", key], key, "CL.INSPECT"))

    def node_of(self, key: str) -> str:
        """Return the name of the node of a cluster that has a key; nothing where there is one server, or while the
        cluster is unknown."""
        return self._transport.node_of(key)

    def close(self) -> None:
        """Close the client of `from_url`, and what it opened to Sentinels."""
        self._transport.close()
        for client in self._mine:
            client.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
