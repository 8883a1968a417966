"""What becomes of a request that could not be decided: one vocabulary for every integration."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal, get_args

from .errors import OutageError, OverloadError


class _Prefixed(logging.LoggerAdapter[logging.Logger]):
    """Begins each line with whose it is."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return f"redis-throttle: {msg}", kwargs


log = _Prefixed(logging.getLogger("redis_throttle"), {})

Answer = Literal["allow", "deny", "raise"]
"""A request that could not be decided goes ahead without a limit, is turned away (status 503 in HTTP), or raises the
error."""

Kind = Literal["outage", "overload", "mistake"]
DEFAULTS: dict[Kind, Answer] = {"outage": "allow", "overload": "deny", "mistake": "raise"}
"""An outage of Redis is none of the service, a flood of requests does not open the limit, and a mistake shows."""

_FORMER = {"let through": "allow", "unavailable": "deny", "error": "raise"}
_QUIET = 10.0
"""After a line about a kind of error, how long there is no other, in seconds."""


def answer(name: str, value: Any) -> Answer:
    """Return value if it is an answer. name is the option that an error is about."""
    for known in get_args(Answer):
        if value == known:
            return known  # type: ignore[no-any-return]
    former = _FORMER.get(value) if isinstance(value, str) else None
    raise ValueError(f'{name} must be "allow", "deny" or "raise", not {value!r}' + (f': that is called "{former}" now' if former else ""))


def kind_of(error: BaseException) -> Kind:
    """Return why there is no decision. What is neither an outage nor an overload is a mistake."""
    return "outage" if isinstance(error, OutageError) else "overload" if isinstance(error, OverloadError) else "mistake"


class Undecided:
    """The answers to the three kinds of errors. Each kind is logged at most once in ten seconds."""

    def __init__(self, outage: Any = DEFAULTS["outage"], overload: Any = DEFAULTS["overload"], mistake: Any = DEFAULTS["mistake"],
                 *, names: tuple[str, str, str] = ("outage", "overload", "mistake")) -> None:
        """Check the answers. names are what the options are called where they are set."""
        self.answers: dict[Kind, Answer] = {
            "outage": answer(names[0], outage), "overload": answer(names[1], overload), "mistake": answer(names[2], mistake)}
        self._logged: dict[Kind, float] = {}

    def to(self, error: BaseException) -> Answer:
        """Return what becomes of a request that ended with an error."""
        return self.answers[kind_of(error)]

    def tell(self, error: BaseException, what: str = "a request") -> None:
        """Log an error."""
        if getattr(error, "_told", False):  # a guard tells when an outage begins and when it ends
            return
        kind, now = kind_of(error), time.monotonic()
        if now - self._logged.get(kind, -_QUIET) >= _QUIET:
            self._logged[kind] = now
            log.error("%s: %s could not be checked against its rate limit: %s", kind, what, error)


_warned: set[str] = set()


def warn_once(about: str, text: str) -> None:
    """Log a warning, once in this process."""
    if about not in _warned:
        _warned.add(about)
        log.warning("%s", text)
