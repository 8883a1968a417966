"""What happens to servers and callers of a service that runs for long: a password that changes, a server that stands
still, many threads, IPv6."""

from __future__ import annotations

import asyncio
import contextlib
import io
import pathlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import django
import httpx
import pytest
import redis
import requests
from fastapi import Depends, FastAPI, HTTPException
from flask import Flask
from flask_limiter import Limiter as Flask_Limiter

import redis_throttle.django_views
import redis_throttle.fastapi
import redis_throttle.limits
from pages import asgi_page, wsgi_page
from redis_throttle import LimitedError, Limiter, MistakeError, OutageError, asgi, fixed, rate, wsgi
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.httpx import AsyncLimitedTransport, LimitedTransport
from redis_throttle.requests import LimitedAdapter
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
    """A password that is wrong stays wrong. Taken for an outage, it would let every request through, and nobody would
    notice.

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
Make = Callable[[str, str, contextlib.ExitStack], Ask]
"""Returns what asks an adapter once, for a URL and a timeout, and returns the status: 429 and 500 also stand for the
errors of those without one."""


def _of_asyncio(serve: Callable[[AsyncLimiter], Callable[[], Coroutine[Any, Any, int]]]) -> Make:
    def make(url: str, timeout: str, stack: contextlib.ExitStack) -> Ask:
        runner = stack.enter_context(asyncio.Runner())
        limiter = AsyncLimiter.from_url(url, timeout=timeout)
        stack.callback(lambda: runner.run(limiter.close()))
        get = serve(limiter)
        return lambda: _status(lambda: runner.run(get()))

    return make


def _of_asgi(wrap: Callable[[AsyncLimiter], Any]) -> Make:
    def serve(limiter: AsyncLimiter) -> Callable[[], Coroutine[Any, Any, int]]:
        app = wrap(limiter)

        async def get() -> int:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app, client=("203.0.113.9", 1)), base_url="http://test") as client:
                return (await client.get("/")).status_code

        return get

    return _of_asyncio(serve)


def _of_threads(serve: Callable[[Limiter], Ask]) -> Make:
    def make(url: str, timeout: str, stack: contextlib.ExitStack) -> Ask:
        get = serve(stack.enter_context(Limiter.from_url(url, timeout=timeout)))
        return lambda: _status(get)

    return make


def _of_wsgi(wrap: Callable[[Limiter], Any]) -> Make:
    def serve(limiter: Limiter) -> Ask:
        app = wrap(limiter)

        def get() -> int:
            with httpx.Client(transport=httpx.WSGITransport(app, remote_addr="203.0.113.9"), base_url="http://test") as client:
                return client.get("/").status_code

        return get

    return _of_threads(serve)


def _status(get: Ask) -> int:
    try:
        return get()
    except LimitedError:
        return 429
    except HTTPException as error:
        return error.status_code
    except (MistakeError, OutageError):
        return 500


def _fastapi(limiter: AsyncLimiter) -> FastAPI:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(redis_throttle.fastapi.RateLimit(limiter, TWO))])
    async def page() -> str:
        return "hello"

    return app


def _flask_limiter(url: str, timeout: str, stack: contextlib.ExitStack) -> Ask:
    app = Flask("page")
    Flask_Limiter(lambda: "k", app=app, storage_uri=f"throttle+{url}", storage_options={"timeout": timeout}, default_limits=["2/hour"], swallow_errors=True)
    app.add_url_rule("/", "page", lambda: "hello")
    return lambda: app.test_client().get("/").status_code


def _django(limiter: Limiter) -> Ask:
    from django.http import HttpResponse
    from django.test import RequestFactory

    def page(request: Any) -> HttpResponse:
        return HttpResponse("hello")

    view = redis_throttle.django_views.RateLimit(limiter, TWO)(page)
    return lambda: int(view(RequestFactory().get("/", REMOTE_ADDR="203.0.113.9")).status_code)


def _django_of_asyncio(limiter: AsyncLimiter) -> Callable[[], Coroutine[Any, Any, int]]:
    from django.http import HttpResponse
    from django.test import RequestFactory

    async def page(request: Any) -> HttpResponse:
        return HttpResponse("hello")

    view = redis_throttle.django_views.RateLimit(limiter, TWO)(page)

    async def get() -> int:
        return int((await view(RequestFactory().get("/", REMOTE_ADDR="203.0.113.9"))).status_code)

    return get


def _rest_framework(url: str, timeout: str, stack: contextlib.ExitStack) -> Ask:
    from django.test import RequestFactory
    from django.test.utils import override_settings

    stack.enter_context(override_settings(REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None},
                                          REDIS_THROTTLE={"URL": url, "TIMEOUT": timeout}))
    django.setup()
    from rest_framework.response import Response
    from rest_framework.views import APIView

    import redis_throttle.django

    class Throttle(redis_throttle.django.AnonRateThrottle):
        rate = "2/hour"

    class Page(APIView):  # type: ignore[misc]
        throttle_classes = (Throttle,)

        def get(self, request: Any) -> Response:
            return Response("hello")

    redis_throttle.django.limiter.cache_clear()
    stack.callback(lambda: redis_throttle.django.limiter().close())
    view = Page.as_view()
    return lambda: _status(lambda: int(view(RequestFactory().get("/", REMOTE_ADDR="203.0.113.9")).status_code))


def _litellm(limiter: AsyncLimiter) -> Callable[[], Coroutine[Any, Any, int]]:
    from redis_throttle.litellm import ThrottleHook

    hook = ThrottleHook(limiter=limiter, requests=TWO)

    async def admit() -> int:
        await hook.async_pre_call_hook(None, None, {"messages": [{"role": "user", "content": "hello"}]}, "completion")
        return 200

    return admit


def _celery(limiter: Limiter) -> Ask:
    """A task that is called in a worker, without one: what it sends goes nowhere."""
    from celery import Celery
    from celery.exceptions import Retry

    from redis_throttle.celery import LimitedTask

    app = Celery("page", broker="memory://", set_as_current=False)

    @app.task(base=LimitedTask, throttle_limiter=limiter, throttle_limits=TWO, throttle_reserve=None, throttle_outage="allow")  # type: ignore[untyped-decorator]
    def page() -> int:
        return 200

    def run() -> int:
        page.push_request(called_directly=False, is_eager=False, id="1", task=page.name, args=[], kwargs={}, delivery_info={}, retries=0)
        try:
            return int(page())
        except Retry:
            return 429
        finally:
            page.pop_request()

    return run


def _httpx(limiter: Limiter) -> Ask:
    behind = httpx.MockTransport(lambda request: httpx.Response(200))
    client = httpx.Client(transport=LimitedTransport(limiter, TWO, key="k", transport=behind, outage="allow"))
    return lambda: client.get("http://test/").status_code


def _httpx_of_asyncio(limiter: AsyncLimiter) -> Callable[[], Coroutine[Any, Any, int]]:
    behind = httpx.MockTransport(lambda request: httpx.Response(200))
    client = httpx.AsyncClient(transport=AsyncLimitedTransport(limiter, TWO, key="k", transport=behind, outage="allow"))

    async def get() -> int:
        return (await client.get("http://test/")).status_code

    return get


class _Behind(requests.adapters.BaseAdapter):
    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        response = requests.Response()
        response.status_code, response.request, response.raw = 200, request, io.BytesIO()
        return response

    def close(self) -> None:
        pass


def _requests(limiter: Limiter) -> Ask:
    session = requests.Session()
    session.mount("http://test", LimitedAdapter(limiter, TWO, key="k", adapter=_Behind(), outage="allow"))
    return lambda: session.get("http://test/", timeout=PATIENCE).status_code


ADAPTERS: dict[str, Make] = {
    "asgi": _of_asgi(lambda limiter: asgi.RateLimit(asgi_page, limiter, TWO)),
    "asgi, concurrency": _of_asgi(lambda limiter: asgi.Concurrency(asgi_page, limiter, lambda _: 0)),
    "wsgi": _of_wsgi(lambda limiter: wsgi.RateLimit(wsgi_page, limiter, TWO)),
    "wsgi, concurrency": _of_wsgi(lambda limiter: wsgi.Concurrency(wsgi_page, limiter, lambda _: 0)),
    "FastAPI": _of_asgi(_fastapi),
    "Flask-Limiter": _flask_limiter,
    "Django": _of_threads(_django),
    "Django of asyncio": _of_asyncio(_django_of_asyncio),
    "REST framework": _rest_framework,
    "LiteLLM": _of_asyncio(_litellm),
    "Celery": _of_threads(_celery),
    "httpx": _of_threads(_httpx),
    "httpx of asyncio": _of_asyncio(_httpx_of_asyncio),
    "requests": _of_threads(_requests),
}
"""Each lets through in an outage, by default or because it is told to."""


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "redis_throttle" and record.levelname == "ERROR"]


@pytest.mark.parametrize("refuses", [False, True], ids=["stands still", "refuses"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_server_that_is_away_holds_nobody_up(own_server: Server, name: str, refuses: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Requests go on without it, the log says so, and they are limited again when it goes on."""
    with contextlib.ExitStack() as stack:
        ask = ADAPTERS[name](own_server.url, "200ms", stack)
        await_true(lambda: ask() == 429, "requests are limited")
        caplog.clear()
        (own_server.kill if refuses else own_server.pause)()
        assert [ask() for _ in range(20)] == [200] * 20
        assert sum("is out of reach" in line for line in told(caplog)) == 1, "an outage is told once"
        (own_server.start if refuses else own_server.resume)()
        await_true(lambda: ask() == 429, "they are limited again")


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_password_that_changed_shows_in_every_adapter(own_server: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its error is raised, and nobody gets through, but where Flask-Limiter is told to swallow all errors."""
    with contextlib.ExitStack() as stack, password_of([own_server]) as change:
        change("right")
        ask = ADAPTERS[name](own_server.url.replace("://", "://:right@"), f"{PATIENCE}s", stack)
        await_true(lambda: ask() == 429, "requests are limited")
        caplog.clear()
        change("other")
        if name == "Flask-Limiter":
            assert [ask() for _ in range(5)] == [200] * 5
        else:
            await_true(lambda: ask() == 500, "it is a mistake")  # the first call may find the connection closed, and cannot know why
            assert [ask() for _ in range(5)] == [500] * 5
            lines = [line for line in told(caplog) if line.startswith("redis-throttle: mistake: ") and "could not be checked" in line]
            # What is raised to the caller of another service is not told twice.
            assert len(lines) == 0 if name.startswith(("httpx", "requests")) else 0 < len(lines) < 6, lines
        assert "right" not in caplog.text
        change("right")
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
