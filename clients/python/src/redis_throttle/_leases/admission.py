"""Admissions: units of limits and slots that are taken together, and settled at the end by what was used."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import replace

from .._core.call import Call, Holdings, Key, many, pairs_of
from .._core.duration import seconds
from .._core.errors import LeaseLostError
from .._core.limit import Limit, Slots, as_limits
from .._core.result import Result, in_force
from .._core.steps import run, run_async
from .later import AsyncHome, Home, giving_back, taking

_LOST = "the admission has lapsed: its slot may be somebody else's, and its units stay as they were estimated"


class _Taken:
    """What both kinds of admissions know."""

    def __init__(self, keys: Holdings, cost: int, strict: bool, id: str) -> None:
        self.id: str = id or uuid.uuid4().hex
        self.result: Result | None = None
        """The result of the call that took the units and the slots; None before."""
        pairs = pairs_of(keys)
        if not any(isinstance(what, Slots) for _, what in pairs):
            raise ValueError("keys: an admission needs Slots, such as Slots(4, '1m'): without any, limit_all takes units of several keys")
        shadows = any(limit.shadow or limit.policy_name for _, what in pairs if not isinstance(what, Slots) for limit in as_limits(what, "keys"))
        # Whether a shadow was charged says only its own result.
        self._call = many("limit", pairs, cost=cost, charge="strict" if strict else None, id=self.id, each=shadows)
        self._lasts = max(seconds(key.ttl, "ttl") for key in self._call.keys if key.ttl is not None)
        self._used: dict[str, tuple[int, ...]] = {}
        self._uncharged: set[tuple[int, int]] = set()
        """The places of shadows that the call exceeded, and so was not charged for."""
        self._held = False

    def used(self, key: str, *units: int) -> None:
        """Say how many units of a key's limits were used in the end: one number for all of its limits, or one for each.

        The last word counts. Limits that nothing is said of keep what was taken of them.
        """
        there = next((each for each in self._call.keys if each.name == key), None)
        if there is None or not there.limits:
            raise ValueError(f"key: the admission has limits of {', '.join(repr(each.name) for each in self._call.keys if each.limits) or 'no key'}")
        if len(units) not in (1, len(there.limits)):
            raise ValueError(f"units: give one number for all limits of the key, or one for each of its {len(there.limits)}, not {len(units)}")
        self._used[key] = units if len(units) == len(there.limits) else units * len(there.limits)
        self._settlement()  # raises if a number is wrong

    def _settlement(self) -> Call:
        return self._settled(self._used)

    def _undone(self) -> Call:
        """Return the call that gives everything back, if the server has granted it."""
        return self._settled({key.name: (0,) * len(key.limits) for key in self._call.keys})

    def _settled(self, used: dict[str, tuple[int, ...]]) -> Call:
        keys = []
        for index, key in enumerate(self._call.keys):
            if key.leased:
                keys.append(Key(key.name, leased=True))
            elif key.name in used:
                limits = []
                charged, numbers = self._charged(index, key), used[key.name]
                if len(numbers) != len(charged):  # a policy has put others in their place, which all took the same
                    numbers = (max(numbers),) * len(charged)
                for rule, (limit, units) in enumerate(zip(charged, numbers, strict=True)):
                    taken = self._call.cost if limit.take is None else limit.take
                    taken, units = (0, 0) if (index, rule) in self._uncharged else (taken, units)
                    limits.append(replace(limit, take=taken, used=units, spare=0))
                if limits:
                    keys.append(Key(key.name, tuple(limits)))
        return Call("settle", tuple(keys), id=self.id, several=True)

    def _charged(self, index: int, key: Key) -> tuple[Limit, ...]:
        """Return the limits of a key that were charged, whatever its policy says by now."""
        if self.result is None:
            return key.limits
        [limits] = in_force([key.limits], replace(self.result, policies=self.result.policies[index:index + 1]))
        return tuple(replace(limit, policy_name="") if limit.policy_name else limit for limit in limits)

    def _begin(self) -> Call:
        """Return what gives back what an earlier try with this id has left."""
        if self._held:
            raise ValueError("the admission is taken already: it holds its units and slots")
        return self._undone()

    def _took(self, result: Result) -> None:
        self.result = result.raise_if_limited()
        self._uncharged = {(each.key_index, each.rule) for each in result.each if each.limited}
        self._held = result.by != "policy"  # of which no server knows
        self._lapses = math.inf if not self._held else time.monotonic() + self._lasts


class Admission(_Taken):
    """Units and slots that are held during a `with` statement, and settled at its end (CL.MLIMIT and CL.SETTLE).

        keys = {"{7}:requests": rate(60, "1m"), "{7}:tokens": rate(100_000, "1m", take=1200),
                "{7}:running": Slots(4, "5m")}
        with limiter.admit(keys) as admission:
            answer = ask_the_model()
            admission.used("{7}:tokens", answer.tokens)

    Entering takes all of it or raises a `LimitedError`. At the end the slots are freed, and what was `used` is charged
    in place of what was taken: more, into debt if need be, or less. Slots last for their `ttl` and are not renewed, so
    it is longer than the work; when they have lapsed, the `with` raises a `LeaseLostError` at its end, unless the work
    raised an error itself. A settlement that meets an outage or an overload is repeated in the background until the
    slots lapse.
    """

    def __init__(self, limiter: Home, keys: Holdings, *, cost: int = 1, strict: bool = False, id: str = "") -> None:
        super().__init__(keys, cost, strict, id)
        self._limiter = limiter

    def take(self) -> Admission:
        """Take the units and slots, or raise a `LimitedError`. `settle` ends it, or `Limiter.settle` in another
        process."""
        undo, later = self._begin(), self._limiter._later
        later.forget(undo)
        self._took(run(taking(self._call, undo, later, self._lasts), self._limiter.decide))
        return self

    def settle(self) -> bool:
        """Free the slots, and charge what was used. Return whether the admission was still there; later calls change
        nothing."""
        if not self._held:
            return True
        self._held = False
        return run(giving_back(self._settlement(), self._limiter._later, self._lapses), self._limiter.decide)

    def __enter__(self) -> Admission:
        return self.take()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.settle() and kind is None:
            raise LeaseLostError(_LOST)


class AsyncAdmission(_Taken):
    """As `redis_throttle.Admission`, for `async with`."""

    def __init__(self, limiter: AsyncHome, keys: Holdings, *, cost: int = 1, strict: bool = False, id: str = "") -> None:
        super().__init__(keys, cost, strict, id)
        self._limiter = limiter

    async def take(self) -> AsyncAdmission:
        """Take the units and slots, or raise a `LimitedError`. `settle` ends it, or `Limiter.settle` in another
        process."""
        undo, later = self._begin(), self._limiter._later
        await later.forget(undo)
        self._took(await run_async(taking(self._call, undo, later, self._lasts), self._limiter.decide))
        return self

    async def settle(self) -> bool:
        """Free the slots, and charge what was used. Return whether the admission was still there; later calls change
        nothing."""
        if not self._held:
            return True
        self._held = False
        return await run_async(giving_back(self._settlement(), self._limiter._later, self._lapses), self._limiter.decide)

    async def __aenter__(self) -> AsyncAdmission:
        return await self.take()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not await self.settle() and kind is None:
            raise LeaseLostError(_LOST)
