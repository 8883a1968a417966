"""A hook for LiteLLM: admits a request with an estimate of its tokens and a slot, and settles it by what was used.

    # throttle_hook.py, beside the proxy's config.yaml with litellm_settings: {callbacks: throttle_hook.throttle}
    throttle = ThrottleHook("redis://127.0.0.1:6379", requests=rate(60, "1m"), tokens=rate(100_000, "1m"), slots=4)

All three are decided in one call (CL.MLIMIT): a request, its tokens and a slot, or nothing. When the response is there,
one more call (CL.SETTLE) frees the slot and charges or returns the difference. It does that once, however often it is
sent.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import litellm
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

from ._core.call import many
from ._core.duration import Duration, nanoseconds
from ._core.errors import OutageError, OverloadError
from ._core.limit import Limit, Limits, Slots, as_limits, parse_limits
from ._core.result import Result, in_force
from ._core.undecided import DEFAULTS, Answer, Undecided, log
from ._web.fields import retry_after_fields
from ._web.http import check_decider
from .asyncio import Decider, Limiter, Policies

_FIELD = "throttle"
_MOST = 2**62
"""Tokens of an estimate: no limit has so many, and the server takes the number."""


def by_api_key(user_api_key_dict: Any, data: dict[str, Any]) -> str:
    """Return whom a request counts for: the API key's hash, or else its user."""
    return str(getattr(user_api_key_dict, "api_key", None) or getattr(user_api_key_dict, "user_id", None) or "anonymous")


def _number(value: Any) -> float:
    """Return a number of tokens that somebody else gave; NaN if it is none."""
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, int):
        return value
    with contextlib.suppress(TypeError, ValueError):
        return float(value)
    return math.nan


def _part(whole: Any, name: str) -> Any:
    """Return a part of a response, which is an object or a mapping."""
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


def _one(name: str, limits: Limits | None) -> Limit | None:
    """Return the one limit that there is, or that policy() has named."""
    if limits is None:
        return None
    if not isinstance(limits, Limit) and not (isinstance(limits, tuple) and len(limits) == 1):
        raise TypeError(f"{name} must be one limit, such as rate(60, '1m'), not {limits!r}")
    [limit] = as_limits(limits, name)
    return limit


class ThrottleHook(CustomLogger):
    """The hook. Give it to the proxy as a callback.

    `requests` and `tokens` are limits; `slots` is how many requests of a caller run at a time. `by` says whom a request
    counts for. `ttl` is after which time the slot of a process that has died is free: longer than the longest response,
    since a stream does not renew it. `default_max_tokens` is the estimate of a response whose request has no
    `max_tokens`. A limit of 0 lets nobody through.

    Limits with a policy, `requests=policy("llm-requests", rate(60, "1m"))`, are changed by the hash of
    `redis_throttle.asyncio.Policies` while the proxy runs. A request is settled by the limits by which it was admitted.

    `limiter` is a `redis_throttle.asyncio.Limiter` or another decider of asyncio, in place of the url.

    `outage`, `overload` and `mistake` say what becomes of a request that could not be decided: `"allow"`, `"deny"`
    (status 503) or `"raise"`. By default it is allowed in an outage, denied in an overload, and the error of a mistake
    is raised.
    """

    def __init__(self, url: str = "redis://127.0.0.1:6379", *, requests: Limits | None = None, tokens: Limits | None = None,
                 slots: int | None = None, ttl: Duration = "10m", by: Callable[[Any, dict[str, Any]], str] = by_api_key,
                 default_max_tokens: int = 1000, outage: Answer = DEFAULTS["outage"], overload: Answer = DEFAULTS["overload"],
                 mistake: Answer = DEFAULTS["mistake"], prefix: str = "llm", limiter: Decider | None = None) -> None:
        super().__init__()
        if requests is None and tokens is None and slots is None:
            raise ValueError("give at least one of requests, tokens and slots")
        if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 0):
            raise ValueError(f"slots must be how many requests run at a time, not {slots!r}")
        requests, tokens = _one("requests", requests), _one("tokens", tokens)
        nanoseconds(ttl, "ttl")  # raises if it is wrong
        self._undecided = Undecided(outage, overload, mistake)
        if tokens is not None and slots is None:
            slots = 2**63 - 1  # the lease is what says that an admission is not settled yet
        if limiter is not None:
            check_decider(limiter, asynchronous=True)
        if limiter is None:
            limiter = Limiter.from_url(url)
            if any(limit is not None and limit.policy_name for limit in (requests, tokens)):
                limiter = Policies(limiter)
        self.limiter: Limiter = limiter if isinstance(limiter, Limiter) else Limiter(limiter)
        self.requests: Limit | None = requests
        self.tokens: Limit | None = tokens
        self.slots: int | None = slots
        self.ttl: Duration = ttl
        self.by: Callable[[Any, dict[str, Any]], str] = by
        self.default_max_tokens: int = default_max_tokens
        self.prefix: str = prefix

    def estimate(self, data: dict[str, Any]) -> int:
        """Return how many tokens a request may use: those of its messages, and the most that it asks for.

        A request that asks for something else than a number of tokens is answered with status 400.
        """
        most = self._most(data)
        try:
            text = data.get("prompt") or data.get("input")
            prompt = int(litellm.token_counter(model=data.get("model") or "", messages=data.get("messages"), text=text))
        except Exception:  # a form that LiteLLM cannot count
            prompt = len(str(data.get("messages") or data.get("prompt") or data.get("input") or "")) // 4
        return min(prompt + most, _MOST)

    def _most(self, data: dict[str, Any]) -> int:
        for name in ("max_completion_tokens", "max_tokens"):
            asked = data.get(name)
            if asked is None or asked == 0:
                continue
            number = _number(asked)
            if not number > 0 or number == math.inf:
                raise HTTPException(400, f"{name} must be a positive number of tokens")
            return int(min(number, _MOST))
        return self.default_max_tokens

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> dict[str, Any]:
        """Admit a request, or raise an HTTPException with status 429."""
        try:
            # One hash tag, so that a cluster has all keys in one slot.
            tag = f"{{{self.prefix}:{self.by(user_api_key_dict, data)}}}"
            admission: dict[str, Any] = {"tag": tag, "id": uuid.uuid4().hex, "estimate": self.estimate(data) if self.tokens else 0}
            keys = self._keys(admission, None)
            # Whether a shadow was charged says only its own result.
            each = self.tokens is not None and (self.tokens.shadow or bool(self.tokens.policy_name))
            result = await self.limiter.decide(many("limit", keys, id=admission["id"] if self.slots is not None else "", each=each))
        except HTTPException:
            raise
        except Exception as error:
            self._undecided.tell(error, "a request to a model")
            answer = self._undecided.to(error)
            if answer == "raise":
                raise
            if answer == "deny":
                raise HTTPException(503, "the rate limit could not be checked", dict(retry_after_fields(timedelta(seconds=1)))) from error
            return data
        if result.limited:
            what = result.key.rpartition(":")[2]
            raise HTTPException(429, f"the limit of {what} is reached", dict(retry_after_fields(result.retry_after)))
        if self.slots is not None:
            if self.tokens is not None:
                self._note(admission, keys, result)
            for name in ("metadata", "litellm_metadata"):
                if name == "metadata" or name in data:
                    data[name] = {**(data.get(name) or {}), _FIELD: admission}
        return data

    def _note(self, admission: dict[str, Any], keys: dict[str, Any], result: Result) -> None:
        """Note the limits of tokens that were charged, as text: a policy may say others by the end. A shadow that was
        exceeded was not."""
        at = list(keys).index(f"{admission['tag']}:tokens")
        limits = in_force([(limit,) if isinstance(limit, Limit) else () for limit in keys.values()], result)[at]
        exceeded = {one.rule for one in result.each if one.limited and one.key_index == at}
        admission["charged"] = " ".join(str(limit.replace(take=None, spare=0)) for rule, limit in enumerate(limits) if rule not in exceeded)

    async def async_log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Settle a request by the tokens of its response."""
        total = _part(_part(response_obj, "usage"), "total_tokens")
        parameters = kwargs.get("litellm_params") or {}
        await self._settle(parameters.get("metadata"), parameters.get("litellm_metadata"), used=total)

    async def async_post_call_failure_hook(self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any,
                                           traceback_str: str | None = None) -> None:
        """Settle a request that has failed for good, after retries and fallbacks: it used nothing."""
        await self._settle(request_data.get("metadata"), request_data.get("litellm_metadata"), used=0)

    async def _settle(self, *places: dict[str, Any] | None, used: Any) -> None:
        admission = next((place[_FIELD] for place in places if place and _FIELD in place), None)
        if admission is None:
            return
        # A response that does not say what it used, or says what is no number of tokens, keeps the estimate.
        number = math.nan if used is None else _number(used)
        keys = self._keys(admission, int(min(number, _MOST)) if 0 <= number < math.inf else admission["estimate"])
        try:
            await self.limiter.settle(keys, id=admission["id"], repeat=self.ttl)
        except OverloadError:
            pass  # it goes on in the background
        except OutageError as error:
            log.error("a request to a model could not be settled; that is repeated until its slot is free, after %s: %s", self.ttl, error)

    def _keys(self, admission: dict[str, Any], used: int | None) -> dict[str, Any]:
        """Return the keys of an admission, or of its settlement if used is known."""
        tag = admission["tag"]
        keys: dict[str, Any] = {}
        if self.requests is not None and used is None:
            keys[f"{tag}:requests"] = self.requests
        if self.tokens is not None and used is None:
            keys[f"{tag}:tokens"] = self.tokens.replace(take=admission["estimate"])
        elif admission.get("charged"):
            keys[f"{tag}:tokens"] = [limit.replace(take=admission["estimate"], used=used) for limit in parse_limits(admission["charged"])]
        if self.slots is not None:
            keys[f"{tag}:slots"] = Slots(self.slots, self.ttl)
        return keys
