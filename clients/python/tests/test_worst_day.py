"""What spec/clients/worst-day.json names and no other test shows: a certificate that is replaced, and a slot that moves
to a server without the library."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from redis_throttle import MistakeError, OutageError, fixed
from servers import Ask, Cluster, Server, await_true, free_port
from test_doors import libraries
from test_outages import certificate

DAY = fixed(1_000_000, "1d")


def ends(get: Ask, limiter: Any) -> type[Exception] | None:
    """Return what a call ends with; nothing if it was decided."""
    try:
        get(limiter.limit("k", DAY))
    except (MistakeError, OutageError) as error:
        return type(error)
    return None


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_a_certificate_is_replaced(get: Ask, library: str, tmp_path: pathlib.Path) -> None:
    """Connections outlive the certificate that they began with. A new one is shown the next, which the client has to
    trust."""
    first, second, stranger = (certificate(tmp_path, name, 2) for name in ("first", "second", "stranger"))
    trusted = tmp_path / "trusted"
    trusted.write_text("".join(pathlib.Path(cert).read_text() for _, cert in (first, second)))
    port = free_port()
    server = Server("--tls-port", str(port), "--tls-key-file", first[0], "--tls-cert-file", first[1], "--tls-auth-clients", "no")

    def shows(pair: tuple[str, str], *, hang_up: bool) -> None:
        server.do("CONFIG", "SET", "tls-key-file", pair[0], "tls-cert-file", pair[1])
        if hang_up:
            server.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    limiter = get.limiter(f"{library}s://localhost:{port}", options={"ssl_ca_certs": str(trusted)})
    try:
        await_true(lambda: ends(get, limiter) is None, "it is connected")
        shows(second, hang_up=False)
        assert ends(get, limiter) is None, "by the connection that is there"
        shows(second, hang_up=True)
        await_true(lambda: ends(get, limiter) is None, "by a new connection")
        shows(stranger, hang_up=True)
        await_true(lambda: ends(get, limiter) is MistakeError, "it is a mistake")
        shows(first, hang_up=False)
        await_true(lambda: ends(get, limiter) is None, "it goes on")
    finally:
        get(limiter.close())
        server.stop()


def test_a_slot_moves_to_a_master_without_the_library(get: Ask) -> None:
    """While it moves and afterwards no call fails, and each is charged once."""
    cluster = Cluster(node_timeout_ms=60_000, with_module=False)
    limiter = get.limiter(cluster.url)
    try:
        assert get(limiter.limit("k", DAY)).remaining == 999_999
        old = cluster.owner("k")
        new = next(node for node in cluster.nodes if node is not old)
        slot, names = old.do("CLUSTER", "KEYSLOT", "k"), {node: node.do("CLUSTER", "MYID").decode() for node in (old, new)}
        old.do("DEL", "k")  # a key that the old master has not is asked for at the new one
        new.do("CLUSTER", "SETSLOT", slot, "IMPORTING", names[old])
        old.do("CLUSTER", "SETSLOT", slot, "MIGRATING", names[new])
        for taken in range(1, 7):
            assert get(limiter.limit("k", DAY)).remaining == 1_000_000 - taken
            if taken == 3:
                for node in (new, old):
                    node.do("CLUSTER", "SETSLOT", slot, "NODE", names[new])
        assert new.do("EXISTS", "k") == 1

        def has_it() -> bool:
            get(limiter.peek("k", DAY))
            return bool(libraries(new))

        await_true(has_it, "the new master has the library")
    finally:
        get(limiter.close())
        cluster.stop()
