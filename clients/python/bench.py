"""What a call costs, on one server: beside the storages of `limits`, beside recipes on redis-py, and what remembering,
batches and pipelines spare.

    make bench-clients ARGS=python

Those that are compared take turns, each round begins with another one, and the tables show medians of the rounds. Round
trips are reads of the server from sockets.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import limits
import redis
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES

import redis_throttle.limits  # noqa: F401 registers the storage
from boundary import around_a_boundary, most_within
from redis_throttle import Batched, Cached, Guard, Limit, Limiter, Remote, fixed, rate, window
from redis_throttle.asyncio import Batched as AsyncBatched
from redis_throttle.asyncio import Guard as AsyncGuard
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Remote as AsyncRemote

ROUNDS, SECONDS = 9, 0.5
LIMIT = 50
SHORT = limits.parse(f"{LIMIT}/second")
PLENTY = limits.parse("1000000/day")
THREADS, TASKS = 32, 64

Act = Callable[[float], int]
"""Calls for so many seconds, and returns how many calls that were."""


def again_and_again(call: Callable[[int], object]) -> Act:
    """Return an act of one thread, which gives each call a number."""

    def act(seconds: float) -> int:
        n, ends = 0, time.perf_counter() + seconds
        while time.perf_counter() < ends:
            for _ in range(20):
                call(n)
                n += 1
        return n

    return act


def by_threads(call: Callable[[int], object]) -> Act:
    """Return an act of many threads."""

    def act(seconds: float) -> int:
        counts: list[int] = []
        threads = [threading.Thread(target=lambda: counts.append(again_and_again(call)(seconds))) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    return act


def by_tasks(runner: asyncio.Runner, call: Callable[[int], Awaitable[object]]) -> Act:
    """Return an act of many tasks."""

    async def one(ends: float) -> int:
        n = 0
        while time.perf_counter() < ends:
            await call(n)
            n += 1
        return n

    async def all_of_them(seconds: float) -> int:
        ends = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(one(ends) for _ in range(TASKS))))

    return lambda seconds: runner.run(all_of_them(seconds))


class Measured:
    """What was seen of an act in each round."""

    def __init__(self) -> None:
        self.a_second: list[float] = []
        self.reads: list[float] = []

    def beside(self, first: Measured) -> str:
        """Return how many calls it made for each of the first one: the median of the rounds, and the quartiles."""
        if first is self:
            return ""
        low, middle, high = statistics.quantiles([mine / other for mine, other in zip(self.a_second, first.a_second, strict=True)], n=4)
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"

    @property
    def speed(self) -> str:
        return f"{statistics.median(self.a_second):,.0f}"


def in_turns(client: redis.Redis, acts: dict[str, Act]) -> dict[str, Measured]:
    """Run acts in turns."""
    measured = {name: Measured() for name in acts}
    names = list(acts)
    for act in acts.values():
        act(SECONDS / 10)  # connections are there
    for turn in range(ROUNDS):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            before, began = reads(client), time.perf_counter()
            calls = acts[name](SECONDS)
            measured[name].a_second.append(calls / (time.perf_counter() - began))
            measured[name].reads.append((reads(client) - before - 1) / calls)
    return measured


def reads(client: redis.Redis) -> int:
    return int(client.info("stats")["total_reads_processed"])


def storages(client: redis.Redis, url: str) -> None:
    """The storage of this package beside that of limits."""
    print("| strategy | storage | calls a second | beside the first | round trips | let through of 100 around a boundary, at a limit of 50 |")
    print("|---|---|--:|--:|--:|--:|")
    for strategy in ("fixed-window", "moving-window", "sliding-window-counter", "gcra"):
        names = ["redis://", "throttle+redis://"] if strategy != "gcra" else ["throttle+redis://"]
        made = {name: STRATEGIES[strategy](storage_from_string(name.replace("redis://", url))) for name in names}
        client.flushall()
        seen = in_turns(client, {name: again_and_again(lambda n, made=made[name]: made.hit(PLENTY, "speed", str(n % 100))) for name in names})
        for name, limiter in made.items():
            client.flushall()
            edge = most_within(around_a_boundary(lambda limiter=limiter: limiter.hit(SHORT, "edge"), 1, LIMIT), 1)
            one = seen[name]
            print(f"| `{strategy}` | `{name}` | {one.speed} | {one.beside(seen[names[0]])} | {statistics.median(one.reads):.1f} | {edge} |")


SLIDING = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now, now)
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] / 1000))
return 1
"""


def recipes(client: redis.Redis) -> None:
    """A limiter beside what is often written by hand on redis-py, and a lease beside its lock."""
    sliding = client.register_script(SLIDING)
    limiter = Limiter(client, timeout="5s")

    def incr(n: int) -> None:
        with client.pipeline() as pipe:
            pipe.incr(f"incr:{n % 100}")
            pipe.expire(f"incr:{n % 100}", 60, nx=True)
            pipe.execute()

    def ours(limit: Limit) -> Act:
        return again_and_again(lambda n: limiter.limit(f"{limit.kind}:{n % 100}", limit))

    def lock(n: int) -> None:
        with client.lock(f"lock:{n % 100}", timeout=30):
            pass

    def lease(n: int) -> None:
        with limiter.lease(f"lease:{n % 100}", slots=1, ttl="30s"):
            pass

    groups: list[dict[str, Act]] = [
        {"`INCR` and `EXPIRE` in a transaction": again_and_again(incr), "`limit` with `fixed(1_000_000, \"1m\")`": ours(fixed(1_000_000, "1m")),
         "`limit` with `rate(1_000_000, \"1m\")`": ours(rate(1_000_000, "1m"))},
        {"a script with a sorted set, for 50 in a second": again_and_again(lambda n: sliding([f"zset:{n % 100}"], [LIMIT, 1_000_000])),
         "`limit` with `window(50, \"1s\")`": ours(window(LIMIT, "1s"))},
        {"`with client.lock(...)`": again_and_again(lock), "`with limiter.lease(..., slots=1)`": again_and_again(lease)},
    ]
    print("| | calls a second | beside the first | round trips |\n|---|--:|--:|--:|")
    for acts in groups:
        client.flushall()
        seen = in_turns(client, acts)
        for name, one in seen.items():
            print(f"| {name} | {one.speed} | {one.beside(next(iter(seen.values())))} | {statistics.median(one.reads):.1f} |")


def sparing(client: redis.Redis, url: str) -> None:
    """How often a hot key asks the server."""
    few, many = fixed(10, "1d"), rate(1_000_000, "1s")

    def hot(limiter: Limiter, key: str, limit: Limit) -> Callable[[int], object]:
        return lambda _: limiter.limit(key, limit)

    def remote() -> Guard:
        return Guard(Remote.from_url(url, timeout="5s"))

    def async_remote() -> AsyncGuard:
        return AsyncGuard(AsyncRemote.from_url(url, timeout="5s"))

    def alone(guard: Any) -> Any:
        remote = guard._next
        transport = remote._given if isinstance(remote, AsyncRemote) else remote._transport
        transport._pipelines = 1_000_000  # each call is sent by itself
        return guard

    with asyncio.Runner() as runner:
        def tasks(decider: Any, key: str) -> Act:
            limiter = AsyncLimiter(decider)
            return by_tasks(runner, lambda _: limiter.limit(key, many))

        groups: dict[str, dict[str, Act]] = {
            "one thread, a key without units": {
                "`Limiter`": again_and_again(hot(Limiter(remote()), "none", few)),
                "`Cached`": again_and_again(hot(Limiter(Cached(remote())), "none:cached", few)),
            },
            "one thread, a key with units": {
                "`Limiter`": again_and_again(hot(Limiter(remote()), "some", many)),
                "`Batched`": again_and_again(hot(Limiter(Batched(remote())), "some:batched", many)),
            },
            f"{THREADS} threads, a key with units": {
                "each call by itself": by_threads(hot(Limiter(alone(remote())), "threads:alone", many)),
                "`Limiter`": by_threads(hot(Limiter(remote()), "threads", many)),
                "`Batched`": by_threads(hot(Limiter(Batched(remote())), "threads:batched", many)),
            },
            f"{TASKS} tasks, a key with units": {
                "each call by itself": tasks(alone(async_remote()), "tasks:alone"),
                "`Limiter`": tasks(async_remote(), "tasks"),
                "`Batched`": tasks(AsyncBatched(async_remote()), "tasks:batched"),
            },
        }
        print("| who asks | by | calls a second | beside the first | round trips for 1,000 calls |\n|---|---|--:|--:|--:|")
        for who, acts in groups.items():
            client.flushall()
            seen = in_turns(client, acts)
            for name, one in seen.items():
                print(f"| {who} | {name} | {one.speed} | {one.beside(next(iter(seen.values())))} | {1000 * statistics.median(one.reads):,.0f} |")


def main(url: str) -> None:
    """Print the tables."""
    client = redis.Redis.from_url(url)
    version = client.info("server")["redis_version"]
    storages(client, url)
    print()
    recipes(client)
    print()
    sparing(client, url)
    print(f"\nlimits {limits.__version__}, redis-py {redis.__version__}, Python {sys.version.split()[0]}, server {version}, medians of {ROUNDS} rounds of "
          f"{SECONDS:g} s; in brackets the quartiles", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
