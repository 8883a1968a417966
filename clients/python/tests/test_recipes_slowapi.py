"""Recipes of the manual of slowapi: our storage beside those of `limits` in memory and for Redis, compared by what gets
through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.middleware import SlowAPIASGIMiddleware, SlowAPIMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import redis_throttle.limits  # noqa: F401 registers the storage
from recipes import ANN, BOB, FORWARDED, PRO, STRATEGIES, Requests, get, storages
from redis_throttle import from_networks
from servers import Server

Setup = Callable[[FastAPI, Limiter], None]


def user(request: Request) -> str:
    return request.headers.get("X-User", "everybody")


def everybody() -> str:
    return "all"


async def page(request: Request) -> Response:
    return PlainTextResponse("hello")


async def other(request: Request) -> Response:
    return PlainTextResponse("hello")


async def free(request: Request) -> Response:
    return PlainTextResponse("hello")


def several_limits(app: FastAPI, limiter: Limiter) -> None:
    app.add_api_route("/", limiter.limit("4/day;2/hour")(page))


def stacked(app: FastAPI, limiter: Limiter) -> None:
    app.add_api_route("/", limiter.limit("4/day", key_func=everybody)(limiter.limit("2/hour")(page)))


def of_networks(app: FastAPI, limiter: Limiter) -> None:
    app.add_api_route("/", limiter.limit("0/hour", exempt_when=from_networks(["10.0.0.0/8"], trusted=["127.0.0.1"]))(page))


def shared(app: FastAPI, limiter: Limiter) -> None:
    api = limiter.shared_limit("3/hour", scope="api")
    app.add_api_route("/", api(page))
    app.add_api_route("/other", api(other))


def dynamic(app: FastAPI, limiter: Limiter) -> None:
    app.add_api_route("/", limiter.limit(lambda key: "3/hour" if key == "pro" else "1/hour")(page))


def dear(app: FastAPI, limiter: Limiter) -> None:
    app.add_api_route("/", limiter.limit("5/hour", cost=lambda request: int(request.headers.get("X-Cost", "1")))(page))


def defaults(middleware: Any) -> Setup:
    def set_up(app: FastAPI, limiter: Limiter) -> None:
        app.add_middleware(middleware)
        app.add_api_route("/", page)
        app.add_api_route("/other", limiter.limit("2/hour")(other))
        app.add_api_route("/free", limiter.exempt(free))  # type: ignore[no-untyped-call]

    return set_up


OF_DEFAULTS = get(ANN, ANN, path="/free") + get(ANN, ANN) + get(ANN, ANN, ANN, path="/other")
RECIPES: dict[str, tuple[Setup, Requests, list[int]]] = {
    "several limits of a route": (several_limits, get(ANN, ANN, ANN, BOB, BOB, BOB), [200, 200, 429, 200, 200, 429]),
    "a limit of everybody above that of each": (stacked, get(ANN, ANN, BOB, BOB, BOB), [200, 200, 200, 200, 429]),
    "clients of networks, who are exempt": (of_networks, get(*FORWARDED), [200, 429, 429, 429]),
    "a limit that routes share": (shared, get(ANN, ANN) + get(ANN, ANN, path="/other"), [200, 200, 200, 429]),
    "a limit by key": (dynamic, get(PRO, PRO, PRO, PRO, ANN, ANN), [200, 200, 200, 429, 200, 429]),
    "a cost by request": (dear, get({"X-Cost": "3"}, {"X-Cost": "2"}, {"X-Cost": "1"}), [200, 200, 429]),
    "defaults, a limit of its own, and exempt": (defaults(SlowAPIMiddleware), OF_DEFAULTS, [200, 200, 200, 429, 200, 200, 429]),
    "the same as pure ASGI": (defaults(SlowAPIASGIMiddleware), OF_DEFAULTS, [200, 200, 200, 429, 200, 200, 429]),
}


def application(setup: Setup, uri: str, strategy: str, **options: Any) -> httpx.AsyncClient:
    limiter = Limiter(user, storage_uri=uri, strategy=strategy, **options)
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]
    setup(app, limiter)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", RECIPES)
async def test_what_gets_through_is_that_of_the_storages_of_limits(server: Server, name: str, strategy: str) -> None:
    setup, requests, expected = RECIPES[name]
    for uri in storages(server):
        async with application(setup, uri, strategy, default_limits=["1/hour"]) as client:
            assert [(await client.request(method, path, headers=headers)).status_code for method, path, headers in requests] == expected, uri


async def test_a_limiter_that_is_switched_off_asks_nobody(server: Server) -> None:
    for uri in (*storages(server), "throttle+redis://127.0.0.1:1"):
        async with application(several_limits, uri, "moving-window", enabled=False) as client:
            assert [(await client.get("/", headers=ANN)).status_code for _ in range(3)] == [200] * 3, uri


async def test_instances_share_their_hits_and_a_rolling_deploy_keeps_to_each_limit(server: Server) -> None:
    clients = [application(shared, uri, "moving-window") for uri in (f"throttle+{server.url}", f"throttle+{server.url}", server.url)]
    assert [(await client.get("/", headers=ANN)).status_code for client in clients * 3] == [200, 200, 200, 200, 429, 200, 429, 429, 200]
    for client in clients:
        await client.aclose()


@pytest.mark.parametrize(("options", "expected"), [
    ({"in_memory_fallback": ["1/hour"]}, [200, 429, 429]),
    ({"in_memory_fallback_enabled": True}, [200, 200, 429]),
    ({"swallow_errors": True}, [500, 500, 500]),  # slowapi looks then for what it has not decided, as the README says
    ({}, [500, 500, 500]),
])
async def test_an_outage_is_that_of_the_storages_of_limits(options: dict[str, Any], expected: list[int]) -> None:
    for uri in ("redis://127.0.0.1:1", "throttle+redis://127.0.0.1:1"):
        async with application(several_limits, uri, "moving-window", **options) as client:
            assert [(await client.get("/", headers=ANN)).status_code for _ in range(3)] == expected, uri
