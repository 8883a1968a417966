"""The storage for `limits` of this package beside that of `limits`, on one server, in turns. Prints a table for the README."""

from __future__ import annotations

import sys
import time

import limits
import redis
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES

import redis_throttle.limits  # noqa: F401 registers the storage

ROUNDS, SECONDS = 8, 1.0
SHORT = limits.parse("50/second")
PLENTY = limits.parse("1000000/day")


def calls_a_second(limiter: limits.strategies.RateLimiter, seconds: float) -> float:
    n, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(50):
            limiter.hit(PLENTY, "speed", str(n % 100))
            n += 1
    return n / (time.perf_counter() - began)


def round_trips(limiter: limits.strategies.RateLimiter, client: redis.Redis) -> float:
    """Return reads from sockets for each hit."""
    limiter.hit(PLENTY, "trips")
    before = client.info("stats")["total_reads_processed"]
    for _ in range(100):
        limiter.hit(PLENTY, "trips")
    return (client.info("stats")["total_reads_processed"] - before - 1) / 100


def around_a_boundary(limiter: limits.strategies.RateLimiter) -> int:
    """Return how many of 2 x 50 hits get through within a second, which a boundary of windows divides.

    The first hit begins a window. The others come right before and after its end. A hit counts from before it is sent to after its
    reply, so those counted did get through within the second.
    """
    began = time.perf_counter()
    limiter.hit(SHORT, "edge")
    passed = [began]
    for start, n in ((0.9, 49), (1.01, 50)):
        while time.perf_counter() - began < start:
            time.sleep(0.001)
        for _ in range(n):
            if limiter.hit(SHORT, "edge"):
                passed.append(time.perf_counter())
    return max(sum(1 for at in passed if first <= at < first + 1) for first in passed)


def main(url: str) -> None:
    """Print the table."""
    client = redis.Redis.from_url(url)
    version = client.info("server")["redis_version"]
    print("| strategy | storage | calls a second | round trips | let through of 100 around a boundary, at a limit of 50 |\n|---|---|--:|--:|--:|")
    for strategy in ("fixed-window", "moving-window", "sliding-window-counter", "gcra"):
        names = ["redis://", "throttle+redis://"] if strategy != "gcra" else ["throttle+redis://"]
        made = {name: STRATEGIES[strategy](storage_from_string(name.replace("redis://", url))) for name in names}
        client.flushall()
        speed = {name: [] for name in names}  # type: dict[str, list[float]]
        for _ in range(ROUNDS):
            for name, limiter in made.items():
                speed[name].append(calls_a_second(limiter, SECONDS))
        for name, limiter in made.items():
            client.flushall()
            edge = around_a_boundary(limiter)
            print(f"| `{strategy}` | `{name}` | {sorted(speed[name])[ROUNDS // 2]:,.0f} | {round_trips(limiter, client):g} | {edge} |")
    print(f"\nlimits {limits.__version__}, redis-py {redis.__version__}, server {version}, one connection, medians of {ROUNDS} rounds", file=sys.stderr)


main(sys.argv[1])
