"""Remembered denials: as long as they hold, and no longer; and what must reach the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from redis_throttle import Cached, Call, Key, Limiter, OutageError, Result, Slots, fixed, rate, window
from redis_throttle._layers import cached
from redis_throttle.asyncio import Cached as AsyncCached
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Clock, Server

HOUR = rate(2, "1h")
DENIED = Result(limited=True, retry_after=timedelta(seconds=8), reset_after=timedelta(seconds=20), next_after=timedelta(seconds=3), key="k")


class Denying:
    def __init__(self) -> None:
        self.asked: list[Call] = []
        self.says: Result | Exception = DENIED

    def decide(self, call: Call, /) -> Result:
        self.asked.append(call)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class AsyncDenying(Denying):
    async def decide(self, call: Call, /) -> Result:  # type: ignore[override]
        return super().decide(call)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    made = cached.Denials
    monkeypatch.setattr(cached, "Denials", lambda most, max_age: made(most, max_age, clock))
    return clock


def test_a_denial_is_remembered_and_counted_down(clock: Clock) -> None:
    server = Denying()
    limiter = Limiter(Cached(server))
    assert limiter.limit("k", HOUR).by == "server"
    clock.now = 5
    again = limiter.limit("k", HOUR)
    assert (again.by, again.retry_after, again.reset_after, again.next_after) == ("cache", timedelta(seconds=3), timedelta(seconds=15), timedelta(seconds=3))
    clock.now = 8
    assert limiter.limit("k", HOUR).by == "server"
    assert len(server.asked) == 2


def test_it_is_remembered_for_max_age_at_most(clock: Clock) -> None:
    server = Denying()
    limiter = Limiter(Cached(server, max_age="2s"))
    for at, by in ((0, "server"), (1.9, "cache"), (2, "server")):
        clock.now = at
        assert limiter.limit("k", HOUR).by == by


CALLS: list[Callable[[Limiter], Any]] = [
    lambda limiter: limiter.limit("other", HOUR), lambda limiter: limiter.limit("k", rate(3, "1h")), lambda limiter: limiter.limit("k", HOUR, cost=2),
    lambda limiter: limiter.limit("k", HOUR, each=True), lambda limiter: limiter.limit("k", HOUR, charge="up_to"),
    lambda limiter: limiter.limit_all({"k": HOUR}), lambda limiter: limiter.limit_any({"k": HOUR}), lambda limiter: limiter.limit("k", HOUR, max_wait="1s"),
]


@pytest.mark.parametrize("other", range(len(CALLS)))
def test_another_call_has_a_denial_of_its_own(clock: Clock, other: int) -> None:
    server = Denying()
    limiter = Limiter(Cached(server))
    limiter.limit("k", HOUR)
    assert [CALLS[other](limiter).by for _ in range(2)] == ["server", "cache"]


SENT: list[Callable[[Limiter], Any]] = [
    lambda limiter: limiter.limit("k", HOUR, charge="strict"), lambda limiter: limiter.limit("k", HOUR, charge="force"),
    lambda limiter: limiter.peek("k", HOUR),
    lambda limiter: limiter.decide(Call("limit", (Key("k", slots=1, ttl="1m", leased=True),), id="a", several=True)),
]


@pytest.mark.parametrize("sent", range(len(SENT)))
def test_what_must_reach_the_server_does(clock: Clock, sent: int) -> None:
    server = Denying()
    limiter = Limiter(Cached(server))
    assert [SENT[sent](limiter).by for _ in range(3)] == ["server"] * 3
    assert len(server.asked) == 3


@pytest.mark.parametrize("says", [replace(DENIED, retry_after=None), replace(DENIED, by="local"), replace(DENIED, limited=False), OutageError("away")], ids=str)
def test_what_does_not_hold_is_not_remembered(clock: Clock, says: Result | Exception) -> None:
    server = Denying()
    server.says = says
    limiter = Limiter(Cached(server))
    for _ in range(2):
        try:
            limiter.limit("k", HOUR)
        except OutageError:
            continue
    assert len(server.asked) == 2


GIVING: list[Callable[[Limiter], Any]] = [
    lambda limiter: limiter.refund("k", HOUR), lambda limiter: limiter.ban("k", "0"), lambda limiter: limiter.reset("k"),
    lambda limiter: limiter.settle({"k": HOUR, "l": Slots()}, id="a"), lambda limiter: limiter.decider.forget("k"),  # type: ignore[attr-defined]
]


@pytest.mark.parametrize("gives", range(len(GIVING)))
def test_what_gives_back_makes_it_forget(clock: Clock, gives: int) -> None:
    limiter = Limiter(Cached(Denying()))
    assert [limiter.limit("k", HOUR).by for _ in range(2)] == ["server", "cache"]
    clock.now = 1
    GIVING[gives](limiter)
    assert limiter.limit("k", HOUR).by == "server", "it was asked before"
    clock.now = 2
    assert [limiter.limit("k", HOUR).by for _ in range(2)] == ["server", "cache"]


def test_the_oldest_denials_and_keys_go_first(clock: Clock) -> None:
    server = Denying()
    limiter = Limiter(Cached(server, denials=2))
    for key in "abca":
        clock.now += 0.1
        limiter.limit(key, HOUR)
    assert len(server.asked) == 4
    for key in "xyz":
        limiter.reset(key)
    assert limiter.limit("a", HOUR).by == "server", "too many keys were forgotten to tell which"


def test_no_option_of_a_call_escapes() -> None:
    """One that is new must not be lost on the way through a cache: add it to what is known here, or such calls are
    handed on."""
    assert {field.name for field in fields(Call)} - cached._KNOWN == {field.name for field in cached._UNKNOWN}
    plain = Call("limit", (Key("k", (HOUR,)),))
    changed = [replace(plain, cost=7), replace(plain, charge="up_to"), replace(plain, ban="1m"), replace(plain, max_wait="1m"), replace(plain, each=True),
               replace(plain, several=True), replace(plain, several=True, any=True)]
    assert len({cached.id_of(call) for call in [plain, *changed]}) == len(changed) + 1


@pytest.mark.parametrize(("options", "says"), [({"denials": 0}, "denials"), ({"max_age": 10}, "max_age.*unit"), ({"max_age": "0"}, "max_age")])
def test_options_are_checked_at_construction(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        Cached(Denying(), **options)
    with pytest.raises(TypeError, match="decider"):
        Cached(None)  # type: ignore[arg-type]


async def test_the_one_of_asyncio_does_the_same(clock: Clock) -> None:
    server = AsyncDenying()
    limiter = AsyncLimiter(AsyncCached(server))
    assert [(await limiter.limit("k", HOUR)).by for _ in range(3)] == ["server", "cache", "cache"]
    clock.now = 1
    await limiter.refund("k", HOUR)
    assert (await limiter.limit("k", HOUR)).by == "server"
    await limiter.close()


def asked_of(server: Server) -> int:
    stats = server.client().info("commandstats")
    return int(stats["cmdstat_cl.limit"]["calls"]) if "cmdstat_cl.limit" in stats else 0


def test_a_hot_key_that_is_limited_costs_the_server_eleven_of_a_thousand_calls(server: Server) -> None:
    with Limiter.from_url(server.url) as behind:
        limiter, before = Limiter(Cached(behind)), asked_of(server)
        got = [limiter.limit("k", fixed(10, "1d"), window(50, "1h")).allowed for _ in range(1000)]
        assert got.count(True) == 10
        assert asked_of(server) - before == 11
        limiter.reset("k")
        assert limiter.limit("k", fixed(10, "1d"), window(50, "1h")).allowed
