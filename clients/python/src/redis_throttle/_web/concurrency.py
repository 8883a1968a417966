"""What the middlewares share that limit how many requests are served at a time: each holds a lease while it is
served."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from .._core.duration import Duration, nanoseconds
from .._core.result import LimitedError, Result
from .._core.undecided import Answer
from .address import Network, Peer, client_address, networks
from .fields import retry_after_fields
from .http import PROBLEM, Body, Failures, Now, Outcome, Skip, Steps, check_functions, denied, of_itself, refuse_unused, skipping

Request = TypeVar("Request")

LEASE = "redis_throttle.lease"
"""Where the lease of a request is: in the scope of ASGI, the environ of WSGI."""

_SOON = timedelta(seconds=1)
_PROBLEM = json.dumps({"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded", "status": 429,
                       "detail": "Too many requests are served at the same time."}).encode() + b"\n"


class Concurrency(Generic[Request]):
    """Which requests need a slot, and what becomes of one that has none. See `redis_throttle.asgi.Concurrency`."""

    def __init__(self, lease: Callable[..., Any], slots: int | Callable[[Request], Now[int]], *, name: str,
                 key: Callable[[Request], Now[str | None]] | None, ipv6: int, trusted: Iterable[str | Network], ttl: Duration,
                 timeout: Duration | None, outage: Answer, overload: Answer, mistake: Answer, retry_after: Duration | None,
                 on_error: Callable[[Request, Exception], object] | None, skip: Skip[Request] | None,
                 body: Callable[[Request, Result], Now[Body]] | None) -> None:
        if not callable(slots) and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
            raise ValueError(f"slots must be an integer of at least 1, or a function of the request, not {slots!r}")
        if key is client_address:
            key = None
        check_functions(key=key, on_error=on_error, body=body)
        self._trusted = networks(trusted)
        client_address("127.0.0.1", ipv6=ipv6)
        if key is not None:
            refuse_unused(name, ipv6, self._trusted, skip, "key")
        if nanoseconds(ttl, "ttl") < 1_000_000_000:
            raise ValueError(f"ttl must be at least a second, so that a busy process renews it in time, not {ttl!r}")
        if timeout is not None and nanoseconds(timeout, "timeout") <= 0:
            raise ValueError(f"timeout must be a length of time, or None for no waiting, not {timeout!r}")
        self._lease, self._slots, self._name, self._key, self._ipv6 = lease, slots, name, key, ipv6
        self._ttl, self._timeout, self._body = ttl, timeout, body
        self._skip = skipping(skip, self._trusted, of_itself)
        self._failures: Failures[Request] = Failures(outage, overload, mistake, retry_after, on_error)

    def begin(self, request: Request) -> Steps[Outcome | Any]:
        """Return the lease that a request holds, once it holds it, or the outcome of one that has none."""
        try:
            if self._skip is not None and (yield self._skip(request)):
                return Outcome()
            if self._key is None:
                name: Any = f"http:{self._name or 'concurrency'}:{client_address(cast(Peer, request), ipv6=self._ipv6, trusted=self._trusted)}"
            else:
                name = yield self._key(request)
            if name is None:
                return Outcome()
            slots = self._slots if isinstance(self._slots, int) else (yield self._slots(request))
            lease = self._lease(name, slots=slots, ttl=self._ttl, timeout=self._timeout)
            try:
                yield lease.take()
            except LimitedError as error:
                if error.result.by == "policy":
                    return self._failures.by_policy(error.result)
                # A slot is free whenever a request ends, which no server knows.
                content_type, body = (PROBLEM, _PROBLEM) if self._body is None else (yield self._body(request, error.result))
                return denied(tuple(retry_after_fields(_SOON)), content_type, body)
            return lease
        except Exception as error:
            return (yield from self._failures.failed(request, error))
