"""The hook by itself: what it makes of requests that are odd, limits of 0, and calls that are not decided."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from redis_throttle import MistakeError, OutageError, OverloadError, rate
from redis_throttle.asyncio import Limiter
from redis_throttle.litellm import ThrottleHook
from servers import PATIENCE, Server

NOWHERE = "redis://127.0.0.1:1"


async def admit(hook: ThrottleHook, **data: Any) -> int:
    """Return the status that a request is answered with, or 200."""
    try:
        await hook.async_pre_call_hook(None, None, {"messages": [{"role": "user", "content": "hello"}], **data}, "completion")
    except HTTPException as error:
        return error.status_code
    return 200


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(("asked", "status"), [
    (-500, 400), ("lots", 400), ("", 400), ([1], 400), (True, 400), (float("nan"), 400), (float("inf"), 400), (-1e30, 400),
    (1e30, 429), (10**30, 429), (2**63 - 1, 429), (5000, 429), (100, 200), (100.0, 200), ("100", 200), (None, 200), (0, 200),
])
async def test_a_number_of_tokens_that_is_odd(server: Server, name: str, asked: Any, status: int) -> None:
    hook = ThrottleHook(server.url, tokens=rate(1000, "1h"), default_max_tokens=100)
    assert await admit(hook, **{name: asked}) == status
    await hook.limiter.close()


@pytest.mark.parametrize("limits", [{"requests": rate(0, "1m")}, {"tokens": rate(0, "1m")}, {"slots": 0}, {"requests": rate(5, "1m"), "slots": 0}], ids=str)
async def test_a_limit_of_0_lets_nobody_through(server: Server, limits: dict[str, Any]) -> None:
    hook = ThrottleHook(server.url, **limits)
    assert await admit(hook) == 429
    assert server.do("DBSIZE") == 0
    await hook.limiter.close()


@pytest.mark.parametrize(("error", "option", "default"), [
    (OutageError, "outage", 200), (OverloadError, "overload", 503), (MistakeError, "mistake", None), (KeyError, "mistake", None)])
async def test_every_error_has_an_answer(error: type[Exception], option: str, default: int | None) -> None:
    def by(user: Any, data: Any) -> str:
        raise error("made up")

    for answer, status in ((None, default), ("allow", 200), ("deny", 503), ("raise", None)):
        options: dict[str, Any] = {option: answer} if answer else {}
        hook = ThrottleHook(NOWHERE, requests=rate(5, "1m"), by=by, **options)
        if status is None:
            with pytest.raises(error):
                await admit(hook)
        else:
            assert await admit(hook) == status


@pytest.mark.parametrize(("options", "says"), [
    ({"outage": "let through"}, 'called "allow" now'), ({"overload": "503"}, "overload must be"), ({"mistake": None}, "mistake must be"),
    ({"slots": -1}, "slots"), ({"slots": "4"}, "slots"), ({"requests": 60}, "requests must be one limit"), ({"ttl": "10"}, "ttl"),
])
def test_options_are_checked_at_construction(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        ThrottleHook(NOWHERE, **{"requests": rate(5, "1m"), **options})


async def test_tokens_on_trial_that_were_not_charged_are_not_settled(server: Server) -> None:
    tokens = rate(1000, "365d", shadow=True)
    hook = ThrottleHook(server.url, tokens=tokens, by=lambda user, data: "ann")
    key = "{llm:ann}:tokens"
    await hook.limiter.limit(key, tokens, cost=600)
    data: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5000}
    await hook.async_pre_call_hook(None, None, data, "completion")
    await hook.async_log_success_event({"litellm_params": {"metadata": data["metadata"]}}, {"usage": {"total_tokens": 100}}, None, None)
    assert server.do("EXISTS", "{llm:ann}:slots") == 0, "it is settled"
    assert (await hook.limiter.peek(key, tokens)).remaining == 400
    await hook.limiter.close()


async def test_a_settlement_that_meets_overload_is_tried_again(server: Server) -> None:
    """Another user of the pool has all of its connections when the response is there."""
    async with Limiter.from_url(server.url, options={"max_connections": 1}) as limiter:
        hook = ThrottleHook(limiter=limiter, tokens=rate(1000, "365d"), slots=2, by=lambda user, data: "ann")
        data: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 500}
        await hook.async_pre_call_hook(None, None, data, "completion")
        assert server.do("ZCARD", "{llm:ann}:slots") == 1
        taken = await limiter.client.connection_pool.get_connection()
        await hook.async_log_success_event({"litellm_params": {"metadata": data["metadata"]}}, {}, None, None)
        assert server.do("ZCARD", "{llm:ann}:slots") == 1
        await limiter.client.connection_pool.release(taken)
        async with asyncio.timeout(PATIENCE):
            while server.do("EXISTS", "{llm:ann}:slots"):
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("usage", [{"usage": {"total_tokens": 200}}, {"usage": {"total_tokens": "200"}}])
async def test_a_response_that_is_a_mapping_says_what_it_used(server: Server, usage: Any) -> None:
    assert await settled(server, usage) == 200


@pytest.mark.parametrize("total", [-5, "lots", float("nan"), float("inf"), True, [3], None])
async def test_a_use_that_is_odd_keeps_the_estimate_and_frees_the_slot(server: Server, total: Any) -> None:
    response = SimpleNamespace(usage=SimpleNamespace(total_tokens=total))
    assert await settled(server, response) == await settled(server, {})


async def settled(server: Server, response: Any) -> int:
    """Return what a request is charged whose response this is."""
    server.do("FLUSHALL")
    tokens = rate(1000, "365d")
    async with Limiter.from_url(server.url) as limiter:
        hook = ThrottleHook(limiter=limiter, tokens=tokens, slots=2, by=lambda user, data: "ann")
        data: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 500}
        await hook.async_pre_call_hook(None, None, data, "completion")
        await hook.async_log_success_event({"litellm_params": {"metadata": data["metadata"]}}, response, None, None)
        assert server.do("EXISTS", "{llm:ann}:slots") == 0, "the slot is held"
        return 1000 - (await limiter.peek("{llm:ann}:tokens", tokens)).remaining
