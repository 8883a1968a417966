"""What all layers share: a layer is a decider that stands before another one."""

from __future__ import annotations

from typing import Any

from .._core.verbs import is_decider


def behind(next: object, such_as: str = "a Guard or a Remote") -> Any:
    """Return the decider behind a layer, or say that it is none."""
    if not is_decider(next):
        raise TypeError(f"next must be a decider, such as {such_as}, not {next!r}")
    return next


def check_counts(**counts: int) -> None:
    """Refuse options that are no positive integers."""
    for name, number in counts.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be an integer of at least 1, not {number!r}")


class Layer:
    """A layer for threads."""

    _next: Any

    def close(self) -> None:
        """Close the decider behind."""
        close = getattr(self._next, "close", None)
        if close is not None:
            close()


class AsyncLayer:
    """A layer for asyncio."""

    _next: Any

    async def close(self) -> None:
        """Close the decider behind."""
        close = getattr(self._next, "close", None)
        if close is not None:
            await close()
