"""Recipes of the manual of `limits`: our storage beside its own in memory and for Redis, compared by what gets
through."""

from __future__ import annotations

import inspect
from typing import Any

import limits
import pytest
from limits.storage import storage_from_string

import redis_throttle.limits  # noqa: F401 registers the storage
from recipes import STRATEGIES, storages
from servers import Server

HOURLY, DAILY = limits.RateLimitItemPerHour(2), limits.RateLimitItemPerDay(5)
OTHER = limits.RateLimitItemPerHour(2, 1, namespace="other")
Act = tuple[str, limits.RateLimitItem, tuple[str, ...], int]


def hits(n: int, item: limits.RateLimitItem, *identifiers: str, cost: int = 1) -> list[Act]:
    return [("hit", item, identifiers, cost)] * n


RECIPES: dict[str, tuple[list[Act], list[Any]]] = {
    "a hit, a test and what is left": (
        [("test", HOURLY, ("ann",), 1), *hits(2, HOURLY, "ann"), ("left", HOURLY, ("ann",), 1), ("test", HOURLY, ("ann",), 1), *hits(1, HOURLY, "ann")],
        [True, True, True, 0, False, False]),
    "identifiers are apart": (hits(2, HOURLY, "test", "ann") + hits(1, HOURLY, "test", "bob") + hits(1, HOURLY, "test", "ann"), [True, True, True, False]),
    "namespaces are apart": (hits(3, HOURLY, "ann") + hits(1, OTHER, "ann"), [True, True, False, True]),
    "a cost": ([("test", DAILY, ("ann",), 6), *hits(1, DAILY, "ann", cost=3), ("left", DAILY, ("ann",), 1), ("test", DAILY, ("ann",), 3),
                *hits(1, DAILY, "ann", cost=2), *hits(1, DAILY, "ann")], [False, True, 2, False, True, False]),
    "two limits of one user, asked before they are charged": (
        [*hits(2, HOURLY, "ann"), *hits(2, DAILY, "ann"), ("test", HOURLY, ("ann",), 1), ("test", DAILY, ("ann",), 1), ("left", DAILY, ("ann",), 1)],
        [True, True, True, True, False, True, 3]),
    "a key that is cleared": ([*hits(3, HOURLY, "ann"), ("clear", HOURLY, ("ann",), 1), ("left", HOURLY, ("ann",), 1), *hits(1, HOURLY, "ann")],
                              [True, True, False, None, 2, True]),
}


async def act(limiter: Any, verb: str, item: limits.RateLimitItem, identifiers: tuple[str, ...], cost: int) -> Any:
    if verb == "left":
        stats = limiter.get_window_stats(item, *identifiers)
        return ((await stats) if inspect.isawaitable(stats) else stats).remaining
    got = limiter.clear(item, *identifiers) if verb == "clear" else getattr(limiter, verb)(item, *identifiers, cost=cost)
    return (await got) if inspect.isawaitable(got) else got


async def close(storage: Any) -> None:
    of = getattr(storage, "limiter", None) or getattr(getattr(storage, "bridge", storage), "storage", None)
    end: Any = getattr(of, "aclose", None) or getattr(of, "close", lambda: None)
    if inspect.isawaitable(closing := end()):
        await closing


@pytest.mark.parametrize("scheme", ["", "async+"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", RECIPES)
async def test_what_gets_through_is_that_of_the_storages_of_limits(server: Server, name: str, strategy: str, scheme: str) -> None:
    acts, expected = RECIPES[name]
    kinds: Any = limits.aio.strategies.STRATEGIES if scheme else limits.strategies.STRATEGIES
    for uri in storages(server):
        storage: Any = storage_from_string(f"{scheme}{uri}", **({"implementation": "redispy"} if scheme and uri.startswith("redis") else {}))
        limiter = kinds[strategy](storage)
        assert [await act(limiter, *one) for one in acts] == expected, uri
        await close(storage)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_in_a_rolling_deploy_old_and_new_processes_each_keep_to_the_limit(server: Server, strategy: str) -> None:
    storages = [storage_from_string(uri) for uri in (server.url, f"throttle+{server.url}", f"throttle+{server.url}")]
    limiters = [limits.strategies.STRATEGIES[strategy](storage) for storage in storages]
    assert [limiter.hit(HOURLY, "ann") for limiter in limiters * 2] == [True, True, True, True, False, False]
    for storage in storages:
        await close(storage)
