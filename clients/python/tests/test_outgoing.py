"""Outgoing requests that keep to the limits of a service: httpx and requests, against a server of HTTP that counts what
it gets."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests

from redis_throttle import FOREVER, LimitedError, Limiter, OutageError, OverloadError, rate, window
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.httpx import AsyncLimitedTransport, LimitedTransport
from redis_throttle.requests import LimitedAdapter
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import Server

TWO = window(2, "1h")


class Partner:
    """A service that counts the requests that it gets. `/moved` leads to `/`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append(self.path)
                self.send_response(302 if self.path == "/moved" else 200)
                self.send_header("Location", "/")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def partner() -> Iterator[Partner]:
    partner = Partner()
    yield partner
    partner.server.shutdown()
    partner.server.server_close()


Get = Callable[[str], int]


def with_httpx(limiter: Any, *limits: Any, **options: Any) -> tuple[Get, Callable[[], None]]:
    client = httpx.Client(transport=LimitedTransport(limiter, limits, **options), follow_redirects=True)
    return lambda url: client.get(url).status_code, client.close


def with_requests(limiter: Any, *limits: Any, **options: Any) -> tuple[Get, Callable[[], None]]:
    session = requests.Session()
    session.mount("http://127.0.0.1", LimitedAdapter(limiter, limits, **options))
    return lambda url: session.get(url, timeout=30).status_code, session.close


BOTH = pytest.mark.parametrize("make", [with_httpx, with_requests])


@BOTH
def test_a_request_beyond_the_limit_is_not_sent(partner: Partner, throttle: FakeLimiter, make: Any) -> None:
    get, close = make(throttle, TWO, key="partner")
    assert [get(partner.url), get(partner.url)] == [200, 200]
    with pytest.raises(LimitedError) as denied:
        get(partner.url)
    assert denied.value.result.retry_after is not None
    assert len(partner.seen) == 2
    throttle.advance("1h")
    assert get(partner.url) == 200
    close()


@BOTH
def test_it_waits_for_its_turn(partner: Partner, throttle: FakeLimiter, make: Any) -> None:
    get, close = make(throttle, TWO, key="partner", max_wait="2h")
    began = throttle.time
    assert [get(partner.url) for _ in range(3)] == [200] * 3
    assert (throttle.time - began).total_seconds() == 3600
    close()
    get, close = make(throttle, TWO, key="partner", max_wait="1s")
    get(partner.url)
    with pytest.raises(LimitedError):
        get(partner.url)
    close()
    assert len(partner.seen) == 4


@BOTH
def test_a_redirect_is_a_further_request(partner: Partner, throttle: FakeLimiter, make: Any) -> None:
    get, close = make(throttle, TWO, key="partner")
    assert get(f"{partner.url}/moved") == 200
    with pytest.raises(LimitedError):
        get(partner.url)
    assert partner.seen == ["/moved", "/"]
    close()


@BOTH
def test_a_request_says_whose_it_is_and_what_it_costs(partner: Partner, throttle: FakeLimiter, make: Any) -> None:
    get, close = make(throttle, rate(10, "1h"), key=lambda request: request.headers.get("tenant"), cost=lambda request: 7)
    assert get(partner.url) == 200
    assert throttle.asked == [], "a request without a key is not limited"
    close()
    get, close = make(throttle, rate(10, "1h"), key=lambda request: "acme", cost=lambda request: 7)
    get(partner.url)
    with pytest.raises(LimitedError):
        get(partner.url)
    assert [(call.keys[0].name, call.cost) for call in throttle.asked] == [("acme", 7), ("acme", 7)]
    close()


@BOTH
@pytest.mark.parametrize(("option", "error"), [("outage", OutageError("away")), ("overload", OverloadError("busy"))])
def test_without_a_decision_it_raises_unless_it_is_allowed(partner: Partner, throttle: FakeLimiter, make: Any, option: str, error: Exception) -> None:
    throttle.fail(error)  # type: ignore[arg-type]
    for options in ({}, {option: "raise"}, {option: "deny"}):
        get, close = make(throttle, TWO, key="partner", **options)
        with pytest.raises(type(error)):
            get(partner.url)
        close()
    assert partner.seen == []
    get, close = make(throttle, TWO, key="partner", **{option: "allow"})
    assert get(partner.url) == 200
    close()


@BOTH
@pytest.mark.parametrize(("options", "says"), [
    ({"key": ""}, "key must be a name"), ({"key": "k", "cost": 2}, "cost must be a function"), ({"key": "k", "max_wait": 3}, "max_wait.*unit"),
    ({"key": "k", "max_wait": "0"}, "max_wait must be a length"), ({"key": "k", "outage": "open"}, 'outage must be "allow"'),
])
def test_options_are_checked_at_construction(throttle: FakeLimiter, async_throttle: AsyncFakeLimiter, make: Any, options: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make(throttle, TWO, **options)
    with pytest.raises(ValueError, match="at least one"):
        make(throttle, key="k")
    with pytest.raises(TypeError, match="not one of asyncio"):
        make(async_throttle, TWO, key="k")


@BOTH
def test_processes_share_the_limits_of_a_service(partner: Partner, server: Server, make: Any) -> None:
    with Limiter.from_url(server.url) as limiter:
        for _ in range(2):
            get, close = make(limiter, rate(2, "200ms"), key="partner", max_wait=FOREVER)
            assert get(partner.url) == 200
            close()
        assert limiter.peek("partner", rate(2, "200ms")).limit == 2
        assert [call for call in server.client().info("commandstats") if call == "cmdstat_cl.wait"]


async def test_httpx_of_asyncio_waits_or_fails_fast(partner: Partner, server: Server, async_throttle: AsyncFakeLimiter) -> None:
    async def key(request: httpx.Request) -> str | None:
        return str(request.headers.get("tenant", "partner"))

    async with httpx.AsyncClient(transport=AsyncLimitedTransport(async_throttle, TWO, key=key)) as client:
        assert [(await client.get(partner.url)).status_code for _ in range(2)] == [200, 200]
        with pytest.raises(LimitedError):
            await client.get(partner.url)
        assert (await client.get(partner.url, headers={"tenant": "other"})).status_code == 200
        async_throttle.fail()
        with pytest.raises(OutageError):
            await client.get(partner.url)
    async with AsyncLimiter.from_url(server.url) as limiter:
        transport = AsyncLimitedTransport(limiter, rate(1, "200ms"), key="partner", max_wait="30s", outage="allow")
        async with httpx.AsyncClient(transport=transport) as client:
            assert [(await client.get(partner.url)).status_code for _ in range(3)] == [200] * 3
    with pytest.raises(TypeError, match=r"redis_throttle\.asyncio"):
        AsyncLimitedTransport(FakeLimiter(), TWO, key="k")  # type: ignore[arg-type]
