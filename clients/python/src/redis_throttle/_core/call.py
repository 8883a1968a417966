"""Calls: the commands in words, and their replies as results. Nothing here sends anything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, cast

from . import positions as at
from .duration import FOREVER, Duration, milliseconds, nanoseconds, whole_milliseconds, word
from .errors import MistakeError
from .limit import Limit, Limits, Rule, Slots, as_limits, denials
from .result import ZERO, Result

Keys = Mapping[str, Limit | Sequence[Limit]] | Iterable[tuple[str, Limit | Sequence[Limit]]]
"""The keys of a call with their limits, in order: a mapping or pairs. In a cluster they need a common hash tag, such as
`{acme}`."""
Holdings = Mapping[str, Rule | Sequence[Limit]] | Iterable[tuple[str, Rule | Sequence[Limit]]]
"""As `Keys`, and a key may have `Slots` in place of limits."""

Charge = Literal["up_to", "strict", "force"]
"""How a call charges where there is less than its cost: `"up_to"` takes what there is, at least one unit. `"strict"`
charges a denied call as well, up to an empty bucket, so that a caller that keeps retrying stays blocked. `"force"`
charges the cost into debt."""

COMMANDS = {
    "limit": "CL.LIMIT", "peek": "CL.PEEK", "refund": "CL.REFUND", "wait": "CL.WAIT", "ban": "CL.BAN",
    "lease": "CL.LEASE", "renew": "CL.RENEW", "release": "CL.RELEASE", "settle": "CL.SETTLE", "reset": "DEL", "denied": "CL.DENIED",
}
_WORDS: dict[str | None, str] = {"up_to": "UPTO", "strict": "STRICT", "force": "FORCE"}
_LONGEST_WAIT = timedelta(days=36_500)  # of the server

_TAKES: dict[str, frozenset[str]] = {
    "limit": frozenset({"limits", "slots", "ttl", "cost", "charge", "any", "ban", "ban_after", "max_wait", "id", "each"}),
    "peek": frozenset({"limits", "cost", "each"}),
    "refund": frozenset({"limits", "cost", "each"}),
    "wait": frozenset({"limits", "cost", "max_wait", "group", "weight", "priority", "each"}),
    "ban": frozenset({"ban"}),
    "lease": frozenset({"slots", "ttl", "max_wait", "group", "weight", "priority", "id"}),
    "renew": frozenset({"ttl", "id"}),
    "release": frozenset({"id"}),
    "reset": frozenset(),
    "denied": frozenset({"cost"}),  # tells the server of calls that were denied without it, for its CL.TOP
    "settle": frozenset({"limits", "slots", "ttl", "id", "each"}),  # slots may stay as they were when they were taken
}
"""What each verb takes of a call and of its keys, as spec/clients/calls.json. Anything else would be dropped, and is
refused."""


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
    """One verb on one key or several."""

    verb: str
    keys: tuple[Key, ...]
    cost: int = 1
    charge: Charge | None = None
    any: bool = False
    ban: Duration | None = None
    ban_after: str | None = None
    max_wait: Duration | None = None
    group: str = ""
    weight: int = 1
    priority: int = 0
    id: str = ""
    each: bool = False
    several: bool = False

    def __post_init__(self) -> None:
        if self.verb not in _TAKES:
            raise ValueError(f"verb must be one of {', '.join(_TAKES)}, not {self.verb!r}")
        if isinstance(self.cost, bool) or not isinstance(self.cost, int):
            raise TypeError(f"cost must be an integer, not {self.cost!r}")
        if self.cost < 0:
            raise ValueError(f"cost must be 0 or more, not {self.cost}: refund() gives units back")
        if self.charge is not None and self.charge not in _WORDS:
            raise ValueError(f'charge must be "up_to", "strict" or "force", not {self.charge!r}')
        if self.several and not self.keys:
            raise ValueError("keys: there must be at least one")
        if not self.several and len(self.keys) != 1:
            raise ValueError(f"{self.verb} takes one key, not {len(self.keys)}")
        self._check_options()
        for key in self.keys:
            self._check_key(key)

    def _check_options(self) -> None:
        # A lease is asked for without these first: the server would say what is wrong only once nothing is free.
        for what in ("weight", "priority"):
            if isinstance(number := getattr(self, what), bool) or not isinstance(number, int):
                raise TypeError(f"{what} must be an integer, not {number!r}")
        if not isinstance(self.group, (str, bytes)):
            raise TypeError(f"group must be str or bytes, not {type(self.group).__name__}")
        for option, is_set in (
            ("cost", self.cost != 1), ("charge", self.charge is not None), ("any", self.any),
            ("ban", self.ban is not None), ("ban_after", self.ban_after is not None), ("max_wait", self.max_wait is not None), ("group", bool(self.group)),
            ("weight", self.weight != 1), ("priority", self.priority != 0), ("id", bool(self.id)), ("each", self.each),
        ):
            if is_set and option not in _TAKES[self.verb]:
                raise ValueError(f"{self.verb} takes no {option}")
        if self.ban_after is not None:
            if self.ban is None:
                raise ValueError("ban_after goes with a ban")
            denials(self.ban_after)
        if self.verb == "limit" and self.any and not self.several:
            raise ValueError("limit takes any only with several keys")
        if self.verb == "limit" and self.id and not any(key.leased for key in self.keys):
            raise ValueError("limit takes an id only if a key has slots with a ttl")
        if self.verb == "limit" and not self.id and any(key.leased for key in self.keys):
            raise ValueError("keys: slots are held under an id: admit makes one")
        if self.verb == "lease" and self.max_wait is None and (self.group or self.priority):
            raise ValueError(f"lease takes a {'group' if self.group else 'priority'} only with a timeout")
        if self.weight != 1 and not self.group:
            raise ValueError(f"{self.verb} takes a weight only with a group")
        if self.verb == "wait" and self.max_wait is None:
            raise TypeError("timeout must be a timedelta or a number with a unit, or FOREVER, not None")

    def _check_key(self, key: Key) -> None:
        if not isinstance(key.name, (str, bytes)):
            raise TypeError(f"a key must be str or bytes, not {type(key.name).__name__}")
        for what, is_set in (("limits", bool(key.limits)), ("slots", key.slots != 0), ("ttl", key.ttl is not None)):
            if is_set and what not in _TAKES[self.verb]:
                raise ValueError(f"{self.verb} takes no {what} of a key")
        if key.limits and (key.slots or key.ttl is not None or key.leased):
            raise ValueError("a key has either limits or slots with a ttl, not both")
        if self.verb == "limit" and (key.leased or key.slots) and not (self.several and key.leased and key.ttl is not None):
            raise ValueError("slots of a key go with a ttl, in a call on several keys")

    @property
    def command(self) -> str:
        """The name of the command."""
        return "CL.MLIMIT" if self.verb == "limit" and self.several else COMMANDS[self.verb]

    @property
    def timeout(self) -> timedelta | None:
        """How long the server may keep the caller waiting: None is not at all."""
        if self.max_wait is None or self.verb not in ("wait", "lease"):
            return None
        return FOREVER if self.max_wait == FOREVER else milliseconds(whole_milliseconds(self.max_wait, "timeout") // 1_000_000)

    def at_once(self) -> Call:
        """Return this call without the wait."""
        return replace(self, max_wait=None, group="", weight=1, priority=0)

    def words(self) -> list[str | bytes]:
        """Return the command in words."""
        words: list[str | bytes]
        if self.several:
            words = self._several()
        else:
            key = self.keys[0]
            words = [self.command, key.name]
            if self.verb == "reset":
                return words
            if self.verb == "denied":
                return [*words, str(self.cost)]
            if self.verb == "ban":
                return [*words, _wait(self.ban, "duration")]
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
        if self.charge is not None:
            words.append(_WORDS[self.charge])
        if self.ban is not None:
            words += ["BAN", _wait(self.ban, "ban")]
        if self.ban_after is not None:
            words += ["AFTER", denials(self.ban_after).words[1]]
        if self.verb == "limit" and self.max_wait is not None:
            longest = min(whole_milliseconds(self.max_wait, "max_wait"), nanoseconds(_LONGEST_WAIT, "max_wait"))
            words += ["MAXWAIT", word(longest)]
        return words

    def _line(self) -> list[str]:
        if self.verb not in ("wait", "lease") or self.max_wait is None:
            return []
        ns = whole_milliseconds(self.max_wait, "timeout")
        if ns == 0:
            raise ValueError("timeout must not be 0: use limit() or no timeout to have an answer at once, FOREVER to wait as long as it takes")
        words = ["TIMEOUT", word(0 if ns >= nanoseconds(_LONGEST_WAIT, "") else ns)]
        if self.group:
            words += ["GROUP", self.group]
        if self.weight != 1:
            words += ["WEIGHT", str(self.weight)]
        if self.priority:
            words += ["PRIORITY", str(self.priority)]
        return words

    def result(self, reply: Any) -> Result:
        """Read the reply. One that is odd is a `MistakeError`."""
        name = self.keys[0].name
        if self.verb == "ban":
            return Result(key=name, lasts=milliseconds(_integer(reply)))
        if self.verb == "denied":
            return Result(key=name, granted=_integer(reply))
        if self.verb in ("release", "reset"):
            return Result(key=name, granted=-_integer(reply))
        if self.verb in ("lease", "renew"):
            n = _integers(reply, at.LEASE_FIELDS)
            limited = bool(n[at.LEASE_LIMITED])
            return Result(limited=limited, key=name, limit=n[at.LEASE_LIMIT], remaining=n[at.LEASE_REMAINING],
                          retry_after=_after(n[at.LEASE_RETRY_AFTER_MS]) if limited else ZERO,
                          lasts=ZERO if limited else milliseconds(n[at.LEASE_LEASE_MS]), wait=milliseconds(n[at.LEASE_WAIT_MS]))
        return self._settled(reply) if self.verb == "settle" else self._decided(reply)

    def _settled(self, reply: Any) -> Result:
        n = _integers(reply, at.SETTLE_FIELDS)
        settled = bool(n[at.SETTLE_SETTLED])
        number, rules = n[at.SETTLE_RULE], self._rules()
        if not 0 <= number <= rules:
            raise self._odd_rule(reply)
        key, rule = self._place(number - 1) if number else (0, 0)
        return Result(
            limited=not settled, key=self.keys[key].name, key_index=key, rule=rule, limit=n[at.SETTLE_LIMIT], remaining=n[at.SETTLE_REMAINING],
            retry_after=ZERO if settled else None, reset_after=milliseconds(n[at.SETTLE_RESET_AFTER_MS]),
            next_after=milliseconds(n[at.SETTLE_NEXT_AFTER_MS]), granted=n[at.SETTLE_GRANTED], wait=milliseconds(n[at.SETTLE_WAIT_MS]),
            each=self._each(reply, rules) if self.each else (),
        )

    def _decided(self, reply: Any) -> Result:
        # A reply about several keys has one field more, behind those that it shares with the others.
        n = _integers(reply, at.MLIMIT_FIELDS if self.several else at.LIMIT_FIELDS)
        limited, number, shadowed, rules = bool(n[at.LIMIT_LIMITED]), n[at.LIMIT_RULE], n[at.LIMIT_SHADOW], self._rules()
        banned = limited and number == 0
        if not 0 <= number <= rules or (number == 0 and not banned) or not 0 <= shadowed <= rules:
            raise self._odd_rule(reply)
        key, rule = self._place(number - 1) if number else (0, 0)
        shadow_key, shadow = self._place(shadowed - 1) if shadowed else (0, 0)
        if self.several:
            named = n[at.MLIMIT_KEY] - 1
            if not 0 <= named < len(self.keys) or (not banned and named != key):
                raise MistakeError(f"{self.command}: the reply is {reply!r}, whose key is not that of its rule")
            key = named
        return Result(
            limited=limited, key=self.keys[key].name, key_index=key, rule=rule, banned=banned, limit=n[at.LIMIT_LIMIT], remaining=n[at.LIMIT_REMAINING],
            retry_after=_after(n[at.LIMIT_RETRY_AFTER_MS]) if limited else ZERO, reset_after=milliseconds(n[at.LIMIT_RESET_AFTER_MS]),
            next_after=milliseconds(n[at.LIMIT_NEXT_AFTER_MS]), granted=n[at.LIMIT_GRANTED], wait=milliseconds(n[at.LIMIT_WAIT_MS]),
            shadowed=bool(shadowed), shadow=shadow, shadow_key=self.keys[shadow_key].name if shadowed else "", shadow_key_index=shadow_key,
            each=self._each(reply, rules) if self.each else (),
        )

    def _rules(self) -> int:
        return sum(key.rules for key in self.keys) if self.several else self.keys[0].rules

    def _odd_rule(self, reply: Any) -> MistakeError:
        return MistakeError(f"{self.command}: the reply is {reply!r}, whose rule is none of the {self._rules()} limits")

    def _each(self, reply: Any, rules: int) -> tuple[Result, ...]:
        arrays = reply[-rules:]
        if len(arrays) < rules or not all(isinstance(array, (list, tuple)) for array in arrays):
            raise MistakeError(f"{self.command}: the reply is {reply!r}, without an array for each limit")
        each = []
        for i, array in enumerate(arrays):
            n = _integers(array, at.EACH_FIELDS)
            key, rule = self._place(i)
            limited = bool(n[at.EACH_LIMITED])
            each.append(Result(limited=limited, key=self.keys[key].name, key_index=key, rule=rule, limit=n[at.EACH_LIMIT], remaining=n[at.EACH_REMAINING],
                               retry_after=_after(n[at.EACH_RETRY_AFTER_MS]) if limited else ZERO,
                               reset_after=milliseconds(n[at.EACH_RESET_AFTER_MS])))
        return tuple(each)

    def _place(self, rule: int) -> tuple[int, int]:
        """Return the key and the index in it of a rule that is counted through all keys."""
        for i, key in enumerate(self.keys):
            if rule < key.rules:
                return i, rule
            rule -= key.rules
        raise AssertionError


def one(verb: str, key: str, limits: Sequence[Limits], **options: Any) -> Call:
    """Return a call on one key."""
    return Call(verb, (Key(key, as_limits(limits)),), **options)


def pairs_of(keys: Holdings) -> list[tuple[str, Rule | Sequence[Limit]]]:
    """Return keys and what is asked of each, in order."""
    return list(cast(Mapping[str, Rule | Sequence[Limit]], keys).items() if isinstance(keys, Mapping) else keys)


def many(verb: str, keys: Holdings, **options: Any) -> Call:
    """Return a call on several keys."""
    some: list[Key] = []
    for name, what in pairs_of(keys):
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
    return word(whole_milliseconds(value, what))


def _after(ms: int) -> timedelta | None:
    return None if ms < 0 else milliseconds(ms)


def _integer(reply: Any) -> int:
    if isinstance(reply, bool) or not isinstance(reply, int):
        raise MistakeError(f"the reply is {reply!r}, not an integer")
    return reply


def _integers(reply: Any, n: int) -> list[int]:
    if not isinstance(reply, (list, tuple)) or len(reply) < n or {*map(type, reply[:n])} != {int}:
        raise MistakeError(f"the reply is {reply!r}, not {n} integers or more")
    return list(reply[:n])
