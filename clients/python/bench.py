"""The storage for `limits` of this package beside that of `limits`, on one server, in turns. Prints a table for the README."""

from __future__ import annotations

import sys
import time

import limits
import redis
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES

import redis_throttle.limits  # noqa: F401 registers the storage
from boundary import around_a_boundary, most_within

ROUNDS, SECONDS = 8, 1.0
LIMIT = 50
SHORT = limits.parse(f"{LIMIT}/second")
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
            edge = most_within(around_a_boundary(lambda limiter=limiter: limiter.hit(SHORT, "edge"), 1, LIMIT), 1)
            print(f"| `{strategy}` | `{name}` | {sorted(speed[name])[ROUNDS // 2]:,.0f} | {round_trips(limiter, client):g} | {edge} |")
    print(f"\nlimits {limits.__version__}, redis-py {redis.__version__}, server {version}, one connection, medians of {ROUNDS} rounds", file=sys.stderr)


main(sys.argv[1])
