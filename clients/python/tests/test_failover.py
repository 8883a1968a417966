"""A master dies or steps back, and its replica is promoted, by a Sentinel and in a cluster, under callers of every
client library.

Every call ends with a result or an `OutageError`, calls go on, and no more units are used than callers got or may have
got.
"""

from __future__ import annotations

import asyncio
import contextlib
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from redis_throttle import LeaseLostError, Limiter, OutageError, OverloadError, Slots, ThrottleError, fixed, window
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Cluster, Server, Watched, await_true

PATIENCE = 120.0
"""Bounds a hang, in seconds."""

LIMIT = 1_000_000
DAY = fixed(LIMIT, "1d")


@dataclass
class Client:
    """A limiter, and how a thread gets what its methods return."""

    name: str
    limiter: Any
    get: Callable[[Any], Any] = lambda result: result


@contextlib.contextmanager
def clients_for(url: str, patience: str = "3s") -> Iterator[list[Client]]:
    """Open limiters on each library, for threads and for asyncio, whose calls run in a loop of their own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def get(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    async def opened(url: str) -> AsyncLimiter:
        return AsyncLimiter.from_url(url, patience=patience)

    clients = []
    try:
        for library in ("redis", "valkey"):
            its = url.replace("redis", library, 1)
            clients += [Client(f"{library}-py", Limiter.from_url(its, patience=patience)), Client(f"{library}-py for asyncio", get(opened(its)), get)]
        yield clients
    finally:
        for client in clients:
            client.get(client.limiter.close())
        get(asyncio.sleep(0))  # the loop closes transports in its next turn
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class Callers:
    """Threads that charge a key again and again during a `with` statement, and count what they were told."""

    client: Client
    key: str
    undecided: tuple[type[ThrottleError], ...] = (OutageError,)
    charged: int = 0
    outages: list[str] = field(default_factory=list)
    in_a_row: int = 0
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    end: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def call(self) -> None:
        try:
            result = self.client.get(self.client.limiter.limit(self.key, DAY))
        except self.undecided as error:
            with self.lock:
                self.outages.append(f"{error}: {error.__cause__!r}")
                self.in_a_row = 0
        else:
            assert (result.limited, result.granted) == (False, 1)
            with self.lock:
                self.charged, self.in_a_row = self.charged + 1, self.in_a_row + 1

    def work(self) -> None:
        while not self.end.wait(0.02):
            try:
                self.call()
            except BaseException as error:
                self.problems.append(repr(error))
                return

    def go_on(self) -> None:
        """Wait until so many calls in a row were decided that all of the threads and their connections are back."""
        with self.lock:
            self.in_a_row = 0
        await_true(lambda: bool(self.problems) or self.in_a_row >= 20, f"{self.client.name}: calls are decided", PATIENCE)
        assert not self.problems, f"{self.client.name}: {self.problems}"

    def __enter__(self) -> Callers:
        self.end.clear()
        self.threads = [threading.Thread(target=self.work) for _ in range(3)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{self.client.name}: a call does not end"

    def agree(self, *, lost: bool = False) -> None:
        """Units of calls that ended with an outage may be used or not. Nothing else is, and what was charged is unless
        it may be `lost`."""
        assert not self.problems, f"{self.client.name}: {self.problems}"
        used = LIMIT - self.client.get(self.client.limiter.peek(self.key, DAY)).remaining
        at_least = 0 if lost else self.charged
        assert at_least <= used <= self.charged + len(self.outages), \
            f"{self.client.name}: {used} units of {self.key} are used, {self.charged} were charged, {len(self.outages)} calls ended with an outage"


@contextlib.contextmanager
def all_at_work(callers: list[Callers]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in callers:
            stack.enter_context(each)
        yield


def everybody_goes_on(callers: list[Callers]) -> None:
    with all_at_work(callers):
        for each in callers:
            each.go_on()


class Holder:
    """A client with leases: one that outlasts any failover, one that is renewed and one that none outlasts, and with a
    caller in line."""

    def __init__(self, client: Client, tag: str) -> None:
        self.client, limiter = client, client.limiter
        self.name = f"{{{tag}}}:{client.name}"
        self.admitted, self.line = f"{self.name}:admitted", f"{self.name}:line"
        client.get(limiter.admit({self.admitted: Slots(1, "10m")}, id="job").take())
        self.taken = time.monotonic()
        self.held = limiter.lease(f"{self.name}:held", slots=1, ttl="2m")
        self.short = limiter.lease(f"{self.name}:short", slots=1, ttl="500ms")
        for lease in (self.held, self.short):
            client.get(lease.take())
        client.get(limiter.limit(self.line, window(1, "1d")))
        self.ended: BaseException | None = None
        self.waiting = threading.Thread(target=self._wait)
        self.waiting.start()

    def _wait(self) -> None:
        try:
            self.client.get(self.client.limiter.wait(self.line, window(1, "1d")))
        except BaseException as error:
            self.ended = error

    def await_replicas(self, master: Server, replica: Server) -> None:
        """Wait until the replica has the leases, the one that is renewed with its whole ttl."""
        await_true(lambda: int(master.do("PTTL", self.held.key)) > 10_000, "the lease is renewed")
        written = int(master.replication()["master_repl_offset"])
        await_true(lambda: int(replica.replication()["slave_repl_offset"]) >= written, "the replica has everything")

    def agrees(self, master: Server) -> None:
        """After the failover to `master`, the holder knows which of its leases it has."""
        name, limiter, get = self.client.name, self.client.limiter, self.client.get
        self.waiting.join(PATIENCE)
        assert isinstance(self.ended, OutageError), f"{name}: the caller in line got {self.ended!r}"
        assert get(limiter.release(self.admitted, id="job")), f"{name}: the new master has the lease"
        assert master.do("EXISTS", self.admitted) == 0, f"{name}: the lease ended on the new master"
        lost, now = self.held.lost, time.monotonic()
        if lost:
            assert now - self.taken > 110, f"{name}: a lease of two minutes is lost"
        else:
            self.held.check()
            assert master.do("EXISTS", self.held.key) == 1, f"{name}: the holder believes in a lease that the new master does not have"
        get(self.held.release())
        assert master.do("EXISTS", self.held.key) == 0, f"{name}: the lease ended on the new master"
        other = limiter.lease(self.short.key, slots=1, ttl="1m", timeout="30s")
        get(other.take())
        with pytest.raises(LeaseLostError):  # the slot is somebody else's now
            self.short.check()
        for lease in (other, self.short):
            get(lease.release())


def survives_a_death(url: str, tag: str, master: Server, replica: Server, die: Callable[[], None]) -> None:
    """Have the master of a tag's keys die under callers, leases and a line, and go on with its replica."""
    with clients_for(url) as clients:
        # Behind calls that a server lets hang, others find no connection.
        ends = (OutageError, OverloadError) if die == master.pause else (OutageError,)
        during = [Callers(client, f"{{{tag}}}:{client.name}:during", ends) for client in clients]
        around = [Callers(client, f"{{{tag}}}:{client.name}:around", ends) for client in clients]
        everybody_goes_on(around)
        holders = [Holder(client, tag) for client in clients]
        await_true(lambda: int(master.client().info("throttle")["throttle_waiting"]) == len(holders), "the callers are in line")
        with all_at_work(during):
            for each in during:
                each.go_on()
            for holder in holders:
                holder.await_replicas(master, replica)
            before = [len(each.outages) for each in during]
            die()
            everybody_goes_on(around)
            for each in during:
                each.go_on()
        assert replica.replication()["role"] == "master"
        for each, n in zip(during, before, strict=True):
            assert len(each.outages) > n, f"{each.client.name}: nobody noticed that the master was gone"
            each.agree(lost=True)  # the replica may not have had the last ones
        for each in around:
            each.agree()
        for holder in holders:
            holder.agrees(replica)


def survives_a_handover(url: str, tag: str, replica: Server, hand_over: Callable[[], None], *, lost: bool) -> None:
    """Hand the keys of a tag over to a replica under callers, who know what they have got afterwards."""
    with clients_for(url) as clients:
        during = [Callers(client, f"{{{tag}}}:{client.name}:during") for client in clients]
        after = [Callers(client, f"{{{tag}}}:{client.name}:after") for client in clients]
        with all_at_work(during):
            for each in during:
                each.go_on()
            hand_over()
            everybody_goes_on(after)
            for each in during:
                each.go_on()
        for each in during:
            each.agree(lost=lost)
        for each in after:
            each.agree()
            assert replica.do("EXISTS", each.key) == 1, f"{each.client.name}: calls go to the new master"


def role(server: Server) -> str:
    """Return a server's role; nothing while it disconnects everybody, as a Sentinel makes it."""
    try:
        return str(server.replication()["role"])
    except (redis.ConnectionError, redis.TimeoutError):
        return ""


@pytest.fixture
def watched() -> Iterator[Watched]:
    servers = Watched()
    yield servers
    servers.stop()


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.stop()


def test_a_master_that_dies_under_a_sentinel(watched: Watched) -> None:
    survives_a_death(watched.url, "k", watched.master, watched.replica, watched.master.kill)


def test_a_master_that_hangs_under_a_sentinel(watched: Watched) -> None:
    """Its connections stay open, and nothing is read from them."""
    survives_a_death(watched.url, "k", watched.master, watched.replica, watched.master.pause)


def test_nobody_waits_for_a_master_that_hangs_once_another_one_answers(watched: Watched) -> None:
    """A caller in line is still connected to the old one: what the new one replies is no sign of life."""
    before = window(1, "1d")
    with clients_for(watched.url, patience="6s") as clients:
        ended: dict[str, BaseException] = {}

        def wait(client: Client) -> None:
            try:
                client.get(client.limiter.wait("k", before))
            except BaseException as error:
                ended[client.name] = error

        clients[0].limiter.limit("k", before)
        threads = [threading.Thread(target=wait, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        await_true(lambda: int(watched.master.client().info("throttle")["throttle_waiting"]) == len(clients), "the callers are in line")
        watched.master.pause()
        await_true(lambda: role(watched.replica) == "master", "the replica is promoted", PATIENCE)
        for thread in threads:
            thread.join(PATIENCE / 2)
    assert {name: type(error) for name, error in ended.items()} == {client.name: OutageError for client in clients}


def test_a_master_that_a_sentinel_tells_to_step_back(watched: Watched) -> None:
    def hand_over() -> None:
        def told() -> bool:
            try:
                return bool(watched.sentinel.do("SENTINEL", "FAILOVER", "mymaster"))
            except redis.ResponseError:  # it has not seen the replica long enough
                return False

        await_true(told, "the Sentinel agrees")
        # Until the old master has been told, it takes calls that the new one does not have.
        await_true(lambda: role(watched.master) == "slave", "the master steps back", PATIENCE)

    survives_a_handover(watched.url, "k", watched.replica, hand_over, lost=True)


def test_a_master_of_a_cluster_that_dies(own_cluster: Cluster) -> None:
    master = own_cluster.owner("k")
    survives_a_death(own_cluster.url, "k", master, own_cluster.add_replica(master), master.kill)


def test_a_master_of_a_cluster_that_hangs(own_cluster: Cluster) -> None:
    master = own_cluster.owner("k")
    survives_a_death(own_cluster.url, "k", master, own_cluster.add_replica(master), master.pause)


def test_a_master_of_a_cluster_that_hands_over(own_cluster: Cluster) -> None:
    """The replica waits until it has everything, so nothing is lost."""
    url = own_cluster.url
    replica = own_cluster.add_replica(own_cluster.owner("k"))

    def hand_over() -> None:
        def done() -> bool:
            if role(replica) == "master":
                return True
            replica.do("CLUSTER", "FAILOVER")
            with contextlib.suppress(AssertionError):
                await_true(lambda: role(replica) == "master", "", 6)  # an attempt ends after five seconds
            return role(replica) == "master"

        await_true(done, "the replica takes over", PATIENCE)

    survives_a_handover(url, "k", replica, hand_over, lost=False)


class ClosedDoor:
    """A port where every connection is closed at once, and counted."""

    def __init__(self) -> None:
        self.connections = 0
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer.connections += 1

        self.server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def closed_door() -> Iterator[ClosedDoor]:
    door = ClosedDoor()
    yield door
    door.stop()


def test_a_sentinel_that_is_away_keeps_nobody_from_the_next(watched: Watched, closed_door: ClosedDoor) -> None:
    """The first Sentinel of the URL is tried once, without the retries and the pauses that the libraries make by
    default."""
    url = watched.url.replace("127.0.0.1:", f"127.0.0.1:{closed_door.port},127.0.0.1:", 1)
    with clients_for(url) as clients:
        for client in clients:
            before = closed_door.connections
            assert client.get(client.limiter.limit("k", DAY)).allowed
            assert closed_door.connections - before == 1, client.name


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_a_sentinel_may_have_a_password_of_its_own(watched: Watched, library: str) -> None:
    url = watched.url.replace("redis", library, 1) + "/3"
    watched.sentinel.do("ACL", "SETUSER", "default", ">secret", "resetpass", ">secret")
    try:
        with Limiter.from_url(url, options={"sentinel_kwargs": {"password": "secret"}}) as limiter:
            assert limiter.limit("k", DAY).allowed
        async with AsyncLimiter.from_url(url, options={"sentinel_kwargs": {"password": "secret"}}) as limiter_of_asyncio:
            assert (await limiter_of_asyncio.limit("k", DAY)).allowed
    finally:
        with redis.Redis(port=watched.sentinel.port, password="secret") as client:
            client.execute_command("ACL", "SETUSER", "default", "nopass")
    with redis.Redis(port=watched.master.port, db=3) as client:
        assert client.exists("k"), "the number behind the name is that of a database"


def test_closing_a_limiter_closes_what_it_has_opened(watched: Watched) -> None:
    def connected() -> int:
        return sum("cmd=client|list" not in line for line in watched.sentinel.do("CLIENT", "LIST", "TYPE", "normal").decode().splitlines())

    await_true(lambda: connected() == 0, "nobody else asks the Sentinel")
    with clients_for(watched.url) as clients:
        for client in clients:
            assert client.get(client.limiter.limit("k", DAY)).allowed
        assert connected() == len(clients)
        for client in clients:
            client.get(client.limiter.close())
        await_true(lambda: connected() == 0, "all connections are closed")
