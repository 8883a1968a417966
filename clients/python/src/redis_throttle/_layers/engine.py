"""Decides calls in this process, as the server does: for the local limits of a `Guard` and the fakes of `redis_throttle.testing`.

The transcripts of spec/ hold it to what the server answers. All instants are ns since the Unix epoch, all durations ns. What it leaves
out: callers that stand in line, and what a refund of a reservation gives back of the time before its slot.
"""

from __future__ import annotations

import zoneinfo
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, cast

from .._seam.call import Call, Key
from .._seam.duration import nanoseconds, whole_milliseconds
from .._seam.errors import MistakeError
from .._seam.limit import Limit, denials

NEVER = -1
_MS = 1_000_000
_DAY = 86_400_000_000_000
_MOST = 2**63 - 1
_LIFTS = 4
_CENTURY = 36_500 * _DAY
_ENTRIES = 64
"""Up to so many charges within a period of a WINDOW, each counts from its own instant; others share one with those of 1/64 of the period."""


def _ceil_ms(ns: int) -> int:
    return ns if ns <= 0 else -(-ns // _MS)


def _longer(a: int, b: int) -> int:
    """Return the longer of two waits; never is the longest."""
    return NEVER if NEVER in (a, b) else max(a, b)


class _Layer(Protocol):
    """A limit and its state, as of an instant: what each kind of limit knows. Quantities are in units."""

    capacity: int

    def available(self) -> int: ...
    def retry_after(self, units: int) -> int: ...
    def reset_next(self) -> tuple[int, int]: ...
    def take(self, units: int, wait: int) -> None: ...
    def force(self, units: int) -> int: ...
    def take_denied(self, units: int, spare: int) -> int: ...
    def refund(self, units: int) -> int: ...
    def state(self) -> Any: ...


class _Nobody:
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


class _Rate:
    """A bucket that refills evenly, as one number: the time until it is full (the generic cell rate algorithm)."""

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        period = nanoseconds(limit.period, "period")
        self.capacity = limit.capacity
        self.emission = -(-period // limit.count)
        self.tolerance = self.capacity * self.emission
        if self.tolerance > _MOST:
            raise MistakeError("ERR syntax error: a full bucket would take more than 292 years to refill")
        self.now = now
        tat, queue, lifts = state or (0, 0, ())
        ahead, most = max(tat - now, 0), min(self.tolerance + queue, _MOST)
        self.corrected = ahead > most  # by a raised rate, or a clock that was set back
        self.backlog = min(ahead, most)
        # By how much reservations lifted the bucket: the time for which nothing was charged, and what was charged since.
        self.lifts: list[tuple[int, int]] = [] if self.corrected else list(lifts)
        start = tat - sum(idle + charged for idle, charged in self.lifts)
        while self.lifts and start + self.lifts[0][0] <= now:
            start += sum(self.lifts.pop(0))

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

    def _move(self, idle: int, charged: int) -> None:
        self.backlog += idle + charged
        if idle and charged:
            if len(self.lifts) == _LIFTS:
                (idle0, charged0), (idle1, charged1) = self.lifts[:2]
                self.lifts[:2] = [(idle0 + idle1, charged0 + charged1)]
            self.lifts.append((idle, charged))
        elif self.lifts:
            self.lifts[-1] = self.lifts[-1][0], self.lifts[-1][1] + idle + charged

    def force(self, units: int) -> int:
        return self._take_within(_MOST - self.backlog, units)

    def take_denied(self, units: int, spare: int) -> int:
        return self._take_within(max(self.tolerance - self.backlog - spare * self.emission, 0), units)

    def _take_within(self, room: int, units: int) -> int:
        taken = min(units * self.emission, room)
        self._move(0, taken)
        return -(-taken // self.emission)

    def refund(self, units: int) -> int:
        left = charged = self.backlog
        for idle, since in reversed(self.lifts):
            left -= since
            free = min(idle, left)  # that of the oldest may have begun before now
            left, charged = left - free, charged - free
        if units > charged // self.emission:
            self.backlog, self.lifts = 0, []
            return -(-charged // self.emission)
        refund = units * self.emission
        while self.lifts and refund >= self.lifts[-1][1]:  # a lift goes with the last that was charged since
            idle, since = self.lifts.pop()
            refund -= since
            self.backlog -= since
            self.backlog -= min(idle, self.backlog)
        if self.lifts:
            self.lifts[-1] = self.lifts[-1][0], self.lifts[-1][1] - refund
        self.backlog -= refund
        return units

    def state(self) -> Any:
        return (self.now + self.backlog, max(self.backlog - self.tolerance, 0), tuple(self.lifts)) if self.backlog else None


class _Window:
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
                return self.period + instant - self.now
        return 0

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


class _Fixed:
    """What is used in the window of now: of the calendar, or of the first unit."""

    def __init__(self, limit: Limit, now: int, state: Any) -> None:
        self.capacity = limit.count
        index, used = state or (0, 0)
        self.corrected = False
        if limit.first:
            period = nanoseconds(limit.period, "period")
            if used and index > now:
                index, self.corrected = now, True
            elif now - index >= period:
                used = 0
            self.index = index if used else now
            self.end = self.index + period
        else:
            self.index, self.end = _calendar(limit, now)
            self.corrected = used > 0 and index > self.index
            if index < self.index:
                used = 0
        self.now, self.used = now, used

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


_KINDS: dict[str, Any] = {"NOBODY": _Nobody, "RATE": _Rate, "WINDOW": _Window, "FIXED": _Fixed, "FIRST": _Fixed}


def _unit(limit: Limit) -> tuple[int, str]:
    digits = str(limit.period).rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdecimal() else 0, str(limit.period)[len(digits):]


def _calendar(limit: Limit, now: int) -> tuple[int, int]:
    """Return the number of the window that an instant lies in, and when it ends."""
    n, unit = _unit(limit)
    offset = nanoseconds(limit.offset, "offset")
    if unit not in ("w", "mo", "y") and not limit.zone:
        period = nanoseconds(limit.period, "period")
        index = (now - offset) // period
        return index, (index + 1) * period + offset
    try:
        zone = zoneinfo.ZoneInfo(limit.zone) if limit.zone else UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise MistakeError(f"limits: no time zone has the name {limit.zone!r}") from None
    local = datetime.fromtimestamp(now // 1_000_000_000, zone).replace(tzinfo=None) + timedelta(microseconds=now // 1000 % 1_000_000)
    index = _index((local - timedelta(microseconds=offset // 1000)).date(), n, unit)
    end = _begin(index + 1, n, unit, offset, zone)
    while end <= now:  # clocks that have been set back show an earlier window again
        index += 1
        end = _begin(index + 1, n, unit, offset, zone)
    return index, end


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
    wall = datetime(day.year, day.month, day.day) + timedelta(microseconds=offset // 1000)
    at = wall.replace(tzinfo=zone, fold=0)
    seconds = int(at.timestamp())
    shown = datetime.fromtimestamp(seconds, zone).replace(tzinfo=None)
    if shown != wall.replace(microsecond=0):  # the clocks skip it
        low, high = seconds - 86_400, seconds + 86_400
        while low + 1 < high:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, zone).replace(tzinfo=None) >= wall:
                high = middle
            else:
                low = middle
        seconds = high
        return seconds * 1_000_000_000
    return seconds * 1_000_000_000 + offset % 1_000_000_000


@dataclass(slots=True)
class _State:
    """What is kept of a key."""

    limits: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    banned_until: int = 0
    leases: dict[str, int] = field(default_factory=dict)
    """When each lapses, in ms."""

    def is_empty(self, now: int) -> bool:
        return not self.limits and not self.leases and self.banned_until <= now


class _Row:
    """A limit of a call, with its state."""

    __slots__ = ("charged", "id", "key", "layer", "limit", "number")

    def __init__(self, key: int, number: int, limit: Limit, id: tuple[str, str, int], layer: _Layer) -> None:
        self.key, self.number, self.limit, self.id, self.layer = key, number, limit, id, layer
        self.charged = 0

    def units(self, cost: int) -> int:
        return cost if self.limit.take is None else self.limit.take

    def left(self) -> int:
        return max(self.layer.available() - self.limit.spare, 0)

    def wait(self, units: int) -> int:
        return self.layer.retry_after(units + self.limit.spare) if units else 0

    def longest_wait(self, wait: int) -> int:
        """Return a wait, or less where a bucket that is charged so late would take more than 292 years to refill."""
        return min(wait, _MOST - getattr(self.layer, "tolerance", 0))

    def standing(self) -> tuple[int, int, int, int]:
        """Return the capacity, what is left, and when all of it and more of it is there: for this caller, who has to spare some."""
        spare, capacity, left = self.limit.spare, self.layer.capacity, self.layer.available()
        reset, following = self.layer.reset_next()
        if not spare:
            return capacity, left, reset, following
        if spare >= capacity:
            return capacity, 0, 0, 0
        if left < spare:
            return capacity, 0, reset, self.layer.retry_after(spare + 1)
        return capacity, left - spare, reset, following


@dataclass(slots=True)
class _Slot:
    """What becomes of a key with slots."""

    limited: bool
    held: bool
    slots: int
    remaining: int
    retry: int = NEVER
    lapses: int = 0


class Engine:
    """Decides calls on keys that it keeps. It is not safe for use by several threads."""

    def __init__(self, keys: int = 100_000) -> None:
        self._most = keys
        self._keys: OrderedDict[str, _State] = OrderedDict()

    def knows(self, name: str) -> bool:
        """Whether anything is kept of a key."""
        return name in self._keys

    def run(self, call: Call, now: int) -> Any:
        """Decide a call at an instant, and return the reply. `Call.result` reads it."""
        _check(call)
        act = getattr(self, "_" + ("limit" if call.verb in ("limit", "wait") else call.verb))
        return act(call, now)

    # The keys.

    def _state(self, name: str) -> _State:
        state = self._keys.get(name)
        if state is None:
            return _State()
        self._keys.move_to_end(name)
        return state

    def _keep(self, name: str, state: _State, now: int) -> None:
        if state.is_empty(now):
            self._keys.pop(name, None)
            return
        self._keys[name] = state
        self._keys.move_to_end(name)
        while len(self._keys) > self._most:
            self._keys.popitem(last=False)

    def _states(self, call: Call, now: int) -> list[_State]:
        states = []
        for key in call.keys:
            state = self._state(key.name)
            of_leases = key.leased or call.verb in ("lease", "renew", "release")
            state.leases = {id: lapses for id, lapses in state.leases.items() if lapses * _MS > now}
            if (state.leases and not of_leases) or (of_leases and (state.limits or state.banned_until > now)):
                raise MistakeError("WRONGTYPE Operation against a key holding the wrong kind of value")
            states.append(state)
        return states

    @staticmethod
    def _rows(call: Call, states: Sequence[_State], now: int) -> list[_Row]:
        rows: list[_Row] = []
        number = 0
        for i, key in enumerate(call.keys):
            seen: dict[tuple[str, str], int] = {}
            for limit in key.limits:
                kind = "NOBODY" if not limit.count else "FIRST" if limit.first else limit.kind
                about = (kind, f"{limit.period} {limit.offset} {limit.zone}")
                seen[about] = seen.get(about, -1) + 1
                id = (*about, seen[about])
                rows.append(_Row(i, number, limit, id, cast(_Layer, _KINDS[kind](limit, now, states[i].limits.get(id)))))
                number += 1
            if key.leased:
                number += 1
        return rows

    def _store(self, call: Call, states: Sequence[_State], rows: Sequence[_Row], now: int) -> None:
        for row in rows:
            state = row.layer.state()
            if state is None:
                states[row.key].limits.pop(row.id, None)
            else:
                states[row.key].limits[row.id] = state
        for key, state in zip(call.keys, states, strict=True):
            self._keep(key.name, state, now)

    # Deciding.

    @staticmethod
    def _longest(rows: Sequence[_Row], units: int) -> tuple[int, int]:
        """Return the limit with the longest wait, and that wait."""
        rule, longest = 0, 0
        for i, row in enumerate(rows):
            if row.limit.shadow:
                continue
            wait = row.wait(row.units(units))
            if wait < 0:
                return i, NEVER
            if wait > longest:
                rule, longest = i, wait
        return rule, longest

    @staticmethod
    def _longest_wait(rows: Sequence[_Row], max_wait: int) -> int:
        return min([max_wait, *(row.longest_wait(max_wait) for row in rows if not row.limit.shadow)])

    @staticmethod
    def _alone(call: Call, row: _Row, max_wait: int) -> int:
        """Return the time until a call is let through by a limit alone, 0 if it would be now, or NEVER."""
        wait, max_wait = row.wait(1 if call.charge == "up_to" else row.units(call.cost)), row.longest_wait(max_wait)
        if 0 < wait <= max_wait:
            return 0
        return wait - max_wait if wait > max_wait > 0 else wait

    @staticmethod
    def _tightest(rows: Sequence[_Row], shadow: int) -> int:
        only_shadows = all(row.limit.shadow for row in rows)
        if only_shadows and shadow and len(rows) > 1:
            return shadow - 1
        asked = [(row.left(), i) for i, row in enumerate(rows) if only_shadows or not row.limit.shadow]
        return min(asked)[1]

    def _needed(self, call: Call, rows: Sequence[_Row]) -> tuple[int, int]:
        """Return what a call takes, and what it needs to pass."""
        if call.charge != "up_to":
            return call.cost, call.cost
        least = min([call.cost, *(row.left() for row in rows if not row.limit.shadow)])
        takes = max(least, min(call.cost, 1))
        return takes, max(takes, 1)

    def _shadow(self, call: Call, rows: Sequence[_Row], max_wait: int) -> int:
        return next((i + 1 for i, row in enumerate(rows) if row.limit.shadow and self._alone(call, row, max_wait)), 0)

    def _outlook(self, call: Call, rows: Sequence[_Row], max_wait: int) -> tuple[bool, int]:
        """Return whether a call is limited, and how long it waits or until it is to be tried again."""
        _, wait = self._longest(rows, self._needed(call, rows)[1])
        max_wait = self._longest_wait(rows, max_wait)
        if 0 <= wait <= max_wait:
            return False, wait
        return True, wait - max_wait if wait > max_wait else wait

    def _retry_after(self, call: Call, rows: Sequence[_Row], max_wait: int) -> int:
        limited, ns = self._outlook(call, rows, max_wait)
        return ns if limited else 0

    def _take(self, call: Call, rows: Sequence[_Row], max_wait: int, denied: bool = False) -> dict[str, int]:
        """Charge the limits of a call, or none. Something else than the limits may have denied it."""
        cost, needed = self._needed(call, rows)
        rule, wait = self._longest(rows, needed)
        shadow = self._shadow(call, rows, max_wait)
        asks = any(row.units(call.cost) > 0 for row in rows)
        said = {"limited": 0, "retry": NEVER, "granted": 0, "wait": 0, "shadow": shadow, "changed": 0}
        longest_wait = self._longest_wait(rows, max_wait)
        if not denied and 0 <= wait <= longest_wait:
            for row in rows:
                row.charged = self._charge(call, row, cost, wait, max_wait)
            rule = self._tightest(rows, shadow)
            said |= {"granted": rows[rule].charged, "wait": wait, "changed": int(asks)}
        elif not denied and call.charge == "force":
            for row in rows:
                row.charged = row.layer.force(row.units(call.cost))
            rule, wait = self._longest(rows, call.cost)
            said |= {"limited": 1, "retry": wait, "granted": rows[rule].charged, "changed": int(asks)}
        else:
            said |= {"limited": 1, "changed": int(asks and any(getattr(row.layer, "corrected", False) for row in rows))}
            if call.charge == "strict" and asks:
                for row in rows:
                    row.layer.take_denied(row.units(call.cost), row.limit.spare)
                rule, wait = self._longest(rows, needed)
                said["changed"] = 1
            said["retry"] = wait if denied else wait - longest_wait if wait > longest_wait else wait
        return {**said, "rule": rule}

    def _charge(self, call: Call, row: _Row, cost: int, wait: int, max_wait: int) -> int:
        units = row.units(cost)
        if not row.limit.shadow:
            if units:
                row.layer.take(units, wait)
            return units
        alone = row.wait(1 if call.charge == "up_to" else row.units(call.cost))
        if not units:
            return 0
        if 0 <= alone <= row.longest_wait(max_wait):
            if call.charge == "up_to":
                units = min(units, row.left())
            row.layer.take(units, row.longest_wait(max(wait, alone)))
            return units
        if call.charge == "force":
            return row.layer.force(units)
        return row.layer.take_denied(units, row.limit.spare) if call.charge == "strict" else 0

    # Replies.

    @staticmethod
    def _described(call: Call, said: dict[str, int], rows: Sequence[_Row], each: Sequence[list[int]]) -> list[Any]:
        row = rows[said["rule"]]
        limit, remaining, reset, following = row.standing()
        shadow = rows[said["shadow"] - 1].number + 1 if said["shadow"] else 0
        reply: list[Any] = [said["limited"], row.number + 1, limit, remaining, _ceil_ms(said["retry"]), _ceil_ms(reset), _ceil_ms(following),
                            said["granted"], _ceil_ms(said["wait"]), shadow]
        return [*reply, *([row.key + 1] if call.several else []), *each]

    @staticmethod
    def _described_ban(call: Call, key: int, left: int, retry: int, granted: int, rows: Sequence[_Row], each: Sequence[list[int]]) -> list[Any]:
        capacity = next((row.layer.capacity for row in rows if row.key == key), 0)
        rest = _ceil_ms(left)
        reply: list[Any] = [1, 0, capacity, 0, _ceil_ms(_longer(left, retry)), rest, rest, granted, 0, 0]
        return [*reply, *([key + 1] if call.several else []), *each]

    def _each(self, call: Call, rows: Sequence[_Row], limiting: Sequence[bool], limited: bool, max_wait: int) -> list[list[int]]:
        told = []
        for row, alone in zip(rows, limiting, strict=True):
            retry = self._alone(call, row, max_wait) if alone or limited else NEVER
            limit, remaining, reset, _ = row.standing()
            told.append([int(alone), limit, remaining, _ceil_ms(retry) if retry > 0 else NEVER, _ceil_ms(reset)])
        return told

    # The verbs.

    def _limit(self, call: Call, now: int) -> list[Any]:
        if any(key.leased for key in call.keys):
            return self._admit(call, now)
        states = self._states(call, now)
        rows = self._rows(call, states, now)
        max_wait = whole_milliseconds(call.max_wait, "max_wait") if call.max_wait is not None and call.verb == "limit" else 0
        if call.any:
            return self._limit_any(call, states, rows, max_wait, now)
        limiting = [self._alone(call, row, max_wait) != 0 for row in rows]
        ban = 0 if call.ban is None else whole_milliseconds(call.ban, "ban")
        longest = max(range(len(states)), key=lambda i: states[i].banned_until)
        left = states[longest].banned_until - now
        if left > 0 and call.charge != "force":
            if call.charge == "strict" and ban > left:
                states[longest].banned_until = now + ban
                left = ban
                self._keep(call.keys[longest].name, states[longest], now)
            each = self._each(call, rows, limiting, True, max_wait) if call.each else []
            return self._described_ban(call, longest, left, self._retry_after(call, rows, max_wait), 0, rows, each)
        said = self._take(call, rows, max_wait)
        if said["changed"]:
            self._store(call, states, rows, now)
        each = self._each(call, rows, limiting, bool(said["limited"]), max_wait) if call.each else []
        if left > 0:
            return self._described_ban(call, longest, left, self._retry_after(call, rows, max_wait), said["granted"], rows, each)
        if said["limited"] and ban and said["retry"] != NEVER:
            key = rows[said["rule"]].key
            if call.ban_after is None or self._is_last_denial(states[key], call.ban_after, now):
                states[key].banned_until = now + ban
                said["retry"] = max(said["retry"], ban)
            self._keep(call.keys[key].name, states[key], now)
        return self._described(call, said, rows, each)

    @staticmethod
    def _is_last_denial(state: _State, ban_after: str, now: int) -> bool:
        """Count a denied call, and return whether it was the last of those that a ban takes. Then the count is gone."""
        limit = denials(ban_after)
        id = ("AFTER", str(limit.period), 0)
        counted = _Fixed(limit, now, state.limits.get(id))
        counted.force(1)
        if counted.available() == 0:
            state.limits.pop(id, None)
            return True
        state.limits[id] = counted.state()
        return False

    def _limit_any(self, call: Call, states: Sequence[_State], rows: Sequence[_Row], max_wait: int, now: int) -> list[Any]:
        limiting = [self._alone(call, row, max_wait) != 0 for row in rows]

        def outlook(key: int) -> tuple[bool, int]:
            limited, ns = self._outlook(call, [row for row in rows if row.key == key], max_wait)
            left = states[key].banned_until - now
            return (True, _longer(left, ns if limited else 0)) if left > 0 else (limited, ns)

        def order(key: int) -> tuple[bool, float]:
            limited, ns = outlook(key)
            return limited, float("inf") if ns == NEVER else ns

        chosen = min(range(len(states)), key=order)
        mine = [row for row in rows if row.key == chosen]
        left = states[chosen].banned_until - now
        if left > 0 and call.charge != "force":
            each = self._each(call, rows, limiting, True, max_wait) if call.each else []
            return self._described_ban(call, chosen, left, outlook(chosen)[1], 0, rows, each)
        said = self._take(call, mine, max_wait)
        if said["changed"]:
            self._store(call, states, mine, now)
        first = rows.index(mine[0])
        said |= {"rule": said["rule"] + first, "shadow": said["shadow"] + first if said["shadow"] else 0}
        each = self._each(call, rows, limiting, bool(said["limited"]) or left > 0, max_wait) if call.each else []
        if left > 0 or (said["limited"] and call.charge == "force"):  # the debt may have made another key the first that has room
            limited, soonest = outlook(min(range(len(states)), key=order))
            said["retry"] = soonest if limited else 0
        if left > 0:
            return self._described_ban(call, chosen, left, said["retry"], said["granted"], rows, each)
        return self._described(call, said, rows, each)

    def _peek(self, call: Call, now: int) -> list[Any]:
        states = self._states(call, now)
        rows = self._rows(call, states, now)
        limiting = [self._alone(call, row, 0) != 0 for row in rows]
        left = states[0].banned_until - now
        if left > 0:
            each = self._each(call, rows, limiting, True, 0) if call.each else []
            return self._described_ban(call, 0, left, self._retry_after(call, rows, 0), 0, rows, each)
        rule, wait = self._longest(rows, call.cost)
        shadow = self._shadow(call, rows, 0)
        said = {"limited": int(wait != 0), "rule": rule, "retry": wait, "granted": 0, "wait": 0, "shadow": shadow}
        if not said["limited"]:
            said |= {"rule": self._tightest(rows, shadow), "retry": NEVER}
        return self._described(call, said, rows, self._each(call, rows, limiting, wait != 0, 0) if call.each else [])

    def _refund(self, call: Call, now: int) -> list[Any]:
        states = self._states(call, now)
        rows = self._rows(call, states, now)
        for row in rows:
            row.charged = -row.layer.refund(row.units(call.cost))
        self._store(call, states, rows, now)
        rule = self._tightest(rows, 0)
        said = {"limited": 0, "rule": rule, "retry": NEVER, "granted": rows[rule].charged, "wait": 0, "shadow": 0}
        return self._described(call, said, rows, self._each(call, rows, [False] * len(rows), False, 0) if call.each else [])

    def _ban(self, call: Call, now: int) -> int:
        [state] = self._states(call, now)
        ns = whole_milliseconds(call.ban, "duration")
        state.banned_until = max(state.banned_until, now + ns) if ns else 0
        self._keep(call.keys[0].name, state, now)
        return _ceil_ms(max(state.banned_until - now, 0))

    def _reset(self, call: Call, now: int) -> int:
        name = call.keys[0].name
        gone = name in self._keys and not self._keys[name].is_empty(now)
        self._keys.pop(name, None)
        return int(gone)

    def _slot(self, key: Key, state: _State, id: str, now: int) -> _Slot:
        free = max(key.slots - len(state.leases), 0)
        held = id in state.leases
        if held or free:
            ttl = whole_milliseconds(key.ttl, "ttl")
            return _Slot(False, held, key.slots, free if held else free - 1, lapses=-(-(now + ttl) // _MS))
        retry = NEVER if not key.slots else max(min(state.leases.values()) * _MS - now, 0)
        return _Slot(True, False, key.slots, 0, retry)

    def _lease(self, call: Call, now: int) -> list[Any]:
        [state] = self._states(call, now)
        slot = self._slot(call.keys[0], state, call.id, now)
        if not slot.limited:
            state.leases[call.id] = slot.lapses
            self._keep(call.keys[0].name, state, now)
        lasts = 0 if slot.limited else (slot.lapses * _MS - now) // _MS
        return [int(slot.limited), slot.slots, slot.remaining, _ceil_ms(slot.retry), lasts, 0]

    def _renew(self, call: Call, now: int) -> list[Any]:
        [state] = self._states(call, now)
        if call.id not in state.leases:
            return [1, -1, -1, -1, 0, 0]
        lapses = -(-(now + whole_milliseconds(call.keys[0].ttl, "ttl")) // _MS)
        state.leases[call.id] = lapses
        return [0, -1, -1, -1, (lapses * _MS - now) // _MS, 0]

    def _release(self, call: Call, now: int) -> int:
        [state] = self._states(call, now)
        found = state.leases.pop(call.id, None) is not None
        self._keep(call.keys[0].name, state, now)
        return int(found)

    def _admit(self, call: Call, now: int) -> list[Any]:
        states = self._states(call, now)
        rows = self._rows(call, states, now)
        slots = {i: self._slot(key, states[i], call.id, now) for i, key in enumerate(call.keys) if key.leased}
        full = -1
        for i, slot in slots.items():
            if slot.limited and (full < 0 or (slots[full].retry != NEVER and (slot.retry == NEVER or slot.retry > slots[full].retry))):
                full = i
        limiting = [self._alone(call, row, 0) != 0 for row in rows]
        held = all(slot.held for slot in slots.values())
        banned = max(range(len(states)), key=lambda i: states[i].banned_until)
        left = states[banned].banned_until - now
        said = {"limited": 0, "rule": 0, "retry": NEVER, "granted": 0, "wait": 0, "shadow": 0}
        if held:
            limiting = [False] * len(rows)
            if rows:
                rule = self._tightest(rows, 0)
                said |= {"rule": rule, "granted": rows[rule].units(call.cost)}
        elif left > 0:
            retry = self._retry_after(call, rows, 0) if rows else 0
            for slot in slots.values():
                retry = _longer(retry, slot.retry) if slot.limited else retry
            each = self._each_of_all(call, states, rows, slots, limiting, True, now) if call.each else []
            return self._described_ban(call, banned, left, retry, 0, rows, each)
        elif not rows:
            said |= {"limited": int(full >= 0), "retry": 0}
        else:
            said = self._take(call, rows, 0, denied=full >= 0)
            if said["changed"]:
                self._store(call, states, rows, now)
        if not said["limited"]:
            for i, slot in slots.items():
                states[i].leases[call.id] = slot.lapses
                self._keep(call.keys[i].name, states[i], now)
        each = self._each_of_all(call, states, rows, slots, limiting, bool(said["limited"]), now) if call.each else []
        decides = self._deciding_slot(said, rows, slots, full)
        if decides < 0:
            return self._described(call, said, rows, each)
        slot = slots[decides]
        others = [lapses * _MS - now for lapses in states[decides].leases.values()]
        number = sum(key.rules for key in call.keys[:decides]) + 1
        return [int(slot.limited), number, slot.slots, slot.remaining, _ceil_ms(slot.retry), _ceil_ms(max(others, default=0)),
                _ceil_ms(min(others, default=0)), int(not slot.limited), 0, rows[said["shadow"] - 1].number + 1 if said["shadow"] else 0,
                decides + 1, *each]

    @staticmethod
    def _deciding_slot(said: dict[str, int], rows: Sequence[_Row], slots: dict[int, _Slot], full: int) -> int:
        """Return the key whose slots decide a call; -1 if a limit does: of a denied call the longest wait, of another one the fewest left."""
        if said["limited"]:
            if full < 0:
                return -1
            ns, key = slots[full].retry, rows[said["rule"]].key if rows else len(slots)
            if rows and said["retry"] != 0:
                longer = said["retry"] != NEVER and (ns == NEVER or ns > said["retry"])
                if not (longer or (ns == said["retry"] and full < key)):
                    return -1
            return full
        best, least = -1, 0
        if rows and not all(row.limit.shadow for row in rows):
            best, least = rows[said["rule"]].key, rows[said["rule"]].standing()[1]
        for i, slot in slots.items():
            if best < 0 or slot.remaining < least or (slot.remaining == least and i < best):
                best, least = i, slot.remaining
        return best if best in slots else -1

    def _each_of_all(self, call: Call, states: Sequence[_State], rows: Sequence[_Row], slots: dict[int, _Slot], limiting: Sequence[bool],
                     limited: bool, now: int) -> list[list[int]]:
        of_limits = iter(self._each(call, rows, limiting, limited, 0))
        told = []
        for i, key in enumerate(call.keys):
            if not key.leased:
                told += [next(of_limits) for _ in key.limits]
                continue
            slot = slots[i]
            remaining = max(slot.slots - len(states[i].leases), 0) if slot.slots >= 0 else slot.slots  # a settlement tells none
            last = max((lapses * _MS - now for lapses in states[i].leases.values()), default=0)
            told.append([int(slot.limited), slot.slots, remaining, _ceil_ms(slot.retry), _ceil_ms(last)])
        return told

    def _settle(self, call: Call, now: int) -> list[Any]:
        states = self._states(call, now)
        rows = self._rows(call, states, now)
        held = all(call.id in states[i].leases for i, key in enumerate(call.keys) if key.leased)
        if held:
            for row in rows:
                units = (row.limit.used or 0) - (row.limit.take or 0)
                row.charged = row.layer.force(units) if units > 0 else -row.layer.refund(-units)
            for i, key in enumerate(call.keys):
                if key.leased:
                    states[i].leases.pop(call.id)
            self._store(call, states, rows, now)
        if not rows:
            return [int(held), 0, 0, 0, NEVER, *[0] * 6]
        rule = self._tightest(rows, 0)
        said = {"limited": int(held), "rule": rule, "retry": NEVER, "granted": rows[rule].charged, "wait": 0, "shadow": 0}
        each = []
        if call.each:
            slots = {i: _Slot(not held, held, -1, -1) for i, key in enumerate(call.keys) if key.leased}
            each = self._each_of_all(call, states, rows, slots, [False] * len(rows), False, now)
        return self._described(call, said, rows, each)


def _check(call: Call) -> None:
    """Refuse what the server refuses and the client lets pass."""
    limits = [limit for key in call.keys for limit in key.limits]
    if call.verb in ("limit", "peek", "refund", "wait") and not limits and not any(key.leased for key in call.keys):
        raise MistakeError("ERR wrong number of arguments")
    if any(len(key.limits) > 8 for key in call.keys) or len(call.keys) > 8:
        raise MistakeError("ERR syntax error: at most 8 keys, and 8 limits of a key")
    names = [key.name for key in call.keys]
    if len(set(names)) < len(names):
        raise MistakeError("ERR syntax error: each key can be given once")
    leased = any(key.leased for key in call.keys)
    for wrong, text in (
        (call.verb == "limit" and call.max_wait is not None and any(limit.kind != "RATE" for limit in limits), "'MAXWAIT': works with RATE limits only"),
        (call.verb == "limit" and call.max_wait is not None and call.charge is not None, f"'MAXWAIT': cannot go with {call.charge}"),
        (call.verb == "limit" and call.max_wait is not None and call.ban is not None, "'BAN': cannot go with MAXWAIT"),
        (call.charge == "up_to" and any(limit.take is not None for limit in limits), "'UPTO': cannot go with TAKE"),
        (call.any and (call.charge == "strict" or call.ban is not None), "'ANY': cannot go with STRICT and BAN"),
        (call.verb == "limit" and leased and (call.charge in ("up_to", "force") or call.any or call.max_wait is not None or call.ban is not None),
         "'SLOTS': cannot go with UPTO, FORCE, ANY, MAXWAIT and BAN"),
        (call.ban_after is not None and any(len(key.limits) == 8 for key in call.keys), "'AFTER': counts as one of the 8 limits of a key"),
        (call.ban_after is not None and nanoseconds(denials(call.ban_after).period, "ban_after") >= 2**63, "'AFTER': the period is longer than 292 years"),
        (any(key.slots < 0 or (key.ttl is not None and not _MS <= whole_milliseconds(key.ttl, "ttl") <= _CENTURY) for key in call.keys),
         "SLOTS takes an integer of at least 0, TTL a length of time from 1ms to 100 years"),
        (call.verb in ("lease", "renew", "release", "settle") and not 1 <= len(call.id.encode()) <= 512, "ID takes 1 to 512 bytes"),
        (call.verb == "settle" and not leased, "there must be a group of SLOTS, or a retry would settle twice"),
        (any(limit.zone and _unit(limit)[1] not in ("d", "w", "mo", "y") for limit in limits), "TZ: goes with periods of whole days, weeks, months or years"),
        (call.verb != "settle" and any(limit.used is not None for limit in limits), "'USED': is for CL.SETTLE"),
        (call.verb == "settle" and any((limit.used is None) != (limit.take is None) for limit in limits), "TAKE and USED go together"),
    ):
        if wrong:
            raise MistakeError(f"ERR syntax error near {text}")
