"""Exact rate limits, quotas and leases that processes share through Redis or Valkey with the module redis-throttle.

    from redis_throttle import Limiter, rate, fixed

    limiter = Limiter.from_url("redis://127.0.0.1:6379")
    result = limiter.limit("user:42", rate(5, "s", burst=10), fixed(100_000, "mo"))
    if result.limited:
        print("try again in", result.retry_after)

All limits of a call are decided at one instant, all or nothing, in one round trip. `redis_throttle.asyncio` has the
same for asyncio.
"""

from ._core.call import Call, Charge, Key, Keys
from ._core.duration import FOREVER, Duration
from ._core.errors import (
    LeaseLostError,
    MistakeError,
    OutageError,
    OverloadError,
    ThrottleError,
    is_outage,
    is_overload,
)
from ._core.inspection import HeldLimit, Inspection
from ._core.limit import Limit, Limits, Slots, fixed, parse_limits, policy, rate, window
from ._core.result import Applied, LimitedError, Result
from ._core.verbs import Decider
from ._layers.batched import Batched
from ._layers.cached import Cached
from ._layers.guard import Guard
from ._layers.observed import Decision, Observed
from ._layers.policies import Policies
from ._leases.admission import Admission
from ._leases.lease import Lease
from ._leases.retry import until_retry
from ._limiter import Limiter
from ._server.connect import connect
from ._server.remote import Remote
from ._web.address import client_address, from_networks

__all__ = [
    "FOREVER",
    "Admission",
    "Applied",
    "Batched",
    "Cached",
    "Call",
    "Charge",
    "Decider",
    "Decision",
    "Duration",
    "Guard",
    "HeldLimit",
    "Inspection",
    "Key",
    "Keys",
    "Lease",
    "LeaseLostError",
    "Limit",
    "LimitedError",
    "Limiter",
    "Limits",
    "MistakeError",
    "Observed",
    "OutageError",
    "OverloadError",
    "Policies",
    "Remote",
    "Result",
    "Slots",
    "ThrottleError",
    "client_address",
    "connect",
    "fixed",
    "from_networks",
    "is_outage",
    "is_overload",
    "parse_limits",
    "policy",
    "rate",
    "until_retry",
    "window",
]
