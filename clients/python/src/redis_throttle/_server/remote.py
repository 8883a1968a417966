"""The decider on a client of redis-py or valkey-py, for threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._seam.call import Call
from .._seam.duration import Duration, seconds
from .._seam.result import Result
from .connect import connect, sentinels_of
from .transport import Client, Transport


class Remote:
    """Sends calls to Redis or Valkey with the module. A `Limiter` on a client has one.

    `client` is a client of redis-py or valkey-py: for one server, a cluster, or the master of a Sentinel. It stays yours to close.
    `patience` is how long a call that waits goes on without a sign of life of the server, which is asked meanwhile: 3 s.
    """

    def __init__(self, client: Client, *, timeout: Duration = "200ms", patience: Duration = "3s") -> None:
        self.client = client
        self._transport = Transport(client, seconds(timeout, "timeout"), seconds(patience, "patience"))
        self._mine: list[Any] = []

    @classmethod
    def from_url(cls, url: str, *, timeout: Duration = "200ms", patience: Duration = "3s", options: Mapping[str, Any] | None = None) -> Remote:
        """Return one with a client for a URL that fails fast: see `redis_throttle.connect`. Closing it closes the client."""
        remote = cls(connect(url, timeout=timeout, options=options), timeout=timeout, patience=patience)
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
        return call.result(self._transport.wait(call))

    def node_of(self, key: str) -> str:
        """Return the name of the node of a cluster that has a key; nothing where there is one server, or while the cluster is unknown."""
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
