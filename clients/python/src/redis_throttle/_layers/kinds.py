"""The kinds of limits, each with what is used of it as of an instant. All instants are ns since the Unix epoch, all
durations ns."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from .._core.duration import nanoseconds
from .._core.errors import MistakeError
from .._core.limit import Limit

NEVER = -1
MOST = 2**63 - 1
"""The largest number of units, and the longest time in ns."""

_SECOND = 1_000_000_000
_FIRST_INDEX = 2
"""The number of the window of the calendar that is counted from: 1970 may lie in one before it."""
_LIFTS = 4
_ENTRIES = 64
"""Up to so many charges within a period of a WINDOW, each counts from its own instant; others share one with those of
1/64 of the period."""


class Layer(Protocol):
    """A limit and its state, as of an instant: what each kind of limit knows. Quantities are in units."""

    capacity: int
    corrected: bool
    """A raised rate, or a clock that was set back, made the state one that has to be stored."""

    def available(self) -> int: ...
    def retry_after(self, units: int) -> int: ...
    def reset_next(self) -> tuple[int, int]: ...
    def longest_wait(self) -> int: ...
    def full_at(self) -> int: ...
    def take(self, units: int, wait: int) -> None: ...
    def force(self, units: int) -> int: ...
    def take_denied(self, units: int, spare: int) -> int: ...
    def refund(self, units: int) -> int: ...
    def state(self) -> Any: ...


class _Kind:
    """What most kinds have in common."""

    corrected = False

    def longest_wait(self) -> int:
        """Return the longest time that a call may wait: no unit is charged for an instant to come."""
        return MOST


class Nobody(_Kind):
    """A limit of 0. It has no state."""

    capacity = 0

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        pass

    def available(self) -> int:
        return 0

    def retry_after(self, units: int) -> int:
        return NEVER if units else 0

    def reset_next(self) -> tuple[int, int]:
        return 0, 0

    def full_at(self) -> int:
        return 0

    def take(self, units: int, wait: int) -> None:
        pass

    def force(self, units: int) -> int:
        return 0

    def take_denied(self, units: int, spare: int) -> int:
        return 0

    def refund(self, units: int) -> int:
        return 0

    def state(self) -> Any:
        return None


class Rate(_Kind):
    """A bucket that refills evenly, as one number: the time until it is full (the generic cell rate algorithm).

    Its state is when that is (the TAT), by how much it may be beyond the capacity, and by how much reservations lifted
    it.
    """

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        period = nanoseconds(limit.period, "period")
        self.capacity = limit.capacity
        self.emission = -(-period // limit.count)
        self.tolerance = self.capacity * self.emission
        if self.tolerance > MOST:
            raise MistakeError("ERR syntax error: a full bucket would take more than 292 years to refill")
        self.now = now
        self.queue: int
        tat, self.queue, lifts = state or (0, 0, ())
        # Of each reservation the time for which nothing was charged, and what was charged since; the oldest first.
        self.lifts: list[tuple[int, int]] = list(lifts)
        self.backlog, most = max(tat - now, 0), min(self.tolerance + self.queue, MOST)
        self.corrected = self.backlog > most
        if self.corrected or not self.backlog:
            self.lifts = []
            self._set(min(self.backlog, most))

    def _set(self, backlog: int) -> None:
        self.backlog, self.queue = backlog, max(backlog - self.tolerance, 0)

    def longest_wait(self) -> int:
        """Return the longest time that a call may wait: a bucket that is charged later would take more than 292 years
        to refill."""
        return MOST - self.tolerance

    def full_at(self) -> int:
        return self.now + self.backlog if self.backlog else 0

    def available(self) -> int:
        return max(self.tolerance - self.backlog, 0) // self.emission

    def retry_after(self, units: int) -> int:
        if units > self.capacity:
            return NEVER
        return max(self.backlog - (self.tolerance - units * self.emission), 0) if units else 0

    def reset_next(self) -> tuple[int, int]:
        if not self.backlog:
            return 0, 0
        return self.backlog, self.backlog - (self.tolerance - (self.available() + 1) * self.emission)

    def take(self, units: int, wait: int) -> None:
        self._move(max(wait - self.backlog, 0), units * self.emission)

    def force(self, units: int) -> int:
        taken = min(units * self.emission, MOST - self.backlog)
        if taken:
            self._move(0, taken)
        else:
            self._set(self.backlog)  # as a debt of this bucket
        return -(-taken // self.emission)

    def take_denied(self, units: int, spare: int) -> int:
        taken = min(units * self.emission, max(self.tolerance - self.backlog - spare * self.emission, 0))
        if taken:
            self._move(0, taken)
        return -(-taken // self.emission)

    def _move(self, idle: int, charged: int) -> None:
        self._drop_past_lifts()
        if idle and charged:
            if len(self.lifts) == _LIFTS:
                (idle0, charged0), (idle1, charged1) = self.lifts[:2]
                self.lifts[:2] = [(idle0 + idle1, charged0 + charged1)]
            self.lifts.append((idle, charged))
        elif self.lifts:
            self.lifts[-1] = self.lifts[-1][0], self.lifts[-1][1] + idle + charged
        self._set(self.backlog + idle + charged)

    def _drop_past_lifts(self) -> None:
        """Forget the lifts whose slot has come."""
        start = self.backlog - sum(idle + charged for idle, charged in self.lifts)  # from now on
        while self.lifts and start + self.lifts[0][0] <= 0:
            start += sum(self.lifts.pop(0))

    def refund(self, units: int) -> int:
        self._drop_past_lifts()
        left = charged = self.backlog
        for idle, since in reversed(self.lifts):
            left -= since
            free = min(idle, left)  # that of the oldest may have begun before now
            left, charged = left - free, charged - free
        if units > charged // self.emission:
            self.lifts = []
            self._set(0)
            return -(-charged // self.emission)
        refund, backlog = units * self.emission, self.backlog
        while self.lifts and refund >= self.lifts[-1][1]:  # a lift goes with the last that was charged since
            idle, since = self.lifts.pop()
            refund -= since
            backlog -= since
            backlog -= min(idle, backlog)
        if self.lifts:
            self.lifts[-1] = self.lifts[-1][0], self.lifts[-1][1] - refund
        self._set(backlog - refund)
        return units

    def state(self) -> Any:
        return (self.now + self.backlog, self.queue, tuple(self.lifts)) if self.backlog else None


class Window(_Kind):
    """Units and the instants that they count from, for a period each."""

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        self.capacity = limit.count
        self.period = nanoseconds(limit.period, "period")
        self.slot = self.period // 64 + 1
        self.now = now
        self.entries: list[tuple[int, int]] = [entry for entry in state or () if now - entry[0] < self.period]
        ahead = 0
        while self.entries and self.entries[-1][0] > max(now, self._end_of_slot(now)):  # the clock was set back
            ahead += self.entries.pop()[1]
        self.corrected = ahead > 0
        if ahead:
            self._record(ahead)

    def _end_of_slot(self, instant: int) -> int:
        return instant - instant % self.slot + self.slot - 1

    def _used(self) -> int:
        return sum(units for _, units in self.entries)

    def _record(self, units: int) -> None:
        last = self.entries[-1][0] if self.entries else -1
        at = last if last >= self.now else self.now if len(self.entries) < _ENTRIES else self._end_of_slot(self.now)
        if at == last:
            self.entries[-1] = (at, self.entries[-1][1] + units)
            return
        if len(self.entries) > _ENTRIES:
            self._merge()
        self.entries.append((at, units))

    def _merge(self) -> None:
        for i, (instant, units) in enumerate(self.entries[:-1]):
            after, more = self.entries[i + 1]
            if after <= self._end_of_slot(instant):
                self.entries[i:i + 2] = [(after, units + more)]
                return

    def _until(self, units: int) -> int:
        for instant, there in self.entries:
            units -= there
            if units <= 0:
                return min(self.period + instant - self.now, MOST)
        return 0

    def full_at(self) -> int:
        return min(self.entries[-1][0] + self.period, MOST) if self.entries else 0

    def available(self) -> int:
        return max(self.capacity - self._used(), 0)

    def retry_after(self, units: int) -> int:
        if units > self.capacity:
            return NEVER
        lacks = units - (self.capacity - self._used())
        return self._until(lacks) if units and lacks > 0 else 0

    def reset_next(self) -> tuple[int, int]:
        used = self._used()
        return (self._until(used), self._until(max(used - self.capacity, 0) + 1)) if used else (0, 0)

    def take(self, units: int, wait: int) -> None:
        units = min(units, self.available())
        if units:
            self._record(units)

    def force(self, units: int) -> int:
        units = min(units, MOST - self._used())
        if units:
            self._record(units)
        return units

    def take_denied(self, units: int, spare: int) -> int:
        count = self.capacity - spare
        units = min(units, count)
        if units <= 0:
            return 0
        excess = min(self._used() - (count - units), units)
        while excess > 0:
            instant, there = self.entries[0]
            if there > excess:
                self.entries[0] = (instant, there - excess)
                break
            excess -= there
            self.entries.pop(0)
        self._record(units)
        return units

    def refund(self, units: int) -> int:
        refunded = min(units, self._used())
        left = refunded
        while left > 0:
            instant, there = self.entries.pop()
            if there > left:
                self.entries.append((instant, there - left))
            left -= there
        return refunded

    def state(self) -> Any:
        return tuple(self.entries) or None


class First(_Kind):
    """What is used in a window that began with the first unit taken: its state is when that was, and how many units."""

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        self.capacity, self.now = limit.count, now
        self.used: int
        start, self.used = state or (now, 0)
        period = _period(limit)
        self.corrected = self.used > 0 and start > now
        if now - start >= period:
            self.used = 0
        self.index = start if self.used and not self.corrected else now
        self.end = self.index + period

    def full_at(self) -> int:
        return min(self.end, MOST) if self.used else 0

    def available(self) -> int:
        return max(self.capacity - self.used, 0)

    def retry_after(self, units: int) -> int:
        if units > self.capacity:
            return NEVER
        return 0 if units <= self.available() else self.end - self.now

    def reset_next(self) -> tuple[int, int]:
        left = self.end - self.now if self.used else 0
        return left, left

    def take(self, units: int, wait: int) -> None:
        self.used += min(units, self.available())

    def force(self, units: int) -> int:
        units = min(units, MOST - self.used)
        self.used += units
        return units

    def take_denied(self, units: int, spare: int) -> int:
        units = max(min(units, self.available() - spare), 0)
        self.used += units
        return units

    def refund(self, units: int) -> int:
        units = min(units, self.used)
        self.used -= units
        return units

    def state(self) -> Any:
        return (self.index, self.used) if self.used else None


class Fixed(First):
    """What is used in the window of now, of the calendar: its state is the number of the window, and how many units."""

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        self.capacity, self.now = limit.count, now
        index, used = state or (0, 0)
        self.index, self.end = _calendar(limit, now)
        self.corrected = used > 0 and index > self.index
        self.used = used if index >= self.index else 0


KINDS: dict[str, Any] = {"NOBODY": Nobody, "RATE": Rate, "WINDOW": Window, "FIXED": Fixed, "FIRST": First}


def unit_of(limit: Limit) -> tuple[int, str]:
    """Return the number and the unit of a period in a single unit."""
    digits = str(limit.period).rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdecimal() else 0, str(limit.period)[len(digits):]


def _period(limit: Limit) -> int:
    n, unit = unit_of(limit)
    return n * 7 * 86_400 * _SECOND if unit == "w" else nanoseconds(limit.period, "period")


def _zone(limit: Limit) -> str:
    return "" if limit.zone == "UTC" else limit.zone


def identity(limit: Limit) -> tuple[str, int | str]:
    """Return what makes limits of a key one: their kind and their windows. Of windows that are multiples of a period
    that is the period."""
    if limit.kind != "FIXED":
        return limit.kind, nanoseconds(limit.period, "period")
    if limit.first:
        return "FIRST", _period(limit)
    if _is_calendar(limit) or limit.offset != "0ms":
        return "FIXED", f"{limit.period} {limit.offset} {_zone(limit)}"
    return "FIXED", nanoseconds(limit.period, "period")


def _is_calendar(limit: Limit) -> bool:
    return bool(_zone(limit)) or unit_of(limit)[1] in ("w", "mo", "y")


def _calendar(limit: Limit, now: int) -> tuple[int, int]:
    """Return the number of the window that an instant lies in, at least 0, and when it ends."""
    n, unit = unit_of(limit)
    offset = nanoseconds(limit.offset, "offset")
    if not _is_calendar(limit):
        period = nanoseconds(limit.period, "period")
        index = (now - offset) // period
        return index + (offset > 0), (index + 1) * period + offset
    try:
        zone = zoneinfo.ZoneInfo(limit.zone) if _zone(limit) else UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise MistakeError(f"limits: no time zone has the name {limit.zone!r}") from None
    wall = datetime.fromtimestamp(now // _SECOND, zone).replace(tzinfo=None) - timedelta(seconds=offset // _SECOND)
    index = _index((wall - timedelta(seconds=now % _SECOND < offset % _SECOND)).date(), n, unit)
    end = _begin(index + 1, n, unit, offset, zone)
    while end <= now:  # clocks that have been set back show an earlier window again
        index += 1
        end = _begin(index + 1, n, unit, offset, zone)
    return index + _FIRST_INDEX, end


def _index(day: date, n: int, unit: str) -> int:
    days = day.toordinal() - date(1970, 1, 1).toordinal()
    units = {"d": days, "w": (days + 3) // 7, "mo": (day.year - 1970) * 12 + day.month - 1, "y": day.year - 1970}[unit]
    return units // n


def _begin(index: int, n: int, unit: str, offset: int, zone: Any) -> int:
    """Return the first instant at which the clocks of a zone show the beginning of a window, or a later time."""
    units = index * n
    if unit in ("d", "w"):
        day = date(1970, 1, 1) + timedelta(days=units if unit == "d" else units * 7 - 3)
    else:
        months = units * (12 if unit == "y" else 1)
        day = date(1970 + months // 12, months % 12 + 1, 1)
    wall = datetime(day.year, day.month, day.day) + timedelta(seconds=offset // _SECOND)
    at = wall.replace(tzinfo=zone, fold=0)
    seconds = int(at.timestamp())
    if datetime.fromtimestamp(seconds, zone).replace(tzinfo=None) == wall:
        return seconds * _SECOND + offset % _SECOND
    low, high = seconds - 86_400, seconds + 86_400  # the clocks skip it
    while low + 1 < high:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).replace(tzinfo=None) >= wall:
            high = middle
        else:
            low = middle
    return high * _SECOND
