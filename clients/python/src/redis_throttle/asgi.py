"""Middleware for ASGI: Starlette, FastAPI, Litestar, Quart and Django's.

    app.add_middleware(RateLimit, limiter=limiter, limits=rate(100, "1m"))
    app.add_middleware(Concurrency, limiter=limiter, slots=4)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.result import Result
from ._core.undecided import DEFAULTS, Answer
from ._core.verbs import AsyncDecider as Decider
from ._web.address import Network, client_address
from ._web.concurrency import LEASE
from ._web.concurrency import Concurrency as _Concurrency
from ._web.fields import XRateLimit, merge
from ._web.http import Body, Now, Outcome, Policy, Skip, check_decider, run_async
from .asyncio import Limiter

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["Concurrency", "RateLimit", "client_address"]


class RateLimit:
    """Let requests through as long as there are units, and answer the others with status 429. Handshakes of WebSockets
    are requests.

    `limiter` is a `redis_throttle.asyncio.Limiter`, or another decider of asyncio. `limits` are limits, or a function
    of the scope that returns them.

    `key` is a function of the scope that returns whom a request counts for: a request whose key is None is not limited.
    Without it the key has the policy and the client's address: `http:RATE 100/1m:203.0.113.7`. `name` stands for the
    limits in it, so that you can change them. `trusted` are your proxies, and `ipv6` is the length of the prefix by
    which IPv6 addresses count: see `redis_throttle.client_address`.

    `keys`, in place of `limits` and `key`, returns the limits of several keys of a request; all are charged or none.
    `cost` is how many units a request takes. Any of these functions may be one of asyncio.

    `outage`, `overload` and `mistake` say what becomes of requests that could not be decided: `"allow"`, `"deny"`
    (status 503 with a Retry-After of `retry_after`; None is none) or `"raise"` (the exception). By default an outage of
    Redis is none of the service (`"allow"`), a flood of requests does not open the limit (`"deny"`), and a mistake
    shows (`"raise"`); what your functions raise is a mistake, too. `on_error` is told of each error; otherwise it is
    logged.

    `skip` says which requests are not limited: a function, such as for those of a health check, or a list of addresses
    and networks of clients, `["10.0.0.0/8", "2001:db8::/32", "127.0.0.1"]`. Behind a proxy a list needs `trusted`, also
    beside a key. A request whose client is not certain is limited: where X-Forwarded-For goes on behind it, or names
    what is no address. `ban` bans the key of a request that is denied for so long; with `ban_after`, such as `"10/1h"`,
    only with the tenth that is denied within an hour. `body` returns the Content-Type and the body of a response with
    status 429, in place of the problem document.

    `policy` is the name of a policy to which the limits belong, by which a `redis_throttle.asyncio.Policies` finds
    other numbers. It stands for the limits in the key, as `name` does.

    Preflights of browsers (OPTIONS with Origin and Access-Control-Request-Method) are not limited, unless `preflights`
    is true.

    `x_ratelimit` adds X-RateLimit fields, whose Reset is in `"seconds"` from now, or since the Unix epoch (`"unix"`).
    """

    def __init__(self, app: App, limiter: Decider, limits: Limits | Callable[[Scope], Now[Limits]] | None = None, *,
                 key: Callable[[Scope], Now[str | None]] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[Scope], Now[Mapping[str, Limits]]] | None = None, cost: Callable[[Scope], Now[int]] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[Scope, Exception], object] | None = None, skip: Skip[Scope] | None = None,
                 ban: Duration | None = None, ban_after: str | None = None, body: Callable[[Scope, Result], Now[Body]] | None = None,
                 preflights: bool = False, policy: str | None = None) -> None:
        check_decider(limiter, asynchronous=True)
        self.app = app
        self.policy: Policy[Scope] = Policy(limiter, limits, name=name, key=key, ipv6=ipv6, trusted=trusted, keys=keys, cost=cost, outage=outage,
                                             overload=overload, mistake=mistake, retry_after=retry_after, x_ratelimit=x_ratelimit,
                                             on_error=on_error, skip=skip, ban=ban, ban_after=ban_after, body=body, preflights=preflights, policy=policy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        outcome = await run_async(self.policy.decide(scope))
        if outcome.status is not None:
            await _respond(scope, receive, send, outcome)
            return
        if not outcome.fields:
            await self.app(scope, receive, send)
            return

        async def send_with_fields(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                there = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", [])]
                message = {**message, "headers": _raw(merge(there, outcome.fields))}  # the app may send the same one again
            await send(message)

        await self.app(scope, receive, send_with_fields)


class Concurrency:
    """Serve so many requests of a client at a time, in all processes together. Another one is answered with status 429,
    and Retry-After: 1.

    Each request holds a lease while it is served, and a WebSocket while it is open. `limiter` is a
    `redis_throttle.asyncio.Limiter`, or another decider of asyncio. `slots` is how many there are, or a function of the
    scope that returns that.

    `key` is a function of the scope that returns whose slots a request takes: a request whose key is None needs none.
    Without it the key has the client's address, `http:concurrency:203.0.113.7`, or `name` in place of `concurrency`.
    For `ipv6` and `trusted` see `RateLimit`, and for `outage`, `overload`, `mistake`, `retry_after`, `on_error`, `skip`
    and `body`, too.

    `timeout` is how long a request waits for a slot: not at all, if it is left out. Callers are served in order of
    arrival. `ttl` is after which time the slots of a process that has died are free. A request costs two calls to the
    server, and one more where `ttl` is over three seconds; a long one costs three more in each `ttl`.

    The lease is in the scope, as `redis_throttle.lease`. When it is lost, because the server was away for longer than
    `ttl`, the request is cancelled, and a `LeaseLostError` is raised.
    """

    def __init__(self, app: App, limiter: Decider, slots: int | Callable[[Scope], Now[int]], *, key: Callable[[Scope], Now[str | None]] | None = None,
                 name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (), ttl: Duration = "30s", timeout: Duration | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", on_error: Callable[[Scope, Exception], object] | None = None,
                 skip: Skip[Scope] | None = None, body: Callable[[Scope, Result], Now[Body]] | None = None) -> None:
        check_decider(limiter, asynchronous=True)
        self.app = app
        self._concurrency: _Concurrency[Scope] = _Concurrency(
            (limiter if isinstance(limiter, Limiter) else Limiter(limiter)).lease, slots, name=name, key=key, ipv6=ipv6, trusted=trusted, ttl=ttl,
            timeout=timeout, outage=outage, overload=overload, mistake=mistake, retry_after=retry_after, on_error=on_error, skip=skip, body=body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        begun = await run_async(self._concurrency.begin(scope))
        if isinstance(begun, Outcome):
            if begun.status is None:
                await self.app(scope, receive, send)
            else:
                await _respond(scope, receive, send, begun)
            return
        async with begun._held():
            await self.app({**scope, LEASE: begun}, receive, send)


def _raw(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]


async def _respond(scope: Scope, receive: Receive, send: Send, outcome: Outcome) -> None:
    what = "http.response"
    if scope["type"] == "websocket":
        await receive()  # the handshake
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1013})  # before it was accepted: the server answers with status 403
            return
        what = "websocket.http.response"
    await send({"type": f"{what}.start", "status": outcome.status, "headers": _raw(list(outcome.fields))})
    await send({"type": f"{what}.body", "body": outcome.body})
