"""What the fields of the hash of policies say, and which of them counts for a key. spec/clients/policies.json has it as
tables."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass

from .._core.duration import CALENDAR, nanoseconds
from .._core.limit import Limit, denials, is_name, policy, read_limits
from .._core.result import Applied

_MOST = 8
"""How many limits a key has at most."""
_SECOND, _DAY = 1_000_000_000, 86_400
_LONGEST = 2**63 - 1
_LONGEST_WORD = nanoseconds("36500d", "")
"""The longest time that a word takes, in nanoseconds."""
_OF_THE_CODE = ("TAKE", "USED", "SPARE")
_WORDS = re.compile(r"[^ \t\n\v\f\r]+")


@dataclass(frozen=True, slots=True)
class Value:
    """What a field says of its keys. Without limits it lets everything through."""

    text: str
    limits: tuple[Limit, ...]
    ban: str | None = None
    ban_after: str | None = None


def parse_value(name: str, text: str) -> Value:
    """Read the value of a field of a policy: the words of limits, with BAN and AFTER at the end, or NONE. A ValueError
    says what is wrong."""
    words = _WORDS.findall(text)
    if [word.upper() for word in words] == ["NONE"]:
        return Value(text, ())
    if not words:
        raise ValueError("there is no limit; NONE lets everything through")
    limits, rest = read_limits(words, ("NAME",))
    if rest and rest[0].upper() in _OF_THE_CODE:
        raise ValueError(f"{rest[0]} is for the code to say")
    if len(limits) > _MOST:
        raise ValueError(f"there are {len(limits)} limits, and may be {_MOST}")
    for limit in limits:
        if limit.name and not is_name(limit.name):
            raise ValueError(f"NAME: a name is 1 to 64 of A-Z a-z 0-9 . _ -, not {limit.name!r}")
        _check(limit)
    ban, ban_after = _ban(rest)
    return Value(text, policy(name, *limits), ban, ban_after)


def _ban(words: list[str]) -> tuple[str | None, str | None]:
    """Read what is behind the limits: BAN and AFTER, or nothing."""
    if not words:
        return None, None
    if words[0].upper() != "BAN":
        raise ValueError(f"expected a limit, what belongs to one, or BAN, not {words[0]!r}")
    if len(words) == 1 or not 0 < nanoseconds(words[1], "BAN") <= _LONGEST_WORD:
        raise ValueError(f"BAN takes a length of time of at most 100 years, such as 15m, not {words[1:2]}")
    if len(words) == 2:
        return words[1], None
    if words[2].upper() != "AFTER":
        raise ValueError(f"expected AFTER or the end, behind BAN and a length of time, not {words[2]!r}")
    if len(words) != 4:
        raise ValueError("AFTER takes a count and a period, such as 10/1h, and is the end")
    try:
        denials(words[3])
    except ValueError:
        raise ValueError(f"AFTER takes a count, at least 1, and a period, such as 10/1h, not {words[3]!r}") from None
    return words[1], words[3]


def _check(limit: Limit) -> None:
    """Refuse a limit that the server would refuse in each call."""
    if limit.zone:
        _check_zone(limit.zone)
    if limit.kind == "RATE" and limit.count:
        if limit.count > limit.seconds * _SECOND:
            raise ValueError(f"{limit}: at most 10^9 units per second")
        if limit.capacity * math.ceil(limit.seconds * _SECOND / limit.count) > _LONGEST:
            raise ValueError(f"{limit}: a full bucket would take more than 292 years to refill")
    if limit.kind == "FIXED":
        unit = str(limit.period).lstrip("0123456789.")
        if limit.first and unit in ("mo", "y"):
            raise ValueError(f"{limit}: FIRST goes with periods of one length; units are ms, s, m, h, d and w")
        if limit.zone and unit not in CALENDAR and limit.seconds % _DAY:
            raise ValueError(f"{limit}: TZ goes with periods of whole days, weeks, months or years, such as 1d, 2w, 1mo or 1y")
        shortest = limit.seconds / CALENDAR[unit] * {"w": 7, "mo": 28, "y": 365}[unit] * _DAY if unit in CALENDAR else limit.seconds
        offset = nanoseconds(limit.offset, "OFFSET")
        if offset > _LONGEST_WORD or 0 < shortest * _SECOND <= offset:
            raise ValueError(f"{limit}: OFFSET must be shorter than the period, and at most 100 years; a month counts as 28 days, a year as 365")


@functools.lru_cache(256)
def _check_zone(zone: str) -> None:
    if not _is_zone(zone) and _is_zone("Europe/Berlin"):  # else there are no time zones here, and the server knows better
        raise ValueError(f"TZ: no time zone has the name {zone!r}")


_NO_ZONES = {"Factory", "localtime", "posix", "posixrules", "right"}
"""What else is in a database of zones: copies, and no place's time. Servers refuse them."""


def _is_zone(zone: str) -> bool:
    if zone.partition("/")[0] in _NO_ZONES:
        return False
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Field:
    """What a field of the hash is about: a policy (key is None), one key of it, or those that begin with key."""

    name: str
    key: str | None = None
    prefix: bool = False


def parse_field(field: str) -> Field:
    """Read a field of the hash. A ValueError says that it is no policy's."""
    name, keyed, key = field.partition("/")
    if not is_name(name):
        raise ValueError("it is not the name of a policy")
    if not keyed:
        return Field(name)
    return Field(name, key[:-1], True) if key.endswith("*") else Field(name, key)


@dataclass(frozen=True, slots=True)
class Rule:
    """A field that counts, and its value."""

    field: str
    of: Field
    value: Value
    applied: Applied
    """What a result says of it, where the code says nothing else of the limits."""

    @classmethod
    def read(cls, field: str, of: Field, text: str) -> Rule:
        """Return the rule of a field. A ValueError says what is wrong with its value."""
        value = _value(of.name, text)
        return cls(field, of, value, Applied(of.name, field, value.limits))

    def asked(self, code: tuple[Limit, ...]) -> Applied | None:
        """Return the limits in place of those of the code, with what the code says of them. None if it cannot be said
        of these."""
        if not self.value.limits or all(limit.take is None and limit.used is None and not limit.spare and not limit.unit for limit in code):
            return self.applied
        own = [(limit.take, limit.used, limit.spare, limit.unit) for limit in code]
        if len(own) != len(self.value.limits):
            if any(one != own[0] for one in own):
                return None
            own = [own[0]] * len(self.value.limits)
        limits = [dataclasses.replace(limit, take=take, used=used, spare=spare, unit=unit)
                  for limit, (take, used, spare, unit) in zip(self.value.limits, own, strict=True)]
        return dataclasses.replace(self.applied, limits=tuple(limits))


_value = functools.lru_cache(1024)(parse_value)


class _OfName:
    """The rules of one policy."""

    __slots__ = ("exact", "prefixes", "whole")

    def __init__(self) -> None:
        self.whole: Rule | None = None
        self.exact: dict[str, Rule] = {}
        self.prefixes: dict[int, dict[str, Rule]] = {}
        """By their length, the longest first."""


class Rules:
    """All that counts. They never change, so any number of threads may ask them."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._of: dict[str, _OfName] = {}
        for rule in rules:
            mine = self._of.setdefault(rule.of.name, _OfName())
            if rule.of.key is None:
                mine.whole = rule
            elif rule.of.prefix:
                mine.prefixes.setdefault(len(rule.of.key), {})[rule.of.key] = rule
            else:
                mine.exact[rule.of.key] = rule
        for mine in self._of.values():
            mine.prefixes = dict(sorted(mine.prefixes.items(), reverse=True))

    def choose(self, name: str, key: str | bytes) -> Rule | None:
        """Return the rule of the exact key, else of the longest prefix, else of the name. None is the default of the
        code."""
        mine = self._of.get(name)
        if mine is None:
            return None
        if isinstance(key, bytes):
            key = key.decode("utf-8", "surrogateescape")
        found = mine.exact.get(key)
        if found is not None:
            return found
        for length, some in mine.prefixes.items():
            found = some.get(key[:length])
            if found is not None:
                return found
        return mine.whole
