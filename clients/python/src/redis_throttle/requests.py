"""Outgoing requests of the library requests that keep to the limits of somebody else's service, in all processes
together.

    session.mount("https://partner.example", LimitedAdapter(limiter, window(10, "1s"), key="partner", max_wait="30s"))
"""

from __future__ import annotations

from collections.abc import Callable

from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter, HTTPAdapter

from ._core.duration import Duration
from ._core.limit import Limits
from ._core.undecided import Answer
from ._core.verbs import Decider
from ._web.http import run
from ._web.outgoing import Outgoing

__all__ = ["LimitedAdapter"]


class LimitedAdapter(BaseAdapter):
    """An adapter of `requests.Session`. A request beyond the limits waits for its turn, or is not sent: it raises a
    `LimitedError`.

    The options are those of `redis_throttle.httpx.LimitedTransport`. `adapter` sends the requests: a
    `requests.adapters.HTTPAdapter`, if it is left out. It is closed with this one. A redirect that the session follows
    is a further request, which counts where it is mounted; what an adapter with `max_retries` repeats by itself does
    not count.
    """

    def __init__(self, limiter: Decider, limits: Limits, *, key: str | Callable[[PreparedRequest], str | None],
                 cost: Callable[[PreparedRequest], int] | None = None, max_wait: Duration | None = None, outage: Answer = "raise",
                 overload: Answer = "raise", mistake: Answer = "raise", adapter: BaseAdapter | None = None) -> None:
        super().__init__()
        self._outgoing: Outgoing[PreparedRequest] = Outgoing(limiter, limits, key, cost, max_wait, outage, overload, mistake, asynchronous=False)
        self._adapter = adapter or HTTPAdapter()

    def send(self, request: PreparedRequest, stream: bool = False, timeout: float | tuple[float | None, float | None] | None = None,
             verify: bool | str = True, cert: str | tuple[str, str] | None = None, proxies: dict[str, str] | None = None) -> Response:
        """Send a request when its limits allow it."""
        run(self._outgoing.steps(request))
        return self._adapter.send(request, stream=stream, timeout=timeout, verify=verify, cert=cert, proxies=proxies)

    def close(self) -> None:
        """Close the adapter behind."""
        self._adapter.close()
