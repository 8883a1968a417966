"""The header fields of draft-ietf-httpapi-ratelimit-headers-11: their names and their form are here and nowhere else.

spec/clients/fields.json has the rules as a table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from math import ceil, floor
from typing import Literal

from .._core.limit import Limit, label
from .._core.result import Result

POLICY = "RateLimit-Policy"
LIMIT = "RateLimit"
LISTS = frozenset({POLICY, LIMIT})
"""The fields that are lists: nested middlewares add their items to them."""

Header = tuple[str, str]
XRateLimit = Literal["seconds", "unix"]

_LARGEST = 999_999_999_999_999
"""The largest integer of a structured field (RFC 9651, 3.3.1)."""


def seconds(duration: timedelta) -> int:
    """Return a duration in whole seconds, rounded up."""
    return ceil(duration.total_seconds())


def _text(value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise ValueError(f"limits: a name or a unit in header fields is printable ASCII, not {value!r}")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quota(limit: Limit) -> tuple[int, int]:
    """Return how many units come back while a full limit refills, in whole seconds, and how long that takes."""
    if not limit.count:
        return 0, ceil(limit.seconds)
    whole = min(ceil(limit.seconds * limit.capacity / limit.count), _LARGEST)
    return min(floor(whole * limit.count / limit.seconds), _LARGEST), whole


@dataclass(frozen=True, slots=True)
class Policies:
    """The header fields of the limits of one key."""

    limits: tuple[Limit, ...]

    def name(self, rule: int) -> str:
        """Return what a limit is called: see `label`."""
        return label(self.limits, rule)

    def policy(self) -> list[str]:
        """Return the items of RateLimit-Policy: q units come back in w seconds."""
        items = []
        for rule, limit in enumerate(self.limits):
            quota, whole = _quota(limit)
            item = f"{_text(self.name(rule))};q={quota}" + (f";qu={_text(limit.unit)}" if limit.unit else "") + f";w={whole}"
            if not limit.shadow:  # whose name is checked all the same: it may be enforced tomorrow
                items.append(item)
        return items

    def item(self, rule: int, remaining: int, after: timedelta) -> str:
        """Return an item of RateLimit: r units remain, and the next one comes in t seconds. A full limit has no t."""
        return f"{_text(self.name(rule))};r={min(remaining, _LARGEST)}" + (f";t={seconds(after)}" if after else "")


_NUMBERED = re.compile(r"(.*)-([1-9][0-9]{0,8})", re.ASCII | re.DOTALL)


def apart(limits: Sequence[tuple[Limit, ...]], taken: set[str]) -> list[tuple[Limit, ...]]:
    """Return limits of each key whose names no other limit of a response has. Their names are taken then, too.

    A name that is taken gets the next number that is free: default-2, limit-3.
    """
    own = {label(some, rule) for some in limits for rule in range(len(some))}

    def free(name: str) -> str:
        numbered = _NUMBERED.fullmatch(name)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
        return next(f"{stem}-{n}" for n in count(number + 1) if not {f"{stem}-{n}"} & (taken | own))

    def named(some: tuple[Limit, ...], rule: int) -> Limit:
        called = label(some, rule)
        name = free(called) if called in taken else called
        taken.add(name)
        return some[rule] if name == called else replace(some[rule], name=name)

    return [tuple(named(some, rule) for rule in range(len(some))) for some in limits]


def retry_after_fields(after: timedelta | None) -> list[Header]:
    """Return Retry-After, of at least a second; nothing for never."""
    return [] if after is None else [("Retry-After", str(max(1, seconds(after))))]


def header_fields(limits: Sequence[tuple[Limit, ...]], result: Result, x_ratelimit: XRateLimit | None = None) -> list[Header]:
    """Return the header fields of a response. limits has those that counted, one tuple for each key of the call. No
    field tells of shadows."""
    if result.by in ("policy", "none"):  # nothing is known of the limits, or there are none
        return retry_after_fields(result.retry_after) if result.limited else []
    policies = [Policies(some) for some in limits]
    fields = [(POLICY, ", ".join(item for p in policies for item in p.policy()))]
    decided = policies[result.key_index]
    hidden = not result.banned and decided.limits[result.rule].shadow
    items: list[str] = []
    if result.banned:
        after = result.retry_after or result.reset_after
        items = [decided.item(rule, 0, after) for rule, limit in enumerate(decided.limits) if not limit.shadow]
    elif result.each:
        for each in result.each:
            if not policies[each.key_index].limits[each.rule].shadow:
                mine = (each.key_index, each.rule) == (result.key_index, result.rule)
                items.append(policies[each.key_index].item(each.rule, each.remaining, result.next_after if mine else each.reset_after))
    elif not hidden:
        items = [decided.item(result.rule, result.remaining, result.next_after)]
    fields.append((LIMIT, ", ".join(items)))
    if result.limited:
        fields += retry_after_fields(result.retry_after)
    if x_ratelimit and not hidden:
        reset = seconds(result.reset_after) + (ceil(time.time()) if x_ratelimit == "unix" else 0)
        fields += [("X-RateLimit-Limit", str(result.limit)), ("X-RateLimit-Remaining", str(result.remaining)), ("X-RateLimit-Reset", str(reset))]
    return [field for field in fields if field[1]]


def merge(fields: Iterable[Header], more: Sequence[Header]) -> list[Header]:
    """Return fields with more; those that are lists are joined, so that middlewares may be nested."""
    merged = list(fields)
    for name, value in more:
        at = next((i for i, (there, _) in enumerate(merged) if there.lower() == name.lower()), None)
        if at is None:
            merged.append((name, value))
        elif name in LISTS:
            merged[at] = (name, f"{value}, {merged[at][1]}")
    return merged
