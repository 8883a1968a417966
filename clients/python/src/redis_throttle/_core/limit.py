"""Limits: values, defined once and given with every call."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .duration import CALENDAR, Duration, calendar_period, nanoseconds, word

_LARGEST = 2**63 - 1
_SAME: Any = object()
"""Stands for an argument that was not given."""


class Rule:
    """What a call asks of a key: a `Limit`, or `Slots`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Limit(Rule):
    """One limit, made by `rate`, `window` or `fixed`. Two limits with the same words are equal."""

    kind: str
    count: int
    period: Duration
    burst: int | None = None
    first: bool = False
    offset: Duration = "0"
    zone: str = ""
    take: int | None = None
    used: int | None = None
    spare: int = 0
    shadow: bool = False
    name: str = field(default="", compare=False)
    unit: str = field(default="", compare=False)
    policy_name: str = field(default="", compare=False, repr=False)
    """The name of the policy that it belongs to, which `policy()` gives it; nothing if there is none."""
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    seconds: Fraction = field(init=False, repr=False, compare=False)
    """How long the period is; of months and years, on average."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.policy_name:
            check_name(self.policy_name)
        _integer(self.count, f"{self.kind}: the count", 0)
        period = calendar_period(self.period) if self.kind == "FIXED" else None
        if period is not None:
            number, unit = re.split(r"(?<=[0-9])(?=[a-z])", period)
            put(self, "seconds", Fraction(int(number) * CALENDAR[unit]))
        else:
            ns = nanoseconds(self.period, f"{self.kind}: the period", calendar=self.kind == "FIXED")
            if ns <= 0:
                raise ValueError(f"{self.kind}: the period {self.period!r} is not positive")
            period = word(ns)
            put(self, "seconds", Fraction(ns, 1_000_000_000))
        put(self, "period", period)
        for what in ("first", "shadow"):
            if not isinstance(flag := getattr(self, what), bool):
                raise TypeError(f"{self.kind}: {what} must be True or False, not {flag!r}")
        offset = nanoseconds(self.offset, f"{self.kind}: the offset")
        put(self, "offset", word(offset))
        if self.count == 0 and self.burst is not None:
            raise ValueError(f"{self.kind}: a count of 0 lets nobody through, so it has no burst")
        if self.kind != "RATE" and self.burst is not None:
            raise ValueError(f"{self.kind}: only a rate has a burst")
        if self.kind != "FIXED" and (self.first or offset or self.zone):
            raise ValueError(f"{self.kind}: only a fixed limit has first, offset and zone")
        if self.first and (offset or self.zone):
            raise ValueError(f"{self.kind}: first goes with neither offset nor zone")
        words = [self.kind, f"{self.count}/{period}"]
        if self.burst is not None:
            words += ["BURST", _integer(self.burst, f"{self.kind}: the burst", 1)]
        if self.first:
            words.append("FIRST")
        if offset:
            words += ["OFFSET", word(offset)]
        if self.zone:
            words += ["TZ", self.zone]
        if self.take is not None:
            words += ["TAKE", _integer(self.take, f"{self.kind}: take", 0)]
        if self.used is not None:
            words += ["USED", _integer(self.used, f"{self.kind}: used", 0)]
        spare = _integer(self.spare, f"{self.kind}: spare", 0)
        if self.spare:
            words += ["SPARE", spare]
        if self.shadow:
            words.append("SHADOW")
        put(self, "words", tuple(words))

    def replace(self, *, count: int = _SAME, period: Duration = _SAME, burst: int | None = _SAME, first: bool = _SAME, offset: Duration = _SAME,
                zone: str = _SAME, take: int | None = _SAME, used: int | None = _SAME, spare: int = _SAME, shadow: bool = _SAME,
                name: str = _SAME, unit: str = _SAME) -> Limit:
        """Return this limit with some fields changed: `tokens.replace(take=523)`."""
        given: dict[str, Any] = {"count": count, "period": period, "burst": burst, "first": first, "offset": offset, "zone": zone, "take": take, "used": used,
                 "spare": spare, "shadow": shadow, "name": name, "unit": unit}
        return dataclasses.replace(self, **{field: value for field, value in given.items() if value is not _SAME})

    @property
    def capacity(self) -> int:
        """How many units it holds when it is full."""
        return self.count if self.burst is None else self.burst

    @property
    def policy(self) -> str:
        """What it limits, in words, without what a call takes of it: `"RATE 10/1m BURST 20"`."""
        return str(self.replace(take=None, used=None, spare=0, shadow=False))

    def __str__(self) -> str:
        return " ".join(self.words)


def denials(ban_after: str) -> Limit:
    """Return the window in which denied calls count, of an option ban_after such as "10/1h"."""
    given = re.fullmatch(r"([1-9][0-9]{0,18})/(.+)", ban_after) if isinstance(ban_after, str) else None
    if given is None:
        raise ValueError(f'ban_after must be a count, at least 1, and a period, such as "10/1h", not {ban_after!r}')
    nanoseconds(given[2], "ban_after: the period")
    return Limit("FIXED", int(given[1]), given[2], first=True)


def rate(count: int, period: Duration, *, burst: int | None = None, take: int | None = None, used: int | None = None,
         spare: int = 0, shadow: bool = False, name: str = "", unit: str = "") -> Limit:
    """Let `count` units through per period at a steady rate, in bursts of up to `burst` (default: `count`).

    The algorithm is the generic cell rate algorithm: a bucket that refills evenly. A count of 0 lets nobody through, in
    a limit of any kind.

    `take` replaces the cost of the call for this limit, and `used` is what was used in the end (for `settle`). The call
    is limited unless `spare` units stay behind. A `shadow` is charged and counted, but never decides. `name` and `unit`
    are for the RateLimit header fields.
    """
    return Limit("RATE", count, period, burst=burst, take=take, used=used, spare=spare, shadow=shadow, name=name, unit=unit)


def window(count: int, period: Duration, *, take: int | None = None, used: int | None = None, spare: int = 0,
           shadow: bool = False, name: str = "", unit: str = "") -> Limit:
    """Never let more than `count` units through in any interval of length `period`. See `rate` for the other
    arguments."""
    return Limit("WINDOW", count, period, take=take, used=used, spare=spare, shadow=shadow, name=name, unit=unit)


def fixed(count: int, period: Duration, *, first: bool = False, offset: Duration = "0", zone: str = "", take: int | None = None,
          used: int | None = None, spare: int = 0, shadow: bool = False, name: str = "", unit: str = "") -> Limit:
    """Let `count` units through in each calendar window: `"1d"` is midnight to midnight UTC; also in `w`, `mo` and `y`.

    `zone` is the name of a time zone whose clocks count instead of UTC, `offset` makes each window begin later, and
    with `first` a window begins with the first unit taken. See `rate` for the other arguments.
    """
    return Limit("FIXED", count, period, first=first, offset=offset, zone=zone, take=take, used=used, spare=spare,
                 shadow=shadow, name=name, unit=unit)


@dataclass(frozen=True, slots=True)
class Slots(Rule):
    """In place of the limits of a key, in `admit` and `settle`: take one of `n` leases, which lasts for `ttl`.

    `settle` needs no numbers: `Slots()`.
    """

    n: int | None = None
    ttl: Duration | None = None


Limits = Limit | Sequence[Limit]


def as_limits(limits: Rule | Iterable[Rule | Sequence[Limit]], where: str = "limits") -> tuple[Limit, ...]:
    """Return one limit or several as a tuple. What `policy` returns may be among them."""
    some: tuple[Any, ...] = (limits,) if isinstance(limits, Rule) else tuple(limits)
    if any(isinstance(limit, (tuple, list)) for limit in some):
        some = tuple(itertools.chain.from_iterable(limit if isinstance(limit, (tuple, list)) else (limit,) for limit in some))
    made = tuple(limit for limit in some if isinstance(limit, Limit))
    if len(made) < len(some):
        wrong = next(limit for limit in some if not isinstance(limit, Limit))
        raise TypeError(f"{where}: a limit is made by rate(), window() or fixed(), not {wrong!r}")
    return made


def policy(name: str, *limits: Limits) -> tuple[Limit, ...]:
    """Return limits with the name of a policy, whose numbers may be changed while programs run: see `Policies`.

        limiter.limit("user:42", policy("api", rate(100, "1m")))

    They go wherever limits go. Without a `Policies` before the decider they are limits as any others. All limits of a
    key have one policy, or none. `name` is 1 to 64 of `A-Z a-z 0-9 . _ -`; it is also what limits without a name of
    their own are called in header fields and in metrics, `api`, or of several `api-1`, `api-2`. A ValueError says that
    the name or the limits are missing, or are wrong.
    """
    check_name(name)
    made = as_limits(limits, "policy")
    if not made:
        raise ValueError("policy: there must be at least one limit, which counts where nothing else is set, such as rate(100, '1m')")
    return tuple(dataclasses.replace(limit, policy_name=name) for limit in made)


_NAME = re.compile("[A-Za-z0-9._-]{1,64}")


def is_name(text: str) -> bool:
    """Whether text may be the name of a policy, or of a limit of one."""
    return _NAME.fullmatch(text) is not None


def check_name(name: object) -> None:
    """Refuse what is no name of a policy."""
    if not isinstance(name, str):
        raise TypeError(f"policy: a name is text, not {name!r}")
    if not is_name(name):
        raise ValueError(f"policy: a name is 1 to 64 of A-Z a-z 0-9 . _ -, not {name!r}")


def policy_of(limits: Sequence[Limit]) -> str:
    """Return the name of the policy of a key's limits; nothing if they have none. A ValueError says that they have
    several."""
    name = limits[0].policy_name if limits else ""
    if len(limits) > 1 and any(limit.policy_name != name for limit in limits):
        names = " and ".join(dict.fromkeys(limit.policy_name or "none" for limit in limits))
        raise ValueError(f"policy: all limits of a key have one policy, or none, not {names}")
    return name


def label(limits: Sequence[Limit], rule: int) -> str:
    """Return what a limit of a key is called in header fields and metrics.

    That is its name; else that of its policy, with its place if there are several; else default, or limit-1, limit-2
    and so on.
    """
    limit, alone = limits[rule], len(limits) == 1
    if limit.name:
        return limit.name
    if limit.policy_name:
        return limit.policy_name if alone else f"{limit.policy_name}-{rule + 1}"
    return "default" if alone else f"limit-{rule + 1}"


def parse_limits(text: str) -> tuple[Limit, ...]:
    """Read limits as CL.LIMIT takes them, such as `"RATE 5/s BURST 10 FIXED 1000/d TZ Europe/Berlin"`."""
    limits, rest = read_limits(text.split(), ("TAKE", "SPARE"))
    if rest:
        raise ValueError(f"limits: expected RATE, WINDOW, FIXED, BURST, FIRST, OFFSET, TZ, TAKE, SPARE or SHADOW, not {rest[0]!r}")
    if not limits:
        raise ValueError("limits: there must be at least one, such as RATE 5/s")
    return limits


_OPTIONS = {"FIRST": "first", "SHADOW": "shadow", "BURST": "burst", "TAKE": "take", "SPARE": "spare", "OFFSET": "offset", "TZ": "zone", "NAME": "name"}


def read_limits(words: Sequence[str], more: Sequence[str]) -> tuple[tuple[Limit, ...], list[str]]:
    """Read limits up to a word that none of them has. Return them and what is left. `more` are words beside those that
    every limit may have."""
    known = ("FIRST", "SHADOW", "BURST", "OFFSET", "TZ", *more)
    left = collections.deque(words)
    limits: list[Limit] = []
    made: dict[str, Any] = {}

    def done() -> None:
        if made:
            limits.append(Limit(**made))
            made.clear()

    while left:
        at = left.popleft()
        option = at.upper()
        if option in ("RATE", "WINDOW", "FIXED"):
            done()
            count, slash, period = (left.popleft() if left else "").partition("/")
            if not slash or not re.fullmatch("0|[1-9][0-9]*", count):
                raise ValueError(f"limits: {option} takes count/period, such as 5/s or 100/30m, not {count + slash + period!r}")
            made.update(kind=option, count=int(count), period=period)
        elif not made:
            raise ValueError(f"limits: expected RATE, WINDOW or FIXED, not {at!r}")
        elif option not in known:
            left.appendleft(at)
            break
        elif option in ("FIRST", "OFFSET", "TZ") and made["kind"] != "FIXED":
            raise ValueError(f"limits: only a FIXED has {option}")
        elif _OPTIONS[option] in made:
            raise ValueError(f"limits: {option} is there twice")
        elif option in ("FIRST", "SHADOW"):
            made[_OPTIONS[option]] = True
        else:
            if not left:
                raise ValueError(f"limits: {option} needs a value")
            value = left.popleft()
            if option not in ("OFFSET", "TZ", "NAME") and not re.fullmatch("0|[1-9][0-9]*", value):
                raise ValueError(f"limits: {option} takes an integer, not {value!r}")
            made[_OPTIONS[option]] = value if option in ("OFFSET", "TZ", "NAME") else int(value)
    done()
    return tuple(limits), list(left)


def _integer(value: object, what: str, least: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    if not least <= value <= _LARGEST:
        raise ValueError(f"{what}, {value}, must be from {least} to {_LARGEST}")
    return str(value)
