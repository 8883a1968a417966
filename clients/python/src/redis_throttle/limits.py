"""A storage and strategies for the library `limits`, and so for Flask-Limiter and slowapi.

Import this module once, and prefix the storage's URI with `throttle+`:

    import redis_throttle.limits
    limiter = Limiter(get_remote_address, app=app, storage_uri="throttle+redis://127.0.0.1:6379",
                      strategy="moving-window")

| strategy | limit |
|---|---|
| `fixed-window` | `FIXED count/period FIRST`: a window begins with the first hit. A hit that is denied is not counted |
| `moving-window`, `sliding-window-counter` | `WINDOW count/period`, which is never exceeded, in any interval |
| `gcra`, `token-bucket` | `RATE count/period`: a bucket that refills evenly. Both names are one algorithm |

A limit of 0, such as `0/minute`, denies every hit. Every hit is one round trip. For asyncio the URI begins with
`async+throttle+`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import time
from collections.abc import Callable, Generator
from typing import Any, cast

import limits.aio.storage
import limits.aio.strategies
import limits.storage
import limits.strategies
from limits.limits import GRANULARITIES, RateLimitItem
from limits.util import WindowStats

from ._core.call import Call, one
from ._core.duration import Duration
from ._core.errors import ThrottleError, translate
from ._core.limit import Limit, check_name, fixed, policy, rate, window
from ._core.result import Result
from ._layers.guard import AsyncGuard, Guard
from ._layers.policies import AsyncPolicies, Policies
from ._limiter import Limiter
from ._server.connect import SCHEMES
from ._server.doors import Commands
from ._server.remote import Remote
from .asyncio import Limiter as AsyncLimiter
from .asyncio import Remote as AsyncRemote

PREFIX = "THROTTLE"
"""Not that of the storages of `limits`, whose keys hold other values."""
_MANY = 2**63 - 1


def _seconds(seconds: int) -> str:
    return f"{seconds}s"


def _item(key: str) -> tuple[int, int]:
    """Return the amount and the period, in seconds, of a key as `RateLimitItem.key_for` makes it:
    .../amount/multiples/name."""
    try:
        amount, multiples, name = key.rsplit("/", 3)[1:]
        return int(amount), GRANULARITIES[name].GRANULARITY.seconds * int(multiples)
    except (ValueError, KeyError):
        raise ValueError("the key must end as those of limits do: amount/multiples/granularity") from None


_window = functools.lru_cache(window)
_fixed = functools.lru_cache(fixed)
_rate = functools.lru_cache(rate)
_policy = functools.lru_cache(policy)


def _amount(key: str, expiry: int) -> int:
    """Return the amount that a key says; very many of one that does not say it."""
    try:
        amount, period = _item(key)
    except ValueError:
        return _MANY
    return amount if period == expiry else _MANY


class _Shared:
    """What the storages for threads and for asyncio share: calls, and what their results mean to `limits`."""

    key_prefix: str
    _policy: str | None = None

    def _named(self, limit: Limit) -> tuple[Limit, ...]:
        return _policy(self._policy, limit) if self._policy else (limit,)

    @staticmethod
    def _used(result: Result, amount: int) -> int:
        """Return how much is used of an amount, which a policy may have changed: so much that as much is left as there
        is."""
        if not result.policies or amount == _MANY:
            return result.limit - result.remaining
        return 0 if result.by == "none" else amount - min(result.remaining, amount)

    def _key(self, key: str) -> str:
        return f"{self.key_prefix}:{key}"

    @property
    def _pattern(self) -> str:
        """What SCAN finds all keys by, and no others."""
        return re.sub(r"[\\*?\[\]]", r"\\\g<0>", self.key_prefix) + ":*"

    def _incr(self, key: str, expiry: int, amount: int) -> Call:
        return one("limit", self._key(key), self._named(_fixed(_amount(key, expiry), _seconds(expiry), first=True)), cost=amount)

    def _counted(self, result: Result, key: str, expiry: int, amount: int) -> int:
        # A counter would have gone beyond the limit here. This one has not, so hits that are denied cost nothing.
        return self._used(result, _amount(key, expiry)) + (amount if result.limited else 0)

    def _look(self, key: str) -> Call:
        amount, period = _item(key)
        return one("peek", self._key(key), self._named(_fixed(amount, _seconds(period), first=True)))

    def _looked(self, result: Result, key: str) -> int:
        return self._used(result, _item(key)[0])

    @staticmethod
    def _resets(result: Result) -> float:
        return time.time() + result.reset_after.total_seconds()

    def _acquire(self, key: str, limit: int, expiry: int, amount: int) -> Call:
        return one("limit", self._key(key), self._named(_window(limit, _seconds(expiry))), cost=amount)

    def _moving(self, key: str, limit: int, expiry: int) -> Call:
        return one("peek", self._key(key), self._named(_window(limit, _seconds(expiry))))

    def _began(self, result: Result, limit: int, expiry: int) -> tuple[float, int]:
        now, used = time.time(), self._used(result, limit)
        return (now + result.next_after.total_seconds() - expiry if used else now), used

    def _only_current(self, result: Result, key: str, expiry: int) -> tuple[int, float, int, float]:
        # The window is exact: there is no previous one to be weighed, and the next unit comes back when the oldest
        # leaves. `limits` takes it modulo the period, so that a whole period would mean now.
        return 0, 0.0, self._used(result, _amount(key, expiry)), min(result.next_after.total_seconds(), expiry - 0.001)


@contextlib.contextmanager
def _translated(command: str) -> Generator[None]:
    """Have what the client library raises be an error of this package, which the storage is known for."""
    try:
        yield
    except Exception as error:
        raise translate(command, error) from error


def _schemes(prefix: str) -> list[str]:
    return [f"{prefix}throttle+{scheme}" for scheme in SCHEMES]


def _url(uri: str) -> str:
    return uri.partition("throttle+")[2]


def _client_on(pool: Any, uri: str, asynchronous: bool, options: dict[str, Any]) -> Any:
    library = "valkey" if "throttle+valkey" in uri else "redis"
    module = importlib.import_module(f"{library}.asyncio" if asynchronous else library)
    return getattr(module, library.capitalize())(connection_pool=pool, **options)


class ThrottleStorage(_Shared, limits.storage.Storage, limits.storage.MovingWindowSupport, limits.storage.SlidingWindowCounterSupport):
    """A storage of `limits` that lets the module decide.

    The URI is `throttle+` and one of `redis_throttle.connect`. `key_prefix`, `connection_pool` and `wrap_exceptions`
    are as for `limits.storage.RedisStorage`, and `timeout` is how long the server may take to answer. `commands` is
    what it is sent (`"auto"`, `"module"` or `"functions"`), and `poll` is for calls of `limiter` that wait where there
    is no module. The other options are the client library's. `limiter` decides: another one may take its place.

    With `policy`, all limits of the storage belong to a policy of this name, and a hash changes them while the program
    runs, for everybody or for some keys: see `redis_throttle.Policies`. What the library says of its limits, as in
    X-RateLimit-Limit, stays what the code says.
    """

    STORAGE_SCHEME: list[str] | None = _schemes("")

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, *, key_prefix: str = PREFIX, connection_pool: Any = None,
                 timeout: Duration = "200ms", commands: Commands = "auto", poll: Duration | None = None, policy: str | None = None,
                 **options: object) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        if policy is not None:
            check_name(policy)
        self._policy = policy
        self.key_prefix: str = key_prefix
        uri = uri or "throttle+redis://127.0.0.1:6379"
        if connection_pool is None:
            remote = Remote.from_url(_url(uri), timeout=timeout, commands=commands, poll=poll, options=options)
        else:
            remote = Remote(_client_on(connection_pool, uri, False, options), timeout=timeout, commands=commands, poll=poll)
        self._client: Any = remote.client
        self.limiter: Limiter = Limiter(Policies(Guard(remote)) if policy else Guard(remote))

    @property
    def base_exceptions(self) -> type[Exception]:
        """What an outage and a mistake have in common."""
        return ThrottleError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count a hit, unless it is denied. Return what the counter would be."""
        return self._counted(self.limiter.decide(self._incr(key, expiry, amount)), key, expiry, amount)

    def get(self, key: str) -> int:
        """Return the hits in the fixed window of a key."""
        return self._looked(self.limiter.decide(self._look(key)), key)

    def get_expiry(self, key: str) -> float:
        """Return when the fixed window of a key ends, in seconds since the Unix epoch."""
        return self._resets(self.limiter.decide(self._look(key)))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take entries of a moving window."""
        return self.limiter.decide(self._acquire(key, limit, expiry, amount)).allowed

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return when the window begins, by its oldest entry, and the number of entries."""
        return self._began(self.limiter.decide(self._moving(key, limit, expiry)), limit, expiry)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take entries of a window that slides exactly."""
        return self.limiter.decide(self._acquire(key, limit, expiry, amount)).allowed

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Return nothing of a previous window, the entries of this one, and when the oldest leaves it."""
        return self._only_current(self.limiter.decide(self._moving(key, _MANY, expiry)), key, expiry)

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget a key."""
        self.clear(key)

    def check(self) -> bool:
        """Return whether the server answers and has the module."""
        try:
            return self.limiter.peek(self._key("check"), rate(1, "s")).allowed
        except ThrottleError:
            return False

    def clear(self, key: str) -> None:
        """Forget a key."""
        with _translated("DEL"):
            self._client.delete(self._key(key))

    def reset(self) -> int | None:
        """Forget all keys with the prefix, and return how many there were."""
        with _translated("SCAN"):
            return sum(int(self._client.delete(key)) for key in self._client.scan_iter(self._pattern, count=1000))


class AsyncThrottleStorage(_Shared, limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport,
                           limits.aio.storage.SlidingWindowCounterSupport):
    """`ThrottleStorage` for asyncio."""

    STORAGE_SCHEME: list[str] | None = _schemes("async+")

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, *, key_prefix: str = PREFIX, connection_pool: Any = None,
                 timeout: Duration = "200ms", commands: Commands = "auto", poll: Duration | None = None, policy: str | None = None,
                 **options: object) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        if policy is not None:
            check_name(policy)
        self._policy = policy
        options.pop("implementation", None)
        self.key_prefix: str = key_prefix
        uri = uri or "async+throttle+redis://127.0.0.1:6379"
        if connection_pool is None:
            remote = AsyncRemote.from_url(_url(uri), timeout=timeout, commands=commands, poll=poll, options=options)
        else:
            remote = AsyncRemote(_client_on(connection_pool, uri, True, options), timeout=timeout, commands=commands, poll=poll)
        self._client: Any = remote.client
        self.limiter: AsyncLimiter = AsyncLimiter(AsyncPolicies(AsyncGuard(remote)) if policy else AsyncGuard(remote))

    @property
    def base_exceptions(self) -> type[Exception]:
        """What an outage and a mistake have in common."""
        return ThrottleError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count a hit, unless it is denied. Return what the counter would be."""
        return self._counted(await self.limiter.decide(self._incr(key, expiry, amount)), key, expiry, amount)

    async def get(self, key: str) -> int:
        """Return the hits in the fixed window of a key."""
        return self._looked(await self.limiter.decide(self._look(key)), key)

    async def get_expiry(self, key: str) -> float:
        """Return when the fixed window of a key ends, in seconds since the Unix epoch."""
        return self._resets(await self.limiter.decide(self._look(key)))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take entries of a moving window."""
        return (await self.limiter.decide(self._acquire(key, limit, expiry, amount))).allowed

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return when the window begins, by its oldest entry, and the number of entries."""
        return self._began(await self.limiter.decide(self._moving(key, limit, expiry)), limit, expiry)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take entries of a window that slides exactly."""
        return (await self.limiter.decide(self._acquire(key, limit, expiry, amount))).allowed

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Return nothing of a previous window, the entries of this one, and when the oldest leaves it."""
        return self._only_current(await self.limiter.decide(self._moving(key, _MANY, expiry)), key, expiry)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget a key."""
        await self.clear(key)

    async def check(self) -> bool:
        """Return whether the server answers and has the module."""
        try:
            return (await self.limiter.peek(self._key("check"), rate(1, "s"))).allowed
        except ThrottleError:
            return False

    async def clear(self, key: str) -> None:
        """Forget a key."""
        with _translated("DEL"):
            await self._client.delete(self._key(key))

    async def reset(self) -> int | None:
        """Forget all keys with the prefix, and return how many there were."""
        n = 0
        with _translated("SCAN"):
            async for key in self._client.scan_iter(self._pattern, count=1000):
                n += await self._client.delete(key)
        return n


def _bucket(storage: _Shared, verb: str, item: RateLimitItem, identifiers: tuple[str, ...], cost: int) -> Call:
    return one(verb, storage._key(item.key_for(*identifiers)), storage._named(_rate(item.amount, _seconds(item.get_expiry()))), cost=cost)


def _stats(item: RateLimitItem, result: Result) -> WindowStats:
    # When there is one unit more, which is what Retry-After is made of; the bucket is full much later.
    after = result.next_after.total_seconds() if item.amount else item.get_expiry()
    return WindowStats(time.time() + after, result.remaining)


class TokenBucketRateLimiter(limits.strategies.RateLimiter):
    """Strategies `gcra` and `token-bucket`: a bucket of `amount` units that refills evenly. It needs a
    `ThrottleStorage`."""

    def __init__(self, storage: limits.storage.StorageTypes) -> None:
        if not isinstance(storage, ThrottleStorage):
            raise NotImplementedError(f"gcra and token-bucket need a storage with a throttle+ URI, not {type(storage).__name__}")
        super().__init__(storage)

    def _decide(self, verb: str, item: RateLimitItem, identifiers: tuple[str, ...], cost: int) -> Result:
        storage = cast(ThrottleStorage, self.storage)
        return storage.limiter.decide(_bucket(storage, verb, item, identifiers, cost))

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Take `cost` units, and return whether they were there."""
        return self._decide("limit", item, identifiers, cost).allowed

    def test(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Return whether `cost` units are there."""
        return self._decide("peek", item, identifiers, cost).allowed

    def get_window_stats(self, item: RateLimitItem, *identifiers: str) -> WindowStats:
        """Return when there is one unit more, and what is left."""
        return _stats(item, self._decide("peek", item, identifiers, 1))


class AsyncTokenBucketRateLimiter(limits.aio.strategies.RateLimiter):
    """`TokenBucketRateLimiter` for asyncio."""

    def __init__(self, storage: limits.storage.StorageTypes) -> None:
        if not isinstance(storage, AsyncThrottleStorage):
            raise NotImplementedError(f"gcra and token-bucket need a storage with an async+throttle+ URI, not {type(storage).__name__}")
        super().__init__(storage)

    async def _decide(self, verb: str, item: RateLimitItem, identifiers: tuple[str, ...], cost: int) -> Result:
        storage = cast(AsyncThrottleStorage, self.storage)
        return await storage.limiter.decide(_bucket(storage, verb, item, identifiers, cost))

    async def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Take `cost` units, and return whether they were there."""
        return (await self._decide("limit", item, identifiers, cost)).allowed

    async def test(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Return whether `cost` units are there."""
        return (await self._decide("peek", item, identifiers, cost)).allowed

    async def get_window_stats(self, item: RateLimitItem, *identifiers: str) -> WindowStats:
        """Return when there is one unit more, and what is left."""
        return _stats(item, await self._decide("peek", item, identifiers, 1))


def _register(strategies: Any, strategy: Callable[..., Any]) -> None:
    for name in ("gcra", "token-bucket"):
        strategies[name] = strategy


_register(limits.strategies.STRATEGIES, TokenBucketRateLimiter)
_register(limits.aio.strategies.STRATEGIES, AsyncTokenBucketRateLimiter)
