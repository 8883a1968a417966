"""The middlewares under the frameworks themselves: Starlette, FastAPI, Flask, Django REST framework."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from redis_throttle import Limiter, OutageError, asgi, fixed, rate, window, wsgi
from redis_throttle._web.fields import Policies
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Server


def starlette(*middleware: tuple[Any, dict[str, Any]]) -> Starlette:
    async def page(request: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", page)])
    for kind, options in middleware:
        app.add_middleware(kind, **options)
    return app


def client_of(app: Any, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, **options), base_url="http://test")


async def test_asgi_answers_429_with_the_fields(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": rate(2, "1h"), "x_ratelimit": "seconds"}))
        async with client_of(app) as client:
            first, second, third = [await client.get("/") for _ in range(3)]
    assert [r.status_code for r in (first, second, third)] == [200, 200, 429]
    assert first.text == "hello"
    assert first.headers["RateLimit-Policy"] == '"default";q=2;w=3600'
    assert first.headers["RateLimit"] == '"default";r=1;t=1800'
    assert first.headers["X-RateLimit-Remaining"] == "1"
    assert "Retry-After" not in first.headers
    assert third.headers["RateLimit"].startswith('"default";r=0;t=1')
    assert 1790 <= int(third.headers["Retry-After"]) <= 1800
    assert third.headers["Content-Type"] == "application/problem+json"
    assert third.json() == {"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded",
                            "status": 429, "violated-policies": ["default"]}


async def test_every_policy_has_its_item_and_shadows_have_none(server: Server) -> None:
    limits = [rate(5, "1h", burst=10, name="burst"), fixed(100, "365d", unit="content-bytes"), window(1, "1h", shadow=True)]
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": limits, "cost": lambda scope: 3}))
        async with client_of(app) as client:
            response = await client.get("/")
    assert response.status_code == 200
    assert response.headers["RateLimit-Policy"] == '"burst";q=10;w=7200, "limit-2";q=100;qu="content-bytes";w=31536000'
    assert response.headers["RateLimit"].startswith('"burst";r=7;t=720, "limit-2";r=97;t=')


async def test_several_keys_are_charged_in_one_call_or_not_at_all(server: Server) -> None:
    def keys(scope: Any) -> dict[str, Any]:
        user = dict(scope["headers"])[b"user"].decode()
        return {f"{{acme}}:{user}": rate(2, "1h", name="user"), "{acme}": rate(3, "1h", name="organisation")}

    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "keys": keys}))
        async with client_of(app) as client:
            answers = [await client.get("/", headers={"user": user}) for user in ("ann", "ann", "ann", "bob", "bob")]
        assert [r.status_code for r in answers] == [200, 200, 429, 200, 429]
        assert [r.json()["violated-policies"] for r in answers if r.status_code == 429] == [["user"], ["organisation"]]
        assert answers[0].headers["RateLimit"] == '"user";r=1;t=1800, "organisation";r=2;t=1200'


async def test_middlewares_may_be_nested(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette(
            (asgi.RateLimit, {"limiter": limiter, "limits": rate(9, "1h", name="inner"), "key": lambda scope: "inner"}),
            (asgi.RateLimit, {"limiter": limiter, "limits": rate(5, "1h", name="outer"), "key": lambda scope: "outer"}))
        async with client_of(app) as client:
            response = await client.get("/")
    assert response.headers.get_list("RateLimit-Policy") == ['"outer";q=5;w=3600, "inner";q=9;w=3600']


async def test_limits_of_several_middlewares_and_keys_are_named_apart(server: Server) -> None:
    def keys(scope: Any) -> dict[str, Any]:
        return {"{a}:1": fixed(9, "1d", name="day"), "{a}": rate(9, "1h")}

    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette(
            (asgi.RateLimit, {"limiter": limiter, "limits": rate(1, "1h"), "key": lambda scope: "inner"}),
            (asgi.RateLimit, {"limiter": limiter, "keys": keys}),
            (asgi.RateLimit, {"limiter": limiter, "limits": rate(5, "1h"), "key": lambda scope: "outer"}))
        async with client_of(app) as client:
            answers = [await client.get("/") for _ in range(2)]
    assert answers[0].headers["RateLimit-Policy"] == '"default";q=5;w=3600, "day";q=9;w=86400, "default-2";q=9;w=3600, "default-3";q=1;w=3600'
    assert [answers[1].status_code, answers[1].json()["violated-policies"]] == [429, ["default-3"]]


async def test_a_banned_key_has_nothing_left(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        await limiter.ban("k", "90s")
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": [rate(5, "1s"), fixed(9, "1d")], "key": lambda scope: "k"}))
        async with client_of(app) as client:
            response = await client.get("/")
    assert response.status_code == 429
    assert response.headers["RateLimit"] == '"limit-1";r=0;t=90, "limit-2";r=0;t=90'
    assert response.json()["title"] == "Abnormal Usage Detected"


async def test_a_request_without_a_key_is_not_limited(server: Server) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": rate(1, "1h"), "key": lambda scope: None}))
        async with client_of(app) as client:
            assert [(await client.get("/")).status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(("options", "status"), [({}, 200), ({"outage": "deny"}, 503), ({"outage": "raise"}, 500)])
async def test_an_outage_does_what_was_chosen(own_server: Server, options: dict[str, Any], status: int) -> None:
    seen: list[Exception] = []
    async with AsyncLimiter.from_url(own_server.url, timeout="1s") as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": rate(1, "1h"), "on_error": lambda scope, e: seen.append(e), **options}))
        async with client_of(app, raise_app_exceptions=False) as client:
            for begin, end in ((own_server.pause, own_server.resume), (own_server.kill, own_server.start)):
                begin()
                response = await client.get("/")
                assert response.status_code == status
                assert response.headers.get("Retry-After") == ("1" if status == 503 else None)
                end()
    assert [type(error) for error in seen] == [OutageError, OutageError]


async def test_a_mistake_lets_nobody_through(server: Server) -> None:
    server.do("LPUSH", "k", "1")
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = starlette((asgi.RateLimit, {"limiter": limiter, "limits": rate(1, "1h"), "key": lambda scope: "k"}))
        async with client_of(app, raise_app_exceptions=False) as client:
            assert (await client.get("/")).status_code == 500


def test_wsgi_under_flask(server: Server) -> None:
    from flask import Flask

    app = Flask("wsgi")
    app.add_url_rule("/", view_func=lambda: "hello")
    with Limiter.from_url(server.url) as limiter:
        app.wsgi_app = wsgi.RateLimit(app.wsgi_app, limiter, rate(2, "1h"))  # type: ignore[method-assign]
        with app.test_client() as client:
            answers = [client.get("/") for _ in range(3)]
    assert [r.status_code for r in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"default";r=1;t=1800'
    assert json.loads(answers[2].data)["violated-policies"] == ["default"]


def test_wsgi_names_limits_apart(server: Server) -> None:
    from flask import Flask

    app = Flask("apart")
    app.add_url_rule("/", view_func=lambda: "hello")
    with Limiter.from_url(server.url) as limiter:
        for key, limit in {"inner": rate(1, "1h"), "outer": rate(5, "1h")}.items():
            app.wsgi_app = wsgi.RateLimit(app.wsgi_app, limiter=limiter, limits=limit, key=lambda environ, key=key: key)  # type: ignore[method-assign,misc]
        answers = [app.test_client().get("/") for _ in range(2)]
    assert answers[0].headers["RateLimit-Policy"] == '"default";q=5;w=3600, "default-2";q=1;w=3600'
    assert answers[1].get_json(force=True)["violated-policies"] == ["default-2"]


def test_an_answer_to_head_has_no_body(server: Server) -> None:
    """Waitress sends what it is given, and a client takes it for the begin of the next answer."""
    with Limiter.from_url(server.url) as limiter:
        app = wsgi.RateLimit(lambda environ, start: [b""], limiter, rate(0, "1m"))
        for method, length in (("HEAD", 0), ("GET", 100)):
            started: list[Any] = []
            body = b"".join(app({"REQUEST_METHOD": method, "REMOTE_ADDR": "203.0.113.7"}, lambda *given: started.append(given)))  # noqa: B023
            assert started[0][0].startswith("429")
            assert (len(body) > 0) == (length > 0)


async def test_head_counts_as_get_does(server: Server) -> None:
    from flask import Flask

    app = Flask("head")
    app.add_url_rule("/", view_func=lambda: "hello")
    with Limiter.from_url(server.url) as limiter:
        app.wsgi_app = wsgi.RateLimit(app.wsgi_app, limiter, rate(2, "1h", name="head"))  # type: ignore[method-assign]
        with app.test_client() as flask:
            assert [flask.open("/", method=method).status_code for method in ("GET", "HEAD", "HEAD", "GET")] == [200, 200, 429, 429]
    async with AsyncLimiter.from_url(server.url) as other, client_of(starlette((asgi.RateLimit, {"limiter": other, "limits": rate(2, "2h")}))) as client:
        assert [(await client.request(method, "/")).status_code for method in ("GET", "HEAD", "HEAD", "GET")] == [200, 200, 429, 429]


async def test_a_message_that_the_application_sends_again_gains_nothing(server: Server) -> None:
    start: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": [(b"x-one", b"1")]}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start)

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async with AsyncLimiter.from_url(server.url) as limiter:
        limited = asgi.RateLimit(app, limiter, rate(9, "1m"))
        for _ in range(2):
            await limited({"type": "http", "client": ("203.0.113.7", 1)}, send, send)  # type: ignore[arg-type]
    assert start["headers"] == [(b"x-one", b"1")]
    for message in sent:
        assert [name for name, _ in message["headers"]] == [b"x-one", b"ratelimit-policy", b"ratelimit"]
        assert b"," not in dict(message["headers"])[b"ratelimit"]


def test_wsgi_in_an_outage(own_server: Server) -> None:
    from flask import Flask

    app = Flask("outage")
    app.add_url_rule("/", view_func=lambda: "hello")
    own_server.kill()
    with Limiter.from_url(own_server.url) as limiter:
        plain = app.wsgi_app
        app.wsgi_app = wsgi.RateLimit(plain, limiter, rate(2, "1h"))  # type: ignore[method-assign]
        with app.test_client() as client:
            assert client.get("/").status_code == 200
        app.wsgi_app = wsgi.RateLimit(plain, limiter, rate(2, "1h"), outage="deny")  # type: ignore[method-assign]
        with app.test_client() as client:
            assert client.get("/").status_code == 503
    own_server.start()


def test_names_are_quoted() -> None:
    assert Policies((rate(1, "1s", name='a "b" \\'),)).policy() == ['"a \\"b\\" \\\\";q=1;w=1']
    with pytest.raises(ValueError, match="ASCII"):
        Policies((rate(1, "1s", name="ä"),)).policy()


DJANGO = """
import sys
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["rest_framework"], DATABASES={}, USE_TZ=True,
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_THROTTLE_CLASSES": ["redis_throttle.django.AnonRateThrottle", "redis_throttle.django.ScopedRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": "4/day", "exports": "RATE 2/h BURST 1 FIXED 100/d"},
    },
    REDIS_THROTTLE={"URL": sys.argv[1], "TIMEOUT": "300ms"},
    # No cache works: whatever the framework would store there is lost.
    CACHES={"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},
)
django.setup()
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView


class Page(APIView):
    def get(self, request):
        return Response("hello")


class Export(APIView):
    throttle_scope = "exports"

    def get(self, request):
        return Response("exported")


urlpatterns = [path("", Page.as_view()), path("export", Export.as_view())]
client = APIClient()
for target in sys.argv[2].split(","):
    response = client.get("/" + target)
    print(response.status_code, response.headers.get("Retry-After", "-"))
"""


def test_django_rest_framework_needs_no_cache(server: Server, own_server: Server) -> None:
    import subprocess
    import sys

    def ask(url: str, *targets: str) -> list[list[str]]:
        ran = subprocess.run([sys.executable, "-c", DJANGO, url, ",".join(targets)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return [line.split() for line in ran.stdout.splitlines()]

    answers = ask(server.url, "", "export", "export", "", "")
    assert [status for status, _ in answers] == ["200", "200", "429", "200", "429"]
    assert 1790 <= int(answers[2][1]) <= 1800, "the export's rate"
    assert 86390 <= int(answers[4][1]) <= 86400, "the window of a day"
    # Another process shares the limit, and an outage is none of the service.
    assert ask(server.url, "")[0][0] == "429"
    own_server.kill()
    assert ask(own_server.url, "") == [["200", "-"]]
    own_server.start()
