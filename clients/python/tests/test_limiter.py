"""The limiter on real servers: the acts that the table of cases does not show, waits, outages, clusters, mistakes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
import valkey

from redis_throttle import (
    Call,
    Guard,
    Key,
    LimitedError,
    Limiter,
    MistakeError,
    OutageError,
    OverloadError,
    Remote,
    Result,
    Slots,
    fixed,
    parse_limits,
    rate,
    until_retry,
    window,
)
from redis_throttle._core.call import one
from redis_throttle._server import asynctransport, transport
from redis_throttle._server.pool import pool_arguments
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import until_retry as until_retry_async
from servers import PATIENCE, Ask, Cluster, MadeUp, Server, await_true

DAY = fixed(3, "1d")


def test_limits_in_words_are_read_back() -> None:
    for text in ("RATE 5/1s BURST 10", "WINDOW 100/30m SPARE 2", "FIXED 1000/1mo OFFSET 14d TZ Europe/Berlin", "FIXED 5/10m FIRST TAKE 0 SHADOW"):
        assert [str(limit) for limit in parse_limits(text)] == [text]
    assert len(parse_limits("RATE 5/s FIXED 1000/d")) == 2


@pytest.mark.parametrize(("text", "says"), [
    ("", "at least one"), ("5/s", "expected RATE"), ("RATE 5", "count/period"), ("RATE 5/60", "needs a unit"), ("RATE 5/s BURST", "needs a value"),
    ("RATE 5/s BURST x", "an integer"), ("RATE 5/s COST 2", "expected RATE"), ("RATE 5/S", "needs a unit"), ("FIXED 5/1.5mo", "whole"),
])
def test_limits_in_words_that_are_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_limits(text)


@pytest.mark.parametrize(("make", "says"), [
    (lambda: rate(5, 60), "needs a unit"),  # type: ignore[arg-type]
    (lambda: rate(5.0, "1s"), "an integer"),  # type: ignore[arg-type]
    (lambda: rate(True, "1s"), "an integer"),
    (lambda: window(5, timedelta(0)), "not positive"),
    (lambda: fixed(5, "0mo"), "whole and positive"),
    (lambda: rate(2**63, "1s"), "must be from 0"),
    (lambda: rate(-1, "1s"), "must be from 0"),
    (lambda: rate(0, "1s", burst=5), "lets nobody through"),
    (lambda: rate(5, "1s", shadow="false"), "RATE: shadow must be True or False, not 'false'"),  # type: ignore[arg-type]
    (lambda: fixed(5, "1d", first=1), "FIXED: first must be True or False, not 1"),  # type: ignore[arg-type]
    (lambda: rate(5, "1s", spare=""), "RATE: spare must be an integer"),  # type: ignore[arg-type]
])
def test_an_argument_that_is_wrong_is_named(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Call("limti", (Key("k", (DAY,)),)), "verb must be one of limit, peek"),
    (lambda: Call("limit", (Key("k", (DAY,)), Key("l", (DAY,)))), "takes one key, not 2"),
    (lambda: Call("limit", (Key("k", (DAY,)),), any=True), "any only with several keys"),
    (lambda: Call("limit", (Key("k", (DAY,)),), several=True, id="a"), "an id only if a key has slots"),
    (lambda: Call("limit", (Key("k", slots=3, ttl="1m"),)), "in a call on several keys"),
    (lambda: Call("refund", (Key("k", (DAY,)),), cost=-1), "cost must be 0 or more"),
    (lambda: Call("wait", (Key("k", (DAY,)),)), "timeout must be a timedelta"),
    (lambda: Call("wait", (Key("k", (DAY,)),), max_wait="1s", ban="1m"), "wait takes no ban"),
    (lambda: Call("ban", (Key("k", (DAY,)),), ban="1m"), "ban takes no limits of a key"),
    (lambda: Call("renew", (Key("k", slots=3, ttl="1m"),), id="a"), "renew takes no slots"),
    (lambda: Call("lease", (Key("k", slots=3, ttl="1m"),), id="a", group="b"), "a group only with a timeout"),
    (lambda: Call("lease", (Key("k", slots=3, ttl="1m"),), id="a", max_wait="1s", weight=2), "a weight only with a group"),
    (lambda: Call("lease", (Key("k", slots=3, ttl="1m"),), id="a", max_wait="1s", priority="5"), "priority must be an integer"),  # type: ignore[arg-type]
    (lambda: Call("wait", (Key("k", (DAY,)),), max_wait="1s", group=5), "group must be str or bytes, not int"),  # type: ignore[arg-type]
    (lambda: Call("lease", (Key("k", slots=3, ttl="1m"),), id="a", cost=2), "lease takes no cost"),
    (lambda: Call("release", (Key("k"),), id="a", each=True), "release takes no each"),
])
def test_what_a_verb_cannot_use_is_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_a_timedelta_is_a_duration() -> None:
    assert rate(5, timedelta(minutes=30)) == rate(5, "30m")
    assert str(window(5, timedelta(milliseconds=1.5))) == "WINDOW 5/1.5ms"


def test_a_limited_result_is_raised(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        limiter.limit("k", DAY, cost=3).raise_if_limited()
        with pytest.raises(LimitedError, match="retry after") as raised:
            limiter.limit("k", DAY).raise_if_limited()
        assert raised.value.result.remaining == 0
        with pytest.raises(LimitedError, match="more than the limit of 3"):
            limiter.limit("k", DAY, cost=4).raise_if_limited()


def test_callers_are_served_in_order_of_arrival_and_nobody_blocks_the_pool(server: Server) -> None:
    """Ten callers wait, with a pool of two connections, and an eleventh call is answered meanwhile."""
    client = redis.Redis(port=server.port, socket_timeout=1, max_connections=2)
    limiter, served = Limiter(client), []
    limits = window(1, "100ms")
    limiter.limit("k", limits)

    def work(n: int) -> None:
        limiter.wait("k", limits, timeout="30s")
        served.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    for n, thread in enumerate(threads):
        thread.start()
        await_true(lambda n=n: served != [] or int(server.client().info("throttle")["throttle_waiting"]) > n, "a caller is in line")  # type: ignore[misc]
    assert limiter.limit("other", DAY).allowed
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(served) == list(range(10))
    client.close()


def test_a_wait_may_be_longer_than_the_timeout_of_the_client(server: Server) -> None:
    with redis.Redis(port=server.port, socket_timeout=1) as client, Limiter(client, patience="1s") as limiter:
        result = Result()
        while result.wait <= timedelta(seconds=1):  # a busy machine may be late for it
            limiter.limit("k", rate(1, "2s"))
            result = limiter.wait("k", rate(1, "2s"), timeout="10s")
            assert result.allowed


async def test_a_caller_that_is_cancelled_leaves_the_line(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        await limiter.limit("k", window(1, "1h"))
        waiting = asyncio.create_task(limiter.wait("k", window(1, "1h")))
        while not int((await limiter.client.info("throttle"))["throttle_waiting"]):
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while int((await limiter.client.info("throttle"))["throttle_waiting"]):
            await asyncio.sleep(0.005)
        assert (await limiter.limit("other", DAY)).allowed


async def test_a_caller_that_is_cancelled_as_its_turn_comes_gives_its_units_back(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        with Limiter.from_url(server.url) as look:  # it blocks the loop, so the reply of wait is not read meanwhile
            waiting = asyncio.create_task(limiter.wait("k", fixed(5, "1d"), cost=2))
            while look.peek("k", fixed(5, "1d")).remaining == 5:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with asyncio.timeout(PATIENCE):
                while look.peek("k", fixed(5, "1d")).remaining != 5:
                    await asyncio.sleep(0.005)


async def test_a_caller_waits_where_the_slot_of_its_key_goes(cluster: Cluster) -> None:
    """A slot that moves to another node: the key that is not here is asked for there."""
    key, limits = "moving", window(1, "200ms")
    slot, source = int(cluster.nodes[0].do("CLUSTER", "KEYSLOT", key)), cluster.owner(key)
    target = next(node for node in cluster.nodes if node is not source)
    name = {node: node.do("CLUSTER", "MYID").decode() for node in (source, target)}
    target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", name[source])
    source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", name[target])
    try:
        with Limiter.from_url(cluster.url) as limiter:
            for _ in range(2):
                assert limiter.wait(key, limits, timeout="30s").allowed
        async with AsyncLimiter.from_url(cluster.url) as limiter:
            for _ in range(2):
                assert (await limiter.wait(key, limits, timeout="30s")).allowed
        assert int(target.client().info("commandstats")["cmdstat_cl.wait"]["calls"]) >= 4
    finally:
        for node in (source, target):
            node.do("CLUSTER", "SETSLOT", slot, "STABLE")


async def test_a_call_that_is_cancelled_leaves_no_reply_to_the_next_one(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url, timeout="1h", options={"max_connections": 1}) as limiter:
        await limiter.limit("k", DAY)
        own_server.pause()
        stuck = asyncio.create_task(limiter.limit("k", DAY))
        await asyncio.sleep(0.05)
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        own_server.resume()
        assert (await limiter.peek("fresh", fixed(77, "1d"))).limit == 77


def faults(server: Server) -> list[tuple[str, Callable[[], None], Callable[[], None], type[Exception]]]:
    def set_to(name: str, value: str) -> Callable[[], None]:
        return lambda: server.do("CONFIG", "SET", name, value)

    def no_module() -> None:
        server.do("MODULE", "UNLOAD", "throttle")

    def load() -> None:
        server.do("MODULE", "LOAD", server.options[-1])

    return [
        ("a server that hangs", server.pause, server.resume, OutageError),
        ("a server that is down", server.kill, server.start, OutageError),
        ("OOM", set_to("maxmemory", "1"), set_to("maxmemory", "0"), OutageError),
        ("NOREPLICAS", set_to("min-replicas-to-write", "1"), set_to("min-replicas-to-write", "0"), OutageError),
        ("READONLY", lambda: server.do("REPLICAOF", "127.0.0.1", "1"), lambda: server.do("REPLICAOF", "NO", "ONE"), OutageError),
        ("no permission", lambda: server.do("ACL", "SETUSER", "default", "-cl.limit"), lambda: server.do("ACL", "SETUSER", "default", "+@all"), MistakeError),
        ("a key of another type", lambda: server.do("LPUSH", "k", "1"), lambda: server.do("DEL", "k"), MistakeError),
        ("no module", no_module, load, MistakeError),
    ]


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_an_outage_and_a_mistake_are_told_apart(own_server: Server, get: Ask, library: str) -> None:
    limiter = get.limiter(own_server.url.replace("redis", library), timeout="1s", commands="module")
    for name, begin, end, kind in faults(own_server):
        own_server.do("DEL", "k")
        assert get(limiter.limit("k", DAY)).allowed, name
        own_server.do("DEL", "k")
        begin()
        if name == "no module" and get.asynchronous:  # unloading closes connections, which is an outage
            with contextlib.suppress(OutageError, MistakeError):
                get(limiter.limit("k", DAY))
        for _ in range(2):  # the first may find a connection broken, the second none
            with pytest.raises(kind) as raised:
                get(limiter.limit("k", DAY))
            assert "'k'" not in str(raised.value), name
        end()
        await_true(lambda: answers(lambda: get(limiter.peek("k", DAY))), f"after {name}")
    get(limiter.close())


def answers(ask: Callable[[], object]) -> bool:
    try:
        return ask() is not None
    except (OutageError, MistakeError):
        return False


def test_a_call_whose_reply_is_lost_is_not_sent_again(own_server: Server) -> None:
    """The client retries as often as it can; the server stands still and then runs what it finds."""
    client = redis.Redis(port=own_server.port, socket_timeout=1)  # with the retries of the library
    limiter = Limiter(client)
    limiter.limit("k", fixed(100, "1d"))
    own_server.pause()
    with pytest.raises(OutageError):
        limiter.limit("k", fixed(100, "1d"))
    own_server.resume()
    assert Limiter(own_server.client()).peek("k", fixed(100, "1d")).remaining in (98, 99)


@pytest.mark.parametrize("sender", ["redis", "valkey", "redis.asyncio", "valkey.asyncio"])
def test_neither_is_one_of_a_client_that_keeps_to_a_connection(made_up: MadeUp, sender: str) -> None:
    """redis-py repeats what it sends over it: the call would be charged four times."""
    made_up.exchanges = [{"sends": ["CL.LIMIT", "k", str(DAY).split()[0], "3/1d", "COMPACT"], "reply": {"closes": True}}]
    library = {"redis": redis, "valkey": valkey}[sender.partition(".")[0]]

    async def of_asyncio() -> None:
        client = getattr(library.asyncio, library.__name__.capitalize())(port=made_up.port, single_connection_client=True)
        await client.initialize()
        async with client, AsyncLimiter(client) as limiter:
            await limiter.limit("k", DAY)

    def of_threads() -> None:
        client = getattr(library, library.__name__.capitalize())(port=made_up.port, single_connection_client=True)
        with client, Limiter(client) as limiter:
            limiter.limit("k", DAY)

    with pytest.raises(OutageError):
        asyncio.run(of_asyncio()) if sender.endswith("asyncio") else of_threads()
    assert made_up.problems == []


SECRET = "geheim"
UNREADABLE = "%23 for a #"


@pytest.mark.parametrize(("url", "says"), [
    *((f"{scheme}://:{SECRET}{mark}{SECRET}@127.0.0.1:1", UNREADABLE) for scheme in ("redis", "rediss", "valkey", "redis+cluster", "redis+sentinel")
      for mark in "/?#["),
    *((f"redis://:12{mark}{SECRET}@127.0.0.1:1", UNREADABLE) for mark in "/?#"),  # would be port 12 of this machine
    *((f"redis+unix://:{SECRET}{mark}{SECRET}@/tmp/socket", UNREADABLE) for mark in "/#"),
    (f"redis://:{SECRET}@host\u2100:1", UNREADABLE), (f"redis://{SECRET}:{SECRET}", UNREADABLE), (f"redis://:{SECRET}@127.0.0.1:port", UNREADABLE),
    (f"redis+cluster://:{SECRET}@127.0.0.1", "host:port"), (f"redis+cluster://:{SECRET},127.0.0.1:1", "host:port"),
    (f"redis+cluster://:{SECRET}@", "addresses are missing"),
    (f"redis+unix://{SECRET}@host/tmp/socket", "has no host"), ("redis+unix://tmp/socket", "has no host"),
    (f"{SECRET}:{SECRET}@127.0.0.1:1", "scheme"), (f":{SECRET}@127.0.0.1:1", "scheme"), (f"redsi://:{SECRET}@127.0.0.1:1", "'redsi'"),
    (f"redis+cluster://:{SECRET}@127.0.0.1:1?password={SECRET}", "password in options"), (f"redis://:{SECRET}@127.0.0.1:1/{SECRET}", "number of a database"),
])
def test_a_url_that_cannot_be_read_tells_nothing_of_its_password(url: str, says: str) -> None:
    for made in (Limiter, AsyncLimiter):
        with pytest.raises(ValueError, match=says) as raised:
            made.from_url(url)
        assert str(raised.value).startswith("url: ")
        assert SECRET not in "".join(traceback.format_exception_only(raised.value))
        assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize("url", [
    "redis://", "redis://:6379", "redis://127.0.0.1", "redis://[::1]:6379/0/", "redis:///3", "redis://u:p%2F%23%3F%40@h:1", "redis://:a:b@c@h:1",
    "redis://h:1?password=a@b", "redis+unix:///tmp/a@b", "redis+unix://:p@/tmp/a@b?db=1", "redis+sentinel://:p@a:1,b:2/m/0"])
def test_urls_that_can_be_read(url: str) -> None:
    Limiter.from_url(url).close()


@pytest.mark.parametrize(("url", "says"), [
    ("redis+cluster://127.0.0.1:1?socket_timeout=5", "takes no query"), ("redis+cluster://127.0.0.1:1/3", "only database 0"),
    ("redis+sentinel://127.0.0.1:1/mymaster?db=2", "takes no query"), ("redis+sentinel://127.0.0.1:1/mymaster/two", "number of a database"),
    ("redis+sentinel://127.0.0.1:1/", "name of the master"), ("http://127.0.0.1:1", "scheme"),
])
def test_what_a_url_says_in_vain_is_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Limiter.from_url(url)


def test_a_server_that_stands_still_ends_a_wait(own_server: Server, get: Ask) -> None:
    limiter = get.limiter(own_server.url, patience="1s", timeout="1s")
    get(limiter.limit("k", rate(1, "1h")))
    ended: list[Exception] = []

    def work() -> None:
        try:
            get(limiter.wait("k", rate(1, "1h")))
        except OutageError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    await_true(lambda: int(own_server.client().info("throttle")["throttle_waiting"]) == 1, "the caller is in line")
    own_server.pause()
    thread.join(PATIENCE)
    assert len(ended) == 1
    get(limiter.close())


async def test_a_server_that_stands_still_ends_a_wait_also_in_a_loop_that_computes(own_server: Server) -> None:
    async with AsyncLimiter.from_url(own_server.url, patience="500ms", timeout="1s") as limiter:
        await limiter.limit("k", rate(1, "1h"))
        waits = asyncio.ensure_future(limiter.wait("k", rate(1, "1h")))

        async def compute() -> None:
            while not waits.done():
                time.sleep(0.05)
                await asyncio.sleep(0.02)

        computes = asyncio.ensure_future(compute())
        await asyncio.to_thread(await_true, lambda: int(own_server.client().info("throttle")["throttle_waiting"]) == 1, "the caller is in line")
        own_server.pause()
        with pytest.raises(OutageError):
            await asyncio.wait_for(waits, PATIENCE)
        await computes


def test_a_pool_that_is_used_up_is_an_overload(server: Server) -> None:
    for library, name in ((redis, "Redis"), (valkey, "Valkey")):
        client = getattr(library, name)(port=server.port, max_connections=1, socket_timeout=2, socket_connect_timeout=2)
        limiter, pool = Limiter(client), client.connection_pool
        taken = pool.get_connection(*pool_arguments(pool))
        with pytest.raises(OverloadError):
            limiter.limit("k", DAY)
        pool.release(taken)
        assert limiter.limit(f"k:{name}", DAY).allowed
        client.close()


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_all_acts_in_a_cluster(cluster: Cluster, get: Ask, library: str) -> None:
    limiter = get.limiter(cluster.url.replace("redis", library))
    for n in range(20):
        key = f"{library}:{n}"
        assert [get(limiter.limit(key, DAY)).limited for _ in range(4)] == [False, False, False, True]
        assert get(limiter.refund(key, DAY)) == 1
        assert get(limiter.wait(key, DAY, timeout="1s")).allowed
        lease = limiter.lease(f"{key}:lease", slots=1, ttl="1m")
        get(lease.take())
        with pytest.raises(LimitedError):
            get(limiter.lease(f"{key}:lease", slots=1, ttl="1m", timeout="20ms").take())
        get(lease.release())
        keys = {f"{{{key}}}:a": DAY, f"{{{key}}}:b": Slots(1, "1m")}
        get(limiter.admit(keys, id="x").take())
        assert get(limiter.settle({f"{{{key}}}:a": DAY, f"{{{key}}}:b": Slots()}, id="x"))
    with pytest.raises(MistakeError, match="slot"):
        get(limiter.limit_all({"a": DAY, "b": DAY, "c": DAY}))
    get(limiter.close())


@pytest.mark.parametrize("servers", ["server", "cluster"])
@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_a_connection_that_is_closed_under_a_call_is_an_outage(servers: str, library: str, request: pytest.FixtureRequest) -> None:
    """A task whose call fails makes the client close connections that other tasks use, or are about to. These may be in
    any state."""
    outages, limits = 0, fixed(1000, "1d")
    async with AsyncLimiter.from_url(request.getfixturevalue(servers).url.replace("redis", library, 1)) as limiter:

        async def close() -> None:
            nodes = limiter.client.get_nodes() if servers == "cluster" else [limiter.client.connection_pool]
            await asyncio.gather(*(node.disconnect() for node in nodes), return_exceptions=True)

        async def call() -> bool:
            try:
                return (await limiter.limit("closed", limits)).allowed
            except OutageError:
                return False

        for steps in range(-20, 20):
            assert (await limiter.limit("closed", limits)).allowed
            first, second = (close(), call()) if steps < 0 else (call(), close())
            ahead = asyncio.create_task(first)
            for _ in range(abs(steps)):
                await asyncio.sleep(0)
            ended = await asyncio.gather(ahead, second)
            outages += False in ended
    assert outages > 0


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_closing_a_limiter_after_a_lost_call_closes_all_connections(cluster: Cluster, library: str) -> None:
    """The call is lost with its connection, and is the last one; the connections to the other nodes are open."""

    def connected() -> int:
        return sum(b" name=last " in node.do("CLIENT", "LIST") for node in cluster.nodes)

    url = cluster.url.replace("redis", library, 1)
    async with AsyncLimiter.from_url(url, options={"client_name": "last"}, timeout="1s") as limiter:
        keys = [next(key for key in map(str, range(1000)) if cluster.owner(key) is node) for node in cluster.nodes]
        for key in keys:
            assert (await limiter.limit(key, DAY)).allowed
        assert connected() == len(cluster.nodes)
        cluster.nodes[0].pause()
        try:
            with pytest.raises(OutageError):
                await limiter.limit(keys[0], DAY)
        finally:
            cluster.nodes[0].resume()
    await asyncio.to_thread(await_true, lambda: connected() == 0, "all connections are closed")


def test_a_node_of_a_cluster_that_is_away_and_back(cluster: Cluster) -> None:
    with Limiter.from_url(cluster.url) as limiter:
        assert limiter.limit("node", DAY).allowed
        node = cluster.owner("node")
        node.kill()
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(OutageError):
                limiter.limit("node", DAY)
        assert time.monotonic() - began < PATIENCE
        node.start()
        cluster.await_agreement()
        await_true(lambda: answers(lambda: limiter.peek("k", DAY)), "the node is back")
        limiter.limit("node", DAY)


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_a_cluster_that_is_away_when_a_limiter_is_made(cluster: Cluster, library: str) -> None:
    """An outage as any other, which a guard decides in, and which ends."""
    url = cluster.url.replace("redis", library, 1)
    for node in cluster.nodes:
        node.kill()
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(Limiter.from_url(url).close)  # nothing is open
            remote = stack.enter_context(Remote.from_url(url))
            limiter = Limiter(Guard(remote, policy="local"))
            with pytest.raises(OutageError):
                remote.decide(one("limit", "k", (DAY,)))
            assert limiter.limit("k", DAY).by == "local"
            assert remote.node_of("k") == ""
            for node in cluster.nodes:
                node.start()
            cluster.await_agreement()
            await_true(lambda: limiter.limit("k", DAY).by == "server", "the cluster decides")
            assert remote.node_of("k").endswith(f":{cluster.owner('k').port}")
            assert remote.client.get_nodes()  # type: ignore[attr-defined]
    finally:
        for node in cluster.nodes:
            if node.process.poll() is not None:
                node.start()
        cluster.await_agreement()


@pytest.mark.parametrize("library", ["redis", "valkey"])
@pytest.mark.parametrize("servers", ["server", "cluster"])
async def test_calls_at_once_wait_for_a_connection(servers: str, library: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a burst of requests has it: 400 at once, and nobody is told of an overload by an idle server."""
    for module in (transport, asynctransport):  # a second is little for 400 calls on a busy machine
        monkeypatch.setattr(module, "ROOM", PATIENCE)
    limits = fixed(1000, "1d")
    url = request.getfixturevalue(servers).url.replace("redis", library, 1)
    async with AsyncLimiter.from_url(url) as limiter:
        await limiter.limit(f"once:{library}", limits)
        results = await asyncio.gather(*(limiter.limit(f"once:{library}", limits) for _ in range(400)))
        assert all(result.allowed for result in results)
    with Limiter.from_url(url, options={"max_connections": 5}) as blocking:
        errors: list[Exception] = []

        def call() -> None:
            try:
                blocking.limit(f"once:{library}", limits)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=call) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert errors == []


async def test_a_pool_that_stays_used_up_is_an_overload(own_server: Server) -> None:
    """The server stands still, so that no connection becomes free."""
    async with AsyncLimiter.from_url(own_server.url, timeout="10s", options={"max_connections": 1}) as limiter:
        with Limiter.from_url(own_server.url, timeout="10s", options={"max_connections": 1}) as blocking:
            await limiter.limit("k", DAY)
            blocking.limit("k", DAY)
            own_server.pause()
            stuck = asyncio.create_task(limiter.limit("k", DAY))
            thread = threading.Thread(target=lambda: blocking.limit("k", DAY))
            thread.start()
            await asyncio.sleep(0)
            with pytest.raises(OverloadError, match="all 1 connections"):
                await limiter.limit("k", DAY)
            with pytest.raises(OverloadError, match="all 1 connections"):
                await asyncio.to_thread(blocking.limit, "k", DAY)
            own_server.resume()
            await stuck
            thread.join()


GEVENT = """
from gevent import monkey
monkey.patch_all()
import random, sys, time
import gevent
from redis_throttle import Limiter, fixed

limiter, limits, got = Limiter.from_url(sys.argv[1], timeout="5s"), fixed(1000, "1d"), 20
began = time.monotonic()
for _ in range(got):
    limiter.wait("k", limits, timeout="30s")
mean = (time.monotonic() - began) / got
for _ in range(200):
    with gevent.Timeout(random.uniform(0, 2 * mean), False):
        limiter.wait("k", limits, timeout="30s")
        got += 1
ends = time.monotonic() + 20
while limiter.peek("k", limits).remaining != 1000 - got and time.monotonic() < ends:
    gevent.sleep(0.01)
print(got, 1000 - limiter.peek("k", limits).remaining)
"""


def test_a_wait_that_gevent_interrupts_loses_no_units(server: Server) -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", GEVENT, server.url], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    got, charged = ran.stdout.split()
    assert got == charged
    assert 20 < int(got) < 220, "some were interrupted, and some were not"


@pytest.mark.parametrize("sender", ["redis", "valkey"])
@pytest.mark.parametrize("reply", [1, "OK", [0, 1], [0, 99, 3, 3, 0, 0, 0, 0, 0, 0], ["0"] * 10])
async def test_an_odd_reply_is_a_mistake(made_up: MadeUp, sender: str, reply: Any) -> None:
    words = ["CL.PEEK", "k", "FIXED", "3/1d", "COMPACT"]
    made_up.exchanges = [{"sends": words, "reply": reply}] * 2
    with Limiter.from_url(f"{sender}://127.0.0.1:{made_up.port}") as limiter, pytest.raises(MistakeError, match="reply"):
        limiter.peek("k", DAY)
    async with AsyncLimiter.from_url(f"{sender}://127.0.0.1:{made_up.port}") as later:
        with pytest.raises(MistakeError, match="reply"):
            await later.peek("k", DAY)
    assert made_up.problems == []


async def test_a_caller_can_wait_until_a_retry_makes_sense(server: Server) -> None:
    limits = window(1, "300ms")
    with Limiter.from_url(server.url) as limiter:
        assert limiter.limit("k", limits).allowed
        until_retry(denied := limiter.limit("k", limits))
        assert denied.limited
        assert limiter.limit("k", limits).allowed
        until_retry(Result(limited=False, retry_after=None))
        with pytest.raises(LimitedError, match="more than the limit of 1"):
            until_retry(limiter.limit("k", limits, cost=2))
    async with AsyncLimiter.from_url(server.url) as later:
        denied = await later.limit("k", limits)
        assert denied.limited
        await until_retry_async(denied)
        assert (await later.limit("k", limits)).allowed
        with pytest.raises(LimitedError):
            await until_retry_async(await later.limit("k", limits, cost=2))


@pytest.mark.parametrize("after", [timedelta(days=366), timedelta(days=365_000), timedelta.max])
async def test_a_wait_for_a_long_quota_is_no_short_one(after: timedelta) -> None:
    """A timer of some libraries ends at once if it is too long."""
    waiting = asyncio.create_task(until_retry_async(Result(limited=True, retry_after=after)))
    thread = threading.Thread(target=until_retry, args=(Result(limited=True, retry_after=after),), daemon=True)
    thread.start()
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    assert thread.is_alive()
    waiting.cancel()
