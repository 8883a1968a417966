"""Limits of single views in plain Django, as a decorator. For Django REST framework there is `redis_throttle.django`.

    @RateLimit(limiter, rate(10, "1m"))
    def search(request): ...

A view of a class has it by `@method_decorator(RateLimit(limiter, rate(10, "1m")), name="dispatch")`,
also one whose handlers are an `async def`. For a whole application there is the middleware
`redis_throttle.wsgi.RateLimit`, or that of `asgi`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.result import Result
from ._core.undecided import DEFAULTS, Answer
from ._core.verbs import AsyncDecider, Decider
from ._web.address import Network, client_address, networks
from ._web.fields import Header, XRateLimit, merge
from ._web.http import Body, Now, Outcome, Policy, Skip, check_decider, key_of_route, run, run_async, skipping

__all__ = ["RateLimit", "client_address"]

View = TypeVar("View", bound=Callable[..., Any])


class RateLimit:
    """A decorator that lets requests to a view through as long as there are units. The others get status 429.

    `limiter` is a `redis_throttle.Limiter` or another decider; one of `redis_throttle.asyncio` for a view that is an
    `async def`. `limits` are limits, or a function of the request that returns them, such as those of a customer's
    plan.

    `key` is a function of the request that returns whom it counts for: a request whose key is None is not limited.
    Without it the key has the route, the limits and the client's address,
    `http:/items/<int:id>:RATE 100/1m:203.0.113.7`, so that each route has a state of its own. `name` stands for the
    route and the limits: views with the same name share their state.

    The other options are those of `redis_throttle.asgi.RateLimit`; functions get the request.
    """

    def __init__(self, limiter: Decider | AsyncDecider, limits: Limits | Callable[[HttpRequest], Now[Limits]] | None = None, *,
                 key: Callable[[HttpRequest], Now[str | None]] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[HttpRequest], Now[Mapping[str, Limits]]] | None = None, cost: Callable[[HttpRequest], Now[int]] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[HttpRequest, Exception], object] | None = None, skip: Skip[HttpRequest] | None = None,
                 ban: Duration | None = None, ban_after: str | None = None,
                 body: Callable[[HttpRequest, Result], Now[Body]] | None = None,
                 preflights: bool = False, policy: str | None = None) -> None:
        self._asynchronous = inspect.iscoroutinefunction(getattr(limiter, "decide", None))
        check_decider(limiter, asynchronous=self._asynchronous)
        trusted = networks(trusted)
        default = key_of_route(limits, key, keys, name=name, ipv6=ipv6, trusted=trusted, skip=skip, policy=policy, route=_route, peer=_peer)
        self._policy: Policy[HttpRequest] = Policy(limiter, limits, key=key or default, keys=keys, cost=cost, outage=outage, overload=overload,
                                                   mistake=mistake, retry_after=retry_after, x_ratelimit=x_ratelimit, on_error=on_error,
                                                   skip=skipping(skip, trusted, _peer),
                                                   ban=ban, ban_after=ban_after, body=body, preflights=preflights, policy=policy)

    def __call__(self, view: View) -> View:
        """Return the view with its limits."""
        if not self._asynchronous:
            if _is_async(view):
                raise TypeError("a view that is an async def takes a limiter of redis_throttle.asyncio")
            return cast(View, functools.wraps(view)(self._view(view)))
        if not _is_async(view) and not _may_be_async(view):
            raise TypeError("a view that is not an async def takes a limiter of redis_throttle, not one of redis_throttle.asyncio")
        # Django 4.2 looks at the mark of a handler that a method_decorator has made a plain function.
        return cast(View, markcoroutinefunction(functools.wraps(view)(self._async_view(view))))

    def _view(self, view: Callable[..., Any]) -> Callable[..., Any]:
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if getattr(_instance(view), "view_is_async", False):  # whose dispatch returns something to await
                return in_thread(request, *args, **kwargs)
            outcome = run(self._policy.decide(request))
            return _respond(request, outcome) if outcome.status is not None else _with_fields(view(request, *args, **kwargs), outcome.fields)

        async def in_thread(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            outcome = await sync_to_async(lambda: run(self._policy.decide(request)), thread_sensitive=False)()
            return _respond(request, outcome) if outcome.status is not None else _with_fields(await view(request, *args, **kwargs), outcome.fields)

        return limited

    def _async_view(self, view: Callable[..., Any]) -> Callable[..., Any]:
        async def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            outcome = await run_async(self._policy.decide(request))
            if outcome.status is not None:
                return _respond(request, outcome)
            response = view(request, *args, **kwargs)
            return _with_fields(await response if inspect.isawaitable(response) else response, outcome.fields)

        return limited


def _route(request: HttpRequest) -> str:
    match = getattr(request, "resolver_match", None)  # a test may call a view without one
    return request.path if match is None else f"/{match.route}"


def _peer(request: HttpRequest) -> dict[str, Any]:
    return cast("dict[str, Any]", request.META)


def _respond(request: HttpRequest, outcome: Outcome) -> HttpResponse:
    return HttpResponse(b"" if cast(Any, request).method == "HEAD" else outcome.body, status=outcome.status, headers=dict(outcome.fields))


def _is_async(view: Callable[..., Any]) -> bool:
    """Whether a view is an async def, or one of a class with such handlers, which `as_view` has marked."""
    return inspect.iscoroutinefunction(view) or bool(getattr(getattr(view, "view_class", None), "view_is_async", False))


def _instance(view: Callable[..., Any]) -> Any:
    """Return the view of a class whose method a `method_decorator` decorates; None otherwise."""
    return getattr(view.func, "__self__", None) if isinstance(view, functools.partial) else None


def _may_be_async(view: Callable[..., Any]) -> bool:
    """Whether a plain function may return something to await: the method dispatch of a class, or what Django tries a
    decorator with."""
    return isinstance(view, functools.partial) or getattr(view, "__module__", "") == "django.utils.decorators"


def _with_fields(response: Any, fields: Iterable[Header]) -> Any:
    there = [(name, response[name]) for name, _ in fields if name in response]
    for name, value in merge(there, tuple(fields)):
        response[name] = value
    return response
