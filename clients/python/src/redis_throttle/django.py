"""Throttles for Django REST framework that need no cache: the server decides, in one call.

    REST_FRAMEWORK = {
        "DEFAULT_THROTTLE_CLASSES": ["redis_throttle.django.AnonRateThrottle",
                                     "redis_throttle.django.UserRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": "100/day", "user": "RATE 5/s BURST 20 FIXED 10000/d"},
    }
    REDIS_THROTTLE = {"URL": "redis://127.0.0.1:6379"}

A rate of the framework, such as `100/day`, is a window that is never exceeded. Any limits of CL.LIMIT go as well. A
count of 0 lets nobody through.

`REDIS_THROTTLE` has these options:

- `URL`, `TIMEOUT` and `OPTIONS`: the server, how long it may take to answer (`"200ms"`), and options for the library's
  client.
- `COMMANDS` and `POLL`: what the server is sent, `"auto"`, `"module"` or `"functions"`, and for calls of `limiter()`
  that wait where there is no module, the longest pause between two questions (`"200ms"`). See `redis_throttle.Remote`.
- `LIMITER`, in place of these: a `Limiter` or another decider, or the path of one, such as `"shop.limits.limiter"`.
- `POLICIES`: True, or the name of a hash, which changes the limits while the program runs: the policy of a throttle is
  its scope, or its attribute `policy`. A `LIMITER` has a `redis_throttle.Policies` of its own.
- `OUTAGE`, `OVERLOAD`, `MISTAKE`: what becomes of a request that could not be decided: `"allow"`, `"deny"` (status 503
  with Retry-After) or `"raise"`. By default it is allowed in an outage, denied in an overload, and the error of a
  mistake is raised.
- `TRUSTED` and `IPV6`: your proxies, and the length of the prefix by which IPv6 addresses count. See
  `redis_throttle.client_address`.
- `SKIP`: a list of addresses and networks whose clients are not limited, such as `["10.0.0.0/8", "127.0.0.1"]`.
  `TRUSTED` says who the client is, and `NUM_PROXIES` does not. For other requests return None from `get_cache_key`.

A response has `RateLimit` and `RateLimit-Policy`, one item for each limit of each throttle, called as its scope
(`"user"`), or with several limits `"user-1"`, `"user-2"` and so on.

Requests without a user count by the address of the client. The framework's setting `NUM_PROXIES`, where it is set, says
which entry of X-Forwarded-For that is; otherwise `TRUSTED` does. X-Forwarded-For is not read without either, as clients
can write it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import Any, Literal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from rest_framework import exceptions, throttling
from rest_framework.settings import api_settings

from ._core.limit import Limit, parse_limits, policy, window
from ._core.result import Result
from ._core.undecided import DEFAULTS, Undecided
from ._layers.policies import HASH, Policies
from ._limiter import Limiter
from ._server.doors import check
from ._web.address import Peer, client_address, within
from ._web.fields import header_fields
from ._web.http import check_decider, named

_OPTIONS = ("URL", "TIMEOUT", "OPTIONS", "COMMANDS", "POLL", "LIMITER", "POLICIES", "OUTAGE", "OVERLOAD", "MISTAKE", "TRUSTED", "IPV6", "SKIP")
_undecided: dict[tuple[Any, ...], Undecided] = {}


class Unavailable(exceptions.APIException):
    """A request that could not be decided, and that is denied: status 503."""

    status_code = 503
    default_detail = "The rate limit could not be checked."
    default_code = "unavailable"
    wait = 1
    """Seconds, for Retry-After."""


def _setting() -> dict[str, Any]:
    return getattr(settings, "REDIS_THROTTLE", None) or {}


def _skips() -> Callable[[Peer], bool]:
    """Return whether a request is of a client in the networks of `SKIP`."""
    setting = _setting()
    return within(setting.get("SKIP", ()), setting.get("TRUSTED", ()), "SKIP")


def _checked() -> Undecided:
    """Return what becomes of requests without a decision. A setting that is wrong is found when this module is
    imported, too."""
    setting = _setting()
    for option in setting:
        if option not in _OPTIONS:
            raise ImproperlyConfigured(f"REDIS_THROTTLE: {option!r} is none of {', '.join(_OPTIONS)}")
    if not isinstance(setting.get("POLICIES", False), (bool, str)):
        raise ImproperlyConfigured(f"REDIS_THROTTLE: POLICIES must be True, or the name of a hash, not {setting['POLICIES']!r}")
    answers = (setting.get("OUTAGE", DEFAULTS["outage"]), setting.get("OVERLOAD", DEFAULTS["overload"]), setting.get("MISTAKE", DEFAULTS["mistake"]))
    try:
        _skips()
        client_address("127.0.0.1", ipv6=setting.get("IPV6", 64))
        check(setting.get("COMMANDS", "auto"), setting.get("POLL"))
        made = _undecided.get(answers) or Undecided(*answers, names=("OUTAGE", "OVERLOAD", "MISTAKE"))
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"REDIS_THROTTLE: {error}") from None
    return _undecided.setdefault(answers, made)


@functools.cache
def limiter() -> Limiter:
    """Return the limiter of the setting REDIS_THROTTLE."""
    setting = _setting()
    given = setting.get("LIMITER")
    if (given is None) == ("URL" not in setting):
        raise ImproperlyConfigured('REDIS_THROTTLE must name the server, {"URL": "redis://127.0.0.1:6379"}, or have a LIMITER, and not both')
    if given is None:
        made = Limiter.from_url(setting["URL"], timeout=setting.get("TIMEOUT", "200ms"), commands=setting.get("COMMANDS", "auto"),
                                poll=setting.get("POLL"), options=setting.get("OPTIONS"))
        policies = setting.get("POLICIES", False)
        return Limiter(Policies(made, name=policies if isinstance(policies, str) else HASH)) if policies else made
    found = import_string(given) if isinstance(given, str) else given
    try:
        check_decider(found, asynchronous=False)
    except TypeError as error:
        raise ImproperlyConfigured(f"REDIS_THROTTLE: LIMITER: {error}") from None
    return found if isinstance(found, Limiter) else Limiter(found)


class SimpleRateThrottle(throttling.SimpleRateThrottle):
    """The framework's class of this name, decided by the server. Subclasses say the key, by `get_cache_key`, and the
    `scope`."""

    num_requests: int | None
    duration: int | None
    policy: str | None = None
    """The policy to which the limits belong: the scope, where `POLICIES` is set, unless another one is named here."""
    limits: tuple[Limit, ...] | None = None
    _parsed: tuple[int | None, int | None] = None, None
    _wait: float | None = None

    def parse_rate(self, rate: str | None) -> tuple[None, None] | tuple[int, int]:
        """Read a rate of the settings: of the framework, or limits as CL.LIMIT takes them."""
        self.limits, self._parsed = None, (None, None)
        if rate is None:
            return None, None
        if rate.split()[:1] and rate.split()[0].upper() in ("RATE", "WINDOW", "FIXED"):
            self.limits = parse_limits(rate)
            self._parsed = count, seconds = self.limits[0].capacity, int(self.limits[0].seconds)
            return count, seconds
        count, seconds = super().parse_rate(rate)
        if count is None or seconds is None:
            raise ImproperlyConfigured(f"{rate!r} is not a rate")
        self.limits, self._parsed = (window(count, f"{seconds}s"),), (count, seconds)
        return count, seconds

    def _asked(self) -> tuple[Limit, ...]:
        """Return the limits, with their policy."""
        name = self.policy or (getattr(self, "scope", None) if _setting().get("POLICIES") else None)
        return policy(name, *self._said()) if name else self._said()

    def _said(self) -> tuple[Limit, ...]:
        """Return the limits. A class may say them by `num_requests` and `duration`, or by a `parse_rate` of its own, as
        the framework's do."""
        count, seconds = getattr(self, "num_requests", None), getattr(self, "duration", None)
        if self.limits is not None and (count, seconds) == self._parsed:
            return self.limits
        if count is None or seconds is None:
            raise ImproperlyConfigured(f"{type(self).__name__}: the rate {self.rate!r} says neither limits nor a number of requests and seconds")
        return (window(count, f"{seconds}s"),)

    def get_ident(self, request: Any) -> str:
        """Return the address of the client, as a key: that of its network for IPv6."""
        setting = _setting()
        ipv6, trusted = setting.get("IPV6", 64), setting.get("TRUSTED", ())
        if api_settings.NUM_PROXIES is None:
            return client_address(request.META, ipv6=ipv6, trusted=trusted)
        if trusted:
            raise ImproperlyConfigured("TRUSTED of REDIS_THROTTLE and NUM_PROXIES of REST_FRAMEWORK both say which proxies there are: set one")
        return client_address(super().get_ident(request) or "", ipv6=ipv6)

    def allow_request(self, request: Any, view: Any) -> bool:
        """Return whether a request may go ahead. Without a decision it may, is answered with status 503, or the error
        is raised."""
        if self.rate is None:
            return True
        undecided = _checked()
        if _skips()(request.META):
            return True
        try:
            key = self.get_cache_key(request, view)
            if key is None:
                return True
            limits = self._asked()
            result = limiter().limit(key, *limits, each=len(limits) > 1)
            self._tell(request, view, limits, result)
        except Exception as error:
            undecided.tell(error)
            answer = undecided.to(error)
            if answer == "raise":
                raise
            if answer == "deny":
                raise Unavailable from error
            return True
        self._wait = None if result.retry_after is None else result.retry_after.total_seconds()
        return self.throttle_success() if result.allowed else self.throttle_failure()

    def _tell(self, request: Any, view: Any, limits: tuple[Limit, ...], result: Result) -> None:
        """Add to the header fields of the response, which the framework takes from the view, also for one that is
        denied."""
        headers = getattr(view, "headers", None)
        if not isinstance(headers, MutableMapping):  # of a view of one's own
            return
        scope = getattr(self, "scope", None) or ""
        if isinstance(scope, str) and scope and scope.isascii() and scope.isprintable():
            names = [scope] if len(limits) == 1 else [f"{scope}-{n}" for n in range(1, len(limits) + 1)]
            limits = tuple(limit if limit.name or limit.policy_name else limit.replace(name=name) for limit, name in zip(limits, names, strict=True))
        # Retry-After is the framework's, which takes the longest of its throttles.
        for name, value in header_fields(named(request, (limits,), result), result):
            if name != "Retry-After":
                headers[name] = f"{headers[name]}, {value}" if name in headers else value

    def throttle_success(self) -> Literal[True]:
        """Let the request through. The server has counted it."""
        return True

    def wait(self) -> float | None:
        """Return how long the caller has to wait, in seconds."""
        return self._wait


class AnonRateThrottle(SimpleRateThrottle, throttling.AnonRateThrottle):
    """Limits requests without a user, by address."""


class UserRateThrottle(SimpleRateThrottle, throttling.UserRateThrottle):
    """Limits requests by user, or by address without one."""


class ScopedRateThrottle(SimpleRateThrottle, throttling.ScopedRateThrottle):
    """Limits requests by the `throttle_scope` of the view, and by user or address."""

    def allow_request(self, request: Any, view: Any) -> bool:
        """Return whether a request may go ahead."""
        self.scope: Any = getattr(view, self.scope_attr, None)
        if not self.scope:
            return True
        self.rate: Any = self.get_rate()
        parsed = self.parse_rate(self.rate)
        self.num_requests: int | None = parsed[0]
        self.duration: int | None = parsed[1]
        return SimpleRateThrottle.allow_request(self, request, view)


_checked()
