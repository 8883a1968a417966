"""A base for Celery tasks that keep to limits in all workers together.

    class Mail(LimitedTask):
        throttle_limits = rate(10, "s")

    @app.task(base=Mail)
    def send(to): ...

A task that is limited reschedules itself for when it can run, without using up a retry. With `throttle_wait` it first waits in
line for so long, in the worker.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from celery import Task
from celery.exceptions import Retry

from .duration import FOREVER, Duration
from .errors import LimitedError, MistakeError, OutageError
from .limit import Limits, as_limits
from .limiter import Limiter
from .result import Result


class LimitedTask(Task):
    """A task that waits its turn, or reschedules itself.

    The limiter is that of `throttle_url`, or else of the app's setting `throttle_url`. In an outage of Redis the task is
    rescheduled in `throttle_outage`: work that can wait keeps to its limits.
    """

    abstract = True

    throttle_limits: Limits = ()
    throttle_url: str | None = None
    throttle_wait: Duration | None = None
    """How long a task waits in line in its worker before it is rescheduled: less than the visibility timeout of the broker."""
    throttle_outage: timedelta = timedelta(seconds=10)
    throttle_jitter: timedelta = timedelta(seconds=1)
    """A task is rescheduled up to so much later than it could run, so that tasks do not come back together."""

    _throttle: Limiter | None = None

    def throttle_key(self, *args: Any, **kwargs: Any) -> str:
        """Return the key for the arguments of a task: one for all of them, unless you choose otherwise."""
        return f"celery:{self.name}"

    def throttle_cost(self, *args: Any, **kwargs: Any) -> int:
        """Return how many units a task takes."""
        return 1

    @property
    def throttle(self) -> Limiter:
        """The limiter."""
        if self._throttle is None:
            url = self.throttle_url or self.app.conf.get("throttle_url")
            if not url:
                raise MistakeError("a limited task needs a throttle_url, of its own or in the app's settings")
            self._throttle = Limiter.from_url(url)
        return self._throttle

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task when its limits let it."""
        limits = as_limits(self.throttle_limits, "throttle_limits")
        key, cost = self.throttle_key(*args, **kwargs), self.throttle_cost(*args, **kwargs)
        request = self.request
        if request.called_directly or request.is_eager:  # which cannot come back later
            self.throttle.wait(key, *limits, cost=cost, timeout=FOREVER).raise_if_limited()
            return super().__call__(*args, **kwargs)
        try:
            result = self._admit(key, limits, cost)
        except OutageError as error:
            raise self._later(self.throttle_outage, str(error), args, kwargs) from error
        if result.limited:
            why = str(LimitedError(result))
            if result.retry_after is None:
                raise MistakeError(why)  # it never can run
            raise self._later(result.retry_after, why, args, kwargs)
        return super().__call__(*args, **kwargs)

    def _admit(self, key: str, limits: Any, cost: int) -> Result:
        if self.throttle_wait is None:
            return self.throttle.limit(key, *limits, cost=cost)
        return self.throttle.wait(key, *limits, cost=cost, timeout=self.throttle_wait)

    def _later(self, after: timedelta, why: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Retry:
        """Send the task again, to run after a while. Its number of retries stays what it is."""
        countdown = after.total_seconds() + random.uniform(0, self.throttle_jitter.total_seconds())
        request = self.request
        again: Any = self.signature_from_request(request, args, kwargs, countdown=countdown, retries=request.retries)
        again.apply_async()
        return Retry(why, when=countdown)
