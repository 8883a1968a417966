"""The guard: what the breaker does, held by spec/clients/breaker.json; policies; local limits; and defaults on servers
that hang."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
import redis
import redis.asyncio

from redis_throttle import (
    Call,
    Guard,
    Key,
    Limit,
    LimitedError,
    Limiter,
    MistakeError,
    OutageError,
    OverloadError,
    Remote,
    Result,
    Slots,
    asgi,
    fixed,
    parse_limits,
    rate,
    window,
)
from redis_throttle._core.duration import nanoseconds
from redis_throttle._layers import guard as guarding
from redis_throttle._layers.breaker import Breaker
from redis_throttle.asyncio import Guard as AsyncGuard
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Remote as AsyncRemote
from servers import PATIENCE, ROOT, Clock, Cluster, Server, await_true

TABLE = json.loads((ROOT / "spec/clients/breaker.json").read_text())
SHARES = json.loads((ROOT / "spec/clients/shares.json").read_text())
NOWHERE = "redis://127.0.0.1:1"
HOUR = rate(6, "1h")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all breakers."""
    clock = Clock()
    monkeypatch.setattr(guarding, "Breaker", functools.partial(Breaker, clock=clock))
    return clock


def replied() -> MistakeError:
    error = MistakeError("NOPERM")
    error.__cause__ = redis.ResponseError("NOPERM")
    return error


class Server_:  # noqa: N801 it stands for one
    """A server that answers as it is told."""

    def __init__(self) -> None:
        self.says: Callable[[Call], Result] = lambda call: Result(key=call.keys[0].name)
        self.asked: list[Call] = []

    def decide(self, call: Call, /) -> Result:
        self.asked.append(call)
        return self.says(call)


class AsyncServer(Server_):
    async def decide(self, call: Call, /) -> Result:  # type: ignore[override]
        return super().decide(call)


def raises(error: BaseException) -> Callable[[Call], Result]:
    def say(call: Call) -> Result:
        raise error

    return say


OUTCOMES: dict[str, Callable[[], Callable[[Call], Result]]] = {
    "ok": lambda: lambda call: Result(), "outage": lambda: raises(OutageError("away")), "overload": lambda: raises(OverloadError("busy")),
    "mistake": lambda: raises(replied()), "left": lambda: raises(asyncio.CancelledError())}
LOOK = Call("limit", (Key("k", (HOUR,)),))


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["rule"])
def test_the_breaker(clock: Clock, case: dict[str, Any]) -> None:
    server = Server_()
    guard = Guard(server, failures=TABLE["failures"], pause=f"{TABLE['pause_ms']}ms", on_change=lambda node, outage: None)
    begun: dict[str, Any] = {}
    for step in case["steps"]:
        clock.now = step["at"] / 1000
        for _ in range(step.get("times", 1)):
            before = len(server.asked)
            if "begins" in step:
                begun[step["begins"]] = guard._steps(LOOK)
                sent = next(begun[step["begins"]]) is not None
            elif "ends" in step:
                how = OUTCOMES[step["call"]]()
                with contextlib.suppress(StopIteration, OutageError):
                    try:
                        result = how(LOOK)
                    except OutageError as error:
                        begun[step["ends"]].throw(error)
                    else:
                        begun[step["ends"]].send(result)
                sent = None
            else:
                server.says = OUTCOMES[step["call"]]()
                with contextlib.suppress(OutageError, OverloadError, MistakeError, asyncio.CancelledError):
                    guard.decide(LOOK)
                sent = len(server.asked) > before
            assert sent == step.get("sent"), step
        assert guard.out == step.get("out", guard.out), step


@pytest.fixture(params=["threads", "asyncio"])
def guarded(request: pytest.FixtureRequest, clock: Clock) -> Callable[..., tuple[Any, Server_]]:
    """Makes a limiter behind a guard that opens at the first failure, and the server behind it. Verbs of asyncio are
    awaited."""

    def make(**options: Any) -> tuple[Any, Server_]:
        options = {"failures": 1, "on_change": lambda node, outage: None, **options}
        if request.param == "threads":
            server = Server_()
            return Limiter(Guard(server, **options)), server
        server = AsyncServer()
        return Awaited(AsyncLimiter(AsyncGuard(server, **options))), server

    return make


class Awaited:
    """A limiter of asyncio whose verbs a test need not await."""

    def __init__(self, limiter: AsyncLimiter) -> None:
        self.limiter = limiter

    def __getattr__(self, name: str) -> Any:
        def act(*args: Any, **options: Any) -> Any:
            return asyncio.run(getattr(self.limiter, name)(*args, **options))

        return act


Guarded = Callable[..., tuple[Any, Server_]]


ABOUT_THE_SERVER: list[Callable[[Any], object]] = [
    lambda limiter: limiter.refund("k", HOUR), lambda limiter: limiter.ban("k", "1m"), lambda limiter: limiter.reset("k"),
    lambda limiter: limiter.renew("k", id="a", ttl="1m"),
]
WAITING: list[Callable[[Any], Any]] = [
    lambda limiter: limiter.wait("k", HOUR, timeout="1h"),
    lambda limiter: limiter.decide(Call("lease", (Key("k", slots=1, ttl="1m", leased=True),), id="a", max_wait="1h")),
]


def test_policies(guarded: Guarded, clock: Clock) -> None:
    for policy, want in (("open", (False, timedelta(0))), ("closed", (True, timedelta(seconds=1)))):
        limiter, server = guarded(policy=policy)
        server.says = raises(OutageError("away"))
        for _ in range(3):
            result = limiter.limit("k", HOUR)
            assert (result.limited, result.retry_after, result.by, result.key) == (*want, "policy", "k")
        assert len(server.asked) == 1
        for act in ABOUT_THE_SERVER:
            with pytest.raises(OutageError, match="left alone"):
                act(limiter)
    limiter, server = guarded()
    server.says = raises(OutageError("away"))
    for text in ("^away$", "left alone for a while, after: away"):
        with pytest.raises(OutageError, match=text):
            limiter.limit("k", HOUR)


def test_mistakes_and_overloads_are_raised_with_every_policy(guarded: Guarded) -> None:
    for policy in ("fail", "open", "closed", "local"):
        limiter, server = guarded(policy=policy)
        for error in (replied(), OverloadError("busy")):
            server.says = raises(error)
            for _ in range(10):
                with pytest.raises(type(error)):
                    limiter.limit("k", HOUR)
        assert len(server.asked) == 20


@pytest.mark.parametrize("row", SHARES["cases"], ids=str)
def test_the_share_of_a_process(row: dict[str, Any]) -> None:
    local = guarding._Local(row["processes"], not row.get("at_least_one"), 1)
    part = local._part(Call("limit", (Key("k", parse_limits(row["limits"].replace(";", ""))),)))
    assert (None if part is None else in_ns(part.keys[0].limits)) == (None if row["part"] is None else in_ns(parse_limits(row["part"].replace(";", ""))))


def in_ns(limits: tuple[Limit, ...]) -> list[Limit]:
    """Write periods that are no months in one unit."""
    return [limit if str(limit.period).endswith("mo") else limit.replace(period=f"{nanoseconds(limit.period, 'period') / 1e6:f}ms") for limit in limits]


def test_local_limits_are_this_process_part(guarded: Guarded, clock: Clock) -> None:
    limiter, server = guarded(policy="local", processes=2)
    server.says = raises(OutageError("away"))
    results = [limiter.limit("k", HOUR) for _ in range(4)]
    assert [(result.limited, result.by) for result in results] == [(False, "local")] * 3 + [(True, "local")]
    assert results[3].limit == 3
    assert [limiter.limit("one", window(1, "1h")).limited for _ in range(2)] == [False, True], "each process has at least one unit"
    assert limiter.limit("k2", HOUR, cost=5).retry_after == timedelta(seconds=1), "the part is too small: come back when the server is tried"
    assert limiter.limit("k2", HOUR, cost=7).retry_after is None, "it is more than the limit"
    assert limiter.limit_all({"a": HOUR, "b": window(4, "1d")}, cost=2).allowed
    assert limiter.limit_all({"a": HOUR, "b": window(4, "1d")}, cost=2).key == "b"
    assert limiter.peek("a", HOUR).remaining == 1
    with pytest.raises(LimitedError):
        limiter.wait("k", window(3, "1h"), cost=4, timeout="1h", group="a", weight=3, priority=2)
    never, server = guarded(policy="local", processes=2, never_more=True)
    server.says = raises(OutageError("away"))
    assert never.limit("one", window(1, "1h")).limited


@pytest.mark.parametrize(("limit", "part"), [
    (rate(6, "1h"), "RATE 2/1h BURST 2"), (rate(5, "1s", burst=10, spare=1), "RATE 5/3s BURST 3 SPARE 1"), (window(100, "1m"), "WINDOW 33/1m"),
    (fixed(2, "1mo", zone="Europe/Berlin", take=5), "FIXED 1/1mo TZ Europe/Berlin TAKE 5"), (rate(7, "1.5ms"), "RATE 7/4.5ms BURST 2"),
])
def test_the_part_of_one_of_three(limit: Any, part: str) -> None:
    assert str(guarding._Local(3, False, 10)._part_of(limit)) == part


def test_leases_of_the_process_outlast_the_outage(guarded: Guarded, clock: Clock) -> None:
    limiter, server = guarded(policy="local")
    server.says = raises(OutageError("away"))
    lease = Call("lease", (Key("k", slots=1, ttl="1m", leased=True),), id="a")
    assert limiter.decide(lease).allowed
    clock.now = 2
    server.says = lambda call: Result(limited=call.verb == "renew", granted=0)
    assert limiter.renew("k", id="a", ttl="1m"), "the server does not know it"
    assert limiter.release("k", id="a")
    assert not limiter.release("k", id="a")


def test_a_call_that_waits_never_tries_the_server(guarded: Guarded, clock: Clock) -> None:
    for act in WAITING:
        limiter, server = guarded()
        server.says = raises(OutageError("away"))
        with pytest.raises(OutageError):
            act(limiter)
        clock.now += 2
        with pytest.raises(OutageError):
            act(limiter)
        assert server.asked[-1].timeout is None, "the one that tries is answered at once"
        clock.now += 2
        server.says = lambda call: Result(limited=call.verb == "lease" and call.timeout is None)
        assert act(limiter).allowed
        assert [call.timeout is None for call in server.asked[-2:]] == [True, False]


def test_an_outage_has_one_line_when_it_begins_and_one_when_it_ends(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    server = Server_()
    limiter = Limiter(Guard(server, policy="open", failures=2))
    with caplog.at_level(logging.INFO, logger="redis_throttle"):
        server.says = raises(OutageError("away"))
        for _ in range(100):
            limiter.limit("secret", HOUR)
        for at in (2, 4):
            clock.now = at
            limiter.limit("secret", HOUR)
        clock.now = 6
        server.says = lambda call: Result()
        for _ in range(3):
            limiter.limit("secret", HOUR)
    first, second = [record.message for record in caplog.records]
    assert first == "redis-throttle: Redis is out of reach: the policy is open until it is back: away"
    assert second.startswith("redis-throttle: Redis is back after ")
    assert "102 calls were decided without it" in second


async def test_a_middleware_adds_no_line_of_its_own(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    server = AsyncServer()
    server.says = raises(OutageError("away"))
    app = asgi.RateLimit(page, AsyncGuard(server, failures=1), HOUR)
    with caplog.at_level(logging.INFO, logger="redis_throttle"):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            assert [(await client.get("/")).status_code for _ in range(20)] == [200] * 20
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("options", "says"), [
    ({"policy": "deny"}, 'policy must be "fail", "open", "closed" or "local"'), ({"failures": 0}, "failures"), ({"pause": 1}, "pause.*unit"),
    ({"processes": 2}, "for the policy local"), ({"policy": "local", "processes": 0}, "processes"), ({"policy": "local", "keys": True}, "keys"),
])
def test_options_are_checked_at_construction(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        Guard(Server_(), **options)
    with pytest.raises(TypeError, match="next must be a decider"):
        Guard(redis.Redis())  # type: ignore[arg-type]


def test_a_guard_around_a_limiter_takes_the_place_of_its_own() -> None:
    limiter = Limiter.from_url(NOWHERE)
    assert isinstance(Guard(limiter)._next, Remote)
    assert isinstance(Limiter(limiter).decider, Limiter)
    limiter.close()


def took(act: Callable[..., object], *given: Any) -> float:
    began = time.perf_counter()
    with pytest.raises((OutageError, OverloadError)):  # the second if this process is late
        act(*given)
    return time.perf_counter() - began


@pytest.mark.defaults
def test_a_server_that_hangs_costs_a_quarter_of_a_second_and_then_nothing(own_server: Server) -> None:
    """As the README has it, without reading it: a client with the defaults of redis-py, and a URL."""
    with redis.Redis(port=own_server.port) as client:
        for limiter in (Limiter(client), Limiter.from_url(own_server.url)):
            await_true(lambda limiter=limiter: limiter.limit("k", fixed(9, "1d")).allowed, "it answers")  # type: ignore[misc]
            own_server.pause()
            first = [took(limiter.limit, "k", HOUR) for _ in range(5)]
            assert min(first) < 0.25  # a longer timeout would show in all of them, and a busy machine in some
            later = [took(limiter.limit, "k", HOUR) for _ in range(100)]
            assert statistics.median(later) < 0.005
            own_server.resume()
            await_true(lambda limiter=limiter: answers(limiter), "it is back")  # type: ignore[misc]
            limiter.close()


def answers(limiter: Limiter) -> bool:
    try:
        return limiter.peek("k", HOUR) is not None
    except (OutageError, OverloadError):
        return False


async def answers_async(limiter: AsyncLimiter) -> bool:
    try:
        return await limiter.peek("k", HOUR) is not None
    except (OutageError, OverloadError):
        return False


@pytest.mark.defaults
async def test_so_does_one_of_asyncio(own_server: Server) -> None:
    async with redis.asyncio.Redis(port=own_server.port) as client:
        for limiter in (AsyncLimiter(client), AsyncLimiter.from_url(own_server.url)):
            async with asyncio.timeout(PATIENCE):
                while not await answers_async(limiter):
                    await asyncio.sleep(0.005)
            own_server.pause()
            times = []
            for _ in range(105):
                began = time.perf_counter()
                with pytest.raises((OutageError, OverloadError)):  # the second if this process is late once
                    await limiter.limit("k", HOUR)
                times.append(time.perf_counter() - began)
            assert min(times[:5]) < 0.25
            assert statistics.median(times[5:]) < 0.005
            own_server.resume()
            await limiter.close()


@pytest.mark.defaults
def test_threads_that_call_at_once_are_not_told_of_an_overload_for_long(own_server: Server) -> None:
    """More callers than the pool has connections, while the server hangs."""
    limiter = Limiter.from_url(own_server.url, options={"max_connections": 5})
    limiter.limit("k", HOUR)
    own_server.pause()
    threads = [threading.Thread(target=ended, args=(limiter, 5)) for _ in range(40)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < PATIENCE, "one by one it would be 40 s, and each would wait for room"
    assert min(took(limiter.limit, "k", HOUR) for _ in range(5)) < 0.1
    own_server.resume()
    limiter.close()


def ended(limiter: Limiter, times: int) -> None:
    for _ in range(times):
        with pytest.raises((OutageError, OverloadError)):
            limiter.limit("k", HOUR)


def test_a_node_of_a_cluster_that_is_away_keeps_nobody_from_the_others(cluster: Cluster) -> None:
    changes: list[tuple[str, bool]] = []
    remote = Remote.from_url(cluster.url, timeout="1s")
    with Limiter(Guard(remote, policy="open", on_change=lambda node, outage: changes.append((node, outage is not None)))) as limiter:
        keys = [next(key for key in map(str, range(1000)) if cluster.owner(key) is node) for node in cluster.nodes[:2]]
        for key in keys:
            assert limiter.limit(key, fixed(1000, "1d")).by == "server"
        cluster.nodes[0].pause()
        for _ in range(6):
            assert limiter.limit(keys[0], fixed(1000, "1d")).by == "policy"
        assert limiter.limit(keys[1], fixed(1000, "1d")).by == "server"
        assert changes == [(f"127.0.0.1:{cluster.nodes[0].port}", True)]
        cluster.nodes[0].resume()
        cluster.await_agreement()
        await_true(lambda: limiter.limit(keys[0], fixed(1000, "1d")).by == "server", "it is back")
        assert changes[1:] == [(f"127.0.0.1:{cluster.nodes[0].port}", False)]


async def test_a_guard_of_asyncio_knows_the_nodes_of_a_cluster(cluster: Cluster) -> None:
    remote = AsyncRemote.from_url(cluster.url)
    async with AsyncLimiter(AsyncGuard(remote, policy="open")) as limiter:
        assert remote.node_of("k") == ""
        assert (await limiter.limit("k", HOUR)).by == "server"
        assert remote.node_of("k") == f"127.0.0.1:{cluster.owner('k').port}"


def test_an_admission_and_a_lease_by_policy_have_nothing_to_give_back(clock: Clock) -> None:
    server = Server_()
    server.says = raises(OutageError("away"))
    limiter = Limiter(Guard(server, policy="open", failures=1, on_change=lambda node, outage: None))
    with limiter.lease("k", slots=1, ttl="1s") as lease:
        assert not lease.lost
    with limiter.admit({"k": Slots(1, "1m")}):
        pass
    assert [call.verb for call in server.asked] == ["lease"]
