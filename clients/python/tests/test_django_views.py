"""The decorator for views of plain Django."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.urls import clear_url_caches, path

from redis_throttle import OutageError, fixed, rate
from redis_throttle.django_views import RateLimit
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter

TWO = rate(2, "1h")
Ask = Callable[..., Any]


def page(request: Any, **kwargs: Any) -> HttpResponse:
    return HttpResponse("hello")


async def async_page(request: Any, **kwargs: Any) -> HttpResponse:
    return HttpResponse("hello")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, Any]], Ask]]:
    """Return a function that makes a client of views by their routes."""
    from django.test import Client
    from django.test.utils import override_settings

    routes = types.ModuleType("routes_of_a_test")
    monkeypatch.setitem(__import__("sys").modules, routes.__name__, routes)
    with override_settings(ROOT_URLCONF=routes.__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[]):

        def make(views: dict[str, Any]) -> Ask:
            routes.urlpatterns = [path(route, view) for route, view in views.items()]  # type: ignore[attr-defined]
            clear_url_caches()
            client = Client(raise_request_exception=False)
            return lambda url, method="get", **meta: getattr(client, method)(url, **{"REMOTE_ADDR": "203.0.113.9", **meta})

        yield make
    clear_url_caches()


def test_a_view_has_its_own_limit_by_its_route(throttle: FakeLimiter, serve: Callable[..., Ask]) -> None:
    limited = RateLimit(throttle, TWO)
    ask = serve({"a/<int:item>": limited(page), "b": limited(page)})
    answers = [ask(url) for url in ("/a/1", "/a/2", "/a/3", "/b")]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 200]
    assert [call.keys[0].name for call in throttle.asked[2:]] == ["http:/a/<int:item>:RATE 2/1h:203.0.113.9", "http:/b:RATE 2/1h:203.0.113.9"]
    assert answers[0].headers["RateLimit-Policy"] == '"default";q=2;w=3600'
    assert answers[0].headers["RateLimit"] == '"default";r=1;t=1800'
    assert answers[2].headers["Retry-After"] == "1800"
    assert answers[2].headers["Content-Type"] == "application/problem+json"
    assert answers[2].json()["violated-policies"] == ["default"]
    assert ask("/a/1", REMOTE_ADDR="198.51.100.2").status_code == 200
    head = ask("/a/1", method="head")
    assert (head.status_code, head.content) == (429, b"")


def test_requests_of_networks_are_not_limited(throttle: FakeLimiter, serve: Callable[..., Ask]) -> None:
    limited = RateLimit(throttle, rate(0, "1h"), key=lambda request: "k", skip=["203.0.113.0/24"], trusted=iter(["10.1.0.1"]))
    ask = serve({"": limited(page)})
    assert ask("/").status_code == 200
    assert ask("/", REMOTE_ADDR="198.51.100.2").status_code == 429
    assert ask("/", REMOTE_ADDR="10.1.0.1", HTTP_X_FORWARDED_FOR="203.0.113.9").status_code == 200
    assert ask("/", REMOTE_ADDR="10.1.0.1", HTTP_X_FORWARDED_FOR="203.0.113.9, 198.51.100.2").status_code == 429
    with pytest.raises(ValueError, match=r"skip: '203\.0\.113\.9/24' is no address"):
        RateLimit(throttle, TWO, skip=["203.0.113.9/24"])


def test_names_keys_and_nested_decorators(throttle: FakeLimiter, serve: Callable[..., Ask]) -> None:
    user = RateLimit(throttle, TWO, key=lambda request: request.headers.get("user"))
    both = RateLimit(throttle, fixed(100, "1d", name="day"), name="all")(RateLimit(throttle, rate(2, "1h", name="hour"))(page))
    ask = serve({"user": user(page), "both": both})
    assert [ask("/user", HTTP_USER="ann").status_code for _ in range(3)] == [200, 200, 429]
    assert [ask("/user").status_code for _ in range(4)] == [200] * 4, "a request without a key is not limited"
    assert ask("/both").headers["RateLimit-Policy"] == '"day";q=100;w=86400, "hour";q=2;w=3600'
    assert throttle.asked[-2].keys[0].name == "http:all:203.0.113.9"


def test_limits_of_nested_decorators_are_named_apart(throttle: FakeLimiter, serve: Callable[..., Ask]) -> None:
    ask = serve({"": RateLimit(throttle, fixed(100, "1d"), name="all")(RateLimit(throttle, rate(1, "1h"))(page))})
    assert ask("/").headers["RateLimit-Policy"] == '"default";q=100;w=86400, "default-2";q=1;w=3600'
    assert ask("/").json()["violated-policies"] == ["default-2"]


def test_a_view_of_a_class(throttle: FakeLimiter, serve: Callable[..., Ask]) -> None:
    from django.utils.decorators import method_decorator
    from django.views import View

    class Page(View):  # type: ignore[misc]
        def get(self, request: Any) -> HttpResponse:
            return HttpResponse("hello")

    ask = serve({"": method_decorator(RateLimit(throttle, TWO), name="dispatch")(Page).as_view()})
    assert [ask("/").status_code for _ in range(3)] == [200, 200, 429]


async def test_a_view_of_asyncio(async_throttle: AsyncFakeLimiter, serve: Callable[..., Ask]) -> None:
    from django.test import AsyncClient

    serve({"": RateLimit(async_throttle, TWO)(async_page)})
    client = AsyncClient()
    answers = [await client.get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"default";r=1;t=1800'


@pytest.mark.parametrize("where", ["dispatch", "get", "as_view", "dispatch by a limiter of threads"])
async def test_a_view_of_a_class_of_asyncio(throttle: FakeLimiter, async_throttle: AsyncFakeLimiter, serve: Callable[..., Ask], where: str) -> None:
    from django.test import AsyncClient
    from django.utils.decorators import method_decorator
    from django.views import View

    class Page(View):  # type: ignore[misc]
        async def get(self, request: Any) -> HttpResponse:
            return HttpResponse("hello")

    limited: Any = RateLimit(throttle if "threads" in where else async_throttle, TWO)
    view = limited(Page.as_view()) if where == "as_view" else method_decorator(limited, name=where.split()[0])(Page).as_view()
    ask = serve({"": view})
    client = AsyncClient()
    assert [(await client.get("/")).status_code for _ in range(3)] == [200, 200, 429]
    assert callable(ask)


def test_a_view_and_its_limiter_are_of_one_kind(throttle: FakeLimiter, async_throttle: AsyncFakeLimiter) -> None:
    for limiter, view in ((throttle, async_page), (async_throttle, page)):
        with pytest.raises(TypeError, match=r"redis_throttle\.asyncio"):
            RateLimit(limiter, TWO)(view)
    with pytest.raises(TypeError, match="leave them out"):
        RateLimit(throttle, TWO, key=lambda request: "k", name="n")


@pytest.mark.parametrize(("answer", "status"), [(None, 200), ("allow", 200), ("deny", 503), ("raise", 500)])
def test_an_outage_does_what_was_chosen(throttle: FakeLimiter, serve: Callable[..., Ask], answer: Any, status: int) -> None:
    throttle.fail(OutageError("made up"))
    ask = serve({"": RateLimit(throttle, TWO, **({"outage": answer} if answer else {}))(page)})
    got = ask("/")
    assert got.status_code == status
    assert got.headers.get("Retry-After") == ("1" if status == 503 else None)
