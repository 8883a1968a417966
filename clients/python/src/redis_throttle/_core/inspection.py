"""What a key holds, for somebody who does not know its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from .errors import MistakeError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLimit:
    """What a key holds of one limit. Counts and bursts come with calls, and are not stored."""

    kind: Literal["RATE", "WINDOW", "FIXED", "FIRST", "AFTER"]
    """`FIRST` is a `FIXED` with `FIRST`, and `AFTER` counts the denied calls for a ban after several."""
    period: timedelta | None
    """None if the key does not tell: of a lone rate, and of a `FIXED` by the calendar."""
    used: int | None
    """The units, or denied calls, that count now. None of a `RATE` that is not full: they depend on its count."""
    entries: int
    """Of a `WINDOW`: how many entries of its state count."""
    next_at: datetime | None
    """When the first used units come back. None if none is used, or the key does not tell: of a `RATE`, and of a
    `FIXED` by the calendar."""
    reset_at: datetime | None
    """When all units are back. None if none is used, or the key does not tell: of a `FIXED` by the calendar."""
    queue: timedelta
    """By how much a `RATE` was overdrawn when it was written: by reserved slots, or debt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a key holds, and until when."""

    kind: Literal["none", "rate", "limits", "ban", "leases"]
    """Nothing, a lone rate as redis-cell stores it, any other limits, a ban alone, or leases."""
    now: datetime
    """The server's clock, with which the other instants are to be compared."""
    bytes: int
    """The length of the string; 0 of leases."""
    expires_at: datetime | None
    """None of a key that never expires, or is not there."""
    banned_until: datetime | None
    """When the ban ends, None without one. One that is over stays until the next write: see `banned`."""
    held: int
    """How many leases have not lapsed."""
    lapses_at: datetime | None
    """When the next of them lapses, None without any."""
    waiting: int
    """How many callers stand in line on this server; 0 without the module."""
    limits: tuple[HeldLimit, ...]
    """Those that the latest call named come first."""

    @property
    def banned(self) -> bool:
        """Whether the key was banned when it was looked at."""
        return self.banned_until is not None and self.banned_until > self.now


def read_inspection(reply: Any) -> Inspection:
    """Read the reply to CL.INSPECT: names and values by turns, or a map."""
    try:
        fields = _fields(reply)
        return Inspection(
            kind=cast(Any, _text(fields["kind"])), now=_EPOCH + _ms(fields["now_ms"]), bytes=int(fields["bytes"]), expires_at=_instant(fields["expires_at_ms"]),
            banned_until=_instant(fields["banned_until_ms"]), held=int(fields["held"]), lapses_at=_instant(fields["lapses_at_ms"]),
            waiting=int(fields["waiting"]), limits=tuple(_limit(_fields(entry)) for entry in fields["limits"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MistakeError("CL.INSPECT: the reply is not what a key holds") from error


def _limit(fields: Mapping[str, Any]) -> HeldLimit:
    period, used = int(fields["period_ms"]), int(fields["used"])
    return HeldLimit(
        kind=cast(Any, _text(fields["kind"])), period=None if period < 0 else _ms(period), used=None if used < 0 else used, entries=int(fields["entries"]),
        next_at=_instant(fields["next_at_ms"]), reset_at=_instant(fields["reset_at_ms"]), queue=_ms(fields["queue_ms"]),
    )


def _fields(reply: Any) -> Mapping[str, Any]:
    pairs = reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    return {_text(name): value for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ms(value: Any) -> timedelta:
    return timedelta(milliseconds=int(value))


def _instant(value: Any) -> datetime | None:
    return _EPOCH + _ms(value) if int(value) > 0 else None
