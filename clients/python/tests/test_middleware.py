"""What the middlewares of ASGI and WSGI promise alike: whom a request counts for, what becomes of it without a
decision, and limits of 0."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from pages import asgi_page, wsgi_page
from redis_throttle import Limit, Limiter, MistakeError, OutageError, OverloadError, asgi, client_address, fixed, rate, wsgi
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import Server, await_true, free_port

NOWHERE = "redis://127.0.0.1:1"


Ask = Callable[..., list[httpx.Response]]


@pytest.fixture(params=["asgi", "wsgi"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks an application behind middlewares, each given by its arguments, once for each address."""

    def get(url: str, *middlewares: dict[str, Any], addresses: tuple[str, ...] = ("203.0.113.9",),
            headers: dict[str, str] | None = None) -> list[httpx.Response]:
        async def of_asgi() -> list[httpx.Response]:
            async with AsyncLimiter.from_url(url, timeout="1s") as limiter:
                app: Any = asgi_page
                for options in middlewares:
                    app = asgi.RateLimit(app, limiter, **options)
                answers = []
                for address in addresses:
                    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
                    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                        answers.append(await client.get("/", headers=headers))
                return answers

        if request.param == "asgi":
            return asyncio.run(of_asgi())
        with Limiter.from_url(url, timeout="1s") as limiter:
            app: Any = wsgi_page
            for options in middlewares:
                app = wsgi.RateLimit(app, limiter, **options)
            answers = []
            for address in addresses:
                with httpx.Client(transport=httpx.WSGITransport(app, raise_app_exceptions=False, remote_addr=address), base_url="http://test") as client:
                    try:
                        answers.append(client.get("/", headers=headers))
                    except Exception:  # which a server answers with status 500
                        answers.append(httpx.Response(500))
            return answers

    return get


def statuses(answers: list[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


def make(kind: str, limits: Any = None, **options: Any) -> object:
    if kind == "asgi":
        return asgi.RateLimit(asgi_page, AsyncLimiter.from_url(NOWHERE), limits, **options)
    return wsgi.RateLimit(wsgi_page, Limiter.from_url(NOWHERE), limits, **options)


def test_the_default_key_has_the_policy_and_the_address(server: Server, ask: Ask) -> None:
    limits = [rate(10, "60s", burst=20, take=2, shadow=True), fixed(5, "1d", zone="Europe/Berlin", spare=1)]
    ask(server.url, {"limits": limits}, addresses=("::ffff:203.0.113.9", "2001:db8:1:2:3::4"))
    policy = "http:RATE 10/1m BURST 20 FIXED 5/1d TZ Europe/Berlin"
    assert sorted(server.do("KEYS", "*")) == [f"{policy}:2001:db8:1:2::/64".encode(), f"{policy}:203.0.113.9".encode()]
    server.do("FLUSHALL")
    ask(server.url, {"limits": lambda request: limits, "name": "login", "ipv6": 48}, addresses=("2001:db8:1:2:3::4",))
    assert server.do("KEYS", "*") == [b"http:login:2001:db8:1::/48"]
    server.do("FLUSHALL")
    ask(server.url, {"limits": rate(1, "1h"), "key": client_address})  # as the documentation of 0.3.0 had it
    assert server.do("KEYS", "*") == [b"http:RATE 1/1h:203.0.113.9"]


def test_two_middlewares_have_a_state_each(server: Server, ask: Ask) -> None:
    """A limit for all pages, and a stricter one for the login: the pages do not use up the login."""
    every_page, login = {"limits": rate(10, "1m")}, {"limits": rate(3, "1h")}
    assert statuses(ask(server.url, every_page, addresses=("203.0.113.9",) * 6)) == [200] * 6
    assert statuses(ask(server.url, login, every_page, addresses=("203.0.113.9",) * 4)) == [200, 200, 200, 429]
    assert statuses(ask(server.url, every_page)) == [429], "6 and 4 were the ten"


def test_twins_are_warned_of(server: Server, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="redis_throttle"):
        ask(server.url, {"limits": rate(10, "1m")}, {"limits": rate(10, "1h")})
        ask(server.url, {"limits": rate(10, "1m")}, {"limits": rate(10, "60s"), "name": "other"})
        ask(server.url, {"limits": rate(10, "1m")}, {"limits": rate(10, "60s"), "key": lambda request: "k"})
        assert caplog.records == []
        ask(server.url, {"limits": rate(10, "1m")}, {"limits": rate(10, "60s", shadow=True)})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "RATE 10/1m" in caplog.text


def test_the_proxies_that_are_trusted_name_the_client(server: Server, ask: Ask) -> None:
    options = {"limits": rate(1, "1h"), "trusted": ["10.1.0.0/24"]}
    assert statuses(ask(server.url, options, addresses=("10.1.0.1", "10.1.0.2"), headers={"X-Forwarded-For": "198.51.100.7, 203.0.113.9"})) == [200, 429]
    assert statuses(ask(server.url, options, addresses=("10.1.0.1",), headers={"X-Forwarded-For": "203.0.113.10"})) == [200]


@pytest.mark.parametrize("kind", ["asgi", "wsgi"])
@pytest.mark.parametrize(("options", "says"), [
    ({"limits": []}, "at least one"),
    ({}, "give limits"),
    ({"limits": rate(1, "1s"), "keys": lambda request: {}}, "give limits"),
    ({"limits": rate(1, "1s"), "outage": "closed"}, 'outage must be "allow", "deny" or "raise"'),
    ({"limits": rate(1, "1s"), "outage": "let through"}, 'called "allow" now'),
    ({"limits": rate(1, "1s"), "overload": "unavailable"}, 'overload must be .*called "deny" now'),
    ({"limits": rate(1, "1s"), "mistake": "error"}, 'mistake must be .*called "raise" now'),
    ({"limits": rate(1, "1s"), "mistake": None}, "mistake must be"),
    ({"limits": rate(1, "1s"), "outage": ["deny"]}, "outage must be"),
    ({"limits": rate(1, "1s"), "key": "user"}, "key must be a function"),
    ({"limits": rate(1, "1s"), "key": lambda request: "k", "trusted": ["10.1.0.1"]}, "default key"),
    ({"limits": rate(1, "1s"), "key": lambda request: "k", "name": "login"}, "default key"),
    ({"limits": rate(1, "1s"), "x_ratelimit": "ms"}, "x_ratelimit"),
    ({"limits": rate(1, "1s"), "retry_after": 1}, "retry_after"),
    ({"limits": rate(1, "1s", name="größe", shadow=True)}, "ASCII"),
])
def test_options_are_checked_at_construction(kind: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make(kind, **options)


def test_a_limiter_of_the_other_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="asyncio"):
        asgi.RateLimit(asgi_page, Limiter.from_url(NOWHERE), rate(1, "1s"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="asyncio"):
        wsgi.RateLimit(wsgi_page, AsyncLimiter.from_url(NOWHERE), rate(1, "1s"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "want"), [(None, [200, 200]), (0, [500, 500]), (False, [500, 500]), ((), [500, 500]), ("", [200, 429])])
def test_only_none_is_no_key(server: Server, ask: Ask, key: Any, want: list[int]) -> None:
    assert statuses(ask(server.url, {"limits": rate(1, "1h"), "key": lambda request: key}, addresses=("203.0.113.9",) * 2)) == want


@pytest.mark.parametrize("function", ["key", "cost", "limits", "keys"])
def test_an_error_in_a_function_is_a_mistake(server: Server, ask: Ask, function: str) -> None:
    seen: list[Exception] = []

    def broken(request: Any) -> Any:
        raise KeyError("user")

    options = {"limits": rate(1, "1h"), function: broken, "on_error": lambda request, error: seen.append(error)}
    if function == "keys":
        del options["limits"]
    assert statuses(ask(server.url, options)) == [500]
    assert statuses(ask(server.url, {**options, "mistake": "deny"})) == [503]
    assert statuses(ask(server.url, {**options, "mistake": "allow"})) == [200]
    assert [type(error) for error in seen] == [KeyError] * 3


@pytest.mark.parametrize(("error", "option"), [(OutageError, "outage"), (OverloadError, "overload"), (MistakeError, "mistake"), (RuntimeError, "mistake")])
@pytest.mark.parametrize(("answer", "status"), [("allow", 200), ("deny", 503), ("raise", 500)])
def test_every_error_has_an_answer(server: Server, ask: Ask, error: type[Exception], option: str, answer: str, status: int) -> None:
    def broken(request: Any) -> Any:
        raise error("made up")

    others = {name: "allow" if answer == "deny" else "deny" for name in ("outage", "overload", "mistake") if name != option}
    [got] = ask(server.url, {"limits": rate(1, "1h"), "key": broken, option: answer, **others})
    assert got.status_code == status
    assert got.headers.get("Retry-After") == ("1" if status == 503 else None)


def test_names_that_a_field_cannot_carry_are_found_before_anything_is_charged(server: Server, ask: Ask) -> None:
    assert statuses(ask(server.url, {"limits": lambda request: rate(5, "1h", name="größe")})) == [500]
    assert statuses(ask(server.url, {"keys": lambda request: {"k": rate(5, "1h", name="größe")}})) == [500]
    assert server.do("DBSIZE") == 0


@pytest.mark.parametrize("limits", [rate(0, "1m"), fixed(0, "1d"), [rate(5, "1h"), rate(0, "1m", name="off")]], ids=str)
def test_a_limit_of_0_lets_nobody_through(server: Server, ask: Ask, limits: Any) -> None:
    for options in ({"limits": limits}, {"limits": lambda request: limits}, {"keys": lambda request: {"k": limits}}):
        [got] = ask(server.url, {**options, "x_ratelimit": "seconds"})
        assert got.status_code == 429
        assert "Retry-After" not in got.headers
        assert ";q=0;" in got.headers["RateLimit-Policy"]
        assert got.headers["RateLimit"] == ('"limit-1";r=5, "off";r=0' if isinstance(limits, list) else '"default";r=0')
        assert got.json()["violated-policies"] == ["off" if isinstance(limits, list) else "default"]
    assert server.do("DBSIZE") == 0


def test_a_shadow_of_0_decides_nothing(server: Server, ask: Ask) -> None:
    [got] = ask(server.url, {"limits": [rate(5, "1h"), rate(0, "1m", shadow=True)]})
    assert got.status_code == 200
    assert got.headers["RateLimit"] == '"limit-1";r=4;t=720'
    [got] = ask(server.url, {"limits": rate(0, "1m", shadow=True)})
    assert (got.status_code, got.headers.get("RateLimit")) == (200, None)


def test_a_lone_shadow_changes_nothing_for_clients(server: Server, ask: Ask) -> None:
    for got in ask(server.url, {"limits": rate(1, "1h", shadow=True), "x_ratelimit": "seconds"}, addresses=("203.0.113.9",) * 3):
        assert got.status_code == 200
        assert not [name for name in got.headers if "ratelimit" in name.lower()]


async def test_functions_may_be_of_asyncio(server: Server) -> None:
    async def key(scope: Any) -> str:
        await asyncio.sleep(0)
        return "k"

    async def cost(scope: Any) -> int:
        return 2

    async def limits(scope: Any) -> Limit:
        return rate(5, "1h")

    async def broken(scope: Any) -> str:
        raise KeyError("user")

    seen: list[Exception] = []

    async def on_error(scope: Any, error: Exception) -> None:
        seen.append(error)

    async with AsyncLimiter.from_url(server.url) as limiter:
        async def get(**options: Any) -> httpx.Response:
            app: Any = asgi.RateLimit(asgi_page, limiter, **options)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test") as client:
                return await client.get("/")

        answers = [await get(limits=limits, key=key, cost=cost) for _ in range(3)]
        assert statuses(answers) == [200, 200, 429]
        assert (await get(limits=limits, key=broken, on_error=on_error, mistake="deny")).status_code == 503
    assert [type(error) for error in seen] == [KeyError]


def test_a_function_of_asyncio_is_a_mistake_in_wsgi(server: Server) -> None:
    async def key(environ: Any) -> str:
        return "k"

    with Limiter.from_url(server.url) as limiter:
        app = wsgi.RateLimit(wsgi_page, limiter, rate(1, "1h"), key=key, mistake="deny")  # type: ignore[arg-type]
        with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://test") as client:
            assert client.get("/").status_code == 503


APP = """
import os
from redis_throttle import Limiter, asgi, rate, wsgi
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter

async def page(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close"})
    elif scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

def wsgi_page(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]

app = asgi.RateLimit(page, AsyncLimiter.from_url(os.environ["TEST_URL"]), rate(2, "1h"))
wsgi_app = wsgi.RateLimit(wsgi_page, Limiter.from_url(os.environ["TEST_URL"]), rate(2, "1h"))
"""


@pytest.fixture
def serve(server: Server, tmp_path: pathlib.Path) -> Iterator[Callable[..., pathlib.Path]]:
    """Serves APP by a program, and returns its log."""
    (tmp_path / "app.py").write_text(APP)
    running: list[subprocess.Popen[bytes]] = []

    def begin(*words: str) -> pathlib.Path:
        with open(tmp_path / "log", "w") as log:
            environment = {**os.environ, "TEST_URL": server.url}
            running.append(subprocess.Popen([sys.executable, "-W", "ignore", "-m", *words], cwd=tmp_path, env=environment, stdout=log, stderr=log))
        return tmp_path / "log"

    yield begin
    for process in running:
        process.terminate()
        process.wait()


def connects(family: socket.AddressFamily, address: Any) -> bool:
    with socket.socket(family) as s:
        try:
            s.connect(address)
        except OSError:
            return False
        return True


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


@pytest.mark.parametrize("program", ["uvicorn", "gunicorn"])
def test_requests_at_a_unix_socket_are_limited(serve: Callable[..., pathlib.Path], tmp_path: pathlib.Path, program: str) -> None:
    path = str(tmp_path / "socket")
    log = serve("uvicorn", "app:app", "--uds", path) if program == "uvicorn" else serve("gunicorn", "app:wsgi_app", "-b", f"unix:{path}")
    await_true(lambda: connects(socket.AF_UNIX, path), "it listens")

    def get(**headers: str) -> int:
        connection = UnixConnection(path)
        connection.request("GET", "/", headers=headers)
        status = connection.getresponse().status
        connection.close()
        return status

    assert [get() for _ in range(3)] == [200, 200, 429], "they share a key"
    assert get(**{"X-Forwarded-For": "203.0.113.9"}) == 200, "the proxy says who it is"
    assert log.read_text().count("all such requests are limited together") == 1


def test_handshakes_of_websockets_are_requests(serve: Callable[..., pathlib.Path]) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    port = free_port()
    serve("uvicorn", "app:app", "--port", str(port))
    await_true(lambda: connects(socket.AF_INET, ("127.0.0.1", port)), "it listens")
    for left in (1, 0):
        with connect(f"ws://127.0.0.1:{port}/") as client:
            assert client.response is not None
            assert client.response.headers["RateLimit"].startswith(f'"default";r={left};t=')
    with pytest.raises(InvalidStatus) as raised, connect(f"ws://127.0.0.1:{port}/"):
        pass
    response = raised.value.response
    assert response.status_code == 429
    assert 1790 <= int(response.headers["Retry-After"]) <= 1800
    assert json.loads(response.body or b"")["violated-policies"] == ["default"]
    assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 429, "the same limit"


async def test_a_server_without_responses_to_handshakes_closes_them(server: Server) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    for url, options in ((server.url, {"limits": rate(0, "1m")}), (NOWHERE, {"limits": rate(1, "1m"), "outage": "deny"})):
        async with AsyncLimiter.from_url(url) as limiter:
            app: Any = asgi.RateLimit(asgi_page, limiter, **options)
            await app({"type": "websocket", "client": ("203.0.113.9", 1), "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close", "websocket.close"]


@pytest.mark.parametrize("preflights", [False, True])
async def test_preflights_are_not_charged_unless_it_is_wished(throttle: FakeLimiter, async_throttle: AsyncFakeLimiter, preflights: bool) -> None:
    fields = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    statuses = []

    def of_wsgi(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return []

    async def of_asgi(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    made = wsgi.RateLimit(of_wsgi, throttle, rate(1, "1h"), preflights=preflights)
    with httpx.Client(transport=httpx.WSGITransport(app=made), base_url="http://t") as client:
        statuses.append([client.options("/", headers=fields).status_code for _ in range(3)])
        assert client.options("/").status_code == (429 if preflights else 200), "another OPTIONS is a request"
    app = asgi.RateLimit(of_asgi, async_throttle, rate(1, "1h"), preflights=preflights)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://t") as other:
        statuses.append([(await other.options("/", headers=fields)).status_code for _ in range(3)])
    assert statuses == [[200, 429, 429] if preflights else [200] * 3] * 2
