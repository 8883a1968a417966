"""Middleware for ASGI: Starlette, FastAPI, Litestar, Quart and Django's.

    app.add_middleware(RateLimit, limiter=limiter, limits=rate(100, "1m"))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from ._address import Network, client_address
from ._duration import Duration
from ._http import Body, Now, Outcome, Policy, XRateLimit, check_decider, merge, run_async
from ._limit import Limits
from ._result import Result
from ._undecided import DEFAULTS, Answer
from ._verbs import AsyncDecider as Decider

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["RateLimit", "client_address"]


class RateLimit:
    """Let requests through as long as there are units, and answer the others with status 429. Handshakes of WebSockets are requests.

    `limiter` is a `redis_throttle.asyncio.Limiter`, or another decider of asyncio. `limits` are limits, or a function of the scope that returns them.

    `key` is a function of the scope that returns whom a request counts for: a request whose key is None is not limited. Without it
    the key has the policy and the client's address: `http:RATE 100/1m:203.0.113.7`. `name` stands for the limits in it, so that
    you can change them. `trusted` are your proxies, and `ipv6` is the length of the prefix by which IPv6 addresses count: see
    `redis_throttle.client_address`.

    `keys`, in place of `limits` and `key`, returns the limits of several keys of a request; all are charged or none. `cost` is how
    many units a request takes. Any of these functions may be one of asyncio.

    `outage`, `overload` and `mistake` say what becomes of requests that could not be decided: `"allow"`, `"deny"` (status 503 with a
    Retry-After of `retry_after`; None is none) or `"raise"` (the exception). By default an outage of Redis is none of the service
    (`"allow"`), a flood of requests does not open the limit (`"deny"`), and a mistake shows (`"raise"`); what your functions raise
    is a mistake, too. `on_error` is told of each error; otherwise it is logged.

    `skip` says which requests are not limited, such as those of a health check. `ban` bans the key of a request that is denied for so
    long; with `ban_after`, such as `"10/1h"`, only with the tenth that is denied within an hour. `body` returns the Content-Type and
    the body of a response with status 429, in place of the problem document.

    `x_ratelimit` adds X-RateLimit fields, whose Reset is in `"seconds"` from now, or since the Unix epoch (`"unix"`).
    """

    def __init__(self, app: App, limiter: Decider, limits: Limits | Callable[[Scope], Now[Limits]] | None = None, *,
                 key: Callable[[Scope], Now[str | None]] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[Scope], Now[Mapping[str, Limits]]] | None = None, cost: Callable[[Scope], Now[int]] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[Scope, Exception], object] | None = None, skip: Callable[[Scope], Now[bool]] | None = None,
                 ban: Duration | None = None, ban_after: str | None = None, body: Callable[[Scope, Result], Now[Body]] | None = None) -> None:
        check_decider(limiter, asynchronous=True)
        self.app = app
        self.policy: Policy[Scope] = Policy(limiter, limits, name=name, key=key, ipv6=ipv6, trusted=trusted, keys=keys, cost=cost, outage=outage,
                                             overload=overload, mistake=mistake, retry_after=retry_after, x_ratelimit=x_ratelimit,
                                             on_error=on_error, skip=skip, ban=ban, ban_after=ban_after, body=body)

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
