"""A flood at every door, with the defaults and a handler that computes for 10 ms: at most the limit passes, and no
outage that is none.

`make test-load` sends it from more callers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory
from fastapi import Depends, FastAPI
from flask import Flask

from redis_throttle import Limiter, fixed
from redis_throttle.asgi import RateLimit as AsgiLimit
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.django_views import RateLimit as DjangoLimit
from redis_throttle.fastapi import RateLimit as RouteLimit
from redis_throttle.wsgi import RateLimit as WsgiLimit
from servers import Server

CALLERS = 1000 if os.environ.get("THROTTLE_LOAD") else 50
EACH = 4
LIMIT = 40
DAY = fixed(LIMIT, "1d")

pytestmark = pytest.mark.defaults  # with the timeout of 200 ms


def compute() -> None:
    ends = time.thread_time() + 0.01
    while time.thread_time() < ends:
        pass


def judge(statuses: Counter[int], caplog: pytest.LogCaptureFixture) -> None:
    """Those that pass are the limit, or fewer where this process was overloaded. Nobody passes undecided."""
    assert sum(statuses.values()) == CALLERS * EACH
    assert set(statuses) <= {200, 429, 503}
    assert 0 < statuses[200] <= LIMIT, statuses
    assert "out of reach" not in caplog.text


@pytest.mark.parametrize("door", ["middleware", "async route", "sync route"])
async def test_fastapi(server: Server, caplog: pytest.LogCaptureFixture, door: str) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        app = FastAPI()
        if door == "middleware":
            app.add_middleware(AsgiLimit, limiter=limiter, limits=DAY)
        depends = [] if door == "middleware" else [Depends(RouteLimit(limiter, DAY))]
        if door == "sync route":
            @app.get("/", dependencies=depends)
            def of_threads() -> None:
                compute()
        else:
            @app.get("/", dependencies=depends)
            async def of_asyncio() -> None:
                compute()

        statuses: Counter[int] = Counter()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://t") as client:
            async def caller() -> None:
                for _ in range(EACH):
                    statuses[(await client.get("/")).status_code] += 1

            await asyncio.gather(*(caller() for _ in range(CALLERS)))
    judge(statuses, caplog)


def test_flask_with_threads(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    app = Flask(__name__)
    logging.getLogger(__name__).setLevel(logging.ERROR)

    @app.get("/")
    def page() -> str:
        compute()
        return ""

    with Limiter.from_url(server.url) as limiter:
        wsgi: Any = WsgiLimit(app.wsgi_app, limiter, DAY)

        def caller(_: int) -> Counter[int]:
            with httpx.Client(transport=httpx.WSGITransport(app=wsgi), base_url="http://t") as client:
                return Counter(client.get("/").status_code for _ in range(EACH))

        with ThreadPoolExecutor(min(CALLERS, 100)) as pool:
            statuses = sum(pool.map(caller, range(CALLERS)), Counter[int]())
    judge(statuses, caplog)


def test_django_with_threads(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with Limiter.from_url(server.url) as limiter:
        @DjangoLimit(limiter, DAY)
        def page(request: HttpRequest) -> HttpResponse:
            compute()
            return HttpResponse()

        def caller(_: int) -> Counter[int]:
            return Counter(page(RequestFactory().get("/")).status_code for _ in range(EACH))

        with ThreadPoolExecutor(min(CALLERS, 100)) as pool:
            statuses = sum(pool.map(caller, range(CALLERS)), Counter[int]())
    judge(statuses, caplog)


async def test_django_with_asyncio(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncLimiter.from_url(server.url) as limiter:
        @DjangoLimit(limiter, DAY)
        async def page(request: HttpRequest) -> HttpResponse:
            compute()
            return HttpResponse()

        async def caller() -> Counter[int]:
            return Counter([(await page(AsyncRequestFactory().get("/"))).status_code for _ in range(EACH)])

        statuses = sum(await asyncio.gather(*(caller() for _ in range(CALLERS))), Counter[int]())
    judge(statuses, caplog)
