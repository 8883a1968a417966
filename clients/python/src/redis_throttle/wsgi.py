"""Middleware for WSGI: Flask, Django, Bottle, Pyramid.

    app.wsgi_app = RateLimit(app.wsgi_app, limiter, rate(100, "1m"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from ._address import client_address
from ._http import Decider, Options, Policy, merge, run
from ._limit import Limits
from .asyncio import Limiter as LimiterOfAsyncio

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

__all__ = ["RateLimit", "client_address"]

_STATUS = {429: "429 Too Many Requests", 503: "503 Service Unavailable"}


class RateLimit:
    """As `redis_throttle.asgi.RateLimit`, for WSGI: functions get the environ, and `limiter` is a `redis_throttle.Limiter`."""

    def __init__(self, app: App, limiter: Decider, limits: Limits | Callable[[Environ], Limits] | None = None, *,
                 key: Callable[[Environ], str | None] | None = None, **options: Unpack[Options[Environ]]) -> None:
        if isinstance(limiter, LimiterOfAsyncio):
            raise TypeError("limiter must be a redis_throttle.Limiter, not one of asyncio")
        self.app = app
        self.policy: Policy[Environ] = Policy(limiter, limits, key=key, **options)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        outcome = run(self.policy.decide(environ))
        if outcome.status is not None:
            start_response(_STATUS[outcome.status], list(outcome.fields))
            # Not every server keeps back the body of an answer to HEAD, which a client takes for the begin of the next one.
            return [] if environ.get("REQUEST_METHOD") == "HEAD" else [outcome.body]
        if not outcome.fields:
            return self.app(environ, start_response)

        def start_with_fields(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, merge(headers, outcome.fields), *rest)

        return self.app(environ, start_with_fields)
