"""Help for tests: a limiter that decides in the test's process by a clock that the test moves, with faults; and
throttle-dev for tests over a socket. pytest has them as the fixtures `throttle`, `async_throttle` and `throttle_dev`.

    def test_the_third_call_of_an_hour_is_denied(throttle):
        app = create_app(limiter=throttle)
        ...
        throttle.advance("1h")
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ._core.call import Call
from ._core.duration import Duration, nanoseconds
from ._core.errors import OutageError, ThrottleError
from ._core.result import Result
from ._core.undecided import log
from ._layers.engine import Engine
from ._layers.policybook import Book, names_in
from ._limiter import Limiter
from .asyncio import Limiter as AsyncLimiter

__all__ = ["AsyncFakeLimiter", "FakeLimiter", "ThrottleDev"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ASKED = 10_000


class _Faking:
    """What both fakes share: the keys, the clock, the faults, and what was asked."""

    def _begin(self) -> None:
        self.asked: list[Call] = []
        """The calls that were to be decided, in order: the last 10,000."""
        self.policies: dict[str, str] = {}
        """What the hash of policies says: `limiter.policies["api"] = "RATE 5/m"`. See `redis_throttle.Policies`."""
        self._engine = Engine()
        self._book, self._read = Book("policies", lambda line: log.warning("%s", line)), dict[str, str]()
        self._mutex = threading.RLock()
        self._now = _ns(datetime(2000, 1, 1, tzinfo=UTC))
        self._fault: tuple[Exception, int | None, bool] | None = None

    @property
    def time(self) -> datetime:
        """What the clock says: midnight UTC of January 1, 2000 at first. Nothing but the test moves it, and a call that
        waits."""
        return _EPOCH + timedelta(microseconds=self._now // 1000)

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self._now += nanoseconds(duration, "duration")

    def set_time(self, time: datetime) -> None:
        """Set the clock, also back."""
        if time.tzinfo is None:
            raise ValueError("time must have a time zone, such as datetime(2026, 1, 31, tzinfo=UTC)")
        self._now = _ns(time)

    def fail(self, error: ThrottleError | None = None, *, times: int | None = None) -> None:
        """Have calls end with an error, an `OutageError` unless another one is given: the next `times`, or all until
        `heal`."""
        self._fault = (error or OutageError("a fault of the test"), times, False)

    def lose_replies(self, *, times: int | None = None) -> None:
        """Have calls end with an `OutageError` after they were run: units are charged all the same."""
        self._fault = (OutageError("the reply was lost, by the test"), times, True)

    def heal(self) -> None:
        """End the fault."""
        self._fault = None

    def _decided(self, call: Call) -> Result:
        with self._mutex:
            self.asked.append(call)
            del self.asked[:-_ASKED]
            names = names_in(call)
            if names is None or not (self.policies or self._read):
                return self._answered(call)
            if self.policies != self._read:
                self._read = dict(self.policies)
                for _ in self._book.take(self._read):
                    pass
            plan = self._book.plan(call, names)
            if plan is None or plan.call is None:
                return self._answered(call) if plan is None or plan.passes is None else plan.passes
            return Book.finish(plan, self._answered(plan.call))

    def _answered(self, call: Call) -> Result:
        with self._mutex:
            fault = self._fault
            if fault is None or fault[1] == 0:
                return self._run(call)
            error, times, executed = fault
            if times is not None:
                self._fault = (error, times - 1, executed)
            if executed:
                self._run(call)
            raise error.with_traceback(None)

    def _run(self, call: Call) -> Result:
        """Decide a call. One that waits has the clock move on to when its turn has come: nobody else is in line."""
        timeout = call.timeout
        if timeout is None:
            return call.result(self._engine.run(call, self._now))
        at_once = Call("limit", call.keys, cost=call.cost, each=call.each) if call.verb == "wait" else call.at_once()
        began, longest = self._now, nanoseconds(timeout, "timeout")
        while True:
            result = at_once.result(self._engine.run(at_once, self._now))
            after = result.retry_after
            if not result.limited or after is None or self._now + nanoseconds(after, "") > began + longest:
                return _waited(result, self._now - began)
            self._now += max(nanoseconds(after, ""), 1_000_000)


def _waited(result: Result, ns: int) -> Result:
    return replace(result, wait=timedelta(microseconds=ns // 1000))


def _ns(time: datetime) -> int:
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000


class _Decider:
    def __init__(self, decided: Callable[[Call], Result]) -> None:
        self._decided = decided

    def decide(self, call: Call, /) -> Result:
        return self._decided(call)


class _AsyncDecider:
    def __init__(self, decided: Callable[[Call], Result]) -> None:
        self._decided = decided

    async def decide(self, call: Call, /) -> Result:
        return self._decided(call)


class FakeLimiter(_Faking, Limiter):
    """A `redis_throttle.Limiter` without a server. It answers as a server that was just started, by a clock of its own.

        limiter = FakeLimiter()
        assert limiter.limit("k", rate(1, "1h")).allowed
        assert limiter.limit("k", rate(1, "1h")).limited
        limiter.advance("1h")
        limiter.fail(times=2)    # an outage of two calls

    A call that waits moves the clock to when its turn has come, so that a test never sleeps. Leases renew themselves by
    the clock of the machine. `asked` has the calls that it was asked, and `policies` changes limits that `policy` has
    named.
    """

    def __init__(self) -> None:
        self._begin()
        super().__init__(_Decider(self._decided))


class AsyncFakeLimiter(_Faking, AsyncLimiter):
    """A `redis_throttle.asyncio.Limiter` without a server: see `FakeLimiter`."""

    def __init__(self) -> None:
        self._begin()
        super().__init__(_AsyncDecider(self._decided))


class ThrottleDev:
    """throttle-dev, started for tests on a free port. Its clock stands still until it is moved, unless `stopped` is
    False.

        with ThrottleDev() as server:
            limiter = Limiter.from_url(server.url)
            server.advance("1mo")

    `program` is its path. Without it that is the variable THROTTLE_DEV, or what the package redis-throttle-dev has
    installed, or throttle-dev on the PATH.
    """

    def __init__(self, program: str | os.PathLike[str] | None = None, *, stopped: bool = True) -> None:
        # An environment that is not activated has its programs in no PATH.
        found = (program or os.environ.get("THROTTLE_DEV") or shutil.which("throttle-dev", path=sysconfig.get_path("scripts"))
                 or shutil.which("throttle-dev"))
        if not found:
            raise FileNotFoundError("there is no throttle-dev: install the package redis-throttle-dev, or name the program in the variable THROTTLE_DEV")
        self._process = subprocess.Popen([os.fspath(found), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            self.port: int = int(line.partition(" on ")[2].partition(",")[0].rpartition(":")[2])
        except ValueError:
            self.close()
            raise RuntimeError(f"throttle-dev did not start: {line!r}") from None
        self.url: str = f"redis://127.0.0.1:{self.port}"
        if stopped:
            self._do("CL.DEV.TIME", "STOP")

    @property
    def time(self) -> datetime:
        """What its clock says."""
        return datetime.fromisoformat(self._do("CL.DEV.TIME").replace("Z", "+00:00"))

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass: `"500ms"`, `"1.5h"`, `"2w"`, `"1mo"`, or a timedelta."""
        self._do("CL.DEV.ADVANCE", duration if isinstance(duration, str) else f"{duration // timedelta(milliseconds=1)}ms")

    def set_time(self, time: datetime) -> None:
        """Set its clock."""
        if time.tzinfo is None:
            raise ValueError("time must have a time zone, such as datetime(2026, 1, 31, tzinfo=UTC)")
        self._do("CL.DEV.TIME", time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))

    def clear(self) -> None:
        """Forget all keys."""
        self._do("FLUSHALL")

    def _do(self, *words: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection, connection.makefile("rb") as replies:
            connection.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words))
            line = replies.readline().decode().rstrip()
            if line.startswith("-"):
                raise ValueError(f"{words[0]}: {line[1:]}")
            return replies.readline().decode().rstrip() if line.startswith("$") else line[1:]

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> ThrottleDev:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
