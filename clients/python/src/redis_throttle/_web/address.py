"""Which key the address of a client makes. spec/clients/addresses.json has the rules as a table that every language is
held to."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._core.undecided import warn_once

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NETWORKS = (ipaddress.IPv4Network, ipaddress.IPv6Network)
Peer = str | Mapping[str, Any]
"""An address, the scope of an ASGI request, or the environ of a WSGI request (`request.META` of Django)."""

NOBODY = "@"
"""The key of all requests without an address."""

_ENTRY = re.compile(r"(?P<v4>[0-9.]+):(?P<port4>[0-9]{1,5})|\[(?P<v6>[^\[\]]*:[^\[\]]*)\](?::(?P<port6>[0-9]{1,5}))?")


def client_address(source: Peer, *, ipv6: int = 64, trusted: Iterable[str | Network] = ()) -> str:
    """Return the key of the client's address: `203.0.113.7`, or `2001:db8:1:2::/64`, since a host may use all addresses
    of its network.

    `source` is an address, the scope of an ASGI request, or the environ of a WSGI request. `ipv6` is the length of the
    prefix that IPv6 addresses of one client have in common. IPv4 inside IPv6 is IPv4.

    `trusted` are the addresses and networks of your proxies, such as `"10.1.0.0/24"`. The client of a request that
    comes from one of them is read from X-Forwarded-For: it is the first address from the right that is not trusted.
    Trust proxies alone, and only those that append to the field or replace it.

    A peer without an address, as at a Unix socket, is a proxy on this machine. Where X-Forwarded-For names nobody
    either, the key is `"@"`: all such requests are limited together. That is logged once.
    """
    if isinstance(ipv6, bool) or not isinstance(ipv6, int) or not 1 <= ipv6 <= 128:
        raise ValueError(f"ipv6 must be the length of a prefix, from 1 to 128, not {ipv6!r}")
    proxies = networks(trusted)
    text, fields = _read(source)
    peer = _address(text)
    client, _ = _behind(proxies, peer, fields)
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


def from_networks(networks: Iterable[str | Network], *, trusted: Iterable[str | Network] = ()) -> Callable[[Peer], bool]:
    """Return a function that says whether a request is of a client in one of these networks, such as `"10.0.0.0/8"`. An
    address alone is one, too.

    It is what `skip` is made of, for routes by hand and hosts that have something like it:

        inside = from_networks(["10.0.0.0/8", "127.0.0.1"], trusted=["10.1.0.0/24"])
        limiter.request_filter(lambda: inside(request.environ))  # Flask-Limiter

    It takes what `client_address` takes as `source`, and finds the client in the same way. A request whose client is
    not certain is of none.
    """
    return within(networks, trusted, "networks")


def within(inside: Iterable[str | Network], trusted: Iterable[str | Network], option: str = "skip") -> Callable[[Peer], bool]:
    """Return the function of `from_networks`, or raise an error that names the option."""
    wanted, proxies = networks(inside, option), networks(trusted)

    def is_within(source: Peer) -> bool:
        text, fields = _read(source)
        client, alone = _behind(proxies, _address(text), fields)
        if wanted and not alone and not proxies:
            warn_once(f"{option} behind no proxy", f"{option}: a request has X-Forwarded-For, and no proxy is trusted, so its client is not certain, and "
                      f"it is limited. Name the proxies in {'TRUSTED' if option == 'SKIP' else 'trusted'}")
        return alone and client is not None and any(client in network for network in wanted)

    return is_within


def networks(given: Iterable[str | Network], option: str = "trusted") -> tuple[Network, ...]:
    """Return addresses and networks, or raise an error that names the option and the one that is wrong."""
    if isinstance(given, (str, bytes, *_NETWORKS)) or not isinstance(given, Iterable):  # a network is iterable by all of its addresses
        wanted = "a function of the request, or a list" if option == "skip" else "a list"
        example = [given] if isinstance(given, str) else ["10.1.0.0/24"]
        raise TypeError(f"{option} must be {wanted} of addresses and networks, such as {example!r}, not {given!r}")
    return _networks(tuple(given), option)


_NETWORK = re.compile(r"[0-9a-fA-F:.]+(/(0|[1-9][0-9]{0,2}))?")


@functools.lru_cache(64)
def _networks(given: tuple[str | Network, ...], option: str) -> tuple[Network, ...]:
    made: list[Network] = []
    for one in given:
        try:
            if isinstance(one, (int, bytes)) or (isinstance(one, str) and not _NETWORK.fullmatch(one)):
                raise ValueError  # an address may be a number for ip_network, and a length a mask
            network: Network = ipaddress.ip_network(one, strict=False)
        except ValueError:
            raise ValueError(f"{option}: {one!r} is no address and no network such as '10.1.0.0/24'") from None
        if isinstance(one, str) and ipaddress.ip_interface(one).ip != network.network_address:
            raise ValueError(f"{option}: {one!r} is no address and no network: write '{network}', or the address '{ipaddress.ip_interface(one).ip}'")
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


def _behind(proxies: Sequence[Network], peer: Address | None, fields: Sequence[str]) -> tuple[Address | None, bool]:
    """Walk from the peer to the client, from the right end of X-Forwarded-For, where the nearest proxy wrote.

    Return whether the client is alone, too: nothing is left to read but perhaps its own address, which a server before
    this one has read.
    """
    at = peer
    left = ",".join(fields).split(",") if fields else []
    while left:
        address = _address(left.pop())
        if at is not None and not any(at in network for network in proxies):
            return at, not left and address == at
        if address is None:
            return at, False
        at = address
    return at, True
