"""Calls that give something back, repeated in the background until the server has answered: releases and settlements.

Both may be sent any number of times. A limiter has one thread for them, or one task, however many leases end in an
outage.
"""

from __future__ import annotations

import asyncio
import collections
import os
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from .._core.call import Call
from .._core.errors import OutageError, OverloadError, may_have_run
from .._core.result import Result
from .._core.steps import Steps, run, run_async
from .._core.undecided import log

MOST = 10_000
"""How many calls are kept. Those that came first are given up for others: their slots lapse first."""
_SHORTEST, _LONGEST = 0.05, 1.0
"""The pause between two rounds, in seconds. It doubles while the server is away."""
_STALE = 5.0
"""For how long after it would have lapsed something is given back that nobody knows of, in seconds: the server may
grant it yet."""
_FAILURES = 3
"""After so many failures a round ends. One alone may be about one node of a cluster."""


def may_repeat(error: BaseException) -> bool:
    """Whether a call that gives something back is to be repeated after this error: it is no mistake, or the caller was
    interrupted."""
    return isinstance(error, (OutageError, OverloadError)) or not isinstance(error, Exception)


def taking(call: Call, undo: Call, later: Later | AsyncLater, lasts: float) -> Steps:
    """Ask for what lasts for so many seconds. `undo` gives it back if it was granted and nobody knows."""
    try:
        return (yield call)
    except BaseException as error:
        # The server may have granted it all the same, unless it said itself what is wrong.
        # One that stood still runs what it finds in its sockets in any order: one reply that there was nothing does not
        # do.
        if may_have_run(error):
            later.add(undo, lasts + _STALE, replies=2)
        raise


def giving_back(call: Call, later: Later | AsyncLater, lapses: float) -> Generator[Call, Result, bool]:
    """Give something back, in the background after an outage or an overload, until it lapses. Return whether it was
    there, as far as is known."""
    try:
        return (yield call).allowed
    except BaseException as error:
        if may_repeat(error):
            later.add(call, lapses - time.monotonic())
        if isinstance(error, (OutageError, OverloadError)):
            return True
        raise


@dataclass(slots=True)
class _Owed:
    call: Call
    until: float
    replies: int
    """How many are wanted yet: with 0 it is through."""


    def is_about(self, call: Call) -> bool:
        """Whether it gives back what call does: the same id at the same key."""
        return self.call.id == call.id and not {key.name for key in self.call.keys}.isdisjoint(key.name for key in call.keys)


class _Queue:
    """What is to be repeated, and what comes of each round."""

    def __init__(self) -> None:
        self._owed: collections.deque[_Owed] = collections.deque(maxlen=MOST)
        self._sending: _Owed | None = None
        self._pause = _SHORTEST
        self._lock = threading.Lock()
        self._running = False

    def _drop(self, call: Call) -> bool:
        """Repeat a call no more. Return whether it is on its way to the server just now."""
        for owed in list(self._owed):
            if owed.is_about(call):
                owed.replies = 0
        return self._sending is not None and self._sending.is_about(call)

    def close(self) -> None:
        """Give up what is left."""
        for owed in list(self._owed):
            owed.replies = 0

    def _due(self) -> list[_Owed]:
        now = time.monotonic()
        self._owed = collections.deque((owed for owed in self._owed if owed.replies > 0 and owed.until > now), MOST)
        return list(self._owed)

    def _round(self) -> Generator[Call, Result, bool]:
        """Send each call once, until too many have failed. Return whether there were any."""
        with self._lock:
            due = self._due()
            if not due:
                self._running, self._pause = False, _SHORTEST
                return False
        failures = 0
        for owed in due:
            with self._lock:
                if owed.replies <= 0:  # closed or forgotten meanwhile
                    continue
                self._sending = owed
            try:
                result = yield owed.call
            except (OutageError, OverloadError):
                failures += 1
                if failures == _FAILURES:
                    break
            except Exception as error:
                log.error("mistake: a %s was given up: %s", owed.call.verb, error)
                owed.replies = 0
            else:
                owed.replies = 0 if result.granted else owed.replies - 1
            finally:
                with self._lock:
                    self._sending = None
                    self._tell()
        with self._lock:  # the pause is short while calls get through
            self._pause = _SHORTEST if any(owed.replies <= 0 for owed in due) else min(self._pause * 2, _LONGEST)
            self._owed.rotate(-_FAILURES)  # those that failed come last in the next round
        return True

    def _tell(self) -> None:
        """Wake those who wait for the call that was on its way."""
        raise NotImplementedError


class Later(_Queue):
    """Repeats calls in a daemon thread, which ends when there are none."""

    def __init__(self, decide: Callable[[Call], Result]) -> None:
        super().__init__()
        self._decide = decide
        self._sent = threading.Condition(self._lock)
        self._process = os.getpid()

    def add(self, call: Call, seconds: float, replies: int = 1) -> None:
        """Repeat a call for so long. It is through after so many replies, or when one says that something was given
        back."""
        if seconds <= 0:
            return
        if self._process != os.getpid():  # forked: the thread is the parent's, and so is what it repeats
            self.__init__(self._decide)  # type: ignore[misc]
        with self._lock:
            self._owed.append(_Owed(call, time.monotonic() + seconds, replies))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="throttle-later", daemon=True).start()

    def forget(self, call: Call) -> None:
        """Repeat a call no more: its id takes again what the call would give back."""
        with self._sent:
            while self._drop(call):
                self._sent.wait()  # for its reply, or until it is given up

    def _tell(self) -> None:
        self._sent.notify_all()

    def _run(self) -> None:
        is_left = True
        while is_left:
            time.sleep(self._pause)
            is_left = run(self._round(), self._decide)


class _AsyncQueue(_Queue):
    """What the task of one loop repeats."""

    def __init__(self, decide: Callable[[Call], Coroutine[Any, Any, Result]]) -> None:
        super().__init__()
        self._decide = decide
        self._task: asyncio.Task[None] | None = None
        self._sent = asyncio.Event()

    def add(self, owed: Iterable[_Owed]) -> None:
        self._owed.extend(owed)
        if self._owed and (self._task is None or self._task.done()):
            self._pause = _SHORTEST
            self._task = asyncio.get_running_loop().create_task(self._run())

    def left(self) -> list[_Owed]:
        """Return what was not sent when the loop was closed."""
        return self._due()

    async def forget(self, call: Call) -> None:
        while self._drop(call):
            await self._sent.wait()

    def _tell(self) -> None:
        self._sent.set()
        self._sent = asyncio.Event()

    async def _run(self) -> None:
        is_left = True
        while is_left:
            await asyncio.sleep(self._pause)
            is_left = await run_async(self._round(), self._decide)


class AsyncLater:
    """As `Later`, in a task of each loop. What a loop leaves when it is closed, the next one takes over that has
    something to repeat or to take."""

    def __init__(self, decide: Callable[[Call], Coroutine[Any, Any, Result]]) -> None:
        self._decide = decide
        self._queues: dict[asyncio.AbstractEventLoop, _AsyncQueue] = {}

    def _here(self) -> _AsyncQueue:
        loop = asyncio.get_running_loop()
        here = self._queues.setdefault(loop, _AsyncQueue(self._decide))
        for other in list(self._queues):
            if other.is_closed() and (queue := self._queues.pop(other, None)) is not None:
                here.add(queue.left())
        return here

    def add(self, call: Call, seconds: float, replies: int = 1) -> None:
        """As that of `Later`."""
        if seconds > 0:
            self._here().add([_Owed(call, time.monotonic() + seconds, replies)])

    async def forget(self, call: Call) -> None:
        """As that of `Later`."""
        if not self._queues:
            return
        here = self._here()
        for queue in list(self._queues.values()):
            while queue is not here and queue._drop(call):  # on its way in a loop of another thread
                await asyncio.sleep(_SHORTEST)
        await here.forget(call)

    def close(self) -> None:
        """Give up what is left."""
        for queue in list(self._queues.values()):
            queue.close()


class Home(Protocol):
    """What leases and admissions need of their limiter."""

    _later: Later

    def decide(self, call: Call, /) -> Result: ...


class AsyncHome(Protocol):
    _later: AsyncLater

    async def decide(self, call: Call, /) -> Result: ...
