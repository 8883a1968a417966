"""Policies in what stands around a limiter: header fields, metrics, middlewares, throttles, tasks, storages, hooks and
fakes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import limits
import pytest
from fastapi import Depends, FastAPI, HTTPException
from limits.aio.strategies import STRATEGIES as ASYNC_STRATEGIES
from limits.strategies import STRATEGIES
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from redis_throttle import Batched, Cached, Decision, Limiter, Observed, Policies, asgi, fixed, opentelemetry, policy, prometheus, rate, wsgi
from redis_throttle._layers import policies
from redis_throttle.fastapi import RateLimit
from redis_throttle.http import header_fields, problem_document
from redis_throttle.limits import AsyncThrottleStorage, ThrottleStorage
from redis_throttle.litellm import ThrottleHook
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import PATIENCE, Server
from test_django_views import page, serve  # noqa: F401  a fixture

HASH = "throttle:policies"
API = policy("api", rate(100, "1m"))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "FIRST", PATIENCE)


def test_fakes_have_policies(throttle: FakeLimiter) -> None:
    assert throttle.peek("k", API).limit == 100
    throttle.policies["api"] = "RATE 2/h"
    assert [throttle.limit("k", API).limited for _ in range(3)] == [False, False, True]
    throttle.policies["api"] = "NONE"
    assert throttle.limit("k", API).by == "none"
    del throttle.policies["api"]
    assert throttle.peek("k", API).limit == 100
    assert len(throttle.asked) == 6
    throttle.policies["api"] = "RATE 2/h"
    throttle.fail(times=1)
    with pytest.raises(Exception, match="a fault of the test"):
        throttle.limit("k", API)


async def test_so_have_those_of_asyncio(async_throttle: AsyncFakeLimiter) -> None:
    async_throttle.policies["api/k"] = "RATE 2/h"
    assert [(await async_throttle.limit("k", API)).limited for _ in range(3)] == [False, False, True]
    assert (await async_throttle.limit("other", API)).limit == 100


def test_header_fields_are_about_the_limits_in_force(throttle: FakeLimiter) -> None:
    def fields(**options: Any) -> dict[str, str]:
        return dict(header_fields(API, throttle.limit("k", API, **options), x_ratelimit="seconds"))

    assert fields()["RateLimit-Policy"] == '"api";q=100;w=60'
    throttle.reset("k")
    throttle.policies["api"] = "RATE 2/h FIXED 50/d NAME day"
    assert fields(each=True) == {"RateLimit-Policy": '"api-1";q=2;w=3600, "day";q=50;w=86400', "RateLimit": '"api-1";r=1;t=1800, "day";r=49;t=86400',
                                 "X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1800"}
    throttle.limit("k", API)
    assert json.loads(problem_document(API, throttle.limit("k", API)))["violated-policies"] == ["api-1"]
    throttle.policies["api"] = "NONE"
    assert fields() == {}


def test_metrics_have_the_name_of_the_limit_in_force(throttle: FakeLimiter) -> None:
    registry, reader, seen = CollectorRegistry(), InMemoryMetricReader(), list[Decision]()
    hash = throttle.policies
    limiter = Limiter(Observed(throttle, prometheus.Metrics(registry), opentelemetry.Metrics(MeterProvider([reader])), seen.append))
    limiter.limit("k", API)
    hash["api"] = "RATE 60/m RATE 1/m NAME trial SHADOW"
    limiter.limit("k", API)
    limiter.limit("k", API)
    hash["api"] = "NONE"
    limiter.limit("k", API)
    assert [(one.policy, one.by, one.shadowed) for one in seen] == [
        ("api", "server", ""), ("api-1", "server", ""), ("api-1", "server", "trial"), ("", "none", "")]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("ratelimit_decisions_total", verb="limit", outcome="allowed", policy="api-1", by="server") == 2
    assert value("ratelimit_decisions_total", verb="limit", outcome="allowed", policy="", by="none") == 1
    assert value("ratelimit_shadowed_total", policy="trial") == 1
    data: Any = reader.get_metrics_data()
    [decisions] = [m for m in data.resource_metrics[0].scope_metrics[0].metrics if m.name == "ratelimit.decisions"]
    assert {(p.attributes["ratelimit.policy"], p.attributes["ratelimit.by"]): p.value for p in decisions.data.data_points} == {
        ("api", "server"): 1, ("api-1", "server"): 2, ("", "none"): 1}


def test_batches_are_of_the_limits_in_force() -> None:
    fake = FakeLimiter()
    limiter = Limiter(Policies(Batched(Cached(fake)), lambda: {"api": "FIXED 500/d"}))
    results = [limiter.limit("k", API) for _ in range(50)]
    assert {result.limit for result in results} == {500}
    assert results[-1].by == "batch"
    assert len(fake.asked) < 40
    limiter.close()


def ask(app: Any) -> tuple[int, dict[str, str]]:
    """Return the status and the fields of a request to an application of WSGI."""
    began: list[tuple[int, dict[str, str]]] = []
    list(app({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "203.0.113.9"}, lambda status, headers, exc_info=None: began.append((int(status[:3]), dict(headers)))))
    return began[0]


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return []


@pytest.mark.parametrize("options", [
    {"limits": rate(100, "1m"), "policy": "api"}, {"limits": API}, {"limits": lambda environ: rate(100, "1m"), "policy": "api"},
    {"limits": lambda environ: API},
], ids=["an option", "limits", "a function with an option", "a function"])
def test_a_middleware_of_wsgi(throttle: FakeLimiter, options: dict[str, Any]) -> None:
    app = wsgi.RateLimit(application, throttle, **options)
    throttle.policies["api/http:api:203.0.113.9"] = "RATE 1/h"
    assert ask(app) == (200, {"RateLimit-Policy": '"api";q=1;w=3600', "RateLimit": '"api";r=0;t=3600'})
    assert ask(app)[0] == 429
    assert throttle.asked[0].keys[0].name == "http:api:203.0.113.9", "whatever the numbers are"
    throttle.policies["api"] = throttle.policies.pop("api/http:api:203.0.113.9").replace("1/h", "5/h")
    assert ask(app)[1]["RateLimit-Policy"] == '"api";q=5;w=3600'
    throttle.policies["api"] = "NONE"
    assert ask(app) == (200, {})


def test_options_of_a_middleware_are_checked(throttle: FakeLimiter) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        wsgi.RateLimit(application, throttle, rate(1, "1m"), policy="a b")
    with pytest.raises(TypeError, match="made by policy"):
        wsgi.RateLimit(application, throttle, keys=lambda environ: {"k": API}, policy="api")


async def test_a_middleware_of_asgi_and_a_route_of_fastapi(async_throttle: AsyncFakeLimiter) -> None:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(RateLimit(async_throttle, rate(100, "1m"), policy="page"))])
    async def hello() -> str:
        return "hello"

    app.add_middleware(asgi.RateLimit, limiter=async_throttle, limits=rate(100, "1m"), policy="api")
    async_throttle.policies |= {"api": "RATE 3/h", "page/http:/:page:203.0.113.9": "RATE 2/h"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app, client=("203.0.113.9", 1)), base_url="http://test") as client:
        answers = [await client.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"api";q=3;w=3600, "page";q=2;w=3600'
    assert answers[2].json()["detail"]["violated-policies"] == ["page"]
    assert answers[3].json()["violated-policies"] == ["api"]


def test_a_view_of_django(throttle: FakeLimiter, serve: Callable[..., Any]) -> None:  # noqa: F811
    from redis_throttle.django_views import RateLimit

    asked = serve({"": RateLimit(throttle, rate(100, "1m"), policy="api")(page)})
    throttle.policies["api"] = "RATE 1/h"
    answers = [asked("/") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"api";q=1;w=3600'


DJANGO = """
import json, sys
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["rest_framework"], DATABASES={}, USE_TZ=True,
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_THROTTLE_CLASSES": ["redis_throttle.django.AnonRateThrottle"], "DEFAULT_THROTTLE_RATES": {"anon": "100/day"},
    },
    REDIS_THROTTLE={"URL": sys.argv[1], "TIMEOUT": "10s", "POLICIES": json.loads(sys.argv[2])},
)
django.setup()
from django.urls import path
from redis_throttle._layers import policies
from redis_throttle.django import AnonRateThrottle, limiter
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

policies.FIRST = 30


class Named(AnonRateThrottle):
    scope, rate, policy = "mine", "100/day", "named"


class Page(APIView):
    def get(self, request):
        return Response("hello")


class Other(Page):
    throttle_classes = [Named]


urlpatterns = [path("", Page.as_view()), path("other", Other.as_view())]
client = APIClient()
print(json.dumps([[r.status_code, r.headers.get("RateLimit-Policy")] for r in [client.get("/"), client.get("/"), client.get("/other")]]))
limiter().close()
"""


@pytest.mark.parametrize(("setting", "want"), [
    (True, [[200, '"anon";q=1;w=3600'], [429, '"anon";q=1;w=3600'], [200, '"named";q=7;w=3600']]),
    ("other:policies", [[200, '"anon";q=50;w=86400'], [200, '"anon";q=50;w=86400'], [200, '"named";q=100;w=86400']]),
    (False, [[200, '"anon";q=100;w=86400'], [200, '"anon";q=100;w=86400'], [200, '"named";q=100;w=86400']]),
])
def test_throttles_of_the_rest_framework(server: Server, setting: Any, want: Any) -> None:
    server.do("HSET", HASH, "anon", "RATE 1/h", "named", "RATE 7/h")
    server.do("HSET", "other:policies", "anon", "WINDOW 50/d")
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO, server.url, json.dumps(setting)], capture_output=True, text=True)
    assert json.loads(ran.stdout or "null") == want, ran.stderr


def test_a_setting_of_the_rest_framework_is_checked() -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO, "redis://127.0.0.1:1", "3"], capture_output=True, text=True)
    assert "POLICIES must be True" in ran.stderr


@pytest.mark.parametrize("options", [{"throttle_limits": rate(100, "1m"), "throttle_policy": "mail"}, {"throttle_limits": policy("mail", rate(100, "1m"))}],
                         ids=["an option", "limits"])
def test_a_task_of_celery(server: Server, options: dict[str, Any]) -> None:
    from celery import Celery

    from redis_throttle.celery import LimitedTask

    app = Celery("tasks", broker="memory://")
    app.conf.update(throttle_url=server.url, throttle_policies="mail:policies")
    server.do("HSET", "mail:policies", "mail/celery:tasks.mail", "FIXED 2/h")
    Mail = type("Mail", (LimitedTask,), {"abstract": True, **options})  # noqa: N806

    def send() -> str:
        return "sent"

    mail: Any = app.task(base=Mail, name="tasks.mail")(send)
    assert [mail(), mail()] == ["sent", "sent"]
    assert mail.throttle.peek("celery:tasks.mail", fixed(2, "1h")).remaining == 0
    mail.throttle.close()


STORED = [("fixed-window", "FIXED 3/300d FIRST"), ("moving-window", "WINDOW 3/h"), ("sliding-window-counter", "WINDOW 3/h"), ("gcra", "RATE 3/h")]


@pytest.mark.parametrize(("strategy", "value"), STORED)
@pytest.mark.parametrize("item", ["2/hour", "100/hour"])
def test_a_storage_of_limits(server: Server, strategy: str, value: str, item: str) -> None:
    server.do("HSET", HASH, "web", value, "web/THROTTLE:LIMITER/free/2/1/hour", "NONE", "web/THROTTLE:LIMITER/free/100/1/hour", "NONE")
    storage = ThrottleStorage(f"throttle+{server.url}", policy="web")
    limiter, asked = STRATEGIES[strategy](storage), limits.parse(item)
    assert limiter.test(asked, "ann")
    assert [limiter.hit(asked, "ann") for _ in range(4)] == [True, True, True, False]
    assert not limiter.test(asked, "ann")
    assert limiter.get_window_stats(asked, "ann").remaining == 0
    assert all(limiter.hit(asked, "free") for _ in range(10))
    assert limiter.test(asked, "free")
    storage.limiter.close()


@pytest.mark.parametrize(("strategy", "value"), STORED)
async def test_a_storage_of_limits_for_asyncio(server: Server, strategy: str, value: str) -> None:
    server.do("HSET", HASH, "web", value)
    storage = AsyncThrottleStorage(f"async+throttle+{server.url}", policy="web")
    strategies: Any = ASYNC_STRATEGIES
    limiter, asked = strategies[strategy](storage), limits.parse("100/hour")
    assert [await limiter.hit(asked, "ann") for _ in range(4)] == [True, True, True, False]
    assert (await limiter.get_window_stats(asked, "ann")).remaining == 0
    await storage.limiter.close()


async def test_the_hook_of_litellm(server: Server) -> None:
    """A request is settled by the limits that it was charged to, though a policy says others by then."""
    server.do("HSET", HASH, "rpm", "RATE 2/h", "tpm", "RATE 5000/h RATE 50/d SHADOW")
    hook = ThrottleHook(server.url, requests=policy("rpm", rate(100, "1m")), tokens=policy("tpm", rate(100, "1m")), default_max_tokens=1000)

    async def admit() -> dict[str, Any]:
        return await hook.async_pre_call_hook(None, None, {"prompt": "hello"}, "completion")

    data = await admit()
    server.do("HSET", HASH, "tpm", "WINDOW 7/h")
    layer: Any = hook.limiter.decider
    layer._due = 0.0
    async with asyncio.timeout(PATIENCE):
        while (await hook.limiter.peek("other", *policy("tpm", rate(1, "1m")))).limit != 7:
            await asyncio.sleep(0.002)
    response = SimpleNamespace(usage=SimpleNamespace(total_tokens=300))
    await hook.async_log_success_event({"litellm_params": {"metadata": data["metadata"]}}, response, None, None)
    with Limiter.from_url(server.url) as limiter:
        assert limiter.peek("{llm:anonymous}:tokens", rate(5000, "1h")).remaining == 4700
        assert limiter.peek("{llm:anonymous}:tokens", rate(50, "1d")).remaining == 50
    with pytest.raises(TypeError, match="must be one limit"):
        ThrottleHook(server.url, requests=policy("rpm", rate(1, "1m"), rate(2, "1m")))
    with pytest.raises(HTTPException, match="the limit of tokens is reached"):
        await admit()
    await hook.limiter.close()
