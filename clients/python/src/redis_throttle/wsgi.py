"""Middleware for WSGI: Flask, Django, Bottle, Pyramid.

    app.wsgi_app = RateLimit(app.wsgi_app, limiter, rate(100, "1m"))
    app.wsgi_app = Concurrency(app.wsgi_app, limiter, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.result import Result
from ._core.undecided import DEFAULTS, Answer
from ._core.verbs import Decider
from ._limiter import Limiter
from ._web.address import Network, client_address
from ._web.concurrency import LEASE
from ._web.concurrency import Concurrency as _Concurrency
from ._web.fields import XRateLimit, merge
from ._web.http import Body, Outcome, Policy, check_decider, run

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Skip = Union[Callable[[Environ], bool], Iterable[Union[str, Network]]]  # noqa: UP007 as it is evaluated

__all__ = ["Concurrency", "RateLimit", "client_address"]

_STATUS = {429: "429 Too Many Requests", 503: "503 Service Unavailable"}


class RateLimit:
    """As `redis_throttle.asgi.RateLimit`, for WSGI: functions get the environ, and `limiter` is a
    `redis_throttle.Limiter` or another decider."""

    def __init__(self, app: App, limiter: Decider, limits: Limits | Callable[[Environ], Limits] | None = None, *,
                 key: Callable[[Environ], str | None] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[Environ], Mapping[str, Limits]] | None = None, cost: Callable[[Environ], int] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[Environ, Exception], object] | None = None, skip: Skip | None = None,
                 ban: Duration | None = None, ban_after: str | None = None, body: Callable[[Environ, Result], Body] | None = None,
                 preflights: bool = False, policy: str | None = None) -> None:
        check_decider(limiter, asynchronous=False)
        self.app = app
        self.policy: Policy[Environ] = Policy(limiter, limits, name=name, key=key, ipv6=ipv6, trusted=trusted, keys=keys, cost=cost, outage=outage,
                                             overload=overload, mistake=mistake, retry_after=retry_after, x_ratelimit=x_ratelimit,
                                             on_error=on_error, skip=skip, ban=ban, ban_after=ban_after, body=body, preflights=preflights, policy=policy)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        outcome = run(self.policy.decide(environ))
        if outcome.status is not None:
            return _respond(environ, start_response, outcome)
        if not outcome.fields:
            return self.app(environ, start_response)

        def start_with_fields(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, merge(headers, outcome.fields), *rest)

        return self.app(environ, start_with_fields)


class Concurrency:
    """As `redis_throttle.asgi.Concurrency`, for WSGI: a request holds its slot until its response was sent.

    The lease is in the environ, as `redis_throttle.lease`. A thread cannot be cancelled: long work asks its `check()`,
    which raises a `LeaseLostError` when the lease was lost.
    """

    def __init__(self, app: App, limiter: Decider, slots: int | Callable[[Environ], int], *, key: Callable[[Environ], str | None] | None = None,
                 name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (), ttl: Duration = "30s", timeout: Duration | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", on_error: Callable[[Environ, Exception], object] | None = None,
                 skip: Skip | None = None, body: Callable[[Environ, Result], Body] | None = None) -> None:
        check_decider(limiter, asynchronous=False)
        self.app = app
        self._concurrency: _Concurrency[Environ] = _Concurrency(
            (limiter if isinstance(limiter, Limiter) else Limiter(limiter)).lease, slots, name=name, key=key, ipv6=ipv6, trusted=trusted, ttl=ttl,
            timeout=timeout, outage=outage, overload=overload, mistake=mistake, retry_after=retry_after, on_error=on_error, skip=skip, body=body)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        begun = run(self._concurrency.begin(environ))
        if isinstance(begun, Outcome):
            return self.app(environ, start_response) if begun.status is None else _respond(environ, start_response, begun)
        try:
            return _Response(self.app({**environ, LEASE: begun}, start_response), begun.release)
        except BaseException:
            begun.release()
            raise


class _Response:
    """A response that frees the slot when the server closes it."""

    def __init__(self, parts: Iterable[bytes], release: Callable[[], None]) -> None:
        self._parts = parts
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._parts)

    def close(self) -> None:
        try:
            close = getattr(self._parts, "close", None)
            if close is not None:
                close()
        finally:
            self._release()


def _respond(environ: Environ, start_response: Callable[..., Any], outcome: Outcome) -> Iterable[bytes]:
    start_response(_STATUS[outcome.status or 503], list(outcome.fields))
    # Not every server keeps back the body of an answer to HEAD, which a client takes for the begin of the next one.
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [outcome.body]
