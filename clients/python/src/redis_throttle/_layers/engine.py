"""Decides calls in this process, as the server does: for the local limits of a `Guard` and the fakes of
`redis_throttle.testing`.

The transcripts of spec/ hold it to what the server answers, and histories that are drawn by chance. All instants are ns
since the Unix epoch, all durations ns. It leaves out callers that stand in line.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._core.call import Call, Key
from .._core.duration import nanoseconds, whole_milliseconds
from .._core.errors import MistakeError
from .._core.limit import denials
from .held import Held, Row, Stack
from .kinds import NEVER, unit_of

_MS = 1_000_000
_CENTURY = 36_500 * 86_400_000_000_000


def _ceil_ms(ns: int) -> int:
    return ns if ns <= 0 else -(-ns // _MS)


def _longer(a: int, b: int) -> int:
    """Return the longer of two waits; never is the longest."""
    return NEVER if NEVER in (a, b) else max(a, b)


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
        self._keys: OrderedDict[str, Held] = OrderedDict()

    def knows(self, name: str) -> bool:
        """Whether anything is kept of a key."""
        return name in self._keys

    def run(self, call: Call, now: int) -> Any:
        """Decide a call at an instant, and return the reply. `Call.result` reads it."""
        _check(call)
        act = getattr(self, "_" + ("limit" if call.verb in ("limit", "wait") else call.verb))
        return act(call, now)

    # The keys.

    def _held(self, call: Call, now: int) -> list[Held]:
        """Return what the keys of a call hold. Keys whose time is over are gone, all of them, also where the call is
        refused."""
        all_held = []
        for key in call.keys:
            held = self._keys.get(key.name)
            if held is None or not held.exists(now):
                self._keys.pop(key.name, None)
                held = Held()
            else:
                self._keys.move_to_end(key.name)
            all_held.append(held)
        for key, held in zip(call.keys, all_held, strict=True):
            of_leases = key.leased or call.verb in ("lease", "renew", "release")
            if held.leases if not of_leases else held.states or held.banned_until:
                raise MistakeError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return all_held

    def _keep(self, call: Call, all_held: Sequence[Held], now: int) -> None:
        """Note what the keys of a call hold now. Those used least recently are forgotten if there are too many."""
        for key, held in zip(call.keys, all_held, strict=True):
            if held.exists(now):
                self._keys[key.name] = held
            else:
                self._keys.pop(key.name, None)
        while len(self._keys) > self._most:
            self._keys.popitem(last=False)

    @staticmethod
    def _stacks(call: Call, all_held: Sequence[Held], now: int) -> tuple[list[Stack], list[Row]]:
        """Return the limits of each key with their states, and all of them in a row."""
        stacks: list[Stack] = []
        number = 0
        for i, key in enumerate(call.keys):
            rows = [Row(i, number + n, limit) for n, limit in enumerate(key.limits)]
            stacks.append(Stack(all_held[i], rows, now))
            number += key.rules
        return stacks, [row for stack in stacks for row in stack.rows]

    # Deciding.

    @staticmethod
    def _longest(rows: Sequence[Row], units: int) -> tuple[int, int]:
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
    def _longest_wait(rows: Sequence[Row], max_wait: int) -> int:
        return min([max_wait, *(row.longest_wait(max_wait) for row in rows if not row.limit.shadow)])

    @staticmethod
    def _alone(call: Call, row: Row, max_wait: int) -> int:
        """Return the time until a call is let through by a limit alone, 0 if it would be now, or NEVER."""
        wait, max_wait = row.wait(1 if call.charge == "up_to" else row.units(call.cost)), row.longest_wait(max_wait)
        if 0 < wait <= max_wait:
            return 0
        return wait - max_wait if wait > max_wait > 0 else wait

    @staticmethod
    def _tightest(rows: Sequence[Row], shadow: int) -> int:
        only_shadows = all(row.limit.shadow for row in rows)
        if only_shadows and shadow and len(rows) > 1:
            return shadow - 1
        asked = [(row.left(), i) for i, row in enumerate(rows) if only_shadows or not row.limit.shadow]
        return min(asked)[1]

    def _needed(self, call: Call, rows: Sequence[Row]) -> tuple[int, int]:
        """Return what a call takes, and what it needs to pass."""
        if call.charge != "up_to":
            return call.cost, call.cost
        least = min([call.cost, *(row.left() for row in rows if not row.limit.shadow)])
        takes = max(least, min(call.cost, 1))
        return takes, max(takes, 1)

    def _shadow(self, call: Call, rows: Sequence[Row], max_wait: int) -> int:
        return next((i + 1 for i, row in enumerate(rows) if row.limit.shadow and self._alone(call, row, max_wait)), 0)

    def _outlook(self, call: Call, rows: Sequence[Row], max_wait: int) -> tuple[bool, int]:
        """Return whether a call is limited, and how long it waits or until it is to be tried again."""
        _, wait = self._longest(rows, self._needed(call, rows)[1])
        max_wait = self._longest_wait(rows, max_wait)
        if 0 <= wait <= max_wait:
            return False, wait
        return True, wait - max_wait if wait > max_wait else wait

    def _retry_after(self, call: Call, rows: Sequence[Row], max_wait: int) -> int:
        limited, ns = self._outlook(call, rows, max_wait)
        return ns if limited else 0

    def _take(self, call: Call, rows: Sequence[Row], max_wait: int, denied: bool = False) -> dict[str, int]:
        """Charge the limits of a call, or none. Something else than the limits may have denied it."""
        cost, needed = self._needed(call, rows)
        rule, wait = self._longest(rows, needed)
        shadow = self._shadow(call, rows, max_wait)
        longest_wait = self._longest_wait(rows, max_wait)
        said = {"limited": 0, "retry": NEVER, "granted": 0, "wait": 0, "shadow": shadow}
        if not denied and 0 <= wait <= longest_wait:
            for row in rows:
                self._charge(call, row, cost, wait, max_wait)
            rule = self._tightest(rows, shadow)
            granted = rows[rule].charged if rows[rule].limit.shadow else rows[rule].units(cost)
            return {**said, "rule": rule, "granted": granted, "wait": wait}
        if not denied and call.charge == "force":
            for row in rows:
                units = row.units(call.cost)
                row.charged = row.layer.force(units) if units else 0
                row.changed = row.charged > 0
            rule, wait = self._longest(rows, call.cost)
            return {**said, "limited": 1, "rule": rule, "retry": wait, "granted": rows[rule].charged}
        if any(row.units(call.cost) > 0 for row in rows):
            rule, wait = self._punish(call, rows, needed, rule, wait)
        return {**said, "limited": 1, "rule": rule, "retry": wait if denied else wait - longest_wait if wait > longest_wait else wait}

    def _punish(self, call: Call, rows: Sequence[Row], needed: int, rule: int, wait: int) -> tuple[int, int]:
        """Have stored what was corrected, and charge a strict call that is denied. Return the limit with the longest
        wait afterwards."""
        for row in rows:
            row.changed = row.layer.corrected
        if call.charge != "strict":
            return rule, wait
        for row in rows:
            row.changed |= row.layer.take_denied(row.units(call.cost), row.limit.spare) > 0
        return self._longest(rows, needed)

    @staticmethod
    def _charge(call: Call, row: Row, cost: int, wait: int, max_wait: int) -> None:
        units = row.units(cost)
        if not units:
            return
        if not row.limit.shadow:
            row.layer.take(units, wait)
            row.charged, row.changed = units, True
            return
        alone = row.wait(1 if call.charge == "up_to" else units)
        if 0 <= alone <= row.longest_wait(max_wait):
            row.charged = min(units, row.left()) if call.charge == "up_to" else units
            if row.charged:
                row.layer.take(row.charged, row.longest_wait(max(wait, alone)))
        elif call.charge == "force":
            row.charged = row.layer.force(units)
        else:
            row.charged = row.layer.take_denied(units, row.limit.spare) if call.charge == "strict" else 0
            row.changed = row.layer.corrected
        row.changed |= row.charged > 0

    # Replies.

    @staticmethod
    def _described(call: Call, said: dict[str, int], rows: Sequence[Row], each: Sequence[list[int]]) -> list[Any]:
        row = rows[said["rule"]]
        limit, remaining, reset, following = row.standing()
        shadow = rows[said["shadow"] - 1].number + 1 if said["shadow"] else 0
        reply: list[Any] = [said["limited"], row.number + 1, limit, remaining, _ceil_ms(said["retry"]), _ceil_ms(reset), _ceil_ms(following),
                            said["granted"], _ceil_ms(said["wait"]), shadow]
        return [*reply, *([row.key + 1] if call.several else []), *each]

    @staticmethod
    def _described_ban(call: Call, key: int, left: int, retry: int, granted: int, rows: Sequence[Row], each: Sequence[list[int]]) -> list[Any]:
        capacity = next((row.layer.capacity for row in rows if row.key == key), 0)
        rest = _ceil_ms(left)
        reply: list[Any] = [1, 0, capacity, 0, _ceil_ms(_longer(left, retry)), rest, rest, granted, 0, 0]
        return [*reply, *([key + 1] if call.several else []), *each]

    def _each(self, call: Call, rows: Sequence[Row], limiting: Sequence[bool], limited: bool, max_wait: int) -> list[list[int]]:
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
        all_held = self._held(call, now)
        stacks, rows = self._stacks(call, all_held, now)
        max_wait = whole_milliseconds(call.max_wait, "max_wait") if call.max_wait is not None and call.verb == "limit" else 0
        if call.any:
            return self._limit_any(call, all_held, stacks, rows, max_wait, now)
        limiting = [self._alone(call, row, max_wait) != 0 for row in rows]
        ban = 0 if call.ban is None else whole_milliseconds(call.ban, "ban")
        longest = max(range(len(stacks)), key=lambda i: all_held[i].banned_until)
        banned = all_held[longest]
        if banned.banned_until > now and call.charge != "force":
            if call.charge == "strict" and now + ban > banned.banned_until:
                banned.ban(now + ban)
            each = self._each(call, rows, limiting, True, max_wait) if call.each else []
            return self._described_ban(call, longest, banned.banned_until - now, self._retry_after(call, rows, max_wait), 0, rows, each)
        said = self._take(call, rows, max_wait)
        if banned.banned_until > now:  # what was used is a fact, and is kept behind the bans
            self._store(call, all_held, stacks, now)
            each = self._each(call, rows, limiting, True, max_wait) if call.each else []
            left = banned.banned_until - now
            return self._described_ban(call, longest, left, self._retry_after(call, rows, max_wait), said["granted"], rows, each)
        bans = said["limited"] and ban and said["retry"] != NEVER
        key = rows[said["rule"]].key
        self._store(call, all_held, stacks, now, key if bans else -1)
        if bans:
            if self._is_banned(call, stacks[key], now + ban, now):
                said["retry"] = max(said["retry"], ban)
            self._keep(call, all_held, now)
        return self._described(call, said, rows, self._each(call, rows, limiting, bool(said["limited"]), max_wait) if call.each else [])

    def _store(self, call: Call, all_held: Sequence[Held], stacks: Sequence[Stack], now: int, but: int = -1) -> None:
        """Store what a call has changed, except for one key."""
        for i, stack in enumerate(stacks):
            if stack.changed and i != but:
                stack.store()
        self._keep(call, all_held, now)

    @staticmethod
    def _is_banned(call: Call, stack: Stack, until: int, now: int) -> bool:
        """Ban a key for a call that was denied, or count the denial where only the last of several bans."""
        changed = stack.changed
        if call.ban_after is not None:
            last, counted = stack.count_denial(call.ban_after)
            if not last:
                stack.store()
                return False
            changed |= counted
        if changed:
            stack.store_behind(until)
        else:
            stack.held.ban(until)
        return True

    def _limit_any(self, call: Call, all_held: Sequence[Held], stacks: Sequence[Stack], rows: Sequence[Row], max_wait: int, now: int) -> list[Any]:
        limiting = [self._alone(call, row, max_wait) != 0 for row in rows]

        def outlook(key: int) -> tuple[bool, int]:
            limited, ns = self._outlook(call, [row for row in rows if row.key == key], max_wait)
            left = all_held[key].banned_until - now
            return (True, _longer(left, ns if limited else 0)) if left > 0 else (limited, ns)

        def order(key: int) -> tuple[bool, float]:
            limited, ns = outlook(key)
            return limited, float("inf") if ns == NEVER else ns

        chosen = min(range(len(stacks)), key=order)
        mine = [row for row in rows if row.key == chosen]
        left = all_held[chosen].banned_until - now
        if left > 0 and call.charge != "force":
            each = self._each(call, rows, limiting, True, max_wait) if call.each else []
            return self._described_ban(call, chosen, left, outlook(chosen)[1], 0, rows, each)
        said = self._take(call, mine, max_wait)
        self._store(call, all_held, stacks, now)
        first = rows.index(mine[0])
        said |= {"rule": said["rule"] + first, "shadow": said["shadow"] + first if said["shadow"] else 0}
        each = self._each(call, rows, limiting, bool(said["limited"]) or left > 0, max_wait) if call.each else []
        if left > 0 or (said["limited"] and call.charge == "force"):  # the debt may have made another key the first that has room
            limited, soonest = outlook(min(range(len(stacks)), key=order))
            said["retry"] = soonest if limited else 0
        if left > 0:
            return self._described_ban(call, chosen, left, said["retry"], said["granted"], rows, each)
        return self._described(call, said, rows, each)

    def _peek(self, call: Call, now: int) -> list[Any]:
        all_held = self._held(call, now)
        _, rows = self._stacks(call, all_held, now)
        limiting = [self._alone(call, row, 0) != 0 for row in rows]
        left = all_held[0].banned_until - now
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
        all_held = self._held(call, now)
        stacks, rows = self._stacks(call, all_held, now)
        for row in rows:
            row.charged = -row.layer.refund(row.units(call.cost))
            row.changed = row.charged < 0
        stacks[0].adds_none()
        self._store(call, all_held, stacks, now)
        rule = self._tightest(rows, 0)
        said = {"limited": 0, "rule": rule, "retry": NEVER, "granted": rows[rule].charged, "wait": 0, "shadow": 0}
        return self._described(call, said, rows, self._each(call, rows, [False] * len(rows), False, 0) if call.each else [])

    def _ban(self, call: Call, now: int) -> int:
        [held] = self._held(call, now)
        ns = whole_milliseconds(call.ban, "duration")
        if not ns:
            held.lift_ban()
        elif now + ns > held.banned_until:
            held.ban(now + ns)
        self._keep(call, [held], now)
        return _ceil_ms(max(held.banned_until - now, 0))

    def _reset(self, call: Call, now: int) -> int:
        held = self._keys.pop(call.keys[0].name, None)
        return int(held is not None and held.exists(now))

    @staticmethod
    def _denied(call: Call, now: int) -> int:
        return 0  # nobody lists keys here

    def _slot(self, key: Key, held: Held, id: str, now: int) -> _Slot:
        current = held.current(now)
        free = max(key.slots - len(current), 0)
        if id in current or free:
            ttl = whole_milliseconds(key.ttl, "ttl")
            return _Slot(False, id in current, key.slots, free if id in current else free - 1, lapses=-(-(now + ttl) // _MS))
        retry = NEVER if not key.slots else max(min(current.values()) * _MS - now, 0)
        return _Slot(True, False, key.slots, 0, retry)

    def _lease(self, call: Call, now: int) -> list[Any]:
        [held] = self._held(call, now)
        slot = self._slot(call.keys[0], held, call.id, now)
        if not slot.limited:
            held.lease(call.id, slot.lapses, now)
            self._keep(call, [held], now)
        lasts = 0 if slot.limited else (slot.lapses * _MS - now) // _MS
        return [int(slot.limited), slot.slots, slot.remaining, _ceil_ms(slot.retry), lasts, 0]

    def _renew(self, call: Call, now: int) -> list[Any]:
        [held] = self._held(call, now)
        if call.id not in held.current(now):
            return [1, -1, -1, -1, 0, 0]
        lapses = -(-(now + whole_milliseconds(call.keys[0].ttl, "ttl")) // _MS)
        held.renew(call.id, lapses)
        return [0, -1, -1, -1, (lapses * _MS - now) // _MS, 0]

    def _release(self, call: Call, now: int) -> int:
        [held] = self._held(call, now)
        found = call.id in held.current(now)
        if found:
            held.release(call.id, now)
            self._keep(call, [held], now)
        return int(found)

    def _admit(self, call: Call, now: int) -> list[Any]:
        all_held = self._held(call, now)
        stacks, rows = self._stacks(call, all_held, now)
        slots = {i: self._slot(key, all_held[i], call.id, now) for i, key in enumerate(call.keys) if key.leased}
        full = -1
        for i, slot in slots.items():
            if slot.limited and (full < 0 or (slots[full].retry != NEVER and (slot.retry == NEVER or slot.retry > slots[full].retry))):
                full = i
        limiting = [self._alone(call, row, 0) != 0 for row in rows]
        held = all(slot.held for slot in slots.values())
        banned = max(range(len(stacks)), key=lambda i: all_held[i].banned_until)
        left = all_held[banned].banned_until - now
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
            each = self._each_of_all(call, all_held, rows, slots, limiting, True, now) if call.each else []
            return self._described_ban(call, banned, left, retry, 0, rows, each)
        elif not rows:
            said |= {"limited": int(full >= 0), "retry": 0}
        else:
            said = self._take(call, rows, 0, denied=full >= 0)
            self._store(call, all_held, stacks, now)
        if not said["limited"]:
            for i, slot in slots.items():
                all_held[i].lease(call.id, slot.lapses, now)
            self._keep(call, all_held, now)
        each = self._each_of_all(call, all_held, rows, slots, limiting, bool(said["limited"]), now) if call.each else []
        decides = self._deciding_slot(said, rows, slots, full)
        if decides < 0:
            return self._described(call, said, rows, each)
        slot = slots[decides]
        others = [lapses * _MS - now for lapses in all_held[decides].current(now).values()]
        number = sum(key.rules for key in call.keys[:decides]) + 1
        return [int(slot.limited), number, slot.slots, slot.remaining, _ceil_ms(slot.retry), _ceil_ms(max(others, default=0)),
                _ceil_ms(min(others, default=0)), int(not slot.limited), 0, rows[said["shadow"] - 1].number + 1 if said["shadow"] else 0,
                decides + 1, *each]

    @staticmethod
    def _deciding_slot(said: dict[str, int], rows: Sequence[Row], slots: dict[int, _Slot], full: int) -> int:
        """Return the key whose slots decide a call; -1 if a limit does: of a denied call the longest wait, of another
        one the fewest left."""
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

    def _each_of_all(self, call: Call, all_held: Sequence[Held], rows: Sequence[Row], slots: dict[int, _Slot], limiting: Sequence[bool],
                     limited: bool, now: int) -> list[list[int]]:
        of_limits = iter(self._each(call, rows, limiting, limited, 0))
        told = []
        for i, key in enumerate(call.keys):
            if not key.leased:
                told += [next(of_limits) for _ in key.limits]
                continue
            slot = slots[i]
            remaining = max(slot.slots - len(all_held[i].current(now)), 0) if slot.slots >= 0 else slot.slots  # a settlement tells none
            last = max((lapses * _MS - now for lapses in all_held[i].current(now).values()), default=0)
            told.append([int(slot.limited), slot.slots, remaining, _ceil_ms(slot.retry), _ceil_ms(last)])
        return told

    def _settle(self, call: Call, now: int) -> list[Any]:
        all_held = self._held(call, now)
        stacks, rows = self._stacks(call, all_held, now)
        holds = {i: call.id in all_held[i].current(now) for i, key in enumerate(call.keys) if key.leased}
        settled = all(holds.values())
        if settled:
            for row in rows:
                units = (row.limit.used or 0) - (row.limit.take or 0)
                row.charged = row.layer.force(units) if units > 0 else -row.layer.refund(-units)
                row.changed = row.charged != 0
            for stack in stacks:
                stack.adds_charged()
            for i in holds:
                all_held[i].release(call.id, now)
            self._store(call, all_held, stacks, now)
        each = []
        if call.each:
            slots = {i: _Slot(not there, there, -1, -1) for i, there in holds.items()}
            each = self._each_of_all(call, all_held, rows, slots, [False] * len(rows), False, now)
        if not rows:
            return [int(settled), 0, 0, 0, NEVER, *[0] * 6, *each]
        rule = self._tightest(rows, 0)
        said = {"limited": int(settled), "rule": rule, "retry": NEVER, "granted": rows[rule].charged, "wait": 0, "shadow": 0}
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
        (any(limit.zone and unit_of(limit)[1] not in ("d", "w", "mo", "y") for limit in limits), "TZ: goes with periods of whole days, weeks, months or years"),
        (call.verb != "settle" and any(limit.used is not None for limit in limits), "'USED': is for CL.SETTLE"),
        (call.verb == "settle" and any((limit.used is None) != (limit.take is None) for limit in limits), "TAKE and USED go together"),
    ):
        if wrong:
            raise MistakeError(f"ERR syntax error near {text}")
