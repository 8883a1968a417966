"""What was read of the hash of policies, what is said of each reading, and what policies make of a call. Nothing here
reads or waits."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from .._core.call import Call, Key
from .._core.errors import library_error
from .._core.limit import policy_of
from .._core.result import Applied, Result
from .rules import Field, Rule, Rules, parse_field

VERSION = "@version"
"""The field that says whether anything else has changed."""

_WHOLE = 60.0
"""The hash is read whole once in this time, whatever its version, in seconds."""
_SAID = 20
"""How many changes of one reading are said."""
_AT_ONCE = 200
"""How many fields are looked at before others have a turn."""
_TOLD = 1000
"""How many policies that do not fit a call are remembered, so that each is said once."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of the hash: the text of each field, the rules that count by it, and its version."""

    texts: dict[str, str]
    rules: dict[str, Rule]
    strange: frozenset[str]
    version: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a call: what is handed on in its place, or its result if nothing is."""

    call: Call | None
    policies: tuple[Applied | None, ...]
    places: tuple[int, ...] | None = None
    """Where the keys that are handed on are in the call; None if they are all there."""
    passes: Result | None = None
    """The result if nothing is handed on; with a call, if no key of it has room."""


class Book:
    """Holds what counts. It is read by any number of threads while one, at a time, brings it up to date."""

    def __init__(self, name: str, say: Callable[[str], object]) -> None:
        self._name, self._say = name, say
        self._read: _Reading | None = None
        self._rules = Rules()
        self._whole = 0.0
        self._failing = False
        self._told: set[tuple[str, str, str]] = set()

    @property
    def empty(self) -> bool:
        """Whether nothing was read yet."""
        return self._read is None

    def version(self) -> str | None:
        """Return the version with which there is nothing to read; None if the hash is to be read whole."""
        read = self._read
        return None if read is None or time.monotonic() - self._whole >= _WHOLE else read.version

    def failed(self, error: Exception) -> None:
        """Note a reading that has failed. What was read last counts."""
        if self._failing:
            return
        self._failing = True
        counts = "the defaults of the code count" if self._read is None else "what was read last counts"
        lacks = ""
        if library_error(error.__cause__ or error, "NoPermissionError") or "NOPERM" in str(error):
            lacks = f". Its user needs the rule +hgetall +hget %R~{self._name}"
        self._say(f"{self._name} could not be read, {counts}: {error}{lacks}")

    def unchanged(self) -> None:
        """Note a reading that says that nothing has changed."""
        if self._failing:
            self._failing = False
            self._say(f"{self._name} is read again")

    def take(self, hash: Mapping[str, str]) -> Generator[None]:
        """Note a reading. It yields now and then, so that others have a turn."""
        before = self._read
        rules: dict[str, Rule] = {}
        texts: dict[str, str] = {}
        strange: set[str] = set()
        lines: dict[str, str] = {}
        for number, (field, text) in enumerate(hash.items()):
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield
            if field.startswith("@"):
                continue
            texts[field] = text
            last = before.rules.get(field) if before is not None else None
            if before is not None and before.texts.get(field) == text:
                if field in before.strange:
                    strange.add(field)
                elif last is not None:
                    rules[field] = last
                continue
            try:
                of = parse_field(field)
            except ValueError:
                strange.add(field)
                if before is None or field not in before.strange:
                    lines[field] = f"{self._name}: {_quoted(field)} is not the name of a policy"
                continue
            rule, line = self._changed(field, of, text, last, first=before is None)
            if rule is not None:
                rules[field] = rule
            if line:
                lines[field] = line
        for field, was in before.rules.items() if before is not None else ():
            if field not in texts:
                lines[field] = f"policy {_plain(field)} is not set any more, it was {_quoted(was.value.text)}"
        same = before is not None and rules == before.rules
        if not same:
            self._rules = Rules(rules.values())
        self._read, self._whole = _Reading(texts, rules, frozenset(strange), hash.get(VERSION)), time.monotonic()
        self.unchanged()
        if before is None and rules:
            self._say(f"{self._name}: {len(rules)} {'policy' if len(rules) == 1 else 'policies'}")
        said = [line for _, line in sorted(lines.items())]
        for line in said[:_SAID]:
            self._say(line)
        if len(said) > _SAID:
            self._say(f"{self._name}: {len(said) - _SAID} more changes")

    @staticmethod
    def _changed(field: str, of: Field, text: str, last: Rule | None, first: bool) -> tuple[Rule | None, str]:
        """Return the rule of a field with a new value, and what is said of it."""
        try:
            rule = Rule.read(field, of, text)
        except (ValueError, TypeError) as error:
            counts = "it does not count" if last is None else f"{_quoted(last.value.text)} still counts"
            return last, f"policy {_plain(field)}: {_quoted(text)} cannot be read, {counts}: {error}"
        if first or (last is not None and last.value.text == text):
            return rule, ""
        was = "not set" if last is None else _quoted(last.value.text)
        return rule, f"policy {_plain(field)} is {_quoted(text)} now, it was {was}"

    def plan(self, call: Call, names: tuple[str, ...]) -> Plan | None:
        """Return what becomes of a call whose keys have policies of these names. None if it stays as it is."""
        found: list[tuple[Rule, Applied] | None] | None = None
        choose = self._rules.choose
        for index, name in enumerate(names):
            if not name:
                continue
            key = call.keys[index]
            rule = choose(name, key.name)
            if rule is None:
                continue
            applied = self._applied(rule, call, key)
            if applied is not None:
                if found is None:
                    found = list[tuple[Rule, Applied] | None]([None]) * len(names)
                found[index] = rule, applied
        return None if found is None else self._planned(call, found)

    def _applied(self, rule: Rule, call: Call, key: Key) -> Applied | None:
        applied = rule.asked(key.limits)
        if applied is None:
            self._unfit(rule, "the limits of the code do not take the same, and are not as many")
        elif call.verb == "limit" and call.max_wait is not None and any(limit.kind != "RATE" for limit in applied.limits):
            self._unfit(rule, "units are reserved by rates alone")
            return None
        elif call.verb == "wait" and any(limit.shadow for limit in applied.limits):
            self._unfit(rule, "a call that waits takes no SHADOW")
            return None
        elif (call.verb == "wait" and (call.group or call.priority or call.weight != 1) and applied.limits
              and all(limit.kind == "RATE" for limit in applied.limits)):
            self._unfit(rule, "callers take turns by group, weight and priority only with a WINDOW or FIXED")
            return None
        return applied

    def _unfit(self, rule: Rule, why: str) -> None:
        about = rule.field, rule.value.text, why
        if about not in self._told:
            if len(self._told) >= _TOLD:
                self._told.clear()
            self._told.add(about)
            self._say(f"policy {_plain(rule.field)} is {_quoted(rule.value.text)}, and {why}: the default counts")

    @staticmethod
    def _planned(call: Call, found: list[tuple[Rule, Applied] | None]) -> Plan:
        policies = tuple(None if one is None else one[1] for one in found)
        free = [index for index, applied in enumerate(policies) if applied is not None and not applied.limits]
        # The first of several keys that has room is asked for: one without a limit always has.
        last = free[0] if call.any and free else len(call.keys)
        places = tuple(index for index in range(last) if index not in free)
        passes = Result(key=call.keys[free[0]].name, key_index=free[0], by="none", policies=policies) if free and (call.any or not places) else None
        if not places:
            return Plan(None, policies, passes=passes)
        keys = []
        for index in places:
            key, applied = call.keys[index], policies[index]
            keys.append(key if applied is None else Key(key.name, applied.limits))
        ban, ban_after = call.ban, call.ban_after
        if call.verb == "limit" and call.max_wait is None and not call.any and not any(key.leased for key in call.keys):
            bans = next((one[0].value for one in found if one is not None and one[0].value.ban is not None), None)
            if bans is not None:
                ban, ban_after = bans.ban, bans.ban_after
        several = call.several and (len(keys) > 1 or call.verb != "limit" or call.any or keys[0].leased)
        made = _changed(call, keys=tuple(keys), ban=ban, ban_after=ban_after, several=several)
        return Plan(made, policies, None if len(places) == len(call.keys) else places, passes)

    @staticmethod
    def finish(plan: Plan, result: Result) -> Result:
        """Return a result of what was handed on as one of the call."""
        if plan.passes is not None and result.limited:
            return plan.passes
        if plan.places is None:
            return _changed(result, policies=plan.policies)
        at = plan.places
        each = tuple(dataclasses.replace(one, key_index=at[one.key_index]) for one in result.each)
        shadow = at[result.shadow_key_index] if result.shadowed else 0
        return dataclasses.replace(result, policies=plan.policies, key_index=at[result.key_index], shadow_key_index=shadow, each=each)


T = TypeVar("T", Call, Result)


def _changed(value: T, **fields: object) -> T:
    """Return a call or a result with some fields changed, in a third of the time of dataclasses.replace: nothing is
    checked again."""
    made = object.__new__(type(value))
    put = object.__setattr__
    for name in value.__slots__:
        put(made, name, fields[name] if name in fields else getattr(value, name))
    return made


def names_in(call: Call) -> tuple[str, ...] | None:
    """Return the name of the policy of each key, or None if no key has one. A ValueError says that a key has
    several."""
    keys = call.keys
    if len(keys) == 1:
        name = policy_of(keys[0].limits)
        return (name,) if name else None
    names = tuple(policy_of(key.limits) for key in keys)
    return names if any(names) else None


def _plain(text: str) -> str:
    """Return a field as it can be written into a log: in one line, and without bytes that are no text."""
    return _quoted(text)[1:-1]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
