"""Which key the address of a client makes. spec/clients/addresses.json has the rules as a table that every language is held to."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._core.undecided import warn_once

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Peer = str | Mapping[str, Any]
"""An address, the scope of an ASGI request, or the environ of a WSGI request (`request.META` of Django)."""

NOBODY = "@"
"""The key of all requests without an address."""

_ENTRY = re.compile(r"(?P<v4>[0-9.]+):(?P<port4>[0-9]{1,5})|\[(?P<v6>[^\[\]]*:[^\[\]]*)\](?::(?P<port6>[0-9]{1,5}))?")


def client_address(source: Peer, *, ipv6: int = 64, trusted: Iterable[str | Network] = ()) -> str:
    """Return the key of the client's address: `203.0.113.7`, or `2001:db8:1:2::/64`, since a host may use all addresses of its network.

    `source` is an address, the scope of an ASGI request, or the environ of a WSGI request. `ipv6` is the length of the prefix
    that IPv6 addresses of one client have in common. IPv4 inside IPv6 is IPv4.

    `trusted` are the addresses and networks of your proxies, such as `"10.1.0.0/24"`. The client of a request that comes from one
    of them is read from X-Forwarded-For: it is the first address from the right that is not trusted. Trust proxies alone, and only
    those that append to the field or replace it.

    A peer without an address, as at a Unix socket, is a proxy on this machine. Where X-Forwarded-For names nobody either, the key is
    `"@"`: all such requests are limited together. That is logged once.
    """
    if isinstance(ipv6, bool) or not isinstance(ipv6, int) or not 1 <= ipv6 <= 128:
        raise ValueError(f"ipv6 must be the length of a prefix, from 1 to 128, not {ipv6!r}")
    proxies = networks(trusted)
    text, fields = _read(source)
    peer = _address(text)
    client = _behind(proxies, peer, fields)
    if client is None:
        warn_once("no address", "a request has no address, and X-Forwarded-For names none: all such requests are limited together, as the "
                  'client "@". Let the proxy set X-Forwarded-For, or give the middleware a key')
        return NOBODY
    if fields and not proxies and peer is not None and client not in map(_address, ",".join(fields).split(",")):
        warn_once("no proxy is trusted", "a request has X-Forwarded-For, and no proxy is trusted: clients are limited by the address of the peer. "
                  "Behind a proxy, name it in trusted, or all of its clients share one limit")
    if isinstance(client, ipaddress.IPv4Address):
        return str(client)
    return str(ipaddress.IPv6Network((client, ipv6), strict=False))


def networks(trusted: Iterable[str | Network]) -> tuple[Network, ...]:
    """Return the networks of proxies, or raise an error that names the one that is wrong."""
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of addresses and networks, such as [{trusted!r}]")
    return _networks(tuple(trusted))


@functools.lru_cache(64)
def _networks(trusted: tuple[str | Network, ...]) -> tuple[Network, ...]:
    made: list[Network] = []
    for one in trusted:
        try:
            network: Network = ipaddress.ip_network(one)
        except ValueError as error:
            raise ValueError(f"trusted: {one!r} is no address and no network such as '10.1.0.0/24': {error}") from None
        if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96 and network.network_address.ipv4_mapped is not None:
            network = ipaddress.IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - 96))
        made.append(network)
    return tuple(made)


def _read(source: Peer) -> tuple[str, list[str]]:
    """Return the text of the peer's address, and the values of X-Forwarded-For."""
    if isinstance(source, str):
        return source, []
    if "type" in source:  # ASGI
        client = source.get("client")
        fields = [value.decode("latin-1") for name, value in source.get("headers", ()) if name.lower() == b"x-forwarded-for"]
        return str(client[0] or "") if client else "", fields
    field = source.get("HTTP_X_FORWARDED_FOR")
    return str(source.get("REMOTE_ADDR") or ""), [] if field is None else [field]


def _address(text: str) -> Address | None:
    """Read an address, with or without a port, or brackets around one of IPv6."""
    text = text.strip(" \t")
    match = _ENTRY.fullmatch(text)
    if match is not None:
        if int(match["port4"] or match["port6"] or 0) > 65_535:
            return None
        text = match["v4"] or match["v6"]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return address
    return address.ipv4_mapped or ipaddress.IPv6Address(int(address))  # without its zone


def _behind(proxies: Sequence[Network], peer: Address | None, fields: Sequence[str]) -> Address | None:
    """Walk from the peer to the client, from the right end of X-Forwarded-For, where the nearest proxy wrote."""
    at = peer
    for entry in reversed(",".join(fields).split(",")):
        if at is not None and not any(at in network for network in proxies):
            return at
        address = _address(entry)
        if address is None:
            return at
        at = address
    return at
