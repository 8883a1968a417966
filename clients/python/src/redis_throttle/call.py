"""Calls: the commands in words, and their replies as results. Nothing here sends anything."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from .duration import FOREVER, Duration, milliseconds, nanoseconds, wait_word
from .errors import MistakeError
from .limit import Limit, Rule, Slots, as_limits
from .result import ZERO, Result

Keys = Mapping[str, Rule | Sequence[Limit]]
"""The keys of a call, in order, each with its limits or `Slots`. In a cluster they need a common hash tag, such as `{acme}`."""

COMMANDS = {
    "limit": "CL.LIMIT", "peek": "CL.PEEK", "refund": "CL.REFUND", "wait": "CL.WAIT", "ban": "CL.BAN",
    "lease": "CL.LEASE", "renew": "CL.RENEW", "release": "CL.RELEASE", "settle": "CL.SETTLE",
}
_LONGEST_WAIT = timedelta(days=36_500)  # of the server


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a call, with its limits, or with slots if ttl is not None."""

    name: str
    limits: tuple[Limit, ...] = ()
    slots: int = 0
    ttl: Duration | None = None
    leased: bool = False

    @property
    def rules(self) -> int:
        """How many rules the server counts here: slots are one."""
        return max(len(self.limits), 1)


@dataclass(frozen=True, slots=True)
class Call:
    """One act on one key or several."""

    verb: str
    keys: tuple[Key, ...]
    cost: int = 1
    upto: bool = False
    strict: bool = False
    force: bool = False
    any: bool = False
    ban: Duration | None = None
    max_wait: Duration | None = None
    group: str = ""
    priority: int = 0
    id: str = ""
    each: bool = False
    several: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.cost, bool) or not isinstance(self.cost, int):
            raise TypeError(f"cost must be an integer, not {self.cost!r}")
        if self.several and not self.keys:
            raise ValueError("keys: there must be at least one")
        for key in self.keys:
            if not isinstance(key.name, (str, bytes)):
                raise TypeError(f"a key must be str or bytes, not {type(key.name).__name__}")
            for limit in key.limits:
                if limit.count == 0:
                    raise ValueError(f"{limit}: a count of 0 lets nobody through: deny the call, and do not ask for it")

    @property
    def command(self) -> str:
        """The name of the command."""
        return "CL.MLIMIT" if self.verb == "limit" and self.several else COMMANDS[self.verb]

    @property
    def timeout(self) -> timedelta | None:
        """How long the server may keep the caller waiting: None is not at all."""
        if self.max_wait is None or self.verb not in ("wait", "lease"):
            return None
        return FOREVER if self.max_wait == FOREVER else milliseconds(nanoseconds(self.max_wait, "timeout") // 1_000_000)

    def at_once(self) -> Call:
        """Return this call without the wait."""
        return replace(self, max_wait=None, group="", priority=0)

    def words(self) -> list[str | bytes]:
        """Return the command in words."""
        words: list[str | bytes]
        if self.several:
            words = self._several()
        else:
            key = self.keys[0]
            words = [self.command, key.name]
            if self.verb == "ban":
                return [*words, wait_word(nanoseconds(self.ban, "duration"))]
            if self.verb == "release":
                return [*words, "ID", self.id]
            if self.verb == "lease":
                words += ["SLOTS", str(key.slots), "TTL", _wait(key.ttl, "ttl"), "ID", self.id, *self._line()]
            elif self.verb == "renew":
                words += ["ID", self.id, "TTL", _wait(key.ttl, "ttl")]
            else:
                words += [*self._limits(key), *self._options(), *self._line()]
                if len(words) == 2:
                    return words  # with COMPACT the server's error would be about a word that the caller did not write
        return [*words, "COMPACT", *(["EACH"] if self.each else [])]

    def _several(self) -> list[str | bytes]:
        words: list[str | bytes] = [self.command, str(len(self.keys)), *(key.name for key in self.keys)]
        # One group without NEXT is that of every key.
        same = all(not key.leased and key.limits == self.keys[0].limits for key in self.keys)
        for i, key in enumerate(self.keys[:1] if same else self.keys):
            if i:
                words.append("NEXT")
            if not key.leased:
                words += self._limits(key)
            elif self.verb == "settle":
                words.append("SLOTS")
            else:
                words += ["SLOTS", str(key.slots), "TTL", _wait(key.ttl, "ttl")]
        if self.any:
            words.append("ANY")
        if self.id:
            words += ["ID", self.id]
        return words if self.verb == "settle" else [*words, *self._options()]

    def _limits(self, key: Key) -> list[str]:
        limits = key.limits
        if self.verb == "refund":  # which has no SPARE
            limits = tuple(limit.replace(spare=0) if limit.spare else limit for limit in limits)
        return list(itertools.chain.from_iterable(limit.words for limit in limits))

    def _options(self) -> list[str]:
        words = []
        if self.cost != 1:
            words += ["COST", str(self.cost)]
        words += [word for word, on in (("UPTO", self.upto), ("STRICT", self.strict), ("FORCE", self.force)) if on]
        if self.ban is not None:
            words += ["BAN", _wait(self.ban, "ban")]
        if self.verb == "limit" and self.max_wait is not None:
            longest = min(nanoseconds(self.max_wait, "max_wait"), nanoseconds(_LONGEST_WAIT, "max_wait"))
            words += ["MAXWAIT", wait_word(longest)]
        return words

    def _line(self) -> list[str]:
        if self.verb not in ("wait", "lease") or self.max_wait is None:
            return []
        ns = nanoseconds(self.max_wait, "timeout")
        if ns == 0:
            raise ValueError("timeout must not be 0: use limit() or no timeout to have an answer at once, FOREVER to wait as long as it takes")
        words = ["TIMEOUT", wait_word(0 if ns >= nanoseconds(_LONGEST_WAIT, "") else ns)]
        if self.group:
            words += ["GROUP", self.group]
        if self.priority:
            words += ["PRIORITY", str(self.priority)]
        return words

    def result(self, reply: Any) -> Result:
        """Read the reply."""
        if self.verb == "ban":
            return Result(lasts=milliseconds(_integer(reply)))
        if self.verb == "release":
            return Result(granted=-_integer(reply))
        if self.verb in ("lease", "renew"):
            n = _integers(reply, 6)
            return Result(limited=bool(n[0]), limit=n[1], remaining=n[2], retry_after=_after(n[3]) if n[0] else ZERO,
                          lasts=ZERO if n[0] else milliseconds(n[4]), wait=milliseconds(n[5]))
        return self._compact(reply)

    def _compact(self, reply: Any) -> Result:
        n = _integers(reply, 11 if self.several else 10)
        settle = self.verb == "settle"
        limited = bool(n[0]) != settle
        rules = sum(key.rules for key in self.keys)
        banned = limited and n[1] == 0 and not settle
        if not 0 <= n[1] <= rules or (n[1] == 0 and not banned and not settle) or not 0 <= n[9] <= rules:
            raise MistakeError(f"{self.command}: the reply is {reply!r}, whose rule is none of the {rules} limits")
        key, rule = self._place(n[1] - 1) if n[1] else (0, 0)
        shadow_key, shadow = self._place(n[9] - 1) if n[9] and not settle else (0, 0)
        if self.several and not settle:
            if not 1 <= n[10] <= len(self.keys) or (not banned and n[10] - 1 != key):
                raise MistakeError(f"{self.command}: the reply is {reply!r}, whose key is not that of its rule")
            key = n[10] - 1
        after = _after(n[4]) if limited and not settle else None if limited else ZERO
        return Result(
            limited=limited, key=key, rule=rule, banned=banned, limit=n[2], remaining=n[3], retry_after=after,
            reset_after=milliseconds(n[5]), next_after=milliseconds(n[6]), granted=n[7], wait=milliseconds(n[8]),
            shadowed=bool(n[9]), shadow=shadow, shadow_key=shadow_key, each=self._each(reply, rules) if self.each else (),
        )

    def _each(self, reply: Any, rules: int) -> tuple[Result, ...]:
        arrays = reply[-rules:]
        if len(arrays) < rules or not all(isinstance(array, (list, tuple)) for array in arrays):
            raise MistakeError(f"{self.command}: the reply is {reply!r}, without an array for each limit")
        each = []
        for i, array in enumerate(arrays):
            n = _integers(array, 5)
            key, rule = self._place(i)
            each.append(Result(limited=bool(n[0]), key=key, rule=rule, limit=n[1], remaining=n[2],
                               retry_after=_after(n[3]) if n[0] else ZERO, reset_after=milliseconds(n[4])))
        return tuple(each)

    def _place(self, rule: int) -> tuple[int, int]:
        """Return the key and the index in it of a rule that is counted through all keys."""
        for i, key in enumerate(self.keys):
            if rule < key.rules:
                return i, rule
            rule -= key.rules
        raise AssertionError


def one(verb: str, key: str, limits: Sequence[Limit], **options: Any) -> Call:
    """Return a call on one key."""
    return Call(verb, (Key(key, as_limits(limits)),), **options)


def many(verb: str, keys: Keys, **options: Any) -> Call:
    """Return a call on several keys."""
    some = []
    for name, what in keys.items():
        if not isinstance(what, Slots):
            limits = as_limits(what, "keys")
            if not limits:
                raise ValueError("keys: each needs limits or Slots")
            some.append(Key(name, limits))
        elif verb == "settle":
            some.append(Key(name, leased=True))
        elif what.n is None or what.ttl is None:
            raise ValueError("Slots need n and ttl, such as Slots(4, '1m')")
        else:
            some.append(Key(name, slots=what.n, ttl=what.ttl, leased=True))
    return Call(verb, tuple(some), several=True, **options)


def _wait(value: Duration | None, what: str) -> str:
    return wait_word(nanoseconds(value, what))


def _after(ms: int) -> timedelta | None:
    return None if ms < 0 else milliseconds(ms)


def _integer(reply: Any) -> int:
    if isinstance(reply, bool) or not isinstance(reply, int):
        raise MistakeError(f"the reply is {reply!r}, not an integer")
    return reply


def _integers(reply: Any, n: int) -> list[int]:
    if not isinstance(reply, (list, tuple)) or len(reply) < n or not all(type(number) is int for number in reply[:n]):
        raise MistakeError(f"the reply is {reply!r}, not {n} integers or more")
    return list(reply[:n])
