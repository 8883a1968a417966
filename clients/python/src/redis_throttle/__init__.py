"""Exact rate limits, quotas and leases that processes share through Redis or Valkey with the module redis-throttle.

    from redis_throttle import Limiter, rate, fixed

    limiter = Limiter.from_url("redis://127.0.0.1:6379")
    result = limiter.limit("user:42", rate(5, "s", burst=10), fixed(100_000, "mo"))
    if result.limited:
        print("try again in", result.retry_after)

All limits of a call are decided at one instant, all or nothing, in one round trip. `redis_throttle.asyncio` has the same for asyncio.
"""

from ._address import client_address
from ._admission import Admission
from ._batched import Batched
from ._cached import Cached
from ._call import Call, Charge, Key, Keys
from ._connect import connect
from ._duration import FOREVER, Duration
from ._errors import (
    LeaseLostError,
    MistakeError,
    OutageError,
    OverloadError,
    ThrottleError,
    is_outage,
    is_overload,
)
from ._guard import Guard
from ._lease import Lease
from ._limit import Limit, Limits, Slots, fixed, parse_limits, rate, window
from ._limiter import Limiter
from ._observed import Decision, Observed
from ._remote import Remote
from ._result import LimitedError, Result
from ._retry import until_retry
from ._verbs import Decider

__all__ = [
    "FOREVER",
    "Admission", "Batched",
    "Cached",
    "Call",
    "Charge",
    "Decider", "Decision",
    "Duration",
    "Guard",
    "Key",
    "Keys",
    "Lease",
    "LeaseLostError",
    "Limit",
    "LimitedError",
    "Limiter",
    "Limits",
    "MistakeError", "Observed",
    "OutageError",
    "OverloadError",
    "Remote",
    "Result",
    "Slots",
    "ThrottleError",
    "client_address",
    "connect",
    "fixed",
    "is_outage",
    "is_overload",
    "parse_limits",
    "rate",
    "until_retry",
    "window",
]
