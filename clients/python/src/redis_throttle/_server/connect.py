"""Clients for a URL that fail fast: every request waits for the limiter, so it must not wait for long."""

from __future__ import annotations

import importlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

from .._seam.duration import Duration, seconds

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

    `timeout` is how long connecting may take, and an answer. A lost call is never repeated. `options` are the client library's own,
    such as `{"max_connections": 50}`, and go before `timeout`. Those of a server may also be in the query of its URL;
    `sentinel_kwargs` are for the Sentinels, such as their `password`.
    """
    fail_fast: dict[str, Any] = {"socket_timeout": seconds(timeout, "timeout"), "socket_connect_timeout": seconds(timeout, "timeout")}
    parsed = urllib.parse.urlsplit(url)
    if parsed.scheme not in SCHEMES:
        raise ValueError(f"url: the scheme {parsed.scheme!r} is none of {', '.join(SCHEMES)}")
    base, _, form = parsed.scheme.partition("+")
    library = "valkey" if base.startswith("valkey") else "redis"
    module = importlib.import_module(f"{library}.asyncio" if asynchronous else library)
    name = library.capitalize()
    options = fail_fast | dict(options or {})
    if form in ("", "unix"):
        kind = getattr(module, name)
        options.setdefault("retry", _no_retry(library, asynchronous))
        return kind.from_url(url.replace(f"{library}+unix", "unix", 1), **options)
    if parsed.query or parsed.fragment:
        raise ValueError(f"url: {parsed.scheme} takes no query: give {parsed.query or parsed.fragment!r} as an option")
    if base in ("rediss", "valkeys"):
        options.setdefault("ssl", True)
    hosts = [_address(part) for part in parsed.netloc.rpartition("@")[2].split(",") if part]
    for option in ("username", "password"):
        if getattr(parsed, option):
            options.setdefault(option, urllib.parse.unquote(getattr(parsed, option)))
    path = parsed.path.strip("/")
    if form == "cluster":
        if path not in ("", "0"):
            raise ValueError(f"url: a cluster has only database 0, not {path!r}")
        cluster = importlib.import_module(f"{module.__name__}.cluster")
        nodes = [cluster.ClusterNode(host, port) for host, port in hosts]
        return getattr(cluster, f"{name}Cluster")(startup_nodes=nodes, **options)
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
    pool = getattr(client, "connection_pool", None)
    return list(getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()))


def _address(part: str) -> tuple[str, int]:
    address = urllib.parse.urlsplit(f"//{part}")
    if address.hostname is None or address.port is None:
        raise ValueError(f"url: {part!r} is not host:port")
    return address.hostname, address.port


def _no_retry(library: str, asynchronous: bool) -> Any:
    retry = importlib.import_module(f"{library}.asyncio.retry" if asynchronous else f"{library}.retry")
    backoff = importlib.import_module(f"{library}.backoff")
    return retry.Retry(backoff.NoBackoff(), 0)
