"""What decides in the process, in an outage and in tests, held by the transcripts of spec/: it answers what the server
answers."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from redis_throttle import Call, Key, Limit, MistakeError, parse_limits
from redis_throttle._layers.engine import Engine
from servers import ROOT

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**9
FILES = ["rate", "window", "calendar", "limits", "shadows", "bans", "slots", "leases", "settling", "refund", "keys", "kept", "zero", "denials"]
NAMES = {
    "CL.LIMIT": ["limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow"],
    "CL.LEASE": ["limited", "limit", "remaining", "retry_after_ms", "lease_ms", "wait_ms"],
}
NAMES |= {"CL.PEEK": NAMES["CL.LIMIT"], "CL.REFUND": NAMES["CL.LIMIT"], "CL.RENEW": NAMES["CL.LEASE"],
          "CL.MLIMIT": [*NAMES["CL.LIMIT"], "key"], "CL.SETTLE": ["settled", *NAMES["CL.LIMIT"][1:], "key"]}
NOT_HERE = {
    "CL.THROTTLE": "is not a call of this package", "CL.LEASES": "lists what is on the server", "CL.TOP": "counts calls of the server",
    "CL.WAIT": "stands in line", "TIMEOUT": "stands in line",
}
# The time zones of the machine may be older than those of the module.
OTHERWISE = {"Clocks are those of the laws of 2026."}
WORDS = {"RATE", "WINDOW", "FIXED", "BURST", "FIRST", "OFFSET", "TZ", "TAKE", "USED", "SPARE", "SHADOW", "COST", "UPTO", "STRICT", "FORCE", "MAXWAIT", "BAN",
         "ANY", "EACH", "COMPACT", "SLOTS", "TTL", "ID", "NEXT"}


def examples() -> list[Any]:
    made = []
    for name in FILES:
        path = ROOT / f"spec/{name}.txt"
        if not path.exists():
            continue
        for block in path.read_text().split("\n\n")[1:]:
            lines = block.strip().splitlines()
            rule = " ".join(line[2:] for line in lines if line.startswith("# "))
            made.append(pytest.param(rule, [line for line in lines if not line.startswith("# ")], id=f"{name}: {rule[:60]}"))
    return made


def duration(text: str) -> int:
    units = {"d": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    total = sum(int(Fraction(number) * units[unit]) for number, unit in re.findall(r"([0-9.]+)(ms|us|ns|d|h|m|s)", text))
    return -total if text.startswith("-") else total


def limits_of(words: list[str]) -> tuple[Limit, ...]:
    used: list[tuple[int, int]] = []
    kept, number = [], -1
    i = 0
    while i < len(words):
        number += words[i] in ("RATE", "WINDOW", "FIXED")
        if words[i] == "USED":
            used.append((number, int(words[i + 1])))
            i += 2
            continue
        kept.append(words[i])
        i += 1
    limits = list(parse_limits(" ".join(kept))) if kept else []
    for number, units in used:
        limits[number] = limits[number].replace(used=units)
    return tuple(limits)


def call_of(words: list[str]) -> Call | None:
    """Return the call that words are; None if this package has no such call."""
    words = [word.upper() if word.upper() in WORDS or word.upper().startswith("CL.") else word for word in words]
    command = words[0]
    options: dict[str, Any] = {}
    if any(word in NOT_HERE for word in words):
        return None
    several = command in ("CL.MLIMIT", "CL.SETTLE")
    n = int(words[1]) if several else 1
    names, rest = words[1 + several:1 + several + n], words[1 + several + n:]
    verb = {"CL.MLIMIT": "limit"}.get(command, command.removeprefix("CL.").lower())
    if verb == "ban":
        return Call("ban", (Key(names[0]),), ban=rest[0])
    if command == "DEL":
        return Call("reset", (Key(names[0]),))
    if verb == "release" and len(rest) > 2:
        return None
    left: list[str] = []
    while rest:
        word = rest.pop(0)
        if word in ("UPTO", "STRICT", "FORCE"):
            options["charge"] = {"UPTO": "up_to"}.get(word, word.lower())
        elif word in ("ANY", "EACH"):
            options[word.lower()] = True
        elif word in ("COST", "BAN", "AFTER", "MAXWAIT", "ID"):
            value = rest.pop(0)
            options[{"MAXWAIT": "max_wait", "AFTER": "ban_after"}.get(word, word.lower())] = int(value) if word == "COST" else value
        elif word != "COMPACT":
            left.append(word)
    groups: list[list[str]] = [[]]
    for word in left:
        if word == "NEXT":
            groups.append([])
        else:
            groups[-1].append(word)
    groups = groups * n if len(groups) == 1 else groups
    if verb in ("lease", "renew"):
        given = dict(zip(groups[0][::2], groups[0][1::2], strict=True))
        return Call(verb, (Key(names[0], slots=int(given.get("SLOTS", 0)), ttl=given["TTL"], leased=verb == "lease"),), **options)
    keys = []
    for name, group in zip(names, groups, strict=True):
        if group[:1] == ["SLOTS"]:
            keys.append(Key(name, leased=True) if verb == "settle" else Key(name, slots=int(group[1]), ttl=group[3], leased=True))
        else:
            keys.append(Key(name, limits_of(group)))
    return Call(verb, tuple(keys), several=several, **options)


def shown(value: Any) -> str:
    return " ".join(f"[{' '.join(map(str, each))}]" if isinstance(each, list) else str(each) for each in value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(("rule", "lines"), examples())
def test_a_transcript(rule: str, lines: list[str]) -> None:
    if rule in OTHERWISE:
        pytest.skip("the time zones are those of this machine")
    engine, now, checked = Engine(), START, 0
    steps = iter(lines)
    for line in steps:
        if line[0] in "+-":
            now += duration(line)
        elif line[0] == "@":
            now = int(datetime.fromisoformat(line[1:].replace("Z", "+00:00")).timestamp() * 1000) * 10**6
        elif line.startswith("= "):
            held = engine._keys.get(line.split()[1])
            there = held is not None and held.exists(now)
            assert there is not line.endswith(" nothing"), line
            if held and " expires in " in line:
                assert held.expires_ms - now // 10**6 == duration(line.split(" expires in ")[1]) // 10**6, line
        elif line.startswith("> "):
            want, words = next(steps), shlex.split(line[2:])
            if any(word in NOT_HERE for word in words):
                break  # what comes after it may show its effect
            if want.startswith("(error)"):
                with pytest.raises((MistakeError, ValueError, TypeError)):
                    engine.run(call_of(words) or pytest.skip("no call of this package"), now)
                checked += 1
                continue
            try:
                call = call_of(words)
            except ValueError as error:
                if "lets nobody through: deny the call" not in str(error):
                    raise
                pytest.skip("a count of 0 is not sent yet")
            if call is None:
                pytest.skip(f"{words[0]} with these words is no call of this package")
            reply = engine.run(call, now)
            call.result(reply)  # which refuses a reply that is none
            if "=" not in want:
                assert shown(reply) == want, line
            else:
                fields = dict(zip(NAMES[words[0].upper()], reply, strict=False)) | {"each": shown([reply[len(NAMES[words[0].upper()]):]])}
                for name, value in re.findall(r"(\w+)=(\[\[.*\]\]|\S+)", want):
                    got = "[" + shown(reply[len(NAMES[words[0].upper()]):]) + "]" if name == "each" else str(fields[name])
                    assert got == value, f"{line}: {name}"
            checked += 1
        else:
            pytest.skip("callers stand in line")
    if not checked:
        pytest.skip("nothing of it is a call of this package")
