"""Outgoing requests of httpx that keep to the limits of somebody else's service, in all processes together.

    transport = AsyncLimitedTransport(limiter, window(10, "1s"), key="partner", max_wait="30s")
    client = httpx.AsyncClient(transport=transport)
"""

from __future__ import annotations

from collections.abc import Callable

from httpx import AsyncBaseTransport, AsyncHTTPTransport, BaseTransport, HTTPTransport, Request, Response

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.undecided import Answer
from ._core.verbs import AsyncDecider, Decider
from ._web.http import Now, run, run_async
from ._web.outgoing import Outgoing

__all__ = ["AsyncLimitedTransport", "LimitedTransport"]


class LimitedTransport(BaseTransport):
    """A transport of `httpx.Client`. A request beyond the limits waits for its turn, or is not sent: it raises a
    `LimitedError`.

    `limiter` is a `redis_throttle.Limiter` or another decider. `key` says whose limits a request counts for, such as
    `"partner"` for all of them, or is a function of the request. A request whose key is None is not limited. `cost` is
    how many units a request takes: 1, if it is left out. `max_wait` is how long a request waits for its turn: not at
    all, if it is left out; `FOREVER` as long as it takes.

    `outage`, `overload` and `mistake` say what becomes of a request that could not be decided. `"allow"` sends it; with
    `"deny"` and `"raise"`, which is the default of all three, the error is raised and nothing is sent.

    `transport` sends the requests: a `httpx.HTTPTransport`, if it is left out. It is closed with this one. A client
    that follows redirects sends further requests, each of which counts.
    """

    def __init__(self, limiter: Decider, limits: Limits, *, key: str | Callable[[Request], str | None], cost: Callable[[Request], int] | None = None,
                 max_wait: Duration | None = None, outage: Answer = "raise", overload: Answer = "raise", mistake: Answer = "raise",
                 transport: BaseTransport | None = None) -> None:
        self._outgoing: Outgoing[Request] = Outgoing(limiter, limits, key, cost, max_wait, outage, overload, mistake, asynchronous=False)
        self._transport = transport or HTTPTransport()

    def handle_request(self, request: Request) -> Response:
        """Send a request when its limits allow it."""
        run(self._outgoing.steps(request))
        return self._transport.handle_request(request)

    def close(self) -> None:
        """Close the transport behind."""
        self._transport.close()


class AsyncLimitedTransport(AsyncBaseTransport):
    """As `LimitedTransport`, for `httpx.AsyncClient` and a `redis_throttle.asyncio.Limiter`. `key` and `cost` may be
    functions of asyncio."""

    def __init__(self, limiter: AsyncDecider, limits: Limits, *, key: str | Callable[[Request], Now[str | None]],
                 cost: Callable[[Request], Now[int]] | None = None, max_wait: Duration | None = None, outage: Answer = "raise",
                 overload: Answer = "raise", mistake: Answer = "raise", transport: AsyncBaseTransport | None = None) -> None:
        self._outgoing: Outgoing[Request] = Outgoing(limiter, limits, key, cost, max_wait, outage, overload, mistake, asynchronous=True)
        self._transport = transport or AsyncHTTPTransport()

    async def handle_async_request(self, request: Request) -> Response:
        """Send a request when its limits allow it."""
        await run_async(self._outgoing.steps(request))
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transport behind."""
        await self._transport.aclose()
