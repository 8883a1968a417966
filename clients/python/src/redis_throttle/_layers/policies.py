"""Policies: limits whose numbers are changed while programs run, by a hash that all of them read."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import time
from collections.abc import Callable

from .._core.call import Call
from .._core.duration import Duration, seconds
from .._core.forked import begun_in_children
from .._core.result import Result
from .._core.undecided import log as _log
from .._core.verbs import AsyncDecider, Decider
from .._server.policyhash import MOST_LOST, AsyncHashFunction, HashFunction, async_source_of, source_of
from .._server.pool import AsyncClient, Client
from .layer import AsyncLayer, Layer, behind
from .policybook import Book, names_in

HASH = "throttle:policies"
"""The name of the hash, unless another one is given."""
FIRST = 0.2
"""How long calls wait at most for the first reading, in seconds."""
_JITTER = 0.1
"""By which part of it the time between two readings differs, so that processes come apart."""
_LOST = 10.0
"""After which time a reading is given up, in seconds: a function does not return, or an event loop has begun it and
does not go on."""
_STEP = 0.005


def _warn(line: str) -> None:
    _log.warning("%s", line)


class _Policing:
    """What both kinds share: when the hash is read, and what becomes of a call."""

    def __init__(self, next: object, name: str, refresh: Duration, log: Callable[[str], object] | None) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be that of a hash, such as {HASH!r}, not {name!r}")
        if log is not None and not callable(log):
            raise TypeError(f"log must be a function of a line, not {log!r}")
        self._next = behind(next)
        self._refresh = seconds(refresh, "refresh")
        self._hook = log or _warn
        self._book = Book(name, self._say)
        self._due = 0.0
        self._first_until = 0.0
        self._closed = False

    def _say(self, line: str) -> None:
        try:
            self._hook(line)
        except Exception:
            _log.exception("the log of policies has failed")

    def _begun(self, now: float) -> None:
        """Note that the hash is being read."""
        self._due = now + self._refresh * random.uniform(1 - _JITTER, 1 + _JITTER)
        if not self._first_until:
            self._first_until = now + FIRST


class Policies(_Policing, Layer):
    """Changes the limits of keys that have a policy to what a hash in Redis says, while programs run.

        remote = Remote.from_url("redis://127.0.0.1:6379")
        limiter = Limiter(Policies(Guard(remote), remote))
        limiter.limit("user:42", policy("api", rate(100, "1m")))

        HSET throttle:policies api "RATE 60/m BURST 20"         for everybody
        HSET throttle:policies api/premium:* "RATE 600/m"       for keys that begin so
        HSET throttle:policies api/user:42 "NONE"               for one key: no limit

    The exact key counts first, then the longest prefix, then the name, and where nothing is set the limits of the call.
    `Result.policies` says what has decided, `Result.by` is `"none"` for a call that is let through without a limit. A
    value that cannot be read changes nothing, and is logged.

    `client` has the hash: a client of redis-py or valkey-py, or what was made of one, such as a `Remote`; or it is a
    function that returns the hash as a mapping, for tests and files. Without it that is the client behind `next`.
    `name` is that of the hash.

    The hash is read at the first call with a policy, which waits for that up to 200 ms, and again when a call comes and
    the last reading is older than `refresh`, 10 % more or less. That happens in a thread of its own, one at a time. No
    call waits for it, an idle process reads nothing, and a child process reads for itself. While the hash cannot be
    read, or a function has not returned for 10 s, what was read last counts. With a field `@version`, it is read whole
    only if that has changed, and once in a minute. `log` is told in a line of each change, instead of the logger
    `redis_throttle`.

    It goes before a `Guard`, a `Cached` and a `Batched`, which then see the limits that count, and behind an
    `Observed`.
    """

    def __init__(self, next: Decider, client: Client | Decider | HashFunction | None = None, *, name: str = HASH, refresh: Duration = "1s",
                 log: Callable[[str], object] | None = None) -> None:
        super().__init__(next, name, refresh, log)
        self._source = source_of(client, next, name)
        self._begin()
        begun_in_children(self, Policies._begin)

    def _begin(self) -> None:
        """Begin in this process. A reading that the parent was at does not end here."""
        self._lock = threading.Lock()
        self._reading = False
        self._turn = self._lost = 0
        self._began = 0.0
        self._read = threading.Event()
        if self._book.empty:
            self._due = self._first_until = 0.0
        else:
            self._read.set()

    def decide(self, call: Call, /) -> Result:
        """Have the decider behind decide by the limits that count."""
        names = names_in(call)
        if names is None:
            return self._next.decide(call)  # type: ignore[no-any-return]
        now = time.monotonic()
        if now >= self._due:
            self._start(now)
        if now < self._first_until and not self._read.is_set():
            self._read.wait(self._first_until - now)
        plan = self._book.plan(call, names)
        if plan is None:
            return self._next.decide(call)  # type: ignore[no-any-return]
        if plan.call is None:
            assert plan.passes is not None
            return plan.passes
        return Book.finish(plan, self._next.decide(plan.call))

    def _start(self, now: float) -> None:
        with self._lock:
            if now < self._due or self._closed or (self._reading and (now - self._began < _LOST or self._lost >= MOST_LOST)):
                return
            lost = self._reading
            self._lost += lost
            self._reading, self._began = True, now
            self._turn += 1
            turn = self._turn
            self._begun(now)
        if lost:
            self._book.failed(TimeoutError(f"there is no answer within {_LOST:g} s"))
        try:
            threading.Thread(target=self._look, args=(turn,), name="throttle-policies", daemon=True).start()
        except RuntimeError:  # there are too many threads, or the interpreter ends
            self._looked(turn)

    def _look(self, turn: int) -> None:
        try:
            hash = self._source.read(self._book.version())
            if turn != self._turn:  # it took too long, and another has begun
                return
            if hash is None:
                self._book.unchanged()
            else:
                for _ in self._book.take(hash):
                    pass
        except Exception as error:
            if not self._closed and turn == self._turn:
                self._book.failed(error)
        finally:
            self._looked(turn)

    def _looked(self, turn: int) -> None:
        with self._lock:
            if turn != self._turn:
                self._lost -= 1
                return
            self._reading = False
        self._read.set()

    def close(self) -> None:
        """Read no more, and close the decider behind."""
        self._closed = True
        self._source.close()
        super().close()


class AsyncPolicies(_Policing, AsyncLayer):
    """As `redis_throttle.Policies`, for asyncio.

    The hash is read by a task of the loop of the call that finds it too old, so it may be used in any number of loops.
    A function in place of the client may be one of asyncio.
    """

    def __init__(self, next: AsyncDecider, client: AsyncClient | AsyncDecider | AsyncHashFunction | None = None, *, name: str = HASH,
                 refresh: Duration = "1s", log: Callable[[str], object] | None = None) -> None:
        super().__init__(next, name, refresh, log)
        self._source = async_source_of(client, next, name)
        self._begin()
        begun_in_children(self, AsyncPolicies._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._reading: tuple[asyncio.Task[None], asyncio.AbstractEventLoop, float] | None = None
        if self._book.empty:
            self._due = self._first_until = 0.0

    async def decide(self, call: Call, /) -> Result:
        """Have the decider behind decide by the limits that count."""
        names = names_in(call)
        if names is None:
            return await self._next.decide(call)  # type: ignore[no-any-return]
        now = time.monotonic()
        if now >= self._due:
            self._start(now)
        if now < self._first_until and self._book.empty:
            await self._first()
        plan = self._book.plan(call, names)
        if plan is None:
            return await self._next.decide(call)  # type: ignore[no-any-return]
        if plan.call is None:
            assert plan.passes is not None
            return plan.passes
        return Book.finish(plan, await self._next.decide(plan.call))

    def _start(self, now: float) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if now < self._due or self._closed or self._is_read(loop, now):
                return
            self._begun(now)
            work = self._look()
            task = loop.create_task(work, name="throttle-policies", context=contextvars.Context())  # not that of the request
            self._reading = task, loop, now

    def _is_read(self, here: asyncio.AbstractEventLoop, now: float) -> bool:
        """Whether the hash is being read. A loop that has stopped may never go on."""
        if self._reading is None:
            return False
        task, loop, began = self._reading
        return not task.done() and not loop.is_closed() and (loop is here or now - began < _LOST)

    async def _first(self) -> None:
        """Wait until the hash was read or could not be, or the time is over."""
        reading = self._reading
        if reading is not None and reading[1] is asyncio.get_running_loop():
            await asyncio.wait({reading[0]}, timeout=max(0.0, self._first_until - time.monotonic()))
            return
        while reading is not None and self._book.empty and not reading[0].done() and time.monotonic() < self._first_until:
            await asyncio.sleep(_STEP)

    async def _look(self) -> None:
        try:
            hash = await self._source.read(self._book.version())
            if hash is None:
                self._book.unchanged()
            else:
                for _ in self._book.take(hash):
                    await asyncio.sleep(0)
        except asyncio.CancelledError:  # the loop ends: the next call has it read in another one
            self._due = 0.0
            if self._book.empty:
                self._first_until = 0.0
            raise
        except Exception as error:
            if not self._closed:
                self._book.failed(error)

    async def close(self) -> None:
        """Read no more, and close the decider behind."""
        self._closed = True
        if self._reading is not None and self._reading[1] is asyncio.get_running_loop():
            self._reading[0].cancel()
            await asyncio.wait({self._reading[0]})
        await self._source.close()
        await super().close()
