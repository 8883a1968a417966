"""A guard: a decider that survives an outage of the one behind it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Literal, get_args

from .._core.call import Call, Key
from .._core.duration import Duration, nanoseconds, seconds
from .._core.errors import LeftAloneError, MistakeError, OutageError, is_outage, replied
from .._core.forked import unlocked_in_children
from .._core.limit import Limit
from .._core.result import Result
from .._core.steps import Steps, run, run_async
from .._core.undecided import log
from .._core.verbs import AsyncDecider, Decider
from .breaker import Breaker, Outcome
from .engine import Engine
from .layer import AsyncLayer, Layer, behind, check_counts

Policy = Literal["fail", "open", "closed", "local"]
"""What becomes of a call while the server is away."""

_NEW = ("limit", "peek", "wait", "lease")
"""The verbs that decide something new. What is about the state on the server fails with the outage."""


class _Guarding:
    """What the guards for threads and for asyncio share: all that does not wait."""

    def __init__(self, next: object, *, policy: Policy, processes: int, never_more: bool, keys: int, node: Callable[[str], str] | None, failures: int,
                 pause: Duration, is_outage: Callable[[BaseException], bool], on_change: Callable[[str, Exception | None], object] | None) -> None:
        if policy not in get_args(Policy):
            raise ValueError(f'policy must be "fail", "open", "closed" or "local", not {policy!r}')
        check_counts(processes=processes, keys=keys, failures=failures)
        if policy != "local" and (processes != 1 or never_more):
            raise ValueError("processes and never_more are for the policy local: the other policies know no limits")
        self._next = next = behind(getattr(next, "_behind_its_guard", next), "Remote(client)")
        self._policy, self._is_outage, self._on_change = policy, is_outage, on_change
        self._failures, self._pause = failures, seconds(pause, "pause")
        self._node = node or getattr(next, "node_of", None)
        self._nodes: dict[str, _Node] = {}
        self._local = _Local(processes, never_more, keys) if policy == "local" else None
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")
        self._changes: deque[tuple[str, Exception | None]] = deque()
        self._telling = False
        self._began: dict[str, float] = {}
        self._instead = 0

    @property
    def out(self) -> bool:
        """Whether a server is left alone, or just being tried again."""
        return any(node.breaker.out for node in list(self._nodes.values()))

    def _node_of(self, call: Call) -> _Node:
        name = self._node(call.keys[0].name) if self._node else ""
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes.setdefault(name, _Node(name, Breaker(self._failures, self._pause)))
        return found

    def _steps(self, call: Call) -> Steps:
        here = self._local.leased(call) if self._local else None
        node = self._node_of(call)
        try:
            result = yield from self._try(node, call)
        except Exception as error:
            if here is not None:  # the server does not know the lease
                return here
            if not isinstance(error, LeftAloneError) and not self._is_outage(error):
                raise
            if isinstance(error, OutageError):
                error._told = error._told or node.breaker.out
            return self._decide(node, call, error)
        else:
            if here is not None and not _found(call, result):
                return here
            if result.by == "server" and len(self._nodes) > 1:
                self._replace(node)
            return result
        finally:
            self._tell()

    def _try(self, node: _Node, call: Call) -> Steps:
        """Send a call, if the breaker lets it. For one that waits, another one tries a server that was away."""
        while True:
            entered = node.breaker.enter()
            if entered is None:
                raise node.left_alone()
            probes = _waits(call) and node.breaker.out
            sent = _probe(call) if probes else call
            try:
                result = yield sent
            except BaseException as error:
                outcome = self._judge(node, sent, error)
                self._leave(node, entered, outcome)
                if probes and outcome == "success":  # the server is back, even if the user may not send what tried it
                    continue
                raise
            outcome = "success" if result.by == "server" else None
            self._leave(node, entered, outcome)
            if not probes or (sent.verb == "lease" and not result.limited):
                return result
            if outcome is None:  # the decider behind needs no server
                return (yield call)

    def _judge(self, node: _Node, call: Call, error: BaseException) -> Outcome:
        if not isinstance(error, Exception) or not self._is_outage(error):
            return "success" if replied(error) and node.breaker.out else None
        together = getattr(error, "_together", None)
        if together is not None:
            if together in node.failed:
                node.breaker.failed_together()
                return None
            node.failed.append(together)
        node.last, node.key = error, call.keys[0].name
        return "failure"

    def _leave(self, node: _Node, entered: int, outcome: Outcome) -> None:
        state = node.breaker.leave(entered, outcome)
        if state in ("open", "closed") and not node.gone:
            with self._lock:
                self._change(node, state == "open")

    def _change(self, node: _Node, out: bool) -> None:
        """Note that an outage begins or ends. The attempts in between are nobody's business."""
        if node.out == out:
            return
        node.out = out
        self._changes.append((node.name, node.last if out else None))

    def _replace(self, by: _Node) -> None:
        """End the outages of nodes whose keys another one has now, which has just answered: nobody calls them any
        more."""
        assert self._node is not None
        for name, node in list(self._nodes.items()):
            if node is not by and node.out and self._node(node.key) == by.name:
                with self._lock:
                    if self._nodes.pop(name, None) is node:
                        node.gone = True
                        self._change(node, False)

    def _decide(self, node: _Node, call: Call, outage: Exception) -> Result:
        """Return what the policy makes of an outage, or raise it."""
        self._instead += 1
        if call.verb not in _NEW or self._policy == "fail":
            raise outage
        name = call.keys[0].name
        if self._policy == "open":
            return Result(key=name, by="policy")
        retry = timedelta(seconds=node.breaker.until_retry())
        if self._policy == "closed":
            return Result(limited=True, key=name, retry_after=retry, by="policy")
        assert self._local is not None
        return self._local.decide(call, retry)

    def _tell(self) -> None:
        """Tell of changes, in order. One caller at a time does, without the lock: `on_change` may call the guard."""
        if not self._changes:
            return
        with self._lock:
            if self._telling:
                return
            self._telling = True
        try:
            while self._changes:
                name, outage = self._changes.popleft()
                if self._on_change is None:
                    self._log(name, outage)
                else:
                    self._on_change(name, outage)
        finally:
            self._telling = False

    def _log(self, name: str, outage: Exception | None) -> None:
        node = f" (node {name})" if name else ""
        if outage is not None:
            self._began[name] = time.monotonic()
            log.error("Redis is out of reach%s: the policy is %s until it is back: %s", node, self._policy, outage)
            return
        after, instead = time.monotonic() - self._began.pop(name, time.monotonic()), self._instead
        self._instead = 0
        log.warning("Redis is back%s after %.1f s: %d calls were decided without it", node, after, instead)


class Guard(_Guarding, Layer):
    """Protects a service from an outage of Redis. After a few failures a circuit breaker stops calling the server, so
    that a dead server costs microseconds instead of a timeout, and a policy decides until it is back.

        limiter = Limiter(Guard(Remote(client), policy="local", processes=8))

    A `Limiter` on a client has one with the policy `"fail"`. `policy` is

    - `"fail"`: an `OutageError` at once. The caller decides, such as a middleware by its `outage`.
    - `"open"`: everything is let through. Nothing is known of the limits: the numbers of the `Result` are 0.
    - `"closed"`: everything is limited. `retry_after` is the time until the server is tried again.
    - `"local"`: the same limits decide in this process, divided by `processes`: a rate is that many times as slow,
      counts are rounded down but not below 1, so each process has at least one unit of each limit. With `never_more` a
      limit that is smaller than `processes` has no unit for anybody meanwhile. `keys` is how many keys are remembered.
      At each change the limits are full once more.

    `Result.by` is then `"policy"` or `"local"`. The policy decides limits, peeks, waits, leases and admissions. Nobody
    stands in line meanwhile: with `"local"` a wait is limited where a limit would be. What is about the state on the
    server raises the outage: refunds, bans, resets, and the renewal, release and settlement of leases that the server
    granted.

    `failures` calls in a row open the breaker, or four times as many in ten seconds if at least half of all calls
    failed. After `pause` one call tries the server; one that waits never does. In a cluster each node has a breaker;
    `node` says which node has a key, by default as the client knows it. Only outages count (`is_outage`): a mistake, an
    overload of this process, and a caller that is cancelled say nothing about the server. `on_change` is called with
    the name of a node and the error that began an outage, or None at its end; without it both are a line of the log.
    """

    def __init__(self, next: Decider, *, policy: Policy = "fail", processes: int = 1, never_more: bool = False, keys: int = 100_000,
                 node: Callable[[str], str] | None = None, failures: int = 5, pause: Duration = "1s",
                 is_outage: Callable[[BaseException], bool] = is_outage, on_change: Callable[[str, Exception | None], object] | None = None) -> None:
        super().__init__(next, policy=policy, processes=processes, never_more=never_more, keys=keys, node=node, failures=failures, pause=pause,
                         is_outage=is_outage, on_change=on_change)

    def decide(self, call: Call, /) -> Result:
        """Ask the decider behind, unless its server is left alone. In an outage the policy decides."""
        return run(self._steps(call), self._next.decide)


class AsyncGuard(_Guarding, AsyncLayer):
    """As `redis_throttle.Guard`, for asyncio."""

    def __init__(self, next: AsyncDecider, *, policy: Policy = "fail", processes: int = 1, never_more: bool = False, keys: int = 100_000,
                 node: Callable[[str], str] | None = None, failures: int = 5, pause: Duration = "1s",
                 is_outage: Callable[[BaseException], bool] = is_outage, on_change: Callable[[str, Exception | None], object] | None = None) -> None:
        super().__init__(next, policy=policy, processes=processes, never_more=never_more, keys=keys, node=node, failures=failures, pause=pause,
                         is_outage=is_outage, on_change=on_change)

    async def decide(self, call: Call, /) -> Result:
        """Ask the decider behind, unless its server is left alone. In an outage the policy decides."""
        return await run_async(self._steps(call), self._next.decide)


class _Node:
    """A server and its breaker."""

    def __init__(self, name: str, breaker: Breaker) -> None:
        self.name, self.breaker = name, breaker
        self.last: Exception = OutageError("nothing is known")
        self.key = ""
        self.out = self.gone = False
        self.failed: deque[object] = deque(maxlen=16)
        """What the last calls that failed as one had in common."""

    def left_alone(self) -> LeftAloneError:
        error = LeftAloneError(f"the server is left alone for a while, after: {self.last}")
        error._told = True
        error.__cause__ = self.last
        return error


def _waits(call: Call) -> bool:
    return call.timeout is not None


def _probe(call: Call) -> Call:
    """Return a call that is answered at once, and that tries the server for one that waits. A lease that it takes is
    the answer."""
    if call.verb == "wait":
        return Call("peek", call.keys, cost=call.cost)
    return call.at_once()


def _found(call: Call, result: Result) -> bool:
    """Whether a call that renews, releases or settles a lease found it."""
    return not result.limited and (call.verb != "release" or result.granted != 0)


class _Local:
    """Decides by this process's part of the limits."""

    def __init__(self, processes: int, never_more: bool, keys: int) -> None:
        self._processes, self._least = processes, 0 if never_more else 1
        self._engine = Engine(keys)
        self._epoch = time.time_ns() - time.monotonic_ns()
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")

    def _run(self, call: Call, engine: Engine | None = None) -> Result:
        with self._lock:
            reply = (engine or self._engine).run(call, self._epoch + time.monotonic_ns())
        return replace(call.result(reply), by="local")

    def leased(self, call: Call) -> Result | None:
        """Renew, release or settle leases that were taken in this process, also when the server is back. None is any
        other call."""
        if call.verb not in ("renew", "release", "settle") or not any(self._engine.knows(key.name) for key in call.keys):
            return None
        with contextlib.suppress(MistakeError):
            result = self._run(call)
            if _found(call, result):
                return result
        return None

    def decide(self, call: Call, retry: timedelta) -> Result:
        """Decide a call. Where the part is too small for it, the answer is to come back when the server is tried
        again."""
        if call.verb == "wait":
            call = Call("limit", call.keys, cost=call.cost, each=call.each)
        elif call.verb == "lease":
            call = call.at_once()
        part = self._part(call)
        result = None if part is None else self._run(part)
        if result is not None and (not result.limited or result.retry_after is not None):
            return result
        whole = self._run(call, Engine())
        if result is None:
            result = whole
        if whole.limited and whole.retry_after is None:
            return result
        return replace(result, limited=True, granted=0, retry_after=retry, reset_after=max(result.reset_after, retry), next_after=max(result.next_after, retry))

    def _part(self, call: Call) -> Call | None:
        """Return a call on this process's part of the limits; None if there is no part of one."""
        if self._processes == 1:
            return call
        keys = []
        for key in call.keys:
            limits = tuple(self._part_of(limit) for limit in key.limits)
            slots = self._share(key.slots) if key.slots else 0
            if None in limits or (key.slots and not slots):
                return None
            keys.append(Key(key.name, tuple(limit for limit in limits if limit is not None), slots, key.ttl, key.leased))
        return replace(call, keys=tuple(keys))

    def _share(self, units: int) -> int:
        return max(units // self._processes, self._least)

    def _part_of(self, limit: Limit) -> Limit | None:
        spare = -(-limit.spare // self._processes)
        if not limit.count:
            return limit.replace(spare=spare)
        if limit.kind != "RATE":
            count = self._share(limit.count)
            return limit.replace(count=count, spare=spare) if count else None
        capacity = self._share(limit.capacity)
        if not capacity:
            return None
        if limit.count % self._processes == 0:
            return limit.replace(count=limit.count // self._processes, burst=capacity, spare=spare)
        period = nanoseconds(limit.period, "period") * self._processes
        if period > 2**63 - 1:
            return None
        whole, rest = divmod(period, 1_000_000)
        return limit.replace(period=f"{whole}.{rest:06d}ms" if rest else f"{whole}ms", burst=capacity, spare=spare)
