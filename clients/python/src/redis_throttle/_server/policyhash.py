"""Where policies are read: a hash on a server, or what a function returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from .._core.errors import MistakeError
from .asyncremote import Remote as AsyncRemote
from .pool import AsyncClient, Client
from .remote import Remote

Hash = Mapping[str, str]
HashFunction = Callable[[], Hash]
AsyncHashFunction = Callable[[], Hash | Awaitable[Hash]]

_TIMEOUT = "200ms"
_PATIENCE = 10.0
"""How long a function of asyncio may take, in seconds."""
MOST_LOST = 10
"""How many readings may be given up that have not returned yet. Beyond that, no other begins."""
_VERSION = "@version"


class Source(Protocol):
    """Reads the hash. With a version, it returns None if that is still the hash's."""

    def read(self, version: str | None) -> Hash | None: ...

    def close(self) -> None: ...


class AsyncSource(Protocol):
    """As `Source`, for asyncio."""

    async def read(self, version: str | None) -> Hash | None: ...

    async def close(self) -> None: ...


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _hash(reply: Any) -> Hash:
    """Read the reply of HGETALL, which is a map by RESP3 and of a client for a cluster."""
    if isinstance(reply, Mapping):
        pairs: Any = reply.items()
    elif isinstance(reply, (list, tuple)) and len(reply) % 2 == 0:
        pairs = zip(reply[::2], reply[1::2], strict=True)
    else:
        raise MistakeError(f"HGETALL: the reply is {type(reply).__name__}, not a hash")
    return {_text(field): _text(value) for field, value in pairs}


def _of_function(given: Any, version: str | None) -> Hash | None:
    if not isinstance(given, Mapping):
        raise TypeError(f"a function of policies returns a mapping of fields to values, not {given!r}")
    if version is not None and given.get(_VERSION) == version:
        return None
    return {_text(field): _text(value) for field, value in given.items()}


class _OfFunction:
    def __init__(self, function: HashFunction) -> None:
        self._function = function

    def read(self, version: str | None) -> Hash | None:
        return _of_function(self._function(), version)

    def close(self) -> None:
        pass


class _OfServer:
    def __init__(self, remote: Remote, name: str, mine: bool) -> None:
        self._remote, self._name, self._mine = remote, name, mine

    def read(self, version: str | None) -> Hash | None:
        send = self._remote._transport.apart
        if version is not None:
            found = send(["HGET", self._name, _VERSION], self._name)
            if found is not None and _text(found) == version:
                return None
        return _hash(send(["HGETALL", self._name], self._name))

    def close(self) -> None:
        if self._mine:
            self._remote.close()


class _AsyncOfFunction:
    def __init__(self, function: AsyncHashFunction) -> None:
        self._function = function
        self._lost: set[asyncio.Future[Hash]] = set()

    async def read(self, version: str | None) -> Hash | None:
        for lost in list(self._lost):  # which may not end when they are cancelled
            if lost.done() or lost.get_loop().is_closed():
                self._lost.discard(lost)
        if len(self._lost) >= MOST_LOST:
            raise TimeoutError(f"{MOST_LOST} readings that were given up have not returned")
        given = self._function()
        if isinstance(given, Awaitable):
            task = asyncio.ensure_future(given)
            try:
                await asyncio.wait({task}, timeout=_PATIENCE)
            finally:  # also where the layer is closed, and this is cancelled
                is_late = task.cancel()
            if is_late:
                self._lost.add(task)
                raise TimeoutError(f"there is no answer within {_PATIENCE:g} s")
            given = task.result()
        return _of_function(given, version)

    async def close(self) -> None:
        pass


class _AsyncOfServer:
    def __init__(self, remote: AsyncRemote, name: str, mine: bool) -> None:
        self._remote, self._name, self._mine = remote, name, mine

    async def read(self, version: str | None) -> Hash | None:
        send = (await self._remote._lines.here()).apart
        if version is not None:
            found = await send(["HGET", self._name, _VERSION], self._name)
            if found is not None and _text(found) == version:
                return None
        return _hash(await send(["HGETALL", self._name], self._name))

    async def close(self) -> None:
        if self._mine:
            await self._remote.close()


def source_of(given: Client | HashFunction | object | None, next: object, name: str) -> Source:
    """Return what reads the hash of this name: a client's, a function, or without either the client behind next."""
    if given is None or callable(getattr(given, "decide", None)):
        return _OfServer(cast(Remote, _remote_of(next if given is None else given, Remote)), name, False)
    if callable(given) and not hasattr(given, "execute_command"):
        return _OfFunction(cast(HashFunction, given))
    return _OfServer(Remote(cast(Client, given), timeout=_TIMEOUT), name, True)


def async_source_of(given: AsyncClient | AsyncHashFunction | object | None, next: object, name: str) -> AsyncSource:
    """As `source_of`, for asyncio."""
    if given is None or callable(getattr(given, "decide", None)):
        return _AsyncOfServer(cast(AsyncRemote, _remote_of(next if given is None else given, AsyncRemote)), name, False)
    if callable(given) and not hasattr(given, "execute_command"):
        return _AsyncOfFunction(cast(AsyncHashFunction, given))
    remote = AsyncRemote(cast(AsyncClient, given), timeout=_TIMEOUT)
    remote._lines._first = False  # the connections of the client belong to the loop of somebody else
    return _AsyncOfServer(remote, name, True)


def _remote_of(decider: object, kind: type) -> object:
    """Return the Remote of a decider, or of that behind it."""
    seen: Any = decider
    while seen is not None:
        if isinstance(seen, kind):
            return seen
        seen = getattr(seen, "_next", None) or getattr(seen, "decider", None)
    raise TypeError(f"client: a {type(decider).__name__} has none: give the client that has the policies, or a function that returns them")
