"""Limits of single routes in FastAPI, as dependencies.

    @app.post("/login", dependencies=[Depends(RateLimit(limiter, rate(10, "1m"), ban="1h", ban_after="20/10m"))])

For a whole application there is the middleware `redis_throttle.asgi.RateLimit`.
"""

# Annotations are evaluated: older versions of FastAPI cannot read text in those of an object that is called.
import json
from collections.abc import Callable, Iterable, Mapping

from fastapi import HTTPException, Request, Response

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.undecided import DEFAULTS, Answer
from ._core.verbs import AsyncDecider as Decider
from ._web.address import Network, Peer, client_address, networks
from ._web.fields import LISTS, XRateLimit
from ._web.http import Now, Policy, Skip, check_decider, key_of_route, run_async, skipping

__all__ = ["RateLimit", "client_address"]


class RateLimit:
    """A dependency that lets requests of a route through as long as there are units. The others end with an
    HTTPException of status 429.

    `limiter` is a `redis_throttle.asyncio.Limiter`, or another decider of asyncio. `limits` are limits, or a function
    of the request that returns them, such as those of a customer's plan.

    `key` is a function of the request that returns whom it counts for: a request whose key is None is not limited.
    Without it the key has the path of the route, the limits and the client's address,
    `http:/items/{id}:RATE 100/1m:203.0.113.7`, so that each route has a state of its own. `name` stands for the path
    and the limits: routes with the same name share their state.

    The other options are those of `redis_throttle.asgi.RateLimit`; functions get the request. The header fields are in
    the response, unless the route returns a `Response` of its own. The problem document is the `detail` of the
    exception.
    """

    def __init__(self, limiter: Decider, limits: Limits | Callable[[Request], Now[Limits]] | None = None, *,
                 key: Callable[[Request], Now[str | None]] | None = None, name: str = "", ipv6: int = 64, trusted: Iterable[str | Network] = (),
                 keys: Callable[[Request], Now[Mapping[str, Limits]]] | None = None, cost: Callable[[Request], Now[int]] | None = None,
                 outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"], mistake: Answer = DEFAULTS["mistake"],
                 retry_after: Duration | None = "1s", x_ratelimit: XRateLimit | None = None,
                 on_error: Callable[[Request, Exception], object] | None = None, skip: Skip[Request] | None = None,
                 ban: Duration | None = None, ban_after: str | None = None, preflights: bool = False, policy: str | None = None) -> None:
        check_decider(limiter, asynchronous=True)
        trusted = networks(trusted)
        default = key_of_route(limits, key, keys, name=name, ipv6=ipv6, trusted=trusted, skip=skip, policy=policy, route=_route, peer=_scope)
        key = key or default
        self._policy: Policy[Request] = Policy(limiter, limits, key=key, keys=keys, cost=cost, outage=outage, overload=overload, mistake=mistake,
                                               retry_after=retry_after, x_ratelimit=x_ratelimit, on_error=on_error,
                                               skip=skipping(skip, trusted, _scope), ban=ban, ban_after=ban_after,
                                               preflights=preflights, policy=policy)

    async def __call__(self, request: Request, response: Response) -> None:
        """Decide a request."""
        outcome = await run_async(self._policy.decide(request))
        fields = {name: value for name, value in outcome.fields if not name.startswith("Content-")}
        fields |= {name: f"{response.headers[name]}, {fields[name]}" for name in LISTS if name in fields and name in response.headers}
        if outcome.status is not None:
            detail = json.loads(outcome.body) if outcome.status == 429 else outcome.body.decode().strip()
            raise HTTPException(outcome.status, detail, fields)
        response.headers.update(fields)


def _scope(request: Request) -> Peer:
    return request.scope


def _route(request: Request) -> str:
    return f"{request.scope.get('root_path', '')}{getattr(request.scope.get('route'), 'path', request.url.path)}"
