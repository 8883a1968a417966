"""Recipes of the manual of Flask-Limiter: our storage beside those of `limits` in memory and for Redis, compared by
what gets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response, request
from flask_limiter import Limiter

import redis_throttle.limits  # noqa: F401 registers the storage
from recipes import ANN, BOB, FORWARDED, PRO, STRATEGIES, Requests, get, storages
from redis_throttle import from_networks
from servers import Server

Setup = Callable[[Flask, Limiter], None]


def user() -> str:
    return request.headers.get("X-User", "everybody")


def page() -> str:
    return "hello"


def route(app: Flask, path: str, view: Callable[[], Any], **options: Any) -> None:
    app.add_url_rule(path, path, view, **options)


def several_limits(app: Flask, limiter: Limiter) -> None:
    route(app, "/", limiter.limit("4/day;2/hour")(page))


def stacked(app: Flask, limiter: Limiter) -> None:
    route(app, "/", limiter.limit("4/day", key_func=lambda: "all")(limiter.limit("2/hour")(page)))


def of_networks(app: Flask, limiter: Limiter) -> None:
    inside = from_networks(["10.0.0.0/8"], trusted=["127.0.0.1"])
    limiter.request_filter(lambda: inside(request.environ))
    route(app, "/", limiter.limit("0/hour")(page))


def shared(app: Flask, limiter: Limiter) -> None:
    api = limiter.shared_limit("3/hour", scope="api")
    route(app, "/", api(page))
    route(app, "/other", api(lambda: "hello"))


def dynamic(app: Flask, limiter: Limiter) -> None:
    route(app, "/", limiter.limit(lambda: "3/hour" if user() == "pro" else "1/hour")(page))


def dear(app: Flask, limiter: Limiter) -> None:
    route(app, "/", limiter.limit("5/hour", cost=lambda: int(request.headers.get("X-Cost", "1")))(page))


def failures(app: Flask, limiter: Limiter) -> None:
    view = limiter.limit("2/hour", deduct_when=lambda response: response.status_code == 401)
    route(app, "/", view(lambda: Response("hello", status=200 if request.headers.get("X-Password") else 401)))


RECIPES: dict[str, tuple[Setup, Requests, list[int]]] = {
    "several limits of a route": (several_limits, get(ANN, ANN, ANN, BOB, BOB, BOB), [200, 200, 429, 200, 200, 429]),
    "a limit of everybody above that of each": (stacked, get(ANN, ANN, BOB, BOB, BOB), [200, 200, 200, 200, 429]),
    "requests of networks that are filtered": (of_networks, get(*FORWARDED), [200, 429, 429, 429]),
    "a limit that routes share": (shared, get(ANN, ANN) + get(ANN, ANN, path="/other"), [200, 200, 200, 429]),
    "a limit by user": (dynamic, get(PRO, PRO, PRO, PRO, ANN, ANN), [200, 200, 200, 429, 200, 429]),
    "a cost by request": (dear, get({"X-Cost": "3"}, {"X-Cost": "2"}, {"X-Cost": "1"}), [200, 200, 429]),
    "only failures count": (failures, get({"X-Password": "right"}, {}, {}, {}, {"X-Password": "right"}), [200, 401, 401, 429, 429]),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", RECIPES)
def test_what_gets_through_is_that_of_the_storages_of_limits(server: Server, name: str, strategy: str) -> None:
    setup, requests, expected = RECIPES[name]
    for uri in storages(server):
        app = Flask("recipes")
        setup(app, Limiter(user, app=app, storage_uri=uri, strategy=strategy))
        with app.test_client() as client:
            assert [client.open(path, method=method, headers=headers).status_code for method, path, headers in requests] == expected, uri


def test_instances_share_their_hits_and_a_rolling_deploy_keeps_to_each_limit(server: Server) -> None:
    clients = []
    for uri in (f"throttle+{server.url}", f"throttle+{server.url}", server.url):
        app = Flask("rolling")
        limiter = Limiter(user, app=app, storage_uri=uri, strategy="moving-window")
        route(app, "/", limiter.limit("2/hour")(page))
        clients.append(app.test_client())
    assert [client.get("/", headers=ANN).status_code for client in clients * 2] == [200, 200, 200, 429, 429, 200]


def own() -> str:
    return "hello"


def free() -> str:
    return "hello"


def test_defaults_hold_where_a_route_has_no_limit_of_its_own(server: Server) -> None:
    for uri in storages(server):
        app = Flask("defaults")
        limiter = Limiter(user, app=app, storage_uri=uri, default_limits=["1/hour"], application_limits=["5/hour"])
        route(app, "/", page)
        route(app, "/own", limiter.limit("2/hour")(own))
        route(app, "/free", limiter.exempt(free))  # by its name
        with app.test_client() as client:
            answers = [client.get(path, headers=ANN).status_code for path in ("/free", "/free", "/", "/", "/own", "/own", "/own")]
        assert answers == [200, 200, 200, 429, 200, 200, 429], uri
