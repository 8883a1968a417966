"""A base for Celery tasks that keep to limits in all workers together.

    class Mail(LimitedTask):
        throttle_limits = rate(10, "s")

    @app.task(base=Mail)
    def send(to): ...

A task that is limited comes back when it can run, without using up a retry. Under limits that are all rates it reserves
its units and comes back once, at its slot: two hundred tasks at ten a second ask two hundred times, and run in order.
Under other limits it asks again. With `throttle_wait` it first waits in line for so long, in the worker.

A broker gives a task to another worker, too, if it is not confirmed within its visibility timeout. So a task comes back
after half of that time at the latest, and asks again, or goes on waiting for the units that it has reserved.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import Any

from celery import Task
from celery.exceptions import Retry

from ._core.duration import FOREVER, Duration, milliseconds, nanoseconds
from ._core.errors import MistakeError
from ._core.limit import Limit, Limits, as_limits, policy
from ._core.result import LimitedError, Result
from ._core.undecided import Answer, Undecided
from ._core.verbs import Decider
from ._layers.policies import HASH, Policies
from ._limiter import Limiter
from ._server.doors import Commands, check

_RESERVED = "throttle_reserved"
"""The header of a task that has its units already, and comes back to run: its id, its retries, and when it may run."""
_SOON = timedelta(milliseconds=50)
"""A task that comes back so much too early runs: clocks of workers differ."""
_REDIS, _OTHERS = 3600.0, 1800.0
"""The visibility timeout of a broker that sets none, in seconds: that of Redis; and that of SQS, and of RabbitMQ until
a task is confirmed."""


class LimitedTask(Task):
    """A task that waits its turn, or comes back.

    The limiter is `throttle_limiter`, a `Limiter` or another decider; or one of `throttle_url`, `throttle_commands` and
    `throttle_poll`, or else of the app's settings of these names.

    `throttle_outage`, `throttle_overload` and `throttle_mistake` say what becomes of a task that could not be decided:
    `"allow"` runs it without a limit, `"deny"` has it come back after `throttle_pause`, and `"raise"` raises the error,
    which ends the task. By default tasks come back after an outage or an overload, as work that can wait keeps to its
    limits, and a mistake is raised. A task that is called directly, or eager, cannot come back: `"deny"` raises the
    error, too.
    """

    abstract = True

    throttle_limits: Limits = ()
    throttle_policy: str | None = None
    """The policy to which the limits belong, by which a hash changes them while workers run: see
    `redis_throttle.Policies`."""
    throttle_policies: str | None = None
    """The name of that hash, also in the app's settings: `throttle:policies`, if it is left out. A `throttle_limiter`
    reads its own."""
    throttle_limiter: Decider | None = None
    throttle_url: str | None = None
    throttle_commands: Commands | None = None
    """What the server is sent: `"auto"`, which is the default, `"module"` or `"functions"`."""
    throttle_poll: Duration | None = None
    """The longest pause between two questions of a task that waits in its worker where there is no module
    (`throttle_wait`)."""
    throttle_wait: Duration | None = None
    """How long a task waits in line in its worker before it is rescheduled: less than the visibility timeout of the
    broker."""
    throttle_reserve: Duration | None = "30m"
    """How far ahead a task reserves units of rates. With None it asks again instead."""
    throttle_outage: Answer = "deny"
    throttle_overload: Answer = "deny"
    throttle_mistake: Answer = "raise"
    throttle_pause: timedelta = timedelta(seconds=10)
    """After which time a task comes back that could not be decided."""
    throttle_jitter: timedelta = timedelta(seconds=1)
    """A task that has to ask again comes back up to so much later than it could run, so that tasks do not come back
    together."""

    _throttle: Limiter | None = None
    _answers: tuple[tuple[Answer, Answer, Answer], Undecided] | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Check the answers, which a task may have from its class or from the arguments of its decorator."""
        super().__init_subclass__(**arguments)
        cls._check_answers(cls.throttle_outage, cls.throttle_overload, cls.throttle_mistake)
        check(cls.throttle_commands or "auto", cls.throttle_poll)

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Check the answers that the app's annotations may have set."""
        super().on_bound(app)
        cls._check_answers(cls.throttle_outage, cls.throttle_overload, cls.throttle_mistake)
        check(cls.throttle_commands or "auto", cls.throttle_poll)

    @staticmethod
    def _check_answers(*answers: Answer) -> Undecided:
        if isinstance(answers[0], timedelta):
            raise ValueError('throttle_outage must be "allow", "deny" or "raise": throttle_pause says after which time a task comes back')
        return Undecided(*answers, names=("throttle_outage", "throttle_overload", "throttle_mistake"))

    @property
    def _undecided(self) -> Undecided:
        answers = self.throttle_outage, self.throttle_overload, self.throttle_mistake
        if self._answers is None or self._answers[0] != answers:
            self._answers = answers, self._check_answers(*answers)
        return self._answers[1]

    def throttle_key(self, *args: Any, **kwargs: Any) -> str:
        """Return the key for the arguments of a task: one for all of them, unless you choose otherwise."""
        return f"celery:{self.name}"

    def throttle_cost(self, *args: Any, **kwargs: Any) -> int:
        """Return how many units a task takes."""
        return 1

    @property
    def throttle(self) -> Limiter:
        """The limiter."""
        if self._throttle is None and self.throttle_limiter is not None:
            self._throttle = self.throttle_limiter if isinstance(self.throttle_limiter, Limiter) else Limiter(self.throttle_limiter)
        if self._throttle is None:
            url, commands, poll = (getattr(self, name) or self.app.conf.get(name) for name in ("throttle_url", "throttle_commands", "throttle_poll"))
            if not url:
                raise MistakeError("a limited task needs a throttle_url, of its own or in the app's settings")
            self._throttle = Limiter.from_url(url, commands=commands or "auto", poll=poll)
            if any(limit.policy_name for limit in self._limits()):
                hash = self.throttle_policies or self.app.conf.get("throttle_policies") or HASH
                self._throttle = Limiter(Policies(self._throttle, name=hash))
        return self._throttle

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task when its limits let it."""
        request = self.request
        if request.called_directly or request.is_eager:  # which cannot come back later
            try:
                limits, key, cost = self._ask_about(args, kwargs)
                result = self._in_line(key, limits, cost, FOREVER)
            except Exception as error:
                self._undecided.tell(error, "a task")
                if self._undecided.to(error) != "allow":
                    raise
            else:
                result.raise_if_limited()
            return super().__call__(*args, **kwargs)
        reserved = self._reserved_for()
        if reserved is not None and (ahead := timedelta(seconds=reserved - time.time())) > _SOON:
            raise self._later(ahead, f"its units are reserved for {ahead.total_seconds():g} s from now", args, kwargs, reserved)
        if reserved is None:
            try:
                limits, key, cost = self._ask_about(args, kwargs)
                result = self._admit(key, limits, cost)
            except Exception as error:
                self._undecided.tell(error, "a task")
                answer = self._undecided.to(error)
                if answer == "raise":
                    raise
                if answer == "deny":
                    raise self._later(self.throttle_pause + self._jitter(), str(error), args, kwargs) from error
                return super().__call__(*args, **kwargs)
            if result.limited:
                why = str(LimitedError(result))
                if result.retry_after is None:
                    raise MistakeError(why)  # it never can run
                raise self._later(self._pause(limits, result, result.retry_after), why, args, kwargs)
            if result.wait and self.throttle_wait is None:
                raise self._later(result.wait, f"its units are reserved for {result.wait.total_seconds():g} s from now", args, kwargs,
                                  time.time() + result.wait.total_seconds())
        return super().__call__(*args, **kwargs)

    def _ask_about(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Limit, ...], str, int]:
        limits = self._limits()
        if not limits:
            raise MistakeError(f"the task {self.name} is limited, and has no throttle_limits, such as rate(10, '1s')")
        return limits, self.throttle_key(*args, **kwargs), self.throttle_cost(*args, **kwargs)

    def _limits(self) -> tuple[Limit, ...]:
        limits = as_limits(self.throttle_limits, "throttle_limits")
        return policy(self.throttle_policy, *limits) if self.throttle_policy and limits else limits

    def _reserves(self, limits: tuple[Limit, ...]) -> bool:
        return self.throttle_wait is None and self.throttle_reserve is not None and all(limit.kind == "RATE" for limit in limits)

    def _admit(self, key: str, limits: tuple[Limit, ...], cost: int) -> Result:
        if self.throttle_wait is not None:
            return self._in_line(key, limits, cost, self.throttle_wait)
        return self.throttle.limit(key, *limits, cost=cost, max_wait=self.throttle_reserve if self._reserves(limits) else None)

    def _in_line(self, key: str, limits: tuple[Limit, ...], cost: int, timeout: Duration) -> Result:
        try:
            return self.throttle.wait(key, *limits, cost=cost, timeout=timeout)
        except LimitedError as error:
            return error.result

    def _jitter(self) -> timedelta:
        return random.random() * self.throttle_jitter

    def _pause(self, limits: tuple[Limit, ...], result: Result, after: timedelta) -> timedelta:
        """Return when a task that is limited asks again."""
        if self._reserves(limits) and not result.banned:
            # All that can be reserved is taken. The tasks behind spread over the time in which half of it becomes free.
            ahead = milliseconds(nanoseconds(self.throttle_reserve, "throttle_reserve") // 1_000_000)
            after = max(after, random.uniform(0.5, 1) * ahead)
        return after + self._jitter()

    def _mark(self) -> list[Any]:
        # A retry of the task itself, which has the headers of the try before, takes units of its own.
        return [self.request.id, self.request.retries]

    def _reserved_for(self) -> float | None:
        """Return when a task may run that has its units already, as a Unix time; None if it has none."""
        mark = self.request.get(_RESERVED)
        if not isinstance(mark, (list, tuple)) or list(mark[:2]) != self._mark():
            return None
        return float(mark[2]) if len(mark) > 2 else 0.0

    def _longest(self) -> float:
        """Return how long a task is sent away at most, in seconds: half of the time after which the broker gives it to
        another worker, too.

        A worker holds a task that is to run later without having confirmed it. RabbitMQ calls that time
        consumer_timeout.
        """
        visible = (self.app.conf.broker_transport_options or {}).get("visibility_timeout")
        if not isinstance(visible, (int, float)) or visible <= 0:
            visible = _REDIS if str(self.app.conf.broker_url or "").startswith(("redis", "sentinel", "rediss")) else _OTHERS
        return visible / 2

    def _later(self, after: timedelta, why: str, args: tuple[Any, ...], kwargs: dict[str, Any], reserved: float | None = None) -> Retry:
        """Send the task again, to run after a while. Its number of retries stays what it is. `reserved` is when it may
        run, as a Unix time."""
        request, countdown, longest = self.request, after.total_seconds(), self._longest()
        if countdown > longest:  # it asks again then; tasks with the same wait come apart
            countdown = longest * random.uniform(0.8, 1)
        headers = {name: value for name, value in (request.headers or {}).items() if name != _RESERVED}
        if reserved is not None:
            headers[_RESERVED] = [*self._mark(), reserved]
        again: Any = self.signature_from_request(request, args, kwargs, countdown=countdown, retries=request.retries, headers=headers)
        again.apply_async()
        return Retry(why, when=countdown)
