"""What a limiter of asyncio has for each event loop: connections belong to the loop in which they were opened.

The client of a limiter serves the first loop. Every other one gets a copy of it, which shares its options and nothing
that holds connections. A loop closes what was opened in it as it shuts down its asynchronous generators, which
`asyncio.run`, pytest, asgiref and anyio have it do. What another one left open is dropped when its successor comes.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import inspect
import socket
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from .._core.forked import unlocked_in_children


class Line(Protocol):
    """What is opened in a loop."""

    async def close(self) -> None:
        """Close it in its loop, which goes on."""
        ...

    async def end(self) -> None:
        """Close it in its loop, which ends."""
        ...

    def drop(self) -> None:
        """Close it without its loop, which is closed already."""
        ...


T = TypeVar("T", bound=Line)


class Lines(Generic[T]):
    """One line for each running loop. `make` is told whether it is the first."""

    def __init__(self, make: Callable[[bool], T]) -> None:
        self._make = make
        self._first = True
        self._open: dict[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None]]] = {}
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")

    async def here(self) -> T:
        """Return the line of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is not None:
            return found[0]
        with self._lock:
            for other in [one for one in self._open if one.is_closed()]:
                self._open.pop(other)[0].drop()
            line = self._make(self._first)
            self._first = False
            until = self._until_end(loop)
            self._open[loop] = line, until
        await anext(until)  # the loop knows it now, and ends it
        return line

    async def _until_end(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            line = self._open.pop(loop, None)
            if line is not None:
                with contextlib.suppress(Exception):  # nobody waits for the answer
                    await line[0].end()

    def all(self) -> list[T]:
        """Return the open lines, that of the running loop first."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        return [line for _, (line, _) in sorted(self._open.copy().items(), key=lambda item: item[0] is not loop)]

    async def close(self) -> None:
        """Close all lines, each in its loop."""
        here = asyncio.get_running_loop()
        for loop in list(self._open):
            found = self._open.pop(loop, None)
            if found is None:
                continue
            line, until = found
            if loop is here:
                await line.close()
                await until.aclose()
            elif loop.is_closed() or not loop.is_running():
                line.drop()
            else:
                asyncio.run_coroutine_threadsafe(_closed(line, until), loop)


async def _closed(line: Line, until: AsyncGenerator[None]) -> None:
    await line.close()
    await until.aclose()


def copy_of_client(client: Any) -> Any:
    """Return a client like this one that has none of its connections: for one server, a cluster or the master of a
    Sentinel."""
    made = copy.copy(client)
    if hasattr(client, "nodes_manager"):
        made.nodes_manager = _copy_of_manager(client.nodes_manager)
        made._initialize, made._lock = True, None
        if hasattr(made, "_closed"):
            made._closed = False
        if hasattr(made, "_usage_lock"):
            made._usage_lock = asyncio.Lock()
    elif getattr(client, "connection_pool", None) is not None:
        made.connection_pool = copy_of_pool(client.connection_pool)
    return made


def _copy_of_manager(manager: Any) -> Any:
    made = copy.copy(manager)
    made.startup_nodes = {name: _copy_of_node(node) for name, node in manager.startup_nodes.items()}
    made.nodes_cache, made.slots_cache, made.default_node = {}, {}, None
    if hasattr(made, "_initialize_lock"):
        made._initialize_lock = asyncio.Lock()
    if hasattr(made, "_background_tasks"):
        made._background_tasks = set()
    return made


def _copy_of_node(node: Any) -> Any:
    made = copy.copy(node)
    made._connections, made._free = [], collections.deque(maxlen=node.max_connections)
    if hasattr(made, "_background_tasks"):
        made._background_tasks = set()
    return made


def copy_of_pool(pool: Any, **changed: Any) -> Any:
    """Return a pool like this one, with some of the options changed, that has none of its connections."""
    made = copy.copy(pool)
    options: dict[str, Any] = {**pool.connection_kwargs, **changed}
    setattr(made, "_connection_kwargs" if hasattr(made, "_connection_kwargs") else "connection_kwargs", options)
    if "sentinel_manager" in vars(pool):
        options["connection_pool"] = weakref.proxy(made)
        if inspect.iscoroutinefunction(pool.get_connection):
            made.sentinel_manager = manager = copy.copy(pool.sentinel_manager)
            manager.sentinels = [copy_of_client(sentinel) for sentinel in manager.sentinels]
            for copied, heard in [(manager, "discover_master"), *((sentinel, "sentinel_masters") for sentinel in manager.sentinels)]:
                vars(copied).pop(heard, None)  # by which the original is overheard, with its connections
    made.reset()
    if isinstance(getattr(made, "_lock", None), asyncio.Lock):
        made._lock = asyncio.Lock()
    if isinstance(getattr(made, "_condition", None), asyncio.Condition):
        made._condition = asyncio.Condition()
    return made


async def close_client(client: Any) -> None:
    """Close the connections of a client in their loop. It may be used again."""
    if hasattr(client, "nodes_manager"):
        # Not by the client itself: valkey-py is closed for ever then, and redis-py closes nothing after a call that
        # lost its connection.
        manager, client._initialize = client.nodes_manager, True
        for nodes in ("nodes_cache", "startup_nodes"):
            await (getattr(manager, "aclose", None) or manager.close)(nodes)
        return
    for pool in _pools_of(getattr(client, "connection_pool", None)):
        await (getattr(pool, "aclose", None) or pool.disconnect)()


def drop_client(client: Any) -> None:
    """Close the connections of a client whose loop is closed, in which nothing can be awaited any more."""
    if hasattr(client, "nodes_manager"):
        nodes = {*client.nodes_manager.nodes_cache.values(), *client.nodes_manager.startup_nodes.values()}
        drop([connection for node in nodes for connection in node._connections])
        client._initialize = True
        return
    for pool in _pools_of(getattr(client, "connection_pool", None)):
        drop_pool(pool)


def drop_pool(pool: Any) -> None:
    """Close the connections of a pool whose loop is closed."""
    drop([*getattr(pool, "_available_connections", ()), *getattr(pool, "_in_use_connections", ())])
    pool.reset()


def _pools_of(pool: Any) -> list[Any]:
    """Return a pool, and those of the clients that ask Sentinels for its master."""
    if pool is None:
        return []
    sentinels = getattr(getattr(pool, "sentinel_manager", None), "sentinels", ())
    return [pool, *(sentinel.connection_pool for sentinel in sentinels)]


def drop(connections: Iterable[Any]) -> None:
    """Close connections without their loop: the server sees the end, and the library takes them for closed."""
    for connection in connections:
        writer = getattr(connection, "_writer", None)
        if writer is None:
            continue
        with contextlib.suppress(Exception):
            transport = writer.transport
            transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            if getattr(transport, "_sock", None) is not None:  # of asyncio itself, without TLS; others are closed as garbage
                transport._sock.close()
                transport._sock, transport._closing = None, True
        connection._reader = connection._writer = None
