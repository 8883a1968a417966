"""Middleware for WSGI: Flask, Django, Bottle, Pyramid.

    app.wsgi_app = RateLimit(app.wsgi_app, limiter, rate(100, "1m"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._address import Network, client_address
from ._duration import Duration
from ._http import Body, Policy, XRateLimit, check_decider, merge, run
from ._limit import Limits
from ._result import Result
from ._undecided import DEFAULTS, Answer
from ._verbs import Decider

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

__all__ = ["RateLimit", "client_address"]

_STATUS = {429: "429 Too Many Requests", 503: "503 Service Unavailable"}


class RateLimit:
    """As `redis_throttle.asgi.RateLimit`, for WSGI: functions get the environ, and `limiter` is a `redis_throttle.Limiter` or another decider."""

    def __init__(self, app: App, limiter: Decider, limits: Limits | Callable[[Environ], Limits] | None = None, *,
                 key: Callable[[Environ], str | None] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[Environ], Mapping[str, Limits]] | None = None, cost: Callable[[Environ], int] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[Environ, Exception], object] | None = None, skip: Callable[[Environ], bool] | None = None,
                 ban: Duration | None = None, ban_after: str | None = None, body: Callable[[Environ, Result], Body] | None = None) -> None:
        check_decider(limiter, asynchronous=False)
        self.app = app
        self.policy: Policy[Environ] = Policy(limiter, limits, name=name, key=key, ipv6=ipv6, trusted=trusted, keys=keys, cost=cost, outage=outage,
                                             overload=overload, mistake=mistake, retry_after=retry_after, x_ratelimit=x_ratelimit,
                                             on_error=on_error, skip=skip, ban=ban, ban_after=ban_after, body=body)

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
