"""What calls for threads and for asyncio share: a client of redis-py or valkey-py, its pool, and how many calls that
has connections for."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from .._core.call import Call
from .._core.errors import OutageError, OverloadError, ThrottleError, library_error, translate
from .._core.forked import unlocked_in_children
from .._core.result import ZERO
from .connect import AwayCluster
from .doors import Commands, Doors
from .loops import copy_of_pool


class Client(Protocol):
    """A client of redis-py or valkey-py: for one server, a cluster, or the master of a Sentinel."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and return its reply."""
        ...


class AsyncClient(Protocol):
    """A client of `redis.asyncio` or `valkey.asyncio`: for one server, a cluster, or the master of a Sentinel."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Send a command and return its reply."""
        ...


REDIRECTS = 5
"""How often a caller that waits follows its key through a cluster."""

ROOM = 1.0
"""How long a call waits at most for a connection of a pool whose connections are all in use, in seconds."""


PIPELINES = 2
"""How many pipelines are under way at most over a pool. Calls that come meanwhile share the next one."""

LONGEST = 100
"""How many calls share a pipeline at most."""


def failed(made: ThrottleError, together: object) -> ThrottleError:
    """Return the error of a call whose pipeline failed: for a guard that is one failure, however many calls shared
    it."""
    if isinstance(made, OutageError):
        made._together = together
    return made


def check_client(client: Any, asynchronous: bool) -> None:
    """Refuse what is no client of redis-py or valkey-py, or one of the other kind."""
    if isinstance(client, AwayCluster):
        return
    kind = "redis.asyncio or valkey.asyncio" if asynchronous else "redis-py or valkey-py"
    execute = getattr(client, "execute_command", None)
    if execute is None:
        raise TypeError(f"client must be one of {kind}, or a decider, not {client!r}")
    if hasattr(client, "command_stack") or hasattr(client, "_command_stack"):
        raise TypeError("client must not be a pipeline, which has no answer when a call returns")
    is_async = inspect.iscoroutinefunction(execute)
    if is_async != asynchronous:
        other = "redis_throttle.asyncio" if is_async else "redis_throttle"
        raise TypeError(f"client must be one of {kind}: a limiter on a {type(client).__module__}.{type(client).__name__} is made by {other}")


def is_cluster(client: Any) -> bool:
    """Whether client is one for a cluster."""
    return hasattr(client, "get_node_from_key")


def pool_of(client: Any) -> Any:
    """Return the pool of a client for one server; None if it has its own way to send.

    One that keeps to a connection (`single_connection_client`) has a pool, too. Over that connection it sends a lost
    call again.
    """
    return getattr(client, "connection_pool", None)


def pool_arguments(pool: Any) -> tuple[str, ...]:
    """Return what get_connection of a pool wants: a command's name where the library still requires one."""
    if pool is None:
        return ()
    first = next(iter(inspect.signature(pool.get_connection).parameters.values()), None)
    required = first is not None and first.default is inspect.Parameter.empty and first.kind is first.POSITIONAL_OR_KEYWORD
    return ("CL",) if required else ()


def own_pool(pool: Any, timeout: float) -> Any:
    """Return a pool like that of a client by whose own timeouts and retries a caller might wait for longer; None if
    none would.

    What a client does for others over its connections, such as a read that blocks, is none of the limiter's business,
    so they stay as they are.
    """
    given = getattr(pool, "connection_kwargs", None)
    if given is None:
        return None
    # There is no time to connect to a Unix socket.
    names = ("socket_timeout",) if "path" in given else ("socket_timeout", "socket_connect_timeout")
    changed: dict[str, Any] = {name: timeout for name in names if not _is_within(given.get(name), timeout)}
    if not changed:
        return None
    if given.get("retry") is not None:
        changed["retry"] = copy.copy(given["retry"])
        changed["retry"]._retries = 0
    return copy_of_pool(pool, **changed)


def _is_within(value: Any, timeout: float) -> bool:
    return isinstance(value, (int, float)) and 0 < value <= timeout


def most_connections(client: Any, node: Any = None) -> int:
    """Return how many calls a pool, that of a client, or that of a node of a cluster, has connections for.

    It is 0 if there is nothing to wait for: a pool without a bound, or one that blocks by itself.
    """
    if node is not None and not hasattr(node, "max_connections"):
        client = getattr(node, "redis_connection", None) or getattr(node, "valkey_connection", None)
    pool = next((one for one in (node, client) if hasattr(one, "max_connections")), None) or getattr(client, "connection_pool", None)
    most = getattr(pool, "max_connections", None)
    blocks = any(kind.__name__ == "BlockingConnectionPool" for kind in type(pool).__mro__)
    return most if isinstance(most, int) and not blocks and most < 2**30 else 0


def node_of(client: Any, key: str | bytes) -> str:
    """Return the name of the node that has a key."""
    if isinstance(client, AwayCluster) and client.away:  # it would ask for the nodes, which a call is to do, and be the only one
        return ""
    try:
        return str(client.get_node_from_key(key).name)
    except Exception:  # the library has several for a cluster that it does not know
        return ""


def doors_of(commands: Commands, event: Callable[[], Any], transport: Any) -> Doors:
    """Return the doors of the servers of a client. Of one that has its own way to send nobody knows where they are:
    they have the module."""
    if transport.pool is None and not transport.cluster:
        if commands == "functions":
            raise TypeError('commands "functions" needs a client with a connection_pool, or one for a cluster')
        commands = "module"

    return Doors(commands, event, lambda server: server or ("" if transport.cluster else address_of(transport.pool)))


def address_of(pool: Any) -> str:
    """Return the address to which a pool opens connections; nothing if it asks Sentinels for it."""
    options = getattr(pool, "connection_kwargs", {})
    return options.get("path") or (f"{options['host']}:{options.get('port', 6379)}" if options.get("host") else "")


_overheard: weakref.WeakSet[Any] = weakref.WeakSet()


def overhear(manager: Any, asynchronous: bool) -> None:
    """Have what looks for the master say why no Sentinel names it. The libraries tell the classes of the errors, and
    nothing else."""
    if manager in _overheard:
        return
    _overheard.add(manager)
    last: list[Exception] = []
    manager.sentinels = [_heard(sentinel, last, asynchronous) for sentinel in manager.sentinels]
    discover = manager.discover_master

    async def later(name: str) -> Any:
        last.clear()
        try:
            return await discover(name)
        except Exception as error:
            raise error from (last[-1] if last else None)

    def at_once(name: str) -> Any:
        last.clear()
        try:
            return discover(name)
        except Exception as error:
            raise error from (last[-1] if last else None)

    manager.discover_master = later if asynchronous else at_once


def _heard(sentinel: Any, last: list[Exception], asynchronous: bool) -> Any:
    """Return the client of a Sentinel, whose errors are added to last."""
    ask = sentinel.sentinel_masters

    async def later() -> Any:
        try:
            return await ask()
        except Exception as error:
            last.append(error)
            raise

    def at_once() -> Any:
        try:
            return ask()
        except Exception as error:
            last.append(error)
            raise

    sentinel.sentinel_masters = later if asynchronous else at_once
    return sentinel


Place = str | tuple[str, int]
"""Where a connection leads: a path, or an address and a port."""

Sign = tuple[float, Exception | None]
"""When a server was asked for a sign of life, and why there was none."""

WHO = ("INFO", "server")
"""Asks a server which one it is."""


def run_of(reply: object) -> str:
    """Return what tells a server from all others, and from itself before a restart, in its reply to WHO; nothing if a
    user may not ask."""
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
    found = re.search(r"^run_id:(\w+)", text, re.MULTILINE)
    return "" if found is None else found[1]


def elsewhere() -> ConnectionError:
    """Return the error of a call that waits at a server while another one answers at its address."""
    return ConnectionError("another server answers at the address of the one where the call waits")


def last_of(call: Call, patience: float) -> float:
    """Return until when a call that waits now may have no answer of a server that lives, by `time.monotonic()`."""
    return time.monotonic() + (call.timeout or ZERO).total_seconds() + patience


def lost(patience: float) -> ConnectionError:
    """Return the error of a call that waits for a reply which does not come, although the server lives."""
    return ConnectionError(f"no reply within {patience:g} s after the timeout, while the server is alive: the connection is lost")


def asking(options: Mapping[str, Any], place: Place, patience: float) -> dict[str, Any]:
    """Return what a connection is made with that asks the server at a place for a sign of life.

    It does not log in: that it has to is a sign of life, too. So the certificate need not have the address in place of
    a name.
    """
    changed: dict[str, Any] = {**options, "socket_timeout": patience}
    if not isinstance(place, str):
        changed.update(host=place[0], port=place[1], socket_connect_timeout=patience)
    changed.update((name, None) for name in ("username", "password", "credential_provider") if name in changed)
    if "ssl_check_hostname" in changed:
        changed["ssl_check_hostname"] = False
    return changed


def no_room(most: int) -> OverloadError:
    """Return the error of a call that found no connection."""
    return OverloadError(f"all {most} connections of this process are in use, and none became free within {ROOM:g} s")


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """Return where the key of a call is now, if error says so."""
    if library_error(error, "MovedError") or library_error(error, "AskError"):
        return error.host, error.port  # type: ignore[attr-defined]
    text = str(error)
    if library_error(error, "ResponseError") and text.startswith(("MOVED ", "ASK ")):
        host, _, port = text.rpartition(" ")[2].rpartition(":")
        return host, int(port)
    return None


def is_asked(error: BaseException) -> bool:
    """Whether a redirection holds for one call only, which must say that it was sent there."""
    return library_error(error, "AskError") or str(error).startswith("ASK ")


class Pooled:
    """A client, its pool, and the doors of its servers. What waits for them is `Transport` and `AsyncTransport`."""

    def __init__(self, client: Any, timeout: float, patience: float, commands: Commands, *, asynchronous: bool, doors: Doors | None = None) -> None:
        check_client(client, asynchronous)
        self.client = client
        self.timeout, self.patience = timeout, patience
        self.cluster = is_cluster(client)
        self.pool: Any = None if self.cluster else pool_of(client)
        self._own = own_pool(self.pool, timeout)
        self.pool = self._own or self.pool
        self.arguments = pool_arguments(self.pool)
        self._most = 0 if self.pool is None else most_connections(self.pool)
        if (manager := getattr(self.pool, "sentinel_manager", None)) is not None:
            overhear(manager, asynchronous)
        self._pipelines = min(PIPELINES, self._most or PIPELINES)
        self.doors = doors_of(commands, asyncio.Event if asynchronous else threading.Event, self) if doors is None else doors.beside()
        if not asynchronous:  # a thread may be about to take a connection, or to ask for the nodes
            owner = client if self.cluster else self.pool
            if isinstance(owner, AwayCluster):
                owner.then = _unlock_in_children
            elif owner is not None:
                _unlock_in_children(owner)

    def told(self, command: str, error: Exception) -> ThrottleError:
        """Return error as one of this package, with where the client asks."""
        return translate(command, error, self._where())

    def _where(self) -> str:
        if self.cluster:
            if isinstance(self.client, AwayCluster) and self.client.away:
                return ""
            manager = self.client.nodes_manager
            options = getattr(manager, "connection_kwargs", {})
            secured = "ssl" in options or "SSL" in str(options.get("connection_class", ""))
            return " or ".join(manager.startup_nodes) + (", by TLS" if secured else "")
        sentinels = getattr(getattr(self.pool, "sentinel_manager", None), "sentinels", ())
        asked = " or ".join(address_of(sentinel.connection_pool) for sentinel in sentinels)
        secured = "SSL" in getattr(getattr(self.pool, "connection_class", None), "__name__", "")
        return (f"by the Sentinels {asked}" if asked else address_of(self.pool)) + (", by TLS" if secured else "")

    def without_module(self, key: str | bytes) -> bool:
        """Whether the server of a key is known to have no module."""
        return not self.doors.direct and self.doors.without_module(self.node_of(key))

    def node_of(self, key: str | bytes) -> str:
        """Return the name of the node of a cluster that has a key; nothing where there is one server, or while the
        cluster is unknown."""
        return node_of(self.client, key) if self.cluster else ""


def _unlock_in_children(owner: object) -> None:
    unlocked_in_children(owner, "_lock", "_fork_lock", "_initialization_lock", beside=_with_locks)


def _with_locks(owner: Any) -> Iterable[object]:
    """Return what has locks beside owner, which is a pool, or a client for a cluster: its nodes have pools, and pools
    have dispatchers."""
    manager = getattr(owner, "nodes_manager", None)
    nodes = () if manager is None else manager.nodes_cache.values()
    clients = (getattr(node, "redis_connection", None) or getattr(node, "valkey_connection", None) for node in nodes)
    pools = [client.connection_pool for client in clients if client is not None]
    found = [one for one in (owner, manager, *pools) if one is not None]
    return [*found[1:], *(one._event_dispatcher for one in found if getattr(one, "_event_dispatcher", None) is not None)]
