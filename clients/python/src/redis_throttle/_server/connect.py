"""Clients for a URL that fail fast: every request waits for the limiter, so it must not wait for long."""

from __future__ import annotations

import importlib
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from .._core.duration import Duration, seconds
from .._core.errors import translate

SCHEMES = ("redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster", "redis+sentinel",
           "valkey", "valkeys", "valkey+unix", "valkey+cluster", "valkeys+cluster", "valkey+sentinel")


def connect(url: str, *, asynchronous: bool = False, timeout: Duration = "200ms", options: Mapping[str, Any] | None = None) -> Any:
    """Return a client of redis-py, or of valkey-py for a `valkey` scheme.

    | scheme | |
    |---|---|
    | `redis://host:port/db`, `rediss://` | one server; also `valkey`, `valkeys` |
    | `redis+unix:///path` | one server at a Unix socket |
    | `redis+cluster://host:port,host:port` | a cluster |
    | `redis+sentinel://host:port,host:port/master` | the master with this name; also `/master/db` |

    `timeout` is how long connecting may take, and an answer. A lost call is never repeated. `options` are the client
    library's own, such as `{"max_connections": 50}`, and go before `timeout`. Those of a server may also be in the
    query of its URL; `sentinel_kwargs` are for the Sentinels, such as their `password`. What is no letter or digit in a
    name or a password is percent-encoded.

    The client of a cluster for threads asks the nodes for the others here: an `OutageError` says that none can be
    reached.
    """
    fail_fast: dict[str, Any] = {"socket_timeout": seconds(timeout, "timeout"), "socket_connect_timeout": seconds(timeout, "timeout")}
    parsed = _parsed(url)
    base, _, form = parsed.scheme.partition("+")
    library = "valkey" if base.startswith("valkey") else "redis"
    module = importlib.import_module(f"{library}.asyncio" if asynchronous else library)
    name = library.capitalize()
    options = fail_fast | dict(options or {})
    if form in ("", "unix"):
        kind = getattr(module, name)
        options.setdefault("retry", _no_retry(library, asynchronous))
        return kind.from_url(url.replace(f"{library}+unix", "unix", 1), **options)
    if parsed.query:
        names = ", ".join(part.partition("=")[0] for part in parsed.query.split("&"))
        raise ValueError(f"url: {parsed.scheme} takes no query: give {names} in options")
    if base in ("rediss", "valkeys"):
        options.setdefault("ssl", True)
    hosts = [_address(part) for part in parsed.netloc.rpartition("@")[2].split(",") if part]
    if not hosts:
        raise ValueError(f"url: the addresses are missing, such as {parsed.scheme}://127.0.0.1:7001,127.0.0.1:7002")
    for option in ("username", "password"):
        if getattr(parsed, option):
            options.setdefault(option, urllib.parse.unquote(getattr(parsed, option)))
    path = parsed.path.strip("/")
    if form == "cluster":
        if path not in ("", "0"):
            raise ValueError(f"url: a cluster has only database 0, not {path!r}")
        cluster = importlib.import_module(f"{module.__name__}.cluster")
        nodes = [cluster.ClusterNode(host, port) for host, port in hosts]
        try:
            return getattr(cluster, f"{name}Cluster")(startup_nodes=nodes, **options)
        except Exception as error:  # that for threads asks the nodes for the others when it is made
            raise translate("url", error, " or ".join(f"{host}:{port}" for host, port in hosts) + (", by TLS" if options.get("ssl") else "")) from error
    sentinel = importlib.import_module(f"{module.__name__}.sentinel")
    service, _, database = path.partition("/")
    if database and not database.isdecimal():
        raise ValueError(f"url: after the name of the master comes the number of a database, not {database!r}")
    if database:
        options.setdefault("db", int(database))
    if not service:
        raise ValueError("url: the name of the master is missing, such as redis+sentinel://host:26379/mymaster")
    options.setdefault("retry", _no_retry(library, asynchronous))
    # A Sentinel that is away must not keep callers from asking the next one.
    asking = fail_fast | {"retry": _no_retry(library, asynchronous)} | options.pop("sentinel_kwargs", {})
    return sentinel.Sentinel(hosts, sentinel_kwargs=asking, **options).master_for(service)


def sentinels_of(client: Any) -> list[Any]:
    """Return the clients with which a client asks Sentinels for its master. Closing the client leaves them open."""
    pool = None if isinstance(client, AwayCluster) else getattr(client, "connection_pool", None)
    return list(getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()))


class AwayCluster:
    """A client for a cluster none of whose nodes could be reached yet. Each use of it tries to make the client, until
    one succeeds."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: list[Any] = []
        self.then: Callable[[Any], None] = lambda made: None
        """What is done with the client when it is made."""

    @property
    def away(self) -> bool:
        """Whether there is no client yet."""
        return not self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client(), name)

    def _client(self) -> Any:
        if not self._made:
            made = self._make()
            self._made.append(made)  # without a lock, which a child might find held: of those that threads make at once the first stays
            if self._made[0] is made:
                self.then(made)
            else:
                made.close()
        return self._made[0]

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and return its reply."""
        return self._client().execute_command(*args, **options)

    def get_node_from_key(self, *args: Any, **options: Any) -> Any:
        """Return the node that has a key."""
        return self._client().get_node_from_key(*args, **options)

    def close(self) -> None:
        """Close the client, if there is one."""
        for made in self._made:
            made.close()


_UNREADABLE = "url: it can't be read. In a name or a password, write %2F for a /, %3F for a ?, %23 for a #, %40 for an @ and %5B for a ["


def _parsed(url: str) -> urllib.parse.SplitResult:
    """Return the parts of a URL. No error repeats a part of it that may be one of a password."""
    try:
        parsed = urllib.parse.urlsplit(url)
        nowhere = parsed.hostname is None
        if "," not in parsed.netloc:
            parsed.port  # noqa: B018  raises if it is none
    except ValueError:
        raise ValueError(_UNREADABLE) from None
    if parsed.scheme not in SCHEMES:
        scheme = f"the scheme {parsed.scheme!r}" if "://" in url else "the scheme"
        raise ValueError(f"url: {scheme} is none of {', '.join(SCHEMES)}: write it as in redis://127.0.0.1:6379")
    unix = parsed.scheme.endswith("+unix")
    if unix and not nowhere:
        raise ValueError(f"url: a Unix socket has no host: write {parsed.scheme}:///path, or {parsed.scheme}://:password@/path")
    # A password ends the address where it has one of these, and what is left of it would be taken for a path, a query
    # or nothing at all.
    rest = "" if unix else parsed.path + (parsed.query if nowhere else "")
    if parsed.fragment or "@" in rest or (unix and parsed.netloc and "@" not in parsed.netloc):
        raise ValueError(_UNREADABLE)
    if "+" not in parsed.scheme and parsed.path.strip("/") and not parsed.path.replace("/", "").isdecimal():
        raise ValueError(f"url: after the address comes the number of a database, as in {parsed.scheme}://127.0.0.1:6379/0")
    return parsed


def _address(part: str) -> tuple[str, int]:
    try:
        address = urllib.parse.urlsplit(f"//{part}")
        host, port = address.hostname, address.port
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise ValueError("url: each address must be host:port, such as 127.0.0.1:7001; one is not")
    return host, port


def _no_retry(library: str, asynchronous: bool) -> Any:
    retry = importlib.import_module(f"{library}.asyncio.retry" if asynchronous else f"{library}.retry")
    backoff = importlib.import_module(f"{library}.backoff")
    return retry.Retry(backoff.NoBackoff(), 0)
