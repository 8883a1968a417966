"""Limits of single routes in FastAPI, as dependencies."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Request

from redis_throttle import OutageError, OverloadError, fixed, rate
from redis_throttle.fastapi import RateLimit
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter

TWO = rate(2, "1h")


def client_of(*limits: tuple[str, Any], **options: Any) -> httpx.AsyncClient:
    app = FastAPI(**options)

    async def page(item: str = "") -> str:
        return "hello"

    for path, dependency in limits:
        app.add_api_route(path, page, dependencies=[Depends(dependency)])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False, client=("203.0.113.9", 1)), base_url="http://test")


async def test_a_route_has_its_own_limit_by_its_template(async_throttle: AsyncFakeLimiter) -> None:
    limited = RateLimit(async_throttle, TWO)
    async with client_of(("/a/{item}", limited), ("/b", limited)) as client:
        assert [(await client.get(path)).status_code for path in ("/a/1", "/a/2", "/a/3", "/b")] == [200, 200, 429, 200]
    assert [call.keys[0].name for call in async_throttle.asked[2:]] == ["http:/a/{item}:RATE 2/1h:203.0.113.9", "http:/b:RATE 2/1h:203.0.113.9"]


async def test_a_route_for_get_and_head_has_one_limit(async_throttle: AsyncFakeLimiter) -> None:
    app = FastAPI()

    @app.head("/a", dependencies=[Depends(RateLimit(async_throttle, TWO))])
    @app.get("/a", dependencies=[Depends(RateLimit(async_throttle, TWO))])
    async def page() -> str:
        return "hello"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert [(await client.request(method, "/a")).status_code for method in ("GET", "HEAD", "HEAD", "GET")] == [200, 200, 429, 429]


async def test_routes_of_one_name_share_their_state(async_throttle: AsyncFakeLimiter) -> None:
    shared = RateLimit(async_throttle, TWO, name="shared")
    async with client_of(("/a", shared), ("/b", shared)) as client:
        answers = [await client.get(path) for path in ("/a", "/b", "/a")]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert async_throttle.asked[0].keys[0].name == "http:shared:203.0.113.9"
    assert answers[0].headers["RateLimit"] == '"default";r=1;t=1800'
    assert answers[2].headers["Retry-After"] == "1800"
    assert answers[2].json() == {"detail": {"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded",
                                            "status": 429, "violated-policies": ["default"]}}


async def test_a_router_and_a_route_both_limit(async_throttle: AsyncFakeLimiter) -> None:
    router = APIRouter(dependencies=[Depends(RateLimit(async_throttle, fixed(100, "1d", name="day"), name="all"))])

    @router.get("/a", dependencies=[Depends(RateLimit(async_throttle, rate(2, "1h", name="hour")))])
    async def page() -> str:
        return "hello"

    app = FastAPI()
    app.include_router(router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.get("/a")
    assert answer.headers["RateLimit-Policy"] == '"day";q=100;w=86400, "hour";q=2;w=3600'


async def test_limits_of_a_router_and_a_route_are_named_apart(async_throttle: AsyncFakeLimiter) -> None:
    app = FastAPI(dependencies=[Depends(RateLimit(async_throttle, fixed(100, "1d"), name="all"))])

    @app.get("/a", dependencies=[Depends(RateLimit(async_throttle, rate(1, "1h")))])
    async def page() -> str:
        return "hello"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answers = [await client.get("/a") for _ in range(2)]
    assert [answer.headers["RateLimit-Policy"] for answer in answers] == ['"default";q=100;w=86400, "default-2";q=1;w=3600'] * 2
    assert answers[1].json()["detail"]["violated-policies"] == ["default-2"]


@pytest.mark.parametrize(("error", "options", "status"), [
    (OutageError("away"), {}, 200), (OverloadError("busy"), {}, 503), (OutageError("away"), {"outage": "deny"}, 503),
    (OutageError("away"), {"outage": "raise"}, 500),
])
async def test_without_a_decision_it_does_what_was_chosen(async_throttle: AsyncFakeLimiter, error: Any, options: Any, status: int) -> None:
    async_throttle.fail(error)
    async with client_of(("/", RateLimit(async_throttle, TWO, **options))) as client:
        answer = await client.get("/")
    assert answer.status_code == status
    assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


async def test_functions_get_the_request(async_throttle: AsyncFakeLimiter) -> None:
    async def limits(request: Request) -> Any:
        return fixed(5, "1d") if request.headers.get("plan") == "free" else None

    limited = RateLimit(async_throttle, limits, key=lambda request: request.headers.get("user"), cost=lambda request: 2,
                        skip=lambda request: "skip" in request.headers)
    async with client_of(("/", limited)) as client:
        assert [(await client.get("/", headers={"user": "ann", "plan": "free"})).status_code for _ in range(3)] == [200, 200, 429]
        for headers in ({"user": "ann"}, {"plan": "free"}, {"user": "ann", "plan": "free", "skip": "1"}):
            answer = await client.get("/", headers=headers)
            assert answer.status_code == 200
            assert "RateLimit" not in answer.headers


@pytest.mark.parametrize(("skip", "trusted", "forwarded", "status"), [
    (["203.0.113.0/24"], [], None, 200), (["203.0.113.0/24"], [], "10.2.3.4", 429), (["10.0.0.0/8"], ["203.0.113.9"], "10.2.3.4", 200),
    (["10.0.0.0/8"], ["203.0.113.9"], "10.2.3.4, 198.51.100.2", 429),
])
async def test_requests_of_networks_are_not_limited(async_throttle: AsyncFakeLimiter, skip: list[str], trusted: list[str], forwarded: str | None,
                                                    status: int) -> None:
    limited = RateLimit(async_throttle, rate(0, "1h"), key=lambda request: "k", skip=iter(skip), trusted=iter(trusted))
    async with client_of(("/", limited)) as client:
        assert (await client.get("/", headers={"X-Forwarded-For": forwarded} if forwarded else {})).status_code == status


def test_options_are_checked_at_construction(async_throttle: AsyncFakeLimiter) -> None:
    cases: list[tuple[Any, str]] = [
        ({"outage": "open"}, "outage must be"), ({"key": lambda request: "k", "name": "n"}, "default key"), ({"trusted": ["nobody"]}, "trusted"),
        ({"skip": ["nobody"]}, "skip: 'nobody' is no address"),
        ({"ban_after": "3/1m"}, "ban_after goes with a ban"),
    ]
    for options, says in cases:
        with pytest.raises((TypeError, ValueError), match=says):
            RateLimit(async_throttle, TWO, **options)
    with pytest.raises(TypeError, match="asyncio"):
        RateLimit(FakeLimiter(), TWO)  # type: ignore[arg-type]
