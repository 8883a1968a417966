"""The table of cases that the clients of every language run: spec/clients/calls.json."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

from redis_throttle import (
    FOREVER,
    Call,
    Limit,
    Limiter,
    MistakeError,
    OutageError,
    OverloadError,
    Result,
    Slots,
    rate,
)
from redis_throttle._core.call import _TAKES, Key, many
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import FakeLimiter
from servers import ROOT, MadeUp, Server

TABLE = json.loads((ROOT / "spec/clients/calls.json").read_text())
ERRORS: dict[str, type[Exception] | tuple[type[Exception], ...]] = {
    "outage": OutageError, "overload": OverloadError, "mistake": (MistakeError, ValueError, TypeError)}
SENDERS = ["redis", "valkey", "redis.asyncio", "valkey.asyncio"]


def call_of(given: dict[str, Any]) -> Call:
    options = {k: v for k, v in given.items() if k not in ("verb", "keys")}
    if options.get("max_wait") == "forever":
        options["max_wait"] = FOREVER
    for word, charge in (("upto", "up_to"), ("strict", "strict"), ("force", "force")):
        if options.pop(word, False):
            if "charge" in options:
                raise ValueError("charge is one option")
            options["charge"] = charge
    verb, keys = given["verb"], given["keys"]
    several = verb == "settle" or (verb == "limit" and (len(keys) != 1 or options.get("any") or "ttl" in keys[0]))
    if several:
        return many(verb, {k["name"]: Slots(k.get("slots"), k.get("ttl")) if "limits" not in k else limits_of(k) for k in keys}, **options)
    key = keys[0]
    return Call(verb, (Key(key["name"], limits_of(key), key.get("slots", 0), key.get("ttl")),), **options)


def limits_of(key: dict[str, Any]) -> tuple[Limit, ...]:
    return tuple(Limit(**limit) for limit in key.get("limits", []))


def shown(result: Result) -> dict[str, Any]:
    """Return a result as the table has it, with what is 0, false or empty left out."""
    fields: dict[str, Any] = {}
    for name in Result.__dataclass_fields__:
        value = getattr(result, name)
        if name in ("key", "shadow_key", "by"):  # of which the table has the indexes alone
            continue
        name = name.removesuffix("_index")
        if name == "retry_after" and value is None:
            fields["retry_after_ms"] = -1
        elif isinstance(value, timedelta):
            fields[name + "_ms"] = value // timedelta(milliseconds=1)
        elif name == "each":
            fields[name] = [shown(each) for each in value]
        else:
            fields[name] = value
    return {name: value for name, value in fields.items() if value}


def decide(sender: str, port: int, given: dict[str, Any]) -> Result:
    call = call_of(given)
    if sender == "redis":
        with redis.Redis(port=port) as client, Limiter(client, commands="module") as limiter:
            return limiter.decide(call)
    if sender == "valkey":
        with valkey.Valkey(port=port) as client, Limiter(client, commands="module") as limiter:
            return limiter.decide(call)

    async def run() -> Result:
        its: Any = redis.asyncio.Redis(port=port) if sender == "redis.asyncio" else valkey.asyncio.Valkey(port=port)
        async with its, AsyncLimiter(its, commands="module") as limiter:
            return await limiter.decide(call)

    return asyncio.run(run())


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_case(made_up: MadeUp, sender: str, case: dict[str, Any]) -> None:
    made_up.exchanges = list(case["exchanges"])
    if "error" in case:
        with pytest.raises(ERRORS[case["error"]]) as raised:
            decide(sender, made_up.port, case["call"])
        text = str(raised.value)
        assert case.get("says", "") in text
        assert f"'{case['call']['keys'][0]['name']}'" not in text, "a key in an error"
    else:
        assert shown(decide(sender, made_up.port, case["call"])) == case["result"]
    assert made_up.exchanges == [], "not everything was sent"
    assert made_up.problems == []


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("session", TABLE["sessions"], ids=lambda session: session["name"])
def test_session(server: Server, sender: str, session: dict[str, Any]) -> None:
    for number, step in enumerate(session["steps"], 1):
        got = shown(decide(sender, server.port, step["call"]))
        requires(got, step["result"], f"step {number}")


@pytest.mark.parametrize("session", TABLE["sessions"], ids=lambda session: session["name"])
def test_session_in_this_process(session: dict[str, Any]) -> None:
    limiter = FakeLimiter()
    for number, step in enumerate(session["steps"], 1):
        requires(shown(limiter.decide(call_of(step["call"]))), step["result"], f"step {number}")


def requires(got: dict[str, Any], want: dict[str, Any], where: str) -> None:
    for name, value in want.items():
        if name == "each":
            for one, each in zip(got["each"], value, strict=True):
                requires(one, each, where)
        else:
            assert got.get(name, 0) == value, f"{where}: {name} in {got}"


def test_a_verb_takes_what_it_takes_in_every_language() -> None:
    assert {verb: sorted(takes) for verb, takes in _TAKES.items()} == {verb: sorted(takes) for verb, takes in TABLE["takes"].items()}


def test_login_protection_as_the_documentation_has_it(server: Server) -> None:
    """Ten attempts too many ban the address at the account, and nobody else."""
    page = (ROOT / "docs/choosing.md").read_text()
    section = page[page.index("## Login protection"):]
    [block] = re.findall(r"```python\n(.*?)```", section[:section.index("\n## ", 1)], re.DOTALL)
    with Limiter.from_url(server.url) as limiter:
        results = []
        for _ in range(16):
            names: dict[str, Any] = {"limiter": limiter, "rate": rate}
            exec(block, names)
            results.append(names["result"])
        assert [result.limited for result in results] == [False] * 5 + [True] * 11
        assert [result.banned for result in results] == [False] * 15 + [True]
        assert results[14].retry_after == timedelta(hours=1)
        assert limiter.limit("{login:ann}", rate(300, "1d")).allowed
