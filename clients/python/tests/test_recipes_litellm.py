"""The limits of a virtual key of LiteLLM's proxy (`rpm_limit`, `tpm_limit`, `max_parallel_requests`) beside our hook,
compared by what gets through."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from servers import Server

# Both hooks, each act in the context of its request, as in the proxy.
PROGRAM = """
import asyncio, contextvars, json, sys
from fastapi import HTTPException
from litellm.caching.caching import DualCache, RedisCache
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.hooks.parallel_request_limiter_v3 import _PROXY_MaxParallelRequestsHandler_v3
from litellm.proxy.utils import InternalUsageCache
from redis_throttle import rate
from redis_throttle.asyncio import Limiter
from redis_throttle.litellm import ThrottleHook

url, recipes = json.loads(sys.argv[1])


async def play(hooks, limits, acts):
    statuses, under_way = [], {}
    for n, (act, name, tokens) in enumerate(acts):
        hook, key = hooks[n % len(hooks)], UserAPIKeyAuth(api_key=name, **limits)
        if act == "fail":
            hook, request, context = under_way[name].pop(0)
            await asyncio.create_task(hook.async_post_call_failure_hook(request, RuntimeError("made up"), key), context=context)
            continue
        request = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}], "max_tokens": tokens,
                   "litellm_call_id": str(n), "metadata": {}}
        context = contextvars.copy_context()
        try:
            await asyncio.create_task(hook.async_pre_call_hook(key, DualCache(), request, "completion"), context=context)
            under_way.setdefault(name, []).append((hook, request, context))
            statuses.append(200)
        except HTTPException as error:
            statuses.append(error.status_code)
    return statuses


def theirs(redis=None):
    return _PROXY_MaxParallelRequestsHandler_v3(InternalUsageCache(DualCache(redis_cache=redis)))


def hook(number, rpm_limit=None, tpm_limit=None, max_parallel_requests=None):
    limiter = Limiter.from_url(url, timeout="5s")
    return ThrottleHook(limiter=limiter, requests=rpm_limit and rate(rpm_limit, "1h"), tokens=tpm_limit and rate(tpm_limit, "1h"),
                        slots=max_parallel_requests, prefix=f"llm{number}")


async def main():
    said = []
    for number, (limits, acts) in enumerate(recipes):
        ours = [hook(number, **limits) for _ in range(2)]
        said.append([await play([theirs()], limits, acts), await play(ours, {}, acts)])
        for one in ours:
            await one.limiter.close()
    new = hook("rolling", rpm_limit=2)
    said.append(await play([theirs(RedisCache(url=url)), new], {"rpm_limit": 2}, [("ask", "ann", 300)] * 6))
    await new.limiter.close()
    print(json.dumps(said))


asyncio.run(main())
"""
ANN, BOB = ("ask", "ann", 300), ("ask", "bob", 300)
FAIL = ("fail", "ann", 0)
"""The oldest request of Ann's that is under way fails."""

RECIPES: dict[str, tuple[dict[str, int], list[tuple[str, str, int]], list[int]]] = {
    "requests of a key": ({"rpm_limit": 2}, [ANN, ANN, ANN, BOB], [200, 200, 429, 200]),
    "tokens of a key, by an estimate": ({"tpm_limit": 1000}, [ANN, ANN, ANN, ANN, ("ask", "ann", 10), BOB], [200, 200, 200, 429, 200, 200]),
    "a request that fails used no tokens": ({"tpm_limit": 500}, [ANN, ANN, FAIL, ANN], [200, 429, 200]),
    "requests at a time": ({"max_parallel_requests": 2}, [ANN, ANN, ANN, FAIL, ANN, ANN, BOB], [200, 200, 429, 200, 429, 200]),
    "all of them": ({"rpm_limit": 4, "tpm_limit": 1000, "max_parallel_requests": 2}, [ANN, ANN, ANN, FAIL, FAIL, ("ask", "ann", 900)], [200, 200, 429, 200]),
}


@pytest.mark.timeout(480)
def test_what_gets_through_is_that_of_the_proxy(server: Server) -> None:
    """The hooks of two processes take turns for ours. In a rolling deploy theirs and ours each keep to the limit, on
    one server."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_RATE_LIMIT_WINDOW_SIZE": "3600"}
    given = json.dumps([server.url, [recipe[:2] for recipe in RECIPES.values()]])
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, given], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *compared, rolling = json.loads(ran.stdout.splitlines()[-1])
    said = dict(zip(RECIPES, compared, strict=True))
    assert said == {name: [expected, expected] for name, (_, _, expected) in RECIPES.items()}
    assert rolling == [200, 200, 200, 200, 429, 429]
