"""What a child process begins anew after a fork.

A lock that another thread of the parent held stays locked for ever: that thread is not there. So do places that its
calls had.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

Beside = Callable[[Any], Iterable[object]]

_owners: weakref.WeakKeyDictionary[object, tuple[tuple[str, ...], Beside | None]] = weakref.WeakKeyDictionary()
_begun: weakref.WeakKeyDictionary[object, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def unlocked_in_children(owner: object, *names: str, beside: Beside | None = None) -> None:
    """Have a child process begin with new locks in place of these attributes of owner.

    `beside` returns what else may have such attributes, as it is at the fork. Not each of them has all.
    """
    _owners[owner] = names, beside


def begun_in_children(owner: object, begin: Callable[[Any], None]) -> None:
    """Have a child process call `begin(owner)`. Begin must hold no reference to owner, which lives no longer for
    this."""
    _begun[owner] = begin


def _after_fork() -> None:
    replaced: dict[int, tuple[object, Any]] = {}  # by the id of the old lock, which is kept: one that several share stays one
    for owner, (names, beside) in list(_owners.items()):
        for one in (owner, *(beside(owner) if beside else ())):
            for name in names:
                old = getattr(one, name, None)
                if old is not None:
                    # With an RLock, a lock may be taken again by its holder: what takes it once sees no difference.
                    setattr(one, name, replaced.setdefault(id(old), (old, threading.RLock()))[1])
    for owner, begin in list(_begun.items()):
        begin(owner)


os.register_at_fork(after_in_child=_after_fork)
