"""What the middlewares share: which limits a request counts for, what becomes of it, and what its response says.

A request that is denied gets status 429 with Retry-After and a problem document (RFC 9457).
"""

from __future__ import annotations

import inspect
import json
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union, cast

from .._core.call import Call, many, one
from .._core.duration import Duration, nanoseconds
from .._core.duration import seconds as seconds_of
from .._core.limit import Limit, Limits, as_limits, check_name, denials, label, policy_of
from .._core.limit import policy as of_policy
from .._core.result import Result, in_force
from .._core.undecided import DEFAULTS, Answer, Undecided, log
from .._core.verbs import AsyncDecider, Decider
from .address import Network, Peer, client_address, networks, within
from .fields import Header, Policies, XRateLimit, apart, header_fields, seconds

Request = TypeVar("Request")
T = TypeVar("T")
Now = Union[T, Awaitable[T]]  # noqa: UP007 a type alias of T
"""What a function returns: a value, or in asyncio something to await that gives one."""

Skip = Union[Callable[[Request], Now[bool]], Iterable[Union[str, Network]]]  # noqa: UP007 a type alias of Request
"""Which requests are left alone: a function says so, or addresses and networks of clients."""

PROBLEM = "application/problem+json"
"""The Content-Type of a problem document."""

Body = tuple[str, bytes]
"""The Content-Type and the bytes of a response."""
Steps = Generator[Any, Any, T]
"""A decision in steps: each value that it yields is sent back, awaited if it has to be."""


def check_decider(decider: object, asynchronous: bool) -> None:
    """Refuse what decides nothing, or decides in the other way: a middleware of asyncio must not block, and another one
    cannot await."""
    decide = getattr(decider, "decide", None)
    if not callable(decide):
        raise TypeError(f"limiter must be a Limiter or another decider, not {decider!r}")
    if inspect.iscoroutinefunction(decide) == asynchronous:
        return
    if asynchronous:
        raise TypeError("limiter must be one of redis_throttle.asyncio, which does not block the other requests: its decide is an async def")
    raise TypeError("limiter must be a redis_throttle.Limiter or another decider of threads, not one of asyncio")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a request: it is answered with a status, or goes ahead (None), and its response gets the header
    fields."""

    status: Literal[429, 503] | None = None
    fields: tuple[Header, ...] = ()
    body: bytes = b""


def unavailable(retry_after: int) -> Outcome:
    """Return the outcome of a request that is turned away without a decision. `retry_after` is in seconds; 0 is
    none."""
    body = b"Service Unavailable\n"
    after = [("Retry-After", str(retry_after))] if retry_after else []
    return Outcome(503, (*after, ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))), body)


def check_functions(**options: object) -> None:
    """Refuse options that are given and are no functions."""
    for option, value in options.items():
        if value is not None and not callable(value):
            raise TypeError(f"{option} must be a function of the request, not {value!r}")


def skipping(skip: Skip[Request] | None, trusted: Iterable[str | Network], peer: Callable[[Request], Peer]) -> Callable[[Request], Now[bool]] | None:
    """Return the function of `skip`, which is checked."""
    if skip is None or callable(skip):
        return skip
    is_within = within(skip, trusted)
    return lambda request: is_within(peer(request))


def of_itself(request: object) -> Peer:
    """Return the scope or the environ that a request is."""
    return cast(Peer, request)


def refuse_unused(name: str, ipv6: int, trusted: object, skip: object, what: str) -> None:
    """Refuse what is for the default key, where there is none."""
    if name or ipv6 != 64 or (trusted and (skip is None or callable(skip))):
        raise TypeError(f"name, ipv6 and trusted are for the default key: leave them out, or {what}")


class Failures(Generic[Request]):
    """What becomes of a request that could not be decided, and who is told."""

    def __init__(self, outage: Answer, overload: Answer, mistake: Answer, retry_after: Duration | None,
                 on_error: Callable[[Request, Exception], object] | None) -> None:
        after = 0 if retry_after is None else nanoseconds(retry_after, "retry_after")
        if after < 0:
            raise ValueError(f"retry_after must be a length of time, or None for no Retry-After, not {retry_after!r}")
        self._undecided = Undecided(outage, overload, mistake)
        self._retry_after, self._on_error = -(-after // 1_000_000_000), on_error

    def failed(self, request: Request, error: Exception) -> Steps[Outcome]:
        """Tell of an error, and return the outcome, or raise the error."""
        if self._on_error is not None:
            yield self._on_error(request, error)
        else:
            self._undecided.tell(error)
        answer = self._undecided.to(error)
        if answer == "raise":
            raise error
        return Outcome() if answer == "allow" else unavailable(self._retry_after)

    def by_policy(self, result: Result) -> Outcome:
        """Return the outcome where a guard decided, which knows nothing of the limits."""
        if result.allowed:
            return Outcome()
        return unavailable(self._retry_after if result.retry_after is None else max(1, seconds(result.retry_after)))


def key_of_route(limits: Limits | Callable[[Request], Now[Limits]] | None, key: object, keys: object, *, name: str, ipv6: int,
                 trusted: Iterable[str | Network], skip: object, policy: str | None, route: Callable[[Request], str], peer: Callable[[Request], Peer]
                 ) -> Callable[[Request], str] | None:
    """Return the default key of a route, which has a state of its own unless it has a name; None if there is a key, or
    keys."""
    proxies = networks(trusted)
    client_address("127.0.0.1", ipv6=ipv6)  # raises if it is wrong
    if key is not None or keys is not None:
        refuse_unused(name, ipv6, proxies, skip, "key and keys")
        return None
    of_all = name or policy or ("" if limits is None or callable(limits) else _called(as_limits(limits)))

    def default(request: Request) -> str:
        return f"http:{'' if name else route(request) + ':'}{of_all}:{client_address(peer(request), ipv6=ipv6, trusted=proxies)}"

    return default


def _called(limits: tuple[Limit, ...]) -> str:
    """Return what stands for limits in a key: their policy, or else the limits themselves, without what a call takes of
    them."""
    return policy_of(limits) or " ".join(limit.policy for limit in limits)


_policies: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


class Policy(Generic[Request]):
    """Which limits a request counts for, and what its response says. See `redis_throttle.asgi` and
    `redis_throttle.wsgi`."""

    def __init__(
        self,
        limiter: Decider | AsyncDecider,
        limits: Limits | Callable[[Request], Now[Limits]] | None = None,
        *,
        name: str = "",
        key: Callable[[Request], Now[str | None]] | None = None,
        ipv6: int = 64,
        trusted: Iterable[str | Network] = (),
        keys: Callable[[Request], Now[Mapping[str, Limits]]] | None = None,
        cost: Callable[[Request], Now[int]] | None = None,
        outage: Answer = DEFAULTS["outage"],
        overload: Answer = DEFAULTS["overload"],
        mistake: Answer = DEFAULTS["mistake"],
        retry_after: Duration | None = "1s",
        x_ratelimit: XRateLimit | None = None,
        on_error: Callable[[Request, Exception], object] | None = None,
        skip: Skip[Request] | None = None,
        ban: Duration | None = None,
        ban_after: str | None = None,
        body: Callable[[Request, Result], Now[Body]] | None = None,
        preflights: bool = False,
        policy: str | None = None,
    ) -> None:
        self._preflights, self._policy = preflights, policy
        if policy is not None:
            check_name(policy)
            if keys is not None:
                raise TypeError("policy is for limits: keys returns limits that were made by policy()")
        if (keys is None) == (limits is None):
            raise TypeError("give limits, with a key, or keys, which returns the limits of several keys")
        if key is client_address:
            key = None
        self._limiter = limiter
        self._limits: Callable[[Request], Now[Limits]] | None = None
        self._fixed: tuple[Limit, ...] = ()
        if limits is not None:
            if callable(limits):
                self._limits = limits
            else:
                self._fixed = self._named(as_limits(limits))
                if not self._fixed:
                    raise ValueError("limits: there must be at least one, such as rate(100, '1m')")
                Policies(self._fixed).policy()  # raises if a header field cannot carry it
        self._trusted = networks(trusted)
        client_address("127.0.0.1", ipv6=ipv6)
        if key is not None or keys is not None:
            refuse_unused(name, ipv6, self._trusted, skip, "key and keys")
        check_functions(key=key, keys=keys, cost=cost, on_error=on_error, body=body)
        if x_ratelimit not in (None, "seconds", "unix"):
            raise ValueError(f'x_ratelimit must be "seconds" or "unix", not {x_ratelimit!r}')
        self._name, self._key, self._ipv6, self._keys, self._cost = name, key, ipv6, keys, cost
        self._skip, self._body = skipping(skip, self._trusted, of_itself), body
        if ban is not None:
            seconds_of(ban, "ban")  # raises if it is wrong
        if ban_after is not None:
            if ban is None:
                raise ValueError("ban_after goes with a ban")
            denials(ban_after)
        self._ban, self._ban_after = ban, ban_after
        self._failures = Failures(outage, overload, mistake, retry_after, on_error)
        self._x: XRateLimit | None = x_ratelimit
        self._default = name or policy or _called(self._fixed)
        if self._fixed and key is None and not name:
            self._look_for_twins()

    def _named(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return of_policy(self._policy, *limits) if self._policy and limits else limits

    def _look_for_twins(self) -> None:
        try:
            there = _policies.setdefault(self._limiter, set())
        except TypeError:  # a decider without weak references
            return
        if self._default in there:
            log.warning("two middlewares with one limiter have the same limits, %s, and neither name nor key: they share their state, and a request that "
                        "passes both is charged twice. Give each a name, or a key", self._default)
        there.add(self._default)

    def decide(self, request: Request) -> Steps[Outcome]:
        """Decide what becomes of a request."""
        try:
            call: Call
            if not self._preflights and _is_preflight(request):
                return Outcome()
            if self._skip is not None and (yield self._skip(request)):
                return Outcome()
            keys = yield from self._asked(request)
            if not keys:
                return Outcome()
            limits = list(keys.values())
            for some in limits if self._limits is not None or self._keys is not None else ():
                Policies(some).policy()  # before anything is charged
            cost = (yield self._cost(request)) if self._cost else 1
            name, first = next(iter(keys.items()))
            # With one limit, the fields of the reply say all.
            call = many("limit", keys, cost=cost, ban=self._ban, ban_after=self._ban_after, each=True) if self._keys else one(
                "limit", name, first, cost=cost, ban=self._ban, ban_after=self._ban_after, each=len(first) > 1)
            result = yield self._limiter.decide(call)
            if result.by == "policy":
                return self._failures.by_policy(result)
            outcome = self._outcome(named(request, limits, result), result)
            if result.limited and self._body is not None:
                content_type, body = yield self._body(request, result)
                return denied(outcome.fields, content_type, body)
            return denied(outcome.fields, PROBLEM, outcome.body) if result.limited else outcome
        except Exception as error:
            return (yield from self._failures.failed(request, error))

    def _asked(self, request: Request) -> Steps[dict[str, tuple[Limit, ...]]]:
        """Return the limits of each key of a request: none if it is not limited."""
        if self._keys is not None:
            several = yield self._keys(request)
            return {name: as_limits(limits) for name, limits in several.items()} if several else {}
        name: Any = None
        if self._key is not None:
            name = yield self._key(request)
            if name is None:
                return {}
            if not isinstance(name, (str, bytes)):
                raise TypeError(f"key must return text, or None for a request that is not limited, not {type(name).__name__}")
        limits = self._fixed
        if self._limits is not None:
            some = yield self._limits(request)
            limits = self._named(as_limits(some)) if some is not None else ()
        if not limits:
            return {}
        if name is None:
            name = f"http:{self._default or _called(limits)}:{client_address(cast(Peer, request), ipv6=self._ipv6, trusted=self._trusted)}"
        return {cast(str, name): limits}

    def _outcome(self, limits: Sequence[tuple[Limit, ...]], result: Result) -> Outcome:
        fields = tuple(header_fields(limits, result, self._x))
        return Outcome(429, fields, problem(limits, result)) if result.limited else Outcome(None, fields)


def _meta(request: Any) -> Any:
    """Return the scope or the environ of a request, which is one of these, or a request of a framework."""
    return getattr(request, "scope", None) or getattr(request, "META", None) or request


def named(request: Any, limits: Sequence[tuple[Limit, ...]], result: Result) -> list[tuple[Limit, ...]]:
    """Return the limits that counted, named apart from those of other middlewares of a request."""
    meta = _meta(request)
    taken = meta.setdefault("redis_throttle.names", set()) if isinstance(meta, MutableMapping) else set()
    return apart(in_force(limits, result), taken) if result.by != "none" else list(limits)


def _is_preflight(request: Any) -> bool:
    """Whether a browser asks by CORS if it may send another request."""
    meta = _meta(request)
    if not isinstance(meta, Mapping):
        return False
    if "REQUEST_METHOD" in meta:
        return meta["REQUEST_METHOD"] == "OPTIONS" and "HTTP_ORIGIN" in meta and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in meta
    if meta.get("method") != "OPTIONS":
        return False
    names = {bytes(name).lower() for name, _ in meta.get("headers", ())}
    return {b"origin", b"access-control-request-method"} <= names


def denied(fields: tuple[Header, ...], content_type: str, body: bytes) -> Outcome:
    """Return the outcome of a request that is denied."""
    return Outcome(429, (*fields, ("Content-Type", content_type), ("Content-Length", str(len(body)))), body)


def problem(limits: Sequence[tuple[Limit, ...]], result: Result) -> bytes:
    """Return the problem document of a request that is denied, by limits that counted. No limit is named where a ban or
    a policy denied it."""
    document: dict[str, object] = {
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal Usage Detected",
        "status": 429,
    }
    if not result.banned:
        document |= {"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded"}
        if result.by != "policy":
            document["violated-policies"] = [label(limits[result.key_index], result.rule)]
    return json.dumps(document).encode() + b"\n"


def run(steps: Steps[T]) -> T:
    """Take the steps of a decision, without asyncio."""
    send: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            value = send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        send = steps.send
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            send, value = steps.throw, TypeError("a function, or the limiter, is one of asyncio: give a plain one")


async def run_async(steps: Steps[T]) -> T:
    """Take the steps of a decision, and await each value that can be awaited."""
    send: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            value = send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        send = steps.send
        if inspect.isawaitable(value):
            try:
                value = await value
            except Exception as error:
                send, value = steps.throw, error
