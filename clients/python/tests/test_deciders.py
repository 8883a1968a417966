"""A call is a value, a decider decides it, and the limiter's verbs, integrations and admissions work over any
decider."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pathlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
import redis
import redis.asyncio

from pages import asgi_page
from redis_throttle import (
    Admission,
    Call,
    Key,
    LeaseLostError,
    LimitedError,
    Limiter,
    MistakeError,
    OutageError,
    OverloadError,
    Remote,
    Result,
    Slots,
    ThrottleError,
    asgi,
    fixed,
    rate,
    window,
    wsgi,
)
from redis_throttle._core import call as calls
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import ROOT, Server, await_true

SOURCE = ROOT / "clients/python/src/redis_throttle"
HOUR = rate(2, "1h")


class Scripted:
    """A decider of somebody else's: it says what it was asked, and answers as it was told."""

    def __init__(self, *answers: Result | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Call] = []

    def decide(self, call: Call, /) -> Result:
        self.asked.append(call)
        answer = self.answers.pop(0) if self.answers else Result(key=call.keys[0].name)
        if isinstance(answer, Exception):
            raise answer
        return answer


class AsyncScripted(Scripted):
    async def decide(self, call: Call, /) -> Result:  # type: ignore[override]
        return super().decide(call)


def test_the_verbs_work_over_any_decider() -> None:
    next = Scripted()
    limiter = Limiter(next)
    limiter.limit("k", HOUR, cost=2, charge="strict", ban="1m", each=True)
    limiter.limit_all({"a": [HOUR], "b": [HOUR, fixed(5, "1d")]}, max_wait="1s")
    limiter.limit_any([("b", HOUR), ("a", HOUR)])
    assert [call.verb for call in next.asked] == ["limit"] * 3
    assert [[key.name for key in call.keys] for call in next.asked] == [["k"], ["a", "b"], ["b", "a"]]
    assert next.asked[0] == Call("limit", (Key("k", (HOUR,)),), cost=2, charge="strict", ban="1m", each=True)
    next.answers = [Result(granted=-3), Result(lasts=timedelta(minutes=1)), Result(granted=-1), Result(limited=True), Result(), Result()]
    assert limiter.refund("k", HOUR, cost=5) == 3
    assert limiter.ban("k", "1m") == timedelta(minutes=1)
    assert limiter.reset("k") is True
    assert limiter.renew("k", id="a", ttl="1m") is False
    assert limiter.release("k", id="a") is False
    assert limiter.settle({"k": Slots()}, id="a") is True
    assert [call.verb for call in next.asked[3:]] == ["refund", "ban", "reset", "renew", "release", "settle"]


async def test_so_do_those_of_asyncio() -> None:
    next = AsyncScripted(Result(granted=-3), Result(lasts=timedelta(minutes=1)), Result(granted=-1), Result(limited=True))
    limiter = AsyncLimiter(next)
    assert await limiter.refund("k", HOUR, cost=5) == 3
    assert await limiter.ban("k", "1m") == timedelta(minutes=1)
    assert await limiter.reset("k") is True
    with pytest.raises(LimitedError):
        await limiter.wait("k", HOUR)
    assert (await limiter.limit("k", HOUR)).allowed
    async with limiter.lease("k", slots=1, ttl="1m"):
        pass
    assert [call.verb for call in next.asked if call.verb != "renew"] == ["refund", "ban", "reset", "wait", "limit", "lease", "release"]


def test_an_act_that_waits_raises_when_it_is_limited() -> None:
    limiter = Limiter(Scripted(Result(limited=True, retry_after=None, limit=2), Result(limited=True), Result(limited=True)))
    with pytest.raises(LimitedError, match="more than the limit of 2"):
        limiter.wait("k", HOUR, cost=3)
    with pytest.raises(LimitedError), limiter.lease("k", slots=1, ttl="1m"):
        pytest.fail("it was let in")
    with pytest.raises(LimitedError), limiter.admit({"k": Slots(1, "1m")}):
        pytest.fail("it was let in")


def test_a_result_must_be_looked_at() -> None:
    for look in (bool, lambda result: result or 1, lambda result: not result):
        with pytest.raises(TypeError, match=r"result\.allowed"):
            look(Result())
    assert "secret" not in repr(Result(key="secret", shadow_key="secret"))
    assert "secret" not in repr(LimitedError(Result(limited=True, key="secret")))


@pytest.mark.parametrize(("kind", "code"), [
    (OutageError, "OUTAGE"), (OverloadError, "OVERLOAD"), (MistakeError, "MISTAKE"), (LimitedError, "LIMITED"), (LeaseLostError, "LEASE_LOST")])
def test_an_error_has_a_code(kind: type[ThrottleError], code: str) -> None:
    assert kind.code == code


@pytest.mark.parametrize("charge", ["upto", "UPTO", True, ""])
def test_a_charge_that_is_none_is_refused(charge: Any) -> None:
    with pytest.raises(ValueError, match='charge must be "up_to", "strict" or "force"'):
        Limiter(Scripted()).limit("k", HOUR, charge=charge)


OPTIONS = {"timeout": "max_wait", "duration": "ban"}


@pytest.mark.parametrize("verb", ["limit", "peek", "refund", "wait", "ban", "reset", "renew", "release", "lease"])
def test_a_verb_has_the_options_of_its_table(verb: str) -> None:
    """What an act takes is said once, in the table by which calls are checked."""
    for limiter in (Limiter, AsyncLimiter):
        options = {OPTIONS.get(name, name) for name in inspect.signature(getattr(limiter, verb)).parameters} - {"self", "key"}
        table = set(calls._TAKES[verb]) - ({"slots", "ttl", "any", "id"} if verb == "limit" else {"each"} if verb == "refund" else set())
        assert options == table


def test_the_clients_decider_says_which_key_decided(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        assert limiter.limit("k", HOUR).key == "k"
        keys = {"slow": rate(1, "1h"), "fast": rate(3, "1h")}
        assert [limiter.limit_any(keys).key for _ in range(4)] == ["slow", "fast", "fast", "fast"]
        denied = limiter.limit_all({"slow": rate(1, "1h", shadow=True), "fast": rate(3, "1h")}, each=True)
        assert (denied.limited, denied.key, denied.key_index, denied.shadow_key, denied.by) == (True, "fast", 1, "slow", "server")
        assert [each.key for each in denied.each] == ["slow", "fast"]


def test_a_key_that_is_reset_is_as_if_nobody_had_asked(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        assert limiter.reset("k") is False
        limiter.limit("k", HOUR, cost=2)
        limiter.ban("k", "1h")
        assert limiter.reset("k") is True
        assert limiter.peek("k", HOUR).remaining == 2


TOKENS = rate(1000, "365d", take=500)
KEYS = {"{k}:requests": rate(60, "365d"), "{k}:tokens": TOKENS, "{k}:running": Slots(1, "5m")}


def remaining(limiter: Limiter) -> tuple[int, int]:
    return limiter.peek("{k}:requests", rate(60, "365d")).remaining, limiter.peek("{k}:tokens", rate(1000, "365d")).remaining


def test_an_admission_settles_itself(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        with limiter.admit(KEYS) as admission:
            assert remaining(limiter) == (59, 500)
            with pytest.raises(LimitedError) as denied:
                limiter.admit(KEYS).take()
            assert denied.value.result.key == "{k}:running"
            admission.used("{k}:tokens", 900)
            admission.used("{k}:tokens", 200)
        assert remaining(limiter) == (59, 800)
        assert server.do("EXISTS", "{k}:running") == 0
        with pytest.raises(ZeroDivisionError), limiter.admit(KEYS):
            _ = 1 / 0
        assert remaining(limiter) == (58, 300), "what nothing is said of stays as it was taken"
        assert server.do("EXISTS", "{k}:running") == 0


async def test_so_does_one_of_asyncio(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        async with limiter.admit(KEYS) as admission:
            admission.used("{k}:tokens", 200)
            admission.used("{k}:requests", 0)
        with pytest.raises(LeaseLostError):
            async with limiter.admit(KEYS):
                server.do("DEL", "{k}:running")
    with Limiter.from_url(server.url) as look:
        assert remaining(look) == (59, 300)


def test_an_admission_that_has_lapsed_is_an_error_at_its_end(server: Server) -> None:
    with Limiter.from_url(server.url) as limiter:
        with pytest.raises(LeaseLostError, match="lapsed"), limiter.admit({"k": Slots(1, "1m")}):
            server.do("DEL", "k")
        with pytest.raises(ZeroDivisionError), limiter.admit({"k": Slots(1, "1m")}):  # noqa: PT012 the work's own error goes on
            server.do("DEL", "k")
            _ = 1 / 0


def test_an_admission_that_ends_in_an_outage_is_settled_later(own_server: Server) -> None:
    with Limiter.from_url(own_server.url) as limiter:
        with limiter.admit(KEYS) as admission:
            admission.used("{k}:tokens", 200)
            own_server.do("REPLICAOF", "127.0.0.1", "1")
        own_server.do("REPLICAOF", "NO", "ONE")
        await_true(lambda: own_server.do("EXISTS", "{k}:running") == 0, "it is settled")
        assert remaining(limiter) == (59, 800)


def test_an_admission_that_nobody_got_is_given_back(own_server: Server) -> None:
    """The server stands still, and grants it when the caller has left."""
    with Limiter.from_url(own_server.url, timeout="1s") as limiter:
        limiter.peek("k", HOUR)
        own_server.pause()
        with pytest.raises(OutageError):
            limiter.admit(KEYS).take()
        own_server.resume()
        await_true(lambda: own_server.do("EXISTS", "{k}:running") == 0 and not repeating(), "it is given back")
        assert remaining(limiter) == (60, 1000)


def repeating() -> bool:
    return any(thread.name == "throttle-later" for thread in threading.enumerate())


@pytest.mark.parametrize(("make", "says"), [
    (lambda limiter: limiter.admit({"k": HOUR}), "an admission needs Slots"),
    (lambda limiter: limiter.admit({"k": Slots(1)}), "Slots need n and ttl"),
    (lambda limiter: limiter.admit(KEYS).used("{k}:running", 3), "the admission has limits of '{k}:requests', '{k}:tokens'"),
    (lambda limiter: limiter.admit(KEYS).used("{k}:tokens", 1, 2), "one for each of its 1, not 2"),
    (lambda limiter: limiter.admit(KEYS).used("{k}:tokens", -1), "used"),
    (lambda limiter: limiter.limit_all({"k": Slots(1, "1m")}), "id"),
    (lambda limiter: limiter.limit_all({}), "at least one"),
])
def test_what_an_admission_cannot_use_is_refused(make: Callable[[Limiter], Admission], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make(Limiter(Scripted()))


def test_a_client_stays_its_owners_to_close(server: Server) -> None:
    with redis.Redis(port=server.port) as client:
        with Limiter(client) as limiter:
            limiter.limit("k", HOUR)
        assert client.ping()
        assert limiter.client is client


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Limiter(None), "redis-py or valkey-py, or a decider"),  # type: ignore[arg-type]
    (lambda: Limiter(redis.asyncio.Redis()), r"is made by redis_throttle\.asyncio"),
    (lambda: AsyncLimiter(redis.Redis()), "is made by redis_throttle$"),
    (lambda: Limiter(redis.Redis().pipeline()), "pipeline"),
    (lambda: Limiter(redis.Redis(), timeout="0"), "timeout.*not positive"),
    (lambda: Limiter(redis.Redis(), timeout=0.2), "timeout.*needs a unit"),  # type: ignore[arg-type]
    (lambda: Limiter(Scripted(), timeout="1s"), "for a limiter on a client"),
    (lambda: Limiter.from_url("redis://127.0.0.1:1", patience=3), "patience.*needs a unit"),  # type: ignore[arg-type]
])
def test_what_is_no_client_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_a_server_that_hangs_is_given_no_longer_than_the_timeout(own_server: Server) -> None:
    """Whatever the timeouts and retries of the client: it may have long ones, or none, for what others do with it."""
    for options in ({}, {"socket_timeout": None, "socket_connect_timeout": None}, {"single_connection_client": True}):
        with redis.Redis(port=own_server.port, **options) as client, Limiter(client, timeout="1s") as limiter:
            limiter.limit("k", HOUR)
            own_server.pause()
            began = time.monotonic()
            for _ in range(3):  # the first finds a connection, the others have to connect
                with pytest.raises(OutageError):
                    limiter.limit("k", HOUR)
            own_server.resume()
            assert time.monotonic() - began < 12, "with the retries of the client it is 15 s or more, or forever"


async def test_so_is_one_that_hangs_under_asyncio(own_server: Server) -> None:
    async with redis.asyncio.Redis(port=own_server.port) as client, AsyncLimiter(client, timeout="1s") as limiter:
        await limiter.limit("k", HOUR)
        own_server.pause()
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(OutageError):
                await limiter.limit("k", HOUR)
        own_server.resume()
        assert time.monotonic() - began < 12


async def test_a_middleware_takes_any_decider() -> None:
    denied = Result(limited=True, limit=2, retry_after=timedelta(seconds=7))
    app = asgi.RateLimit(asgi_page, AsyncScripted(denied), HOUR)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert [(await client.get("/")).status_code for _ in range(2)] == [429, 200]

    def page(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return []

    limited = wsgi.RateLimit(page, Scripted(denied), HOUR)
    with httpx.Client(transport=httpx.WSGITransport(limited), base_url="http://test") as client_of_threads:
        assert [client_of_threads.get("/").status_code for _ in range(2)] == [429, 200]


def test_a_storage_of_limits_may_have_another_decider() -> None:
    import limits

    import redis_throttle.limits as of_limits

    storage = of_limits.ThrottleStorage("throttle+redis://127.0.0.1:1")
    storage.limiter = Limiter(Scripted(Result(), Result(limited=True)))
    hits = limits.strategies.MovingWindowRateLimiter(storage)
    assert [hits.hit(limits.parse("5/minute"), "k") for _ in range(2)] == [True, False]


def test_celery_takes_any_decider() -> None:
    import celery

    from redis_throttle.celery import LimitedTask

    class Mail(LimitedTask):
        throttle_limits = rate(10, "1s")
        throttle_limiter = Scripted(Result(), Result(limited=True))

    app = celery.Celery("deciders", set_as_current=False)

    def send() -> str:
        return "sent"

    task = app.task(base=Mail)(send)
    assert task() == "sent"
    with pytest.raises(LimitedError):
        task()


async def test_the_hook_for_litellm_takes_any_decider() -> None:
    from redis_throttle.litellm import ThrottleHook

    decider = AsyncScripted()
    hook = ThrottleHook(limiter=decider, requests=rate(5, "1m"))
    await hook.async_pre_call_hook(None, None, {"messages": []}, "completion")
    assert [call.verb for call in decider.asked] == ["limit"]
    with pytest.raises(TypeError, match="asyncio"):
        ThrottleHook(limiter=Scripted(), requests=rate(5, "1m"))  # type: ignore[arg-type]


def imports_of(path: pathlib.Path) -> set[pathlib.Path]:
    """Return the modules of the package that one imports, as paths."""
    found: set[pathlib.Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        above = path.parents[node.level - 1]
        module = above.joinpath(*(node.module or "").split("."))
        found |= {module.with_suffix(".py")} if module.with_suffix(".py").exists() else {module / f"{alias.name}.py" for alias in node.names}
    return {there for there in found if there.exists()}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {path: imports_of(path) for path in SOURCE.rglob("*.py")}
    assert SOURCE / "_core/call.py" in graph[SOURCE / "_limiter.py"]
    assert SOURCE / "_core/positions.py" in graph[SOURCE / "_core/call.py"]
    done: set[pathlib.Path] = set()

    def walk(module: pathlib.Path, way: tuple[pathlib.Path, ...]) -> None:
        assert module not in way, f"a circle: {' -> '.join(str(step.relative_to(SOURCE)) for step in (*way, module))}"
        if module not in done:
            for other in graph[module]:
                walk(other, (*way, module))
            done.add(module)

    for module in graph:
        walk(module, ())


def test_folders_import_one_way() -> None:
    """What everything stands on imports no layer, and a layer imports no integration."""
    order = ["_core", "_server", "_layers", "_leases", "", "_web"]
    for path in SOURCE.rglob("*.py"):
        mine = path.parent.name if path.parent != SOURCE else ""
        for other in imports_of(path) if mine else ():
            there = other.parent.name if other.parent != SOURCE else ""
            assert order.index(there) <= order.index(mine), f"{path.relative_to(SOURCE)} imports {other.relative_to(SOURCE)}"


def test_windows_and_remotes_are_public() -> None:
    remote = Remote.from_url("redis://127.0.0.1:1")
    with pytest.raises(OutageError):
        Limiter(remote).limit("k", window(1, "1s"))
    remote.close()
    assert asyncio.iscoroutinefunction(AsyncLimiter.decide)
