"""A limiter of asyncio that is made once, at the level of a module, and used in one event loop after the other, or in
several at a time."""

from __future__ import annotations

import asyncio
import importlib
import threading
import uuid
from collections.abc import Callable
from typing import Any

import django
import httpx
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.test import Client as DjangoClient
from django.urls import path
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from redis_throttle import Slots, rate
from redis_throttle.asgi import RateLimit as Middleware
from redis_throttle.asyncio import Batched, Cached, Guard, Limiter, Remote
from redis_throttle.django_views import RateLimit as View
from redis_throttle.fastapi import RateLimit as Dependency
from redis_throttle.httpx import AsyncLimitedTransport
from redis_throttle.litellm import ThrottleHook
from servers import PATIENCE, Cluster, Server, Watched, await_true

MINUTE = rate(1000, "1m")


def connections(server: Server) -> int:
    """Return how many clients a server has beside the one that asks."""
    return int(server.client().info("clients")["connected_clients"]) - 1


def given(library: str, port: int, **options: Any) -> Any:
    module = importlib.import_module(f"{library}.asyncio")
    return getattr(module, library.capitalize())(port=port, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, **options)


def of_cluster(library: str, cluster: Cluster) -> Any:
    module = importlib.import_module(f"{library}.asyncio.cluster")
    return getattr(module, f"{library.capitalize()}Cluster")(host="127.0.0.1", port=cluster.nodes[0].port)


MAKES: dict[str, Callable[[Server], Limiter]] = {
    "redis": lambda server: Limiter.from_url(server.url),
    "valkey": lambda server: Limiter.from_url(server.url.replace("redis", "valkey", 1)),
    "a client of redis": lambda server: Limiter(given("redis", server.port)),
    "a client of valkey": lambda server: Limiter(given("valkey", server.port), timeout="2s"),
    "a pool of its own": lambda server: Limiter(given("redis", server.port, retry=None), timeout="1s"),
}


@pytest.fixture(params=list(MAKES))
def limiter(request: pytest.FixtureRequest, server: Server) -> Limiter:
    return MAKES[request.param](server)


def test_each_asyncio_run_has_connections_of_its_own_that_end_with_it(limiter: Limiter, server: Server) -> None:
    before = connections(server)
    for n in range(4):
        async def many() -> list[int]:
            return [result.remaining for result in await asyncio.gather(*(limiter.limit("k", MINUTE) for _ in range(5)))]

        assert min(asyncio.run(many())) >= 1000 - 5 * (n + 1)
        await_true(lambda: connections(server) <= before, "the loop closes its connections")


def test_loops_that_run_at_a_time_do_not_meet(limiter: Limiter) -> None:
    problems: list[BaseException] = []

    async def work() -> None:
        for _ in range(20):
            await asyncio.gather(*(limiter.limit("k", MINUTE) for _ in range(5)))

    def thread() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=thread) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE)
    assert not problems
    assert asyncio.run(limiter.peek("k", MINUTE)).remaining <= 1000 - 350


def test_what_a_loop_left_open_is_closed_when_the_next_one_comes(limiter: Limiter, server: Server) -> None:
    before = connections(server)
    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(limiter.limit("k", MINUTE))
        loop.close()
    asyncio.run(limiter.limit("k", MINUTE))
    await_true(lambda: connections(server) <= before, "the connections of earlier loops are closed")


def test_close_leaves_a_client_open_that_was_given(server: Server) -> None:
    async def run() -> None:
        client = given("redis", server.port)
        async with Limiter(client) as limiter:
            await limiter.limit("k", MINUTE)
            await client.ping()
        assert any(one.is_connected for one in client.connection_pool._available_connections)
        await client.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_a_cluster_is_reached_from_every_loop(cluster: Cluster, library: str) -> None:
    before = [connections(node) for node in cluster.nodes]
    for limiter in (Limiter.from_url(cluster.url.replace("redis", library, 1)), Limiter(of_cluster(library, cluster))):
        for _ in range(3):
            async def run(limiter: Limiter = limiter) -> None:
                for n in range(6):
                    assert (await limiter.limit(f"k{n}", MINUTE)).allowed

            asyncio.run(run())
    await_true(lambda: all(connections(node) <= n for node, n in zip(cluster.nodes, before, strict=True)), "the loops close their connections")


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_a_sentinel_is_asked_in_every_loop(library: str) -> None:
    watched = Watched()
    try:
        limiter = Limiter.from_url(watched.url.replace("redis", library, 1))
        for _ in range(3):
            assert asyncio.run(limiter.limit("k", MINUTE)).allowed
    finally:
        watched.stop()


def test_the_door_of_a_server_without_the_module_is_found_once() -> None:
    bare = Server(with_module=False)
    try:
        limiter = Limiter.from_url(bare.url)
        for _ in range(3):
            assert asyncio.run(limiter.limit("k", MINUTE)).allowed
        stats = bare.client().info("commandstats")
        assert stats["cmdstat_function|load"]["calls"] == 1
        assert stats["cmdstat_fcall"]["calls"] == 3 + stats.get("cmdstat_fcall", {}).get("failed_calls", 0)
    finally:
        bare.stop()


LAYERS: dict[str, Callable[[Remote], Any]] = {
    "batched": lambda remote: Batched(Guard(remote)),
    "cached": lambda remote: Cached(Guard(remote)),
    "local": lambda remote: Guard(remote, policy="local"),
}


@pytest.mark.parametrize("layer", list(LAYERS))
def test_layers_go_on_in_the_next_loop(server: Server, layer: str) -> None:
    limiter = Limiter(LAYERS[layer](Remote.from_url(server.url)))

    async def some() -> int:
        return sum(result.allowed for result in await asyncio.gather(*(limiter.limit("k", rate(30, "1d")) for _ in range(4))))

    assert [asyncio.run(some()) for _ in range(4)] == [4] * 4


def test_leases_and_waits_work_in_every_loop(server: Server) -> None:
    limiter = Limiter.from_url(server.url)

    async def run() -> None:
        async with limiter.lease("l", slots=1, ttl="10s", timeout="5s"):
            await limiter.wait("w", MINUTE, timeout="5s")
        async with limiter.admit({"{a}:n": MINUTE, "{a}:slots": Slots(1, "10s")}):
            pass

    for _ in range(3):
        asyncio.run(run())


def test_what_a_loop_could_not_give_back_the_next_one_does(own_server: Server) -> None:
    limiter = Limiter.from_url(own_server.url, timeout="500ms")

    async def lose() -> None:
        lease = await limiter.lease("l", slots=1, ttl="60s").take()
        await asyncio.sleep(0.05)
        own_server.pause()
        await lease.release()

    asyncio.run(lose())
    own_server.resume()

    async def take() -> None:
        async with asyncio.timeout(PATIENCE):
            async with limiter.lease("other", slots=1, ttl="60s"):
                while own_server.client().exists("l"):
                    await asyncio.sleep(0.01)

    asyncio.run(take())


def application(limiter: Limiter) -> FastAPI:
    app = FastAPI()
    app.add_middleware(Middleware, limiter=limiter, limits=MINUTE, name=uuid.uuid4().hex, outage="raise")

    @app.get("/", dependencies=[Depends(Dependency(limiter, rate(100, "1m"), outage="raise"))])
    async def root() -> str:
        return "ok"

    return app


def test_a_test_client_of_fastapi_has_a_loop_for_each_request(limiter: Limiter) -> None:
    app = application(limiter)
    client = TestClient(app)
    assert [client.get("/").status_code for _ in range(4)] == [200] * 4
    with TestClient(app) as client:
        assert [client.get("/").status_code for _ in range(2)] == [200] * 2


SHARED: dict[str, Limiter] = {}


@pytest.mark.parametrize("n", range(3))
async def test_each_test_of_pytest_asyncio_has_a_loop(server: Server, n: int) -> None:
    limiter = SHARED.setdefault("limiter", Limiter.from_url(server.url))
    assert (await limiter.limit("k", MINUTE)).allowed
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=application(limiter)), base_url="http://t") as client:
        assert (await client.get("/")).status_code == 200


def test_the_transport_of_httpx_has_a_limiter_for_every_loop(limiter: Limiter) -> None:
    async def get() -> int:
        async with httpx.AsyncClient(transport=AsyncLimitedTransport(limiter, MINUTE, key="partner", transport=httpx.MockTransport(
                lambda request: httpx.Response(200)))) as client:
            return (await client.get("http://partner/")).status_code

    assert [asyncio.run(get()) for _ in range(3)] == [200] * 3


def test_the_hook_of_litellm_is_used_in_every_loop(server: Server) -> None:
    hook = ThrottleHook(server.url, requests=rate(60, "1m"), slots=4, outage="raise")

    async def request() -> None:
        data = await hook.async_pre_call_hook("user", None, {"model": "m", "metadata": {}}, "completion")
        await hook.async_post_call_failure_hook(data, ValueError(), "user")

    for _ in range(3):
        asyncio.run(request())


VIEWS: list[Any] = []
urlpatterns = VIEWS


@pytest.fixture
def site(limiter: Limiter) -> None:
    @View(limiter, MINUTE, name=uuid.uuid4().hex, outage="raise")
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("ok")

    VIEWS[:] = [path("", view)]
    settings.ROOT_URLCONF, settings.ALLOWED_HOSTS, settings.MIDDLEWARE = __name__, ["*"], []
    django.setup(set_prefix=False)


@pytest.mark.usefixtures("site")
def test_an_async_view_of_django_under_wsgi_has_a_loop_for_each_request() -> None:
    with httpx.Client(transport=httpx.WSGITransport(app=get_wsgi_application()), base_url="http://t") as client:
        assert [client.get("/").status_code for _ in range(4)] == [200] * 4


@pytest.mark.usefixtures("site")
def test_the_test_client_of_django_has_a_loop_for_each_request() -> None:
    assert [DjangoClient().get("/").status_code for _ in range(4)] == [200] * 4


@pytest.mark.usefixtures("site")
def test_an_async_view_of_django_under_asgi() -> None:
    async def run() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=get_asgi_application()), base_url="http://t") as client:
            return [(await client.get("/")).status_code for _ in range(3)]

    for _ in range(2):
        assert asyncio.run(run()) == [200] * 3


