"""An address that leads to another master now, as a name, a load balancer or the primary endpoint of a managed service
does after a failover.

Connections that are open stay with the old master, which answers READONLY from then on. They are left at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redis_throttle import Limiter, OutageError, fixed, window
from servers import PATIENCE, Ask, Server, await_true

DAY = fixed(1_000_000, "1d")


class Address:
    """An address that leads to a server. What is connected already stays where it is when the address moves."""

    def __init__(self, target: Server) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.connections = 0
        self.swallows = b"\0"  # what ends all that a connection carries, once it was sent over it
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(here)
            try:
                there = socket.create_connection(("127.0.0.1", self.target.port))
            except OSError:
                here.close()
                continue
            self.connections += 1
            self.sockets.append(there)
            lost = threading.Event()
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(source, sink, lost), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.swallows in data:
                    lost.set()
                if not lost.is_set():
                    sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody
        self.thread.join(PATIENCE)
        self.listener.close()
        for one in self.sockets:
            one.close()


class Pair:
    """A master and its replica."""

    def __init__(self, with_module: bool) -> None:
        self.old = Server("--repl-diskless-sync-delay", "0", with_module=with_module)
        self.new = Server("--replicaof", "127.0.0.1", str(self.old.port), with_module=with_module)
        await_true(lambda: self.new.replication().get("master_link_status") == "up", "the replica has the data")

    def fail_over(self) -> None:
        assert self.old.do("WAIT", 1, 30_000) == 1
        self.new.do("REPLICAOF", "NO", "ONE")
        self.old.do("REPLICAOF", "127.0.0.1", self.new.port)
        await_true(lambda: self.old.replication().get("master_link_status") == "up", "the old master follows")

    def stop(self) -> None:
        self.new.stop()
        self.old.stop()


@pytest.fixture(params=[True, False], ids=["module", "functions"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(request.param)
    yield pair
    pair.stop()


@pytest.fixture
def address(pair: Pair) -> Iterator[Address]:
    address = Address(pair.old)
    yield address
    address.stop()


def at_once(get: Ask, limiter: Any, n: int) -> None:
    """Make calls at the same time, so that several connections are open."""
    if not get.asynchronous:
        threads = [threading.Thread(target=limiter.limit, args=("k", DAY)) for _ in range(n)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(PATIENCE)
        return

    async def all_of_them() -> None:
        await asyncio.gather(*(limiter.limit("k", DAY) for _ in range(n)))

    get(all_of_them())


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_the_old_master_is_left_with_the_first_answer_that_it_is_none(pair: Pair, address: Address, get: Ask, library: str) -> None:
    limiter = get.limiter(f"{library}://127.0.0.1:{address.port}", timeout="5s")
    at_once(get, limiter, 20)
    used = 20
    pair.fail_over()
    address.target = pair.new
    with pytest.raises(OutageError, match=r"READONLY|read only|can't write"):
        get(limiter.limit("k", DAY))
    for _ in range(3):
        used += 1
        assert get(limiter.limit("k", DAY)).remaining == 1_000_000 - used, "the new master decides"
    get(limiter.close())


def test_a_call_that_waits_leaves_it_too(pair: Pair, address: Address, get: Ask) -> None:
    limiter = get.limiter(f"redis://127.0.0.1:{address.port}", timeout="5s", poll="100ms")
    get(limiter.limit("k", DAY))
    pair.fail_over()
    address.target = pair.new
    with pytest.raises(OutageError):
        get(limiter.limit("k", DAY))
    assert get(limiter.wait("k", DAY, timeout="5s")).allowed
    get(limiter.close())


def wait_aside(asynchronous: bool, url: str, key: str, limit: Any) -> Callable[[], Any]:
    """Have a caller wait in a thread of its own. What is returned waits for its result, or its error."""
    ended: list[Any] = []

    def wait() -> None:
        ask = Ask(asynchronous)
        limiter = ask.limiter(url, timeout="5s", patience="1s")
        try:
            ended.append(ask(limiter.wait(key, limit)))
        except Exception as error:
            ended.append(error)
        ask(limiter.close())
        if ask.runner is not None:
            ask.runner.close()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(PATIENCE)
        assert ended, "it waits for ever"
        return ended[0]

    return join


@pytest.mark.parametrize("rights", [["+@all"], ["+@all", "-info"]], ids=["it tells which it is", "it does not"])
def test_a_caller_waits_for_a_master_that_lives_and_for_no_other(get: Ask, rights: list[str]) -> None:
    """What answers at the address of a master that hangs is another one by now."""
    old, new = Server(), Server()
    for server in (old, new):
        server.do("ACL", "SETUSER", "limits", "on", ">secret", "~*", *rights)
    address = Address(old)
    url = f"redis://limits:secret@127.0.0.1:{address.port}"
    try:
        with Limiter.from_url(url, timeout="5s") as limiter:
            limiter.limit("soon", window(1, "5s"))
            limiter.limit("late", window(1, "1d"))
        gets = wait_aside(get.asynchronous, url, "soon", window(1, "5s"))
        hangs = wait_aside(get.asynchronous, url, "late", window(1, "1d"))
        await_true(lambda: int(old.client().info("throttle")["throttle_waiting"]) == 2, "the callers are in line")
        assert gets().allowed, "it is asked for a sign of life meanwhile"
        if "-info" not in rights:
            address.target = new
            old.pause()
            error = hangs()
            assert isinstance(error, OutageError), error
    finally:
        address.stop()
        old.stop()
        new.stop()
    hangs()


def test_nobody_waits_for_ever_over_a_connection_that_is_lost(get: Ask) -> None:
    """As behind a balancer that forgets it: nothing comes, while the server answers all others."""
    server = Server()
    address = Address(server)
    address.swallows = b"CL.WAIT"
    limiter = get.limiter(f"redis://127.0.0.1:{address.port}", timeout="5s", patience="300ms")
    try:
        with pytest.raises(OutageError, match="while the server is alive"):
            get(limiter.wait("k", DAY, timeout="100ms"))
        assert get(limiter.limit("k", DAY)).allowed
    finally:
        get(limiter.close())
        address.stop()
        server.stop()


def test_a_client_of_ones_own_leaves_it_too(pair: Pair, address: Address) -> None:
    with redis.Redis(port=address.port, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE) as client:
        limiter = Limiter(client, timeout="30s")
        limiter.limit("k", DAY)
        pair.fail_over()
        address.target = pair.new
        with pytest.raises(OutageError):
            limiter.limit("k", DAY)
        assert limiter.limit("k", DAY).allowed
