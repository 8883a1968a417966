"""What tests of recipes share: the storages of `limits` that they compare, and requests of users."""

from __future__ import annotations

from servers import Server

STRATEGIES = ["fixed-window", "moving-window", "sliding-window-counter"]
"""Those that `limits` has for its own storages."""

Requests = list[tuple[str, str, dict[str, str]]]

ANN, BOB, PRO = ({"X-User": name} for name in ("ann", "bob", "pro"))
FORWARDED = [{"X-Forwarded-For": value} for value in ("10.2.3.4", "10.2.3.4, 203.0.113.7", "203.0.113.7", "unknown, 10.2.3.4")]
"""The first is of a client in 10.0.0.0/8, where the peer is a proxy; a client made up the others."""


def storages(server: Server) -> tuple[str, str, str]:
    """Return the URIs of the storages of `limits` in memory and for Redis, and of ours."""
    return "memory://", server.url, f"throttle+{server.url}"


def get(*headers: dict[str, str], path: str = "/") -> Requests:
    """Return one request for each of the headers."""
    return [("GET", path, each) for each in headers]
