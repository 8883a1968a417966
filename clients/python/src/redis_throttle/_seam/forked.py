"""Locks in a child process. One that another thread of the parent held while it forked stays locked for ever: that thread is not there."""

from __future__ import annotations

import os
import threading
import weakref

_owners: weakref.WeakKeyDictionary[object, tuple[str, ...]] = weakref.WeakKeyDictionary()


def unlocked_in_children(owner: object, *names: str) -> None:
    """Have a child process begin with new locks in place of these attributes of owner, which are locks."""
    _owners[owner] = names


def _unlock() -> None:
    for owner, names in list(_owners.items()):
        for name in names:
            # With the other one, a lock may be taken again by its holder: what takes it once sees no difference.
            setattr(owner, name, threading.RLock())


os.register_at_fork(after_in_child=_unlock)
