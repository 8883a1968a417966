"""The engine beside the limiter, compared by chance: histories of calls that spec/chance draws, each with the replies
of the limiter.

`N=` and `SEED=` in the environment say how many, and which. What differs is shown as the shortest history that still
does.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from typing import IO, Any

from redis_throttle._layers.engine import Engine
from servers import ROOT
from test_engine import NAMES, START, call_of, duration, shown


def histories(lines: IO[str]) -> Iterator[list[str]]:
    history: list[str] = []
    for line in lines:
        if line != "\n":
            history.append(line.rstrip("\n"))
        else:
            yield history
            history = []


def reply_of(engine: Engine, words: list[str], now: int) -> str:
    """Return a reply as transcripts show it."""
    call = call_of(words)
    assert call is not None, words
    reply = engine.run(call, now)
    call.result(reply)  # which refuses a reply that is none
    if not isinstance(reply, list):
        return shown(reply)
    names = NAMES[words[0]]
    fields = [f"{name}={value}" for name, value in zip(names, reply, strict=False)]
    each: list[Any] = reply[len(names):]
    return " ".join([*fields, *([f"each=[{shown(each)}]"] if call.each else [])])


def played(history: list[str]) -> str:
    """Return what differs between the engine and a history, or "ok"."""
    engine, now = Engine(), START
    steps = iter(history)
    for step in steps:
        if not step.startswith("> "):
            now += duration(step)
            continue
        want = next(steps)
        try:
            got = reply_of(engine, step[2:].split(), now)
        except Exception as error:
            got = "(error) WRONGTYPE" if "WRONGTYPE" in str(error) else re.sub(r"\s+", " ", repr(error))
        if got != want:
            return f"{step[2:]}: want {want}, got {got}"
    return "ok"


def test_the_engine_decides_as_the_limiter_does() -> None:
    command = ["go", "run", "./spec/chance"]
    asks = {"N": "2000", **os.environ}
    with subprocess.Popen(command, cwd=ROOT, env=asks, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as limiter:
        assert limiter.stdin
        assert limiter.stdout
        assert limiter.stderr
        for history in histories(limiter.stdout):
            limiter.stdin.write(played(history) + "\n")
            limiter.stdin.flush()
        limiter.stdin.close()
        said = limiter.stderr.read()
    assert limiter.returncode == 0, said
