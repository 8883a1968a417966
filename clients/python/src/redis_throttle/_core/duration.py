"""Lengths of time, as the commands take them: a number with a unit."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

Duration = str | timedelta
"""A length of time: a `timedelta`, or text with a unit: `"500ms"`, `"1.5s"`, `"30m"`, `"1h"`, `"1d"`; a unit alone is
one of it."""

FOREVER = timedelta.max
"""A timeout that is never over."""

_NS = {"d": 86_400_000_000_000, "h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000}
CALENDAR = {"w": 7 * 86_400, "mo": 146_097 * 86_400 // 4800, "y": 146_097 * 86_400 // 400}
"""The units of calendar windows, and their mean length in seconds."""
_LONGEST = 2**63 - 1
_FORM = re.compile(r"((?:0|[1-9][0-9]{0,37})(?:\.[0-9]{1,38})?)?([a-z]+)")


def nanoseconds(value: object, what: str, calendar: bool = False) -> int:
    """Return a length of time in whole nanoseconds. what is the argument that an error is about."""
    if isinstance(value, timedelta):
        return ((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds) * 1000
    if value == "0":
        return 0
    expected = "ms, s, m, h, d, w, mo or y" if calendar else "ms, s, m, h or d"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError(f"{what} must be a timedelta or a number with a unit, such as '500ms' or '30s', not {value!r}")
    if not isinstance(value, str):
        raise TypeError(f"{what}: {value} needs a unit, such as '{value}ms' or '{value}s', or a timedelta")
    match = _FORM.fullmatch(value)
    if match is None or match[2] not in _NS:
        raise ValueError(f"{what}: {value!r} needs a unit: {expected}")
    ns = Fraction(match[1] or "1") * _NS[match[2]]
    if ns.denominator != 1 or ns > _LONGEST:
        raise ValueError(f"{what}: {value!r} is not a whole number of nanoseconds of at most 292 years")
    return int(ns)


def seconds(value: object, what: str) -> float:
    """Return a length of time that is positive, in seconds."""
    ns = nanoseconds(value, what)
    if ns <= 0:
        raise ValueError(f"{what}: {value!r} is not positive")
    return ns / 1e9


def calendar_period(value: object) -> str | None:
    """Return a period in weeks, months or years as the commands take it; None if value is not one."""
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in CALENDAR:
        return None
    number = match[1] or "1"
    if "." in number or int(number) == 0:
        raise ValueError(f"period: {value!r}: weeks, months and years are whole and positive")
    return f"{int(number)}{match[2]}"


def word(ns: int) -> str:
    """Write a length of time as the commands take it, exactly, in the largest unit that gives a whole number."""
    for unit, size in _NS.items():
        if ns % size == 0 and (ns or unit == "ms"):
            return f"{ns // size}{unit}"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1_000_000}." + f"{ns % 1_000_000:06d}".rstrip("0") + "ms"


def whole_milliseconds(value: object, what: str) -> int:
    """Return a length of time in whole milliseconds, as servers are told of waits, bans and leases, in nanoseconds. It
    never turns into 0, which means something else."""
    ns = nanoseconds(value, what)
    size = max(abs(ns) // 1_000_000, 1) * 1_000_000 if ns else 0
    return size if ns > 0 else -size


def milliseconds(ms: int) -> timedelta:
    """Return ms as a timedelta, or the longest one if it is more than that."""
    try:
        return timedelta(0, 0, ms * 1000)
    except OverflowError:
        return timedelta.max
