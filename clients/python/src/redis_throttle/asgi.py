"""Middleware for ASGI: Starlette, FastAPI, Litestar, Quart and Django's.

    app.add_middleware(RateLimit, limiter=limiter, limits=rate(100, "1m"), key=client_address)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .asyncio import Limiter
from .errors import ThrottleError
from .http import Policy, merge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def client_address(scope: Scope) -> str:
    """Return a key for the address of the peer. Behind a proxy that is the proxy: limit by user or API key instead."""
    client = scope.get("client")
    return f"http:{client[0]}" if client else ""


class RateLimit:
    """Let requests through as long as there are units, and answer the others with status 429.

    `limits` may be a function of the scope, `key` is one: a request with no key is not limited. `keys` returns the limits of
    several keys of a request in their place; all are charged or none. `cost` is how many units a request takes.

    `outage`, `overload` and `mistake` say what becomes of requests without a decision: `"let through"`, `"unavailable"`
    (status 503) or `"error"` (the exception). By default an outage of Redis is none of the service, a flood of requests does not
    open the limit, and a mistake shows. `on_error` is told of each error; otherwise it is logged.

    `x_ratelimit` adds X-RateLimit fields, whose Reset is in seconds from now, or since the Unix epoch.
    """

    def __init__(self, app: App, limiter: Limiter, limits: Any = None, *, key: Callable[[Scope], str | None] = client_address, **options: Any) -> None:
        self.app, self.limiter = app, limiter
        self.policy: Policy[Scope] = Policy(limits, key=key, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        call = self.policy.call(scope)
        if call is None:
            await self.app(scope, receive, send)
            return
        try:
            result = await self.limiter.decide(call)
        except (ThrottleError, ValueError) as error:
            answer = self.policy.failed(scope, error)
            if answer == "error":
                raise
            if answer == "unavailable":
                await _respond(send, 503, *self.policy.unavailable())
            else:
                await self.app(scope, receive, send)
            return
        fields = self.policy.fields(call, result)
        if result.limited:
            more, body = self.policy.problem(call, result)
            await _respond(send, 429, fields + more, body)
            return

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", [])]
                message["headers"] = _raw(merge(there, fields))
            await send(message)

        await self.app(scope, receive, send_with_fields)


def _raw(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]


async def _respond(send: Send, status: int, fields: list[tuple[str, str]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": _raw(fields)})
    await send({"type": "http.response.body", "body": body})
