"""What happens to servers and callers of a service that runs for long: a password that changes, a server that stands still, many threads, IPv6."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import redis
from fastapi import Depends, FastAPI
from flask import Flask
from flask_limiter import Limiter as Flask_Limiter

import redis_throttle.fastapi
import redis_throttle.limits
from redis_throttle import LimitedError, Limiter, MistakeError, OutageError, asgi, fixed, rate, wsgi
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.httpx import LimitedTransport
from servers import PATIENCE, Cluster, Server, Watched, await_true

DAY = fixed(1_000_000, "1d")
TWO = rate(2, "1h")


@contextlib.contextmanager
def password_of(servers: list[Server]) -> Iterator[Callable[[str], None]]:
    """Return a function that changes the password of servers and ends the connections of everybody."""
    now = [""]

    def change(password: str) -> None:
        for server in servers:
            with redis.Redis(port=server.port, password=now[0] or None, socket_timeout=PATIENCE) as client:
                if server.options[:1] != ["--sentinel"] and password:
                    client.config_set("masterauth", password)
                client.execute_command("ACL", "SETUSER", "default", "on", "resetpass", *([f">{password}"] if password else ["nopass"]))
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        now[0] = password

    try:
        yield change
    finally:
        change("")


@pytest.fixture
def watched() -> Iterator[Watched]:
    servers = Watched()
    yield servers
    servers.stop()


async def is_a_mistake(url: str, servers: list[Server], *, connected: bool = True, anew: bool = True, **options: Any) -> None:
    """A password that is wrong stays wrong. Taken for an outage, it would let every request through, and nobody would notice.

    Limiters notice that are `connected`, and those that are made `anew`. They go on when the password is right again.
    """
    given = {"password": "right", **options}

    async def go_on(limiter: Limiter, of_asyncio: AsyncLimiter) -> None:
        assert limiter.limit("k", DAY).allowed
        assert (await of_asyncio.limit("k", DAY)).allowed

    with password_of(servers) as change:
        change("right")
        with Limiter.from_url(url, timeout="5s", options=given) as limiter:
            async with AsyncLimiter.from_url(url, timeout="5s", options=given) as of_asyncio:
                await go_on(limiter, of_asyncio)
                change("other")
                if connected:
                    await _agree(limiter, of_asyncio)
                    change("right")
                    await go_on(limiter, of_asyncio)
        if anew:
            change("other")
            with Limiter.from_url(url, timeout="5s", options=given) as limiter:
                async with AsyncLimiter.from_url(url, timeout="5s", options=given) as of_asyncio:
                    await _agree(limiter, of_asyncio)
                    change("right")
                    await go_on(limiter, of_asyncio)


async def _agree(limiter: Limiter, of_asyncio: AsyncLimiter) -> None:
    found: list[type[BaseException]] = []
    for _ in range(3):
        with pytest.raises((MistakeError, OutageError)) as raised:
            limiter.limit("k", DAY)
        found.append(raised.type)
        with pytest.raises((MistakeError, OutageError)) as raised:
            await of_asyncio.limit("k", DAY)
        found.append(raised.type)
    # The first call may find the connection closed, and cannot know why.
    assert found[2:] == [MistakeError] * 4, repr(raised.value.__cause__)


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_a_password_that_changed_is_a_mistake(own_server: Server, library: str) -> None:
    await is_a_mistake(own_server.url.replace("redis", library, 1), [own_server])


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_so_it_is_in_a_cluster(cluster: Cluster, library: str) -> None:
    await is_a_mistake(cluster.url.replace("redis", library, 1), cluster.nodes, anew=False)  # the library's client for threads connects when it is made


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_so_it_is_behind_a_sentinel(watched: Watched, library: str) -> None:
    await is_a_mistake(watched.url.replace("redis", library, 1), [watched.sentinel], connected=False,
                       password=None, sentinel_kwargs={"password": "right"})  # who knows the master does not ask for it


def test_two_hundred_threads_have_one_reply_each(server: Server) -> None:
    with Limiter.from_url(server.url, timeout="20s") as limiter:
        remaining: list[int] = []
        barrier = threading.Barrier(200)

        def act() -> None:
            barrier.wait(PATIENCE)
            for _ in range(5):
                remaining.append(limiter.limit("k", DAY).remaining)

        threads = [threading.Thread(target=act) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(remaining) == list(range(1_000_000 - 1000, 1_000_000))


def test_ipv6_and_unix_sockets(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    path = str(tmp_path / "socket")
    server = Server("--bind", "127.0.0.1", "::1", "--unixsocket", path)
    try:
        for url in (f"redis://[::1]:{server.port}", f"redis+unix://{path}", f"valkey://[::1]:{server.port}", f"valkey+unix://{path}"):
            with Limiter.from_url(url) as limiter:
                assert limiter.limit(url, rate(1, "1h")).allowed
    finally:
        server.stop()


Ask = Callable[[], int]


def _of_asgi(wrap: Callable[[AsyncLimiter], Any]) -> Callable[[str, contextlib.ExitStack], Ask]:
    def make(url: str, stack: contextlib.ExitStack) -> Ask:
        runner = stack.enter_context(asyncio.Runner())
        limiter = AsyncLimiter.from_url(url)
        stack.callback(lambda: runner.run(limiter.close()))
        app = wrap(limiter)

        async def get() -> int:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app, client=("203.0.113.9", 1)), base_url="http://test") as client:
                return (await client.get("/")).status_code

        return lambda: runner.run(get())

    return make


def _of_wsgi(wrap: Callable[[Limiter], Any]) -> Callable[[str, contextlib.ExitStack], Ask]:
    def make(url: str, stack: contextlib.ExitStack) -> Ask:
        app = wrap(stack.enter_context(Limiter.from_url(url)))

        def get() -> int:
            with httpx.Client(transport=httpx.WSGITransport(app, remote_addr="203.0.113.9"), base_url="http://test") as client:
                return client.get("/").status_code

        return get

    return make


async def _asgi_page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def _wsgi_page(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"hello"]


def _fastapi(limiter: AsyncLimiter) -> FastAPI:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(redis_throttle.fastapi.RateLimit(limiter, TWO))])
    async def page() -> str:
        return "hello"

    return app


def _flask_limiter(url: str, stack: contextlib.ExitStack) -> Ask:
    app = Flask("page")
    Flask_Limiter(lambda: "k", app=app, storage_uri=f"throttle+{url}", default_limits=["2/hour"], swallow_errors=True)
    app.add_url_rule("/", "page", lambda: "hello")
    return lambda: app.test_client().get("/").status_code


def _outgoing(url: str, stack: contextlib.ExitStack) -> Ask:
    limiter = stack.enter_context(Limiter.from_url(url))
    behind = httpx.MockTransport(lambda request: httpx.Response(200))
    client = stack.enter_context(httpx.Client(transport=LimitedTransport(limiter, TWO, key="k", transport=behind, outage="allow")))

    def get() -> int:
        try:
            return client.get("http://test/").status_code
        except LimitedError:
            return 429

    return get


ADAPTERS: dict[str, Callable[[str, contextlib.ExitStack], Ask]] = {
    "asgi": _of_asgi(lambda limiter: asgi.RateLimit(_asgi_page, limiter, TWO)),
    "asgi, concurrency": _of_asgi(lambda limiter: asgi.Concurrency(_asgi_page, limiter, lambda _: 0)),
    "wsgi": _of_wsgi(lambda limiter: wsgi.RateLimit(_wsgi_page, limiter, TWO)),
    "wsgi, concurrency": _of_wsgi(lambda limiter: wsgi.Concurrency(_wsgi_page, limiter, lambda _: 0)),
    "FastAPI": _of_asgi(_fastapi),
    "Flask-Limiter": _flask_limiter,
    "httpx": _outgoing,
}


@pytest.mark.defaults
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_server_that_stands_still_holds_nobody_up(own_server: Server, name: str) -> None:
    """Requests go on without it, and are limited again when it goes on."""
    with contextlib.ExitStack() as stack:
        ask = ADAPTERS[name](own_server.url, stack)
        await_true(lambda: ask() == 429, "requests are limited")
        own_server.pause()
        assert [ask() for _ in range(20)] == [200] * 20
        own_server.resume()
        await_true(lambda: ask() == 429, "they are limited again")


async def test_tasks_that_are_cancelled_leave_the_pool_as_it_was(server: Server) -> None:
    """A reply that a cancelled call left in a connection would be that of the next one."""
    async with AsyncLimiter.from_url(server.url, timeout="5s") as limiter:
        for n in range(200):
            task = asyncio.create_task(limiter.limit("cancelled", fixed(7, "1d")))
            for _ in range(n % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await limiter.limit(f"k{n}", fixed(1000 + n, "1d"))).limit == 1000 + n
