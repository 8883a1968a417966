"""Throttles for Django REST framework that need no cache: the server decides, in one call.

    REST_FRAMEWORK = {
        "DEFAULT_THROTTLE_CLASSES": ["redis_throttle.django.AnonRateThrottle", "redis_throttle.django.UserRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": "100/day", "user": "RATE 5/s BURST 20 FIXED 10000/d"},
    }
    REDIS_THROTTLE = {"URL": "redis://127.0.0.1:6379"}

A rate of the framework, such as `100/day`, is a window that is never exceeded. Any limits of CL.LIMIT go as well.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from rest_framework import throttling

from .errors import OutageError
from .limit import Limit, parse_limits, window
from .limiter import Limiter

log = logging.getLogger("redis_throttle")


@functools.cache
def limiter() -> Limiter:
    """Return the limiter of the setting REDIS_THROTTLE: its URL, and OPTIONS for the library's client."""
    setting = getattr(settings, "REDIS_THROTTLE", None) or {}
    if "URL" not in setting:
        raise ImproperlyConfigured('REDIS_THROTTLE must name the server: {"URL": "redis://127.0.0.1:6379"}')
    return Limiter.from_url(setting["URL"], **setting.get("OPTIONS", {}))


class SimpleRateThrottle(throttling.SimpleRateThrottle):
    """The framework's class of this name, decided by the server. Subclasses say the key, by `get_cache_key`, and the `scope`."""

    limits: tuple[Limit, ...] | None = None
    _wait: float | None = None

    def parse_rate(self, rate: str | None) -> tuple[None, None] | tuple[int, int]:
        """Read a rate of the settings: of the framework, or limits as CL.LIMIT takes them."""
        if rate is None:
            self.limits = None
            return None, None
        if rate.split()[0].upper() in ("RATE", "WINDOW", "FIXED"):
            self.limits = parse_limits(rate)
            return self.limits[0].capacity, int(self.limits[0].seconds)
        count, seconds = super().parse_rate(rate)
        if count is None or seconds is None:
            raise ImproperlyConfigured(f"{rate!r} is not a rate")
        self.limits = (window(count, f"{seconds}s"),)
        return count, seconds

    def allow_request(self, request: Any, view: Any) -> bool:
        """Return whether a request may go ahead. In an outage of Redis it may, unless REDIS_THROTTLE has "OUTAGE": "deny"."""
        if self.rate is None or self.limits is None:
            return True
        key = self.get_cache_key(request, view)
        if key is None:
            return True
        try:
            result = limiter().limit(key, *self.limits)
        except OutageError as error:
            log.error("outage: a request could not be checked against its rate limit: %s", error)
            return bool(getattr(settings, "REDIS_THROTTLE", {}).get("OUTAGE", "let through") != "deny")
        self._wait = None if result.retry_after is None else result.retry_after.total_seconds()
        return result.allowed

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
        self.scope = getattr(view, self.scope_attr, None)
        if not self.scope:
            return True
        self.rate = self.get_rate()
        self.parse_rate(self.rate)
        return SimpleRateThrottle.allow_request(self, request, view)
