"""What calls take, compared with spec/commands.json: a word that is added there is known here, or a test fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redis_throttle import fixed, rate, window
from redis_throttle._core.call import Call, Key
from servers import ROOT

GRAMMAR = json.loads((ROOT / "spec/commands.json").read_text())
WITHOUT_OPTION = {"NEXT", "COMPACT", "COUNT"}
"""Words that calls say by themselves, and that of CL.LEASES, which the package does not send."""

OPTIONS: dict[str, dict[str, Any]] = {
    "COST": {"cost": 2}, "UPTO": {"charge": "up_to"}, "STRICT": {"charge": "strict"}, "FORCE": {"charge": "force"}, "ANY": {"any": True},
    "MAXWAIT": {"max_wait": "1s"}, "TIMEOUT": {"max_wait": "1s"}, "BAN": {"ban": "1m"}, "AFTER": {"ban": "1m", "ban_after": "3/1m"},
    "GROUP": {"group": "g"}, "WEIGHT": {"group": "g", "weight": 2}, "PRIORITY": {"priority": 3}, "ID": {"id": "a"}, "EACH": {"each": True},
}
LIMITS = Key("k", limits=(rate(5, "1m"),))
SLOTS = Key("s", slots=1, ttl="1s", leased=True)
CALLS: dict[str, dict[str, Any]] = {
    "CL.LIMIT": {"verb": "limit", "keys": (LIMITS,)},
    "CL.MLIMIT": {"verb": "limit", "keys": (LIMITS, LIMITS), "several": True},
    "CL.PEEK": {"verb": "peek", "keys": (LIMITS,)},
    "CL.REFUND": {"verb": "refund", "keys": (LIMITS,)},
    "CL.WAIT": {"verb": "wait", "keys": (LIMITS,), "max_wait": "1s"},
    "CL.LEASE": {"verb": "lease", "keys": (SLOTS,), "id": "a", "max_wait": "1s"},
    "CL.RENEW": {"verb": "renew", "keys": (Key("s", ttl="1s", leased=True),), "id": "a"},
    "CL.RELEASE": {"verb": "release", "keys": (Key("s"),), "id": "a"},
    "CL.SETTLE": {"verb": "settle", "keys": (LIMITS,), "id": "a", "several": True},
}


def commands() -> list[Any]:
    return [command for command in GRAMMAR["commands"] if command["command"] in CALLS]


KNOWN_LIMITS = {
    "RATE": rate(5, "1m"), "WINDOW": window(5, "1m"), "FIXED": fixed(5, "1d"), "BURST": rate(5, "1m", burst=9), "FIRST": fixed(5, "1d", first=True),
    "OFFSET": fixed(5, "1d", offset="1h"), "TZ": fixed(5, "1d", zone="UTC"), "TAKE": rate(5, "1m", take=2), "USED": rate(5, "1m", take=2, used=1),
    "SPARE": rate(5, "1m", spare=1), "SHADOW": rate(5, "1m", shadow=True),
}


def words_of_limits() -> set[str]:
    own = {word for row in GRAMMAR["words"] for word in row.get("own", [])}
    return own.union(*(command.get(what, []) for command in GRAMMAR["commands"] for what in ("limits", "terms")))


@pytest.mark.parametrize("word", sorted(words_of_limits()))
def test_every_word_of_a_limit_is_known(word: str) -> None:
    assert word in KNOWN_LIMITS, f"limits have no {word}"
    assert word in str(KNOWN_LIMITS[word])


@pytest.mark.parametrize("word", [word for command in commands() for word in command.get("options", [])])
def test_every_word_is_known(word: str) -> None:
    assert word in OPTIONS or word in WITHOUT_OPTION | {"SLOTS", "TTL"}, f"calls have no option for {word}"


@pytest.mark.parametrize("word", OPTIONS)
@pytest.mark.parametrize("command", commands(), ids=lambda command: command["command"])
def test_a_call_takes_what_its_command_takes(command: Any, word: str) -> None:
    options = OPTIONS[word]
    fields = CALLS[command["command"]] | options
    # One option says MAXWAIT and TIMEOUT, and one BAN and CL.BAN's duration.
    taken = command["options"] + (["TIMEOUT"] if "MAXWAIT" in command["options"] else ["MAXWAIT"] if "TIMEOUT" in command["options"] else [])
    if word == "ID" and command["command"] == "CL.MLIMIT":
        fields["keys"] = (LIMITS, SLOTS)
    if word in taken:
        Call(**fields)
    else:
        with pytest.raises(ValueError, match=r"takes no|takes any only|takes an id only"):
            Call(**fields)
