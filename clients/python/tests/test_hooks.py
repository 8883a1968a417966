"""Hooks of the middlewares, observers of decisions, and helpers for routes that are written by hand."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from pages import asgi_page, wsgi_page
from redis_throttle import Cached, Call, Decision, Limiter, Limits, MistakeError, Observed, OutageError, OverloadError, Result, asgi, fixed, rate, window, wsgi
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Observed as AsyncObserved
from redis_throttle.http import PROBLEM, header_fields, problem_document
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter

HOUR = rate(1, "1h")


Ask = Callable[..., list[httpx.Response]]


@pytest.fixture(params=["asgi", "wsgi"])
def ask(request: pytest.FixtureRequest, throttle: FakeLimiter, async_throttle: AsyncFakeLimiter) -> Ask:
    """Asks an application behind a middleware for paths."""

    def get(*paths: str, forwarded: str | None = None, **options: Any) -> list[httpx.Response]:
        headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}

        async def of_asgi() -> list[httpx.Response]:
            app = asgi.RateLimit(asgi_page, options.pop("limiter", async_throttle), HOUR, **options)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
                return [await client.get(path, headers=headers) for path in paths]

        if request.param == "asgi":
            return asyncio.run(of_asgi())
        app = wsgi.RateLimit(wsgi_page, options.pop("limiter", throttle), HOUR, **options)
        with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://test") as client:
            return [client.get(path, headers=headers) for path in paths]

    get.asynchronous = request.param == "asgi"  # type: ignore[attr-defined]
    return get


def path_of(request: Any) -> str:
    return str(request.get("path") or request.get("PATH_INFO"))


def test_requests_that_are_skipped_are_not_limited(ask: Ask) -> None:
    answers = ask("/live", "/live", "/", "/", "/live", skip=lambda request: path_of(request) == "/live")
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 200]
    assert "RateLimit" not in answers[0].headers


def test_requests_of_networks_are_not_limited(ask: Ask) -> None:
    """The peer is 127.0.0.1."""
    for options, statuses in ((
        ({"skip": ["127.0.0.0/8"]}, [200, 200]), ({"skip": ["10.0.0.0/8"]}, [200, 429]),
        ({"skip": [ipaddress.ip_network("127.0.0.0/8")], "key": lambda request: "k"}, [200, 200]),
        ({"skip": (text for text in ["127.0.0.1"]), "trusted": (text for text in ["10.1.0.1"]), "key": lambda request: "l"}, [200, 200]),
        ({"skip": ["10.0.0.0/8"], "trusted": ["127.0.0.1"], "forwarded": "10.2.3.4"}, [200, 200]),
        ({"skip": ["10.0.0.0/8"], "trusted": ["127.0.0.1"], "forwarded": "10.2.3.4, 203.0.113.7"}, [200, 429]),
        ({"skip": ["127.0.0.0/8"], "forwarded": "203.0.113.8", "key": lambda request: "m"}, [200, 429]),
    )):
        assert [answer.status_code for answer in ask("/", "/", **options)] == statuses, options


def test_a_denied_request_may_have_a_body_of_your_own(ask: Ask) -> None:
    def body(request: Any, result: Result) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", f"<p>{path_of(request)}: wait {result.retry_after}</p>".encode()

    answer = ask("/", "/slow", body=body)[1]
    assert (answer.status_code, answer.headers["Content-Type"]) == (429, "text/html; charset=utf-8")
    assert answer.text == "<p>/slow: wait 1:00:00</p>"
    assert answer.headers["Retry-After"] == "3600"
    assert answer.headers["RateLimit"] == '"default";r=0;t=3600'


def test_a_denied_request_may_ban_its_key(ask: Ask) -> None:
    answers = ask("/", "/", "/", ban="2h")
    assert [answer.headers.get("Retry-After") for answer in answers] == [None, "7200", "7200"]
    assert answers[2].json()["title"] == "Abnormal Usage Detected"


def test_a_ban_may_begin_after_so_many_denied_requests(ask: Ask) -> None:
    """As a login page has it: somebody who is slow to notice is not banned, and somebody who goes on is."""
    answers = ask("/", "/", "/", "/", ban="2h", ban_after="3/1h")
    assert [answer.headers.get("Retry-After") for answer in answers] == [None, "3600", "3600", "7200"]


@pytest.mark.parametrize(("policy", "want"), [("open", (200, None)), ("closed", (503, "1"))])
def test_a_policy_that_knows_no_limits_tells_of_none(ask: Ask, policy: Any, want: Any) -> None:
    from redis_throttle import Guard
    from redis_throttle.asyncio import Guard as AsyncGuard

    class Away:
        def decide(self, call: Call, /) -> Result:
            raise OutageError("away")

    class AsyncAway:
        async def decide(self, call: Call, /) -> Result:
            raise OutageError("away")

    guard: Any = AsyncGuard(AsyncAway(), policy=policy) if ask.asynchronous else Guard(Away(), policy=policy)  # type: ignore[attr-defined]
    [answer] = ask("/", limiter=guard)
    assert (answer.status_code, answer.headers.get("Retry-After")) == want
    assert not [name for name in answer.headers if "ratelimit" in name]


@pytest.mark.parametrize(("options", "says"), [({"skip": True}, "skip must be a function"), ({"body": b"no"}, "body must be a function"),
    ({"ban": 60}, "ban.*unit"), ({"ban_after": "3/1h"}, "goes with a ban"), ({"ban": "1h", "ban_after": "3"}, "ban_after must be a count"),
])
def test_hooks_are_checked_at_construction(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        wsgi.RateLimit(wsgi_page, FakeLimiter(), HOUR, **options)


def test_an_observer_is_told_of_each_decision(throttle: FakeLimiter) -> None:
    seen: list[Decision] = []
    limiter = Limiter(Observed(Cached(throttle), seen.append))
    limits = (rate(1, "1h", name="user"), window(1, "1d", shadow=True))
    for _ in range(3):
        limiter.limit("k", *limits)
    limiter.ban("k", "1m")
    limiter.limit("k", HOUR)
    for error in (OutageError("away"), OverloadError("busy"), MistakeError("wrong")):
        throttle.fail(error)
        with pytest.raises(type(error)):
            limiter.limit("l", HOUR)
    assert [(d.call.verb, d.outcome, d.by, d.policy, d.shadowed) for d in seen] == [
        ("limit", "allowed", "server", "user", ""), ("limit", "limited", "server", "user", "limit-2"), ("limit", "limited", "cache", "user", "limit-2"),
        ("ban", "allowed", "server", "", ""), ("limit", "limited", "server", "", ""),
        ("limit", "outage", "server", "", ""), ("limit", "overload", "server", "", ""), ("limit", "mistake", "server", "", "")]
    assert all(d.duration >= timedelta(0) for d in seen)


async def test_so_is_one_of_asyncio(async_throttle: AsyncFakeLimiter) -> None:
    seen: list[Decision] = []

    class Hanging:
        async def decide(self, call: Call, /) -> Result:
            await asyncio.sleep(60)
            return Result()

    limiter = AsyncLimiter(AsyncObserved(async_throttle, seen.append))
    await limiter.limit("k", HOUR)
    task = asyncio.create_task(AsyncLimiter(AsyncObserved(Hanging(), seen.append)).limit("k", HOUR))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [d.outcome for d in seen] == ["allowed", "cancelled"]


def test_an_observer_that_fails_changes_no_decision(throttle: FakeLimiter, caplog: pytest.LogCaptureFixture) -> None:
    def broken(decision: Decision) -> None:
        raise ZeroDivisionError

    seen: list[Decision] = []
    with caplog.at_level(logging.ERROR, logger="redis_throttle"):
        assert Limiter(Observed(throttle, broken, seen.append)).limit("k", HOUR).allowed
    assert len(seen) == 1
    assert "an observer of decisions has failed" in caplog.text
    with pytest.raises(TypeError, match="functions"):
        Observed(throttle, None)  # type: ignore[arg-type]


def test_a_route_by_hand_says_what_a_middleware_says(ask: Ask, throttle: FakeLimiter) -> None:
    limiter = FakeLimiter()
    for answer in ask("/", "/", x_ratelimit="seconds"):
        result = limiter.limit("k", HOUR)
        fields = dict(header_fields(HOUR, result, x_ratelimit="seconds"))
        assert {name: answer.headers[name] for name in fields} == fields
        if result.limited:
            assert problem_document(HOUR, result) == answer.content
            assert answer.headers["Content-Type"] == PROBLEM
    keys: dict[str, Limits] = {"a": rate(1, "1h", name="user"), "b": [fixed(9, "1d", name="team")]}
    denied = limiter.limit_all({"a": keys["a"], "b": keys["b"]}, cost=2, each=True)
    assert json.loads(problem_document(keys, denied))["violated-policies"] == ["user"]
    assert dict(header_fields(keys, denied))["RateLimit-Policy"] == '"user";q=1;w=3600, "team";q=9;w=86400'
