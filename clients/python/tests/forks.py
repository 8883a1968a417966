"""Child processes that a test forks, and locks that a thread of the parent holds meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable
from typing import Any

from servers import PATIENCE


def forked(*acts: Callable[[], object]) -> int:
    """Act in a child process, which a signal ends when it hangs, and return its id."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(int(PATIENCE))
    try:
        for act in acts:
            act()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(2)


def ended_well(*pids: int) -> None:
    """Wait until children have ended, and check that they did all of it."""
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


@contextlib.contextmanager
def held_by_a_thread(locks: Iterable[Any]) -> Generator[None]:
    """Have another thread hold locks. It is not there in a child to free them."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            go.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(PATIENCE)
        yield
    finally:
        go.set()
        thread.join()
