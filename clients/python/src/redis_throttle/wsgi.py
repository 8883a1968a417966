"""Middleware for WSGI: Flask, Django, Bottle, Pyramid.

    app.wsgi_app = RateLimit(app.wsgi_app, limiter, rate(100, "1m"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .errors import ThrottleError
from .http import Policy, merge
from .limiter import Limiter

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def client_address(environ: Environ) -> str:
    """Return a key for the address of the peer. Behind a proxy that is the proxy: limit by user or API key instead."""
    address = environ.get("REMOTE_ADDR")
    return f"http:{address}" if address else ""


class RateLimit:
    """As `redis_throttle.asgi.RateLimit`, for WSGI: functions get the environ."""

    def __init__(self, app: App, limiter: Limiter, limits: Any = None, *, key: Callable[[Environ], str | None] = client_address, **options: Any) -> None:
        self.app, self.limiter = app, limiter
        self.policy: Policy[Environ] = Policy(limits, key=key, **options)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        call = self.policy.call(environ)
        if call is None:
            return self.app(environ, start_response)
        try:
            result = self.limiter.decide(call)
        except (ThrottleError, ValueError) as error:
            answer = self.policy.failed(environ, error)
            if answer == "error":
                raise
            if answer == "unavailable":
                more, body = self.policy.unavailable()
                start_response("503 Service Unavailable", more)
                return [body]
            return self.app(environ, start_response)
        fields = self.policy.fields(call, result)
        if result.limited:
            more, body = self.policy.problem(call, result)
            start_response("429 Too Many Requests", fields + more)
            return [body]

        def start_with_fields(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, merge(headers, fields), *rest)

        return self.app(environ, start_with_fields)
