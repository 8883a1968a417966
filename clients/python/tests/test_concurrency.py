"""How many requests are served at a time: a lease around each, in ASGI and WSGI, under frameworks and on a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from flask import Flask
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from redis_throttle import Guard, LeaseLostError, Limiter, OutageError, OverloadError, asgi, wsgi
from redis_throttle.asyncio import Guard as AsyncGuard
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import PATIENCE, Server, await_true

KEY = "http:concurrency:127.0.0.1"


class Gate:
    """An application whose requests are served until the test opens it."""

    def __init__(self) -> None:
        self.open, self.inside = asyncio.Event(), 0
        self.ended: list[str] = []

    async def page(self, request: Any) -> PlainTextResponse:
        self.inside += 1
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        finally:
            self.inside -= 1
        return PlainTextResponse("hello")

    def behind(self, limiter: Any, slots: Any, **options: Any) -> httpx.AsyncClient:
        app = Starlette(routes=[Route("/", self.page)])
        app.add_middleware(asgi.Concurrency, limiter=limiter, slots=slots, **options)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test")

    async def await_inside(self, requests: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.inside != requests:
                await asyncio.sleep(0.005)


async def test_asgi_serves_so_many_at_a_time_in_all_processes(server: Server) -> None:
    gate = Gate()
    async with AsyncLimiter.from_url(server.url) as here, AsyncLimiter.from_url(server.url) as there:  # noqa: SIM117
        async with gate.behind(here, 2) as first, gate.behind(there, 2) as second:
            served = [asyncio.create_task(client.get("/")) for client in (first, second)]
            await gate.await_inside(2)
            denied = await first.get("/")
            assert (denied.status_code, denied.headers["Retry-After"]) == (429, "1")
            assert denied.headers["Content-Type"] == "application/problem+json"
            assert denied.json()["title"] == "Quota Exceeded"
            gate.open.set()
            assert [(await task).status_code for task in served] == [200, 200]
            assert (await second.get("/")).status_code == 200
    assert server.do("EXISTS", KEY) == 0, "every slot was given back"


async def test_a_request_may_wait_for_a_slot(server: Server) -> None:
    gate = Gate()
    async with AsyncLimiter.from_url(server.url) as limiter, gate.behind(limiter, 1, timeout="30s") as client:
        served = [asyncio.create_task(client.get("/")) for _ in range(3)]
        await gate.await_inside(1)
        while int((await limiter.client.info("throttle"))["throttle_leases_waiting"]) < 2:
            await asyncio.sleep(0.005)
        gate.open.set()
        assert [(await task).status_code for task in served] == [200] * 3


async def test_a_request_whose_lease_is_lost_is_cancelled(server: Server) -> None:
    gate = Gate()
    async with AsyncLimiter.from_url(server.url) as limiter, gate.behind(limiter, 1, ttl="1s") as client:
        served = asyncio.create_task(client.get("/"))
        await gate.await_inside(1)
        server.do("DEL", KEY)
        assert (await asyncio.wait_for(served, PATIENCE)).status_code == 500
    assert gate.ended == ["cancelled"]


async def test_a_key_says_whose_slots_and_how_many(async_throttle: AsyncFakeLimiter) -> None:
    gate = Gate()
    gate.open.set()

    async def slots(scope: Any) -> int:
        return 7

    options: dict[str, Any]
    for options, key in (({}, KEY), ({"name": "upload"}, "http:upload:127.0.0.1"), ({"key": lambda scope: "user:42"}, "user:42")):
        async with gate.behind(async_throttle, slots, **options) as client:
            assert (await client.get("/")).status_code == 200
        lease = next(call for call in async_throttle.asked if call.verb == "lease")
        assert (lease.keys[0].name, lease.keys[0].slots) == (key, 7)
        async_throttle.asked.clear()
    for options in ({"key": lambda scope: None}, {"skip": lambda scope: True}, {"skip": ["127.0.0.1"]}):
        async with gate.behind(async_throttle, 1, **options) as client:
            assert (await client.get("/")).status_code == 200
        assert async_throttle.asked == []


@pytest.mark.parametrize(("error", "option", "status"), [
    (OutageError("away"), None, 200), (OverloadError("busy"), None, 503), (OutageError("away"), "deny", 503), (OutageError("away"), "raise", 500),
])
async def test_without_a_decision_it_does_what_was_chosen(error: Any, option: str | None, status: int) -> None:
    gate = Gate()
    gate.open.set()
    options = {} if option is None else {"outage": option}
    for limiter in (AsyncFakeLimiter(), FakeLimiter()):
        limiter.fail(error, times=1)  # not the release that follows
        if isinstance(limiter, AsyncFakeLimiter):
            async with gate.behind(limiter, 1, **options) as client:
                answer = await client.get("/")
        elif status == 500:  # which a server answers where the middleware raises
            with wsgi_behind(limiter, 1, **options) as blocking, pytest.raises(type(error)):
                blocking.get("/")
            continue
        else:
            with wsgi_behind(limiter, 1, **options) as blocking:
                answer = blocking.get("/")
        assert answer.status_code == status
        assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


async def test_the_policy_of_a_guard_is_none_of_the_service() -> None:
    gate = Gate()
    gate.open.set()
    for policy, status in (("open", 200), ("closed", 503)):
        behind, blocked = AsyncFakeLimiter(), FakeLimiter()
        behind.fail()
        blocked.fail()
        async with gate.behind(AsyncLimiter(AsyncGuard(behind, policy=policy)), 1) as client:  # type: ignore[arg-type]
            assert (await client.get("/")).status_code == status
        with wsgi_behind(Guard(blocked, policy=policy), 1) as blocking:  # type: ignore[arg-type]
            assert blocking.get("/").status_code == status


def wsgi_behind(limiter: Any, slots: Any, **options: Any) -> httpx.Client:
    app = Flask("test")
    app.add_url_rule("/", "page", lambda: "hello")
    app.add_url_rule("/wrong", "wrong", lambda: str(1 / 0))
    app.wsgi_app = wsgi.Concurrency(app.wsgi_app, limiter, slots, **options)  # type: ignore[method-assign]
    return httpx.Client(transport=httpx.WSGITransport(app, raise_app_exceptions=False), base_url="http://test")


def test_wsgi_holds_a_slot_until_the_response_was_sent(server: Server) -> None:
    entered, go = threading.Event(), threading.Event()

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        environ["redis_throttle.lease"].check()
        start_response("200 OK", [])
        yield b"first"
        entered.set()
        go.wait(PATIENCE)
        yield b"last"

    with Limiter.from_url(server.url) as limiter:
        limited: Any = wsgi.Concurrency(app, limiter, 1)
        transport = httpx.WSGITransport(limited, remote_addr="203.0.113.9")
        got: list[bytes] = []

        def ask() -> None:
            with httpx.Client(transport=transport, base_url="http://test") as client:
                got.append(client.get("/").content)

        thread = threading.Thread(target=ask)
        thread.start()
        assert entered.wait(PATIENCE)
        with httpx.Client(transport=transport, base_url="http://test") as client:
            assert client.get("/").status_code == 429
            assert client.head("/").content == b""
            go.set()
            thread.join()
            assert got == [b"firstlast"]
            assert client.get("/").status_code == 200
        await_true(lambda: server.do("EXISTS", "http:concurrency:203.0.113.9") == 0, "the slot is free")


def test_an_application_that_fails_gives_its_slot_back(server: Server) -> None:
    def broken(environ: Any, start_response: Any) -> Any:
        raise ZeroDivisionError

    with Limiter.from_url(server.url) as limiter:
        with pytest.raises(ZeroDivisionError):
            wsgi.Concurrency(broken, limiter, 1)({"REMOTE_ADDR": "127.0.0.1"}, lambda *_: None)
        assert server.do("EXISTS", KEY) == 0
        with wsgi_behind(limiter, 1) as client:
            assert [client.get(path).status_code for path in ("/wrong", "/", "/")] == [500, 200, 200]
        assert server.do("EXISTS", KEY) == 0


def test_a_websocket_holds_its_slot_while_it_is_open(server: Server) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket"
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.close"})

    holds: list[int] = []
    closed = threading.Event()

    async def limited(scope: Any, receive: Any, send: Any) -> None:
        async with AsyncLimiter.from_url(server.url) as limiter:  # of the loop of this connection
            await asgi.Concurrency(app, limiter, 1, key=lambda scope: "socket")(scope, receive, send)
        closed.set()

    client = TestClient(limited)
    with client.websocket_connect("/") as socket:
        holds.append(server.do("ZCARD", "socket"))
        socket.send_text("end")
        assert closed.wait(PATIENCE)  # the client cancels what is left at its end
    await_true(lambda: server.do("EXISTS", "socket") == 0, "the slot is free")
    assert holds == [1]


async def test_a_stream_holds_its_slot_to_its_end(async_throttle: AsyncFakeLimiter) -> None:
    async def parts() -> Any:
        assert [call.verb for call in async_throttle.asked if call.verb != "renew"] == ["lease"]
        yield b"part"

    app = Starlette(routes=[Route("/", lambda request: StreamingResponse(parts()))])
    app.add_middleware(asgi.Concurrency, limiter=async_throttle, slots=1)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.get("/")).content == b"part"
    assert async_throttle.asked[-1].verb == "release"


@pytest.mark.parametrize(("options", "says"), [
    ({"slots": 0}, "slots must be an integer"), ({"slots": True}, "slots"), ({"slots": 1, "ttl": "10ms"}, "at least a second"),
    ({"slots": 1, "timeout": "0"}, "timeout must be a length"), ({"slots": 1, "key": "k"}, "key must be a function"),
    ({"slots": 1, "key": lambda scope: "k", "name": "n"}, "default key"), ({"slots": 1, "outage": "open"}, "outage must be"),
    ({"slots": 1, "trusted": ["nobody"]}, "trusted"), ({"slots": 1, "skip": "k"}, "skip must be a function"),
    ({"slots": 1, "skip": ["nobody"]}, "skip: 'nobody'"),
])
def test_options_are_checked_at_construction(options: Any, says: str) -> None:
    kinds: list[tuple[Any, Any]] = [(asgi.Concurrency, AsyncFakeLimiter()), (wsgi.Concurrency, FakeLimiter())]
    for kind, limiter in kinds:
        with pytest.raises((TypeError, ValueError), match=says):
            kind(lambda *_: None, limiter, **options)
    with pytest.raises(TypeError, match="asyncio"):
        wsgi.Concurrency(lambda *_: [], AsyncFakeLimiter(), 1)  # type: ignore[arg-type]


def test_long_work_of_wsgi_learns_that_its_lease_is_lost(server: Server) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        lease = environ["redis_throttle.lease"]
        server.do("DEL", KEY)
        await_true(lambda: lease.lost, "the lease is lost")
        with pytest.raises(LeaseLostError):
            lease.check()
        start_response("200 OK", [])
        return [b"stopped"]

    with Limiter.from_url(server.url) as limiter:
        app_: Any = wsgi.Concurrency(app, limiter, 1, ttl="1s")
        with httpx.Client(transport=httpx.WSGITransport(app_), base_url="http://test") as client:
            assert client.get("/").content == b"stopped"
