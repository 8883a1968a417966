"""What a key holds, as the server keeps it: a ban, the states of limits, or leases. All instants are ns since the Unix
epoch.

The states that the call before named come first, in its order, then those of other limits. There are eight at most. A
state belongs to the limit of the same kind and windows, the first to the first where there are several. One rate that
is alone is a number without a period: it belongs to the first rate of the next call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.limit import Limit, denials
from .kinds import KINDS, MOST, First, Layer, identity

_MS = 1_000_000
_SECOND = 1_000_000_000
_SECOND_MS = 1000
_MOST_SLACK = 3600
"""How many seconds a key stays longer than it has to, at most."""
_STATES = 8
_SWEPT = 16
"""How many lapsed leases a call removes."""

_Id = tuple[str, int | str]
_UNKNOWN: _Id = ("RATE", 0)
"""What a rate is that was a number alone: it has no period."""


@dataclass(slots=True)
class Stored:
    """The state of a limit; None if nothing is used."""

    id: _Id
    state: Any
    named: bool = False
    """It is not forgotten for want of room: a count of denials."""

    @property
    def full_at(self) -> int:
        """The instant from which it counts no more; 0 if that is unknown, or past."""
        kind, windows = self.id
        if self.state is None or isinstance(windows, str):
            return 0
        if kind == "RATE":
            return int(self.state[0])
        if kind == "WINDOW":
            return int(min(self.state[-1][0] + windows, MOST))
        start = (self.state[0] + 1) * windows if kind == "FIXED" else self.state[0] + windows
        return int(min(start, MOST))

    @property
    def end_is_unknown(self) -> bool:
        """It is a window of the calendar, whose number only a call that names the limit can read."""
        return isinstance(self.id[1], str) and self.state is not None

    def is_full(self, now: int) -> bool:
        return not self.end_is_unknown and self.full_at <= now

    def goes_before(self, other: Stored) -> bool:
        """Whether it is the one to forget of the two."""
        if self.end_is_unknown != other.end_is_unknown:
            return other.end_is_unknown
        if self.end_is_unknown:
            return bool(self.state[0] > other.state[0])
        return self.full_at < other.full_at


@dataclass(slots=True)
class Held:
    """What a key holds, and until when."""

    states: list[Stored] = field(default_factory=list)
    banned_until: int = 0
    """0 without a ban; one that is over stays until something else is stored."""
    leases: dict[str, int] = field(default_factory=dict)
    """When each lapses, in ms. Some may have."""
    expires_ms: int = 0

    def exists(self, now: int) -> bool:
        """Whether there is anything. In the very ms of its expiry a key still exists."""
        return bool(self.states or self.banned_until or self.leases) and self.expires_ms >= now // _MS

    def clear(self) -> None:
        self.states, self.banned_until, self.leases, self.expires_ms = [], 0, {}, 0

    def ban(self, until: int) -> None:
        """Ban the key until an instant, and leave the rest as it is."""
        self.banned_until = until
        self.expires_ms = max(self.expires_ms, _expiry(until))

    def lift_ban(self) -> None:
        self.banned_until = 0
        if not self.states:
            self.clear()

    # Leases.

    def current(self, now: int) -> dict[str, int]:
        """Return the leases that have not lapsed."""
        return {id: lapses for id, lapses in self.leases.items() if lapses > now // _MS}

    def lease(self, id: str, lapses: int, now: int) -> None:
        """Store a lease, and remove some that have lapsed."""
        lapsed = sorted((at, other) for other, at in self.leases.items() if at <= now // _MS and other != id)
        self.renew(id, lapses)
        for _, other in lapsed[:_SWEPT]:
            del self.leases[other]

    def renew(self, id: str, lapses: int) -> None:
        self.leases[id] = lapses
        self.expires_ms = max(self.leases.values())

    def release(self, id: str, now: int) -> None:
        if list(self.current(now)) == [id]:
            self.clear()
            return
        del self.leases[id]
        self.expires_ms = max(self.leases.values())


def _expiry(full_at: int) -> int:
    return ((full_at - 1) // _SECOND + 1) * _SECOND_MS


def _expiry_in_use(expires_ms: int, full_at: int, now: int) -> int:
    """Return when a key that is there expires: up to a quarter later than it has to, so that calls that follow leave
    its expiry as it is."""
    due = _expiry(full_at)
    latest = due + min((due // _SECOND_MS - now // _SECOND) // 4, _MOST_SLACK) * _SECOND_MS
    return expires_ms if due <= expires_ms <= latest else latest


class Row:
    """A limit of a call, with its state."""

    __slots__ = ("changed", "charged", "id", "key", "layer", "limit", "number", "stored")

    def __init__(self, key: int, number: int, limit: Limit) -> None:
        self.key, self.number, self.limit = key, number, limit
        self.id = identity(limit)
        self.charged = 0
        self.stored = self.changed = False
        self.layer: Layer

    @property
    def keeps_nothing(self) -> bool:
        return self.limit.count == 0

    @property
    def is_rate(self) -> bool:
        return self.id[0] == "RATE" and not self.keeps_nothing

    def units(self, cost: int) -> int:
        return cost if self.limit.take is None else self.limit.take

    def left(self) -> int:
        return max(self.layer.available() - self.limit.spare, 0)

    def wait(self, units: int) -> int:
        return self.layer.retry_after(units + self.limit.spare) if units else 0

    def longest_wait(self, wait: int) -> int:
        """Return a wait, or less where the limit cannot be charged so late."""
        return min(wait, self.layer.longest_wait())

    def standing(self) -> tuple[int, int, int, int]:
        """Return the capacity, what is left, and when all of it and more of it is there: for this caller, who has to
        spare some."""
        spare, capacity, left = self.limit.spare, self.layer.capacity, self.layer.available()
        reset, following = self.layer.reset_next()
        if not spare:
            return capacity, left, reset, following
        if spare >= capacity:
            return capacity, 0, 0, 0
        if left < spare:
            return capacity, 0, reset, self.layer.retry_after(spare + 1)
        return capacity, left - spare, reset, following


class Stack:
    """The limits of a call on a key, and what the key holds of others."""

    def __init__(self, held: Held, rows: Sequence[Row], now: int) -> None:
        self.held, self.rows, self._now = held, rows, now
        self._kept: list[Stored] = []
        self._adds_none = False
        self._decode()

    def _decode(self) -> None:
        states: dict[int, Any] = {}
        lone = len(self.held.states) == 1 and self.held.states[0].id[0] == "RATE"
        for one in self.held.states:
            row = self._free(one.id, lone)
            if row:
                row.stored, states[id(row)] = True, one.state
            else:
                # The number alone has no period; what was reserved or forced has one.
                plain = lone and not one.state[1]
                self._kept.append(Stored(_UNKNOWN if plain else one.id, one.state, False))
        unknown = next((one for one in self._kept if one.id == _UNKNOWN), None)
        row = self._free(_UNKNOWN, True) if unknown and not lone else None
        if unknown and row:
            row.stored, states[id(row)] = True, unknown.state
            self._kept.remove(unknown)
        for row in self.rows:
            kind = KINDS["NOBODY" if row.keeps_nothing else row.id[0]]
            row.layer = kind(row.limit, self._now, states.get(id(row)))

    def _free(self, id: _Id, any_rate: bool) -> Row | None:
        for row in self.rows:
            if not row.stored and not row.keeps_nothing and (row.is_rate if any_rate else row.id == id):
                return row
        return None

    def count_denial(self, ban_after: str) -> tuple[bool, bool]:
        """Count a denied call. Return whether it was the last of those that a ban takes, and whether what is stored has
        changed."""
        limit = denials(ban_after)
        about: _Id = ("AFTER", identity(limit)[1])
        there = next((one for one in self._kept if one.id == about), None)
        if there:
            self._kept.remove(there)
        counted = First(limit, self._now, there and there.state)
        counted.force(1)
        if counted.available() == 0:
            return True, there is not None
        self._kept.insert(0, Stored(about, counted.state(), True))
        return False, True

    def adds_none(self) -> None:
        """Limits that the key does not hold are not to be stored."""
        self._adds_none = True

    def adds_charged(self) -> None:
        """Limits that the key does not hold are to be stored if they were charged, with those in front that would be
        taken for them."""
        self._adds_none = True
        for i, row in enumerate(self.rows):
            if row.stored or row.charged <= 0:
                continue
            for before in self.rows[:i + 1]:
                if before.is_rate if row.is_rate else before.id == row.id and not before.keeps_nothing:
                    before.stored = True

    @property
    def changed(self) -> bool:
        return any(row.changed for row in self.rows)

    def store(self) -> None:
        """Store what the limits have become; if all are full, the key goes."""
        held, now = self.held, self._now
        if held.banned_until > now:
            self.store_behind(held.banned_until)
            return
        full_at = self._full_at()
        keeps_calendar = any(one.end_is_unknown for one in self._kept)
        if full_at <= now and not keeps_calendar:
            held.clear()
            return
        there = held.exists(now)
        held.states, held.banned_until = self._states(), 0
        if there and not keeps_calendar:
            held.expires_ms = _expiry_in_use(held.expires_ms, full_at, now)
        else:
            self._expire(max(full_at, now + 1), there)

    def store_behind(self, until: int) -> None:
        """Ban the key until an instant, and store what the limits have become behind the ban."""
        full_at = self._full_at()
        keeps_calendar = any(one.end_is_unknown for one in self._kept)
        there = self.held.exists(self._now)
        self.held.states = self._states() if full_at > self._now or keeps_calendar else []
        self.held.banned_until = until
        self._expire(max(until, full_at), keeps_calendar and there)

    def _expire(self, at: int, no_earlier: bool) -> None:
        self.held.expires_ms = max(self.held.expires_ms, _expiry(at)) if no_earlier else _expiry(at)

    def _full_at(self) -> int:
        named = max((row.layer.full_at() for row in self.rows), default=0)
        self._forget()
        return max([named, *(one.full_at for one in self._kept)])

    def _forget(self) -> None:
        """Drop what does not have to be kept of limits that the call does not name: those that are full, and those
        without room."""
        full: Stored | None = None
        for i in range(len(self._kept) - 1, -1, -1):
            one = self._kept[i]
            if not one.is_full(self._now):
                continue
            if self._counts_on(i):
                one.state = None
                continue
            if one.id[0] == "RATE":
                full = Stored(one.id, None)
            del self._kept[i]
        if full and self._lone_rate():  # the number alone would belong to whichever of the two a call names first
            self._kept.append(full)
        while len(self._kept) + sum(self._stores(row) for row in self.rows) > _STATES:
            self._forget_one()

    def _counts_on(self, index: int) -> bool:
        """Whether a limit of the same kind and windows is behind: only their order tells which is which."""
        return any(other.id == self._kept[index].id for other in self._kept[index + 1:])

    def _forget_one(self) -> None:
        soonest = len(self._kept) - 1
        for i in range(soonest - 1, -1, -1):
            one = self._kept[i]
            if not one.named and not self._counts_on(i) and one.goes_before(self._kept[soonest]):
                soonest = i
        del self._kept[soonest]

    def _stores(self, row: Row) -> bool:
        return (not self._adds_none or row.stored) and not row.keeps_nothing

    def _lone_rate(self) -> Row | None:
        """Return the only limit that is to be stored, if it is a rate."""
        if self._kept or not self.rows:
            return None
        if len(self.rows) == 1:
            return self.rows[0] if self.rows[0].is_rate else None
        if not self._adds_none and not any(row.keeps_nothing for row in self.rows):
            return None
        return self._lone_rate_of_stored()

    def _lone_rate_of_stored(self) -> Row | None:
        """Beside a rate that is left alone, store one of the call that stands in front of it: a later call would take
        the number for it."""
        rate = before = None
        for row in self.rows:
            if not self._stores(row):
                before = row if row.is_rate and rate is None else before
            elif rate or not row.is_rate:
                return None
            else:
                rate = row
        if rate is None:
            return None
        if before:
            before.stored = True
            return None
        for row in self.rows:
            if row is rate or self._adds_none:
                break
            if row.keeps_nothing and row.id[0] == "RATE" and row.id != rate.id:
                self._kept.append(Stored(row.id, None))
                return None
        return rate

    def _states(self) -> list[Stored]:
        lone = self._lone_rate()
        if lone:
            tat, queue, _ = lone.layer.state() or (0, 0, ())
            return [Stored(lone.id, (tat, queue, ()))]
        return [*(Stored(row.id, row.layer.state()) for row in self.rows if self._stores(row)), *self._kept]
