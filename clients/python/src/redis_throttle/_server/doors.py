"""How a call is sent to a server: as a command of the module, as a function of the library, or as a script.

Nothing is asked beforehand. A server that lacks what it is sent says so, and nothing has happened then; so the call itself is the
question, and a server with the module costs no round trip more. Each server has a door of its own. `Doors` is told in steps, which
`transport` takes for threads and `asynctransport` for asyncio.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from .._seam.duration import Duration, seconds
from .._seam.errors import MistakeError, OutageError, ThrottleError, is_outage, library_error, translate
from .._seam.forked import unlocked_in_children
from .._seam.undecided import log

Commands = Literal["auto", "module", "functions"]
"""What servers may be sent: commands of the module alone, functions and scripts alone, or what a server has."""

Door = Literal["", "module", "library", "script"]
"""How a server is called; nothing is not known yet."""

Words = list[str | bytes]

_TRIES = 5
"""How many answers that a server lacks what it was sent a call takes."""
_ROUNDS = 3
"""How often somebody else may load a library while this process is about to."""
_SCRIPTS = 300.0
"""How long calls are sent as scripts before a server is asked again, in seconds: its rights, or what is loaded there, may have changed."""
_NEWEST = 999_999
"""The version 99.99.99. What is no number up to it is no version."""
_PATIENCE = 5.0
"""How long a caller waits for another one that asks the same server, in seconds."""

_READING = frozenset({"cl_peek", "cl_leases"})


@functools.cache
def library() -> str:
    """Return the library, which the package carries."""
    return pathlib.Path(__file__).with_name("throttle.lua").read_text()


@functools.cache
def script() -> str:
    """Return the library as a script: without its first line."""
    return library().partition("\n")[2]


@functools.cache
def sha() -> str:
    """Return what a server calls the script."""
    return hashlib.sha1(script().encode(), usedforsecurity=False).hexdigest()


@functools.cache
def version() -> int:
    """Return the version of the library: major x 10000 + minor x 100 + patch."""
    found = re.search(r"^local VERSION = (\d+)", library(), re.M)
    assert found is not None
    return int(found[1])


@functools.cache
def _named() -> str:
    """Return the library under a name with its version, so that no other version is put over it, nor it over another one."""
    return library().replace("#!lua name=throttle", f"#!lua name=throttle_{version()}", 1)


def _dotted(number: int) -> str:
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


@dataclass(frozen=True, slots=True)
class Send:
    """Send words to where a key is, with other calls. The step gives the reply, or the error."""

    words: Words
    key: str | bytes
    command: str


@dataclass(frozen=True, slots=True)
class Alone:
    """Send commands to the server that has a key, over a connection of their own. The step gives a list of replies and errors.

    `then` is sent when they were answered without an error.
    """

    commands: Sequence[Sequence[str]]
    key: str | bytes
    then: Sequence[Sequence[str]] = ()


class Event(Protocol):
    """What is waited for: an event of threads or of asyncio."""

    def set(self) -> None:
        """Let go those that wait."""
        ...


@dataclass(slots=True)
class Question:
    """Somebody asks a server what it has. The step gives whether that is over."""

    done: Event
    error: Exception | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """How long it is waited for yet, in seconds."""
        return self.began + _PATIENCE - time.monotonic()


Step = Send | Alone | Question
Steps = Generator[Step, Any, Any]


def check(commands: Any, poll: Duration | None) -> float | None:
    """Refuse options that are wrong, and return `poll` in seconds."""
    if commands not in get_args(Commands):
        raise ValueError(f'commands must be "auto", "module" or "functions", not {commands!r}')
    if poll is None:
        return None
    return seconds(poll, "poll")


def _reply(error: BaseException) -> BaseException | None:
    """Return the reply of a server in an error; None if it is no reply."""
    found = error.__cause__ if isinstance(error, ThrottleError) else error
    return found if found is not None and library_error(found, "ResponseError") else None


def _says(error: BaseException, begin: str) -> bool:
    reply = _reply(error)
    return reply is not None and str(reply).removeprefix("ERR ").startswith(begin)


def is_unknown(error: BaseException) -> bool:
    """Whether a server does not know the command."""
    return _says(error, "unknown command")


def _text(reply: Exception | None) -> str:
    """Return what a server has replied, with the code that the libraries cut off, and without arguments, of which one is a key."""
    code = "NOPERM " if reply is not None and library_error(reply, "NoPermissionError") else ""
    return code + str(reply).removeprefix(code).partition(", with args beginning with")[0]


def _is_no_function(error: BaseException) -> bool:
    return _says(error, "Function not found")


def _is_no_script(error: BaseException) -> bool:
    # The libraries cut the code off.
    return _says(error, "NOSCRIPT") or _says(error, "No matching script")


def as_function(words: Words) -> Words:
    """Return a command of the module as a call of a function."""
    name, keys, rest = _parts(words)
    return ["FCALL_RO" if name in _READING else "FCALL", name, str(len(keys)), *keys, *rest]


def as_script(words: Words, whole: bool = False) -> Words:
    """Return a command of the module as a call of the script, by its name or as a whole."""
    name, keys, rest = _parts(words)
    command = ("EVAL" if whole else "EVALSHA") + ("_RO" if name in _READING else "")
    return [command, script() if whole else sha(), str(len(keys)), *keys, name, *rest]


def _parts(words: Words) -> tuple[str, Words, Words]:
    name = str(words[0]).lower().replace(".", "_")
    if name in ("cl_mlimit", "cl_settle"):
        n = int(words[1])
        return name, words[2:2 + n], words[2 + n:]
    return name, words[1:2], words[2:]


class Doors:
    """The doors of the servers of a client. `address` says how the log calls a server, and `event` makes what is waited for."""

    def __init__(self, commands: Commands, event: Callable[[], Event], address: Callable[[str], str]) -> None:
        self.commands = commands
        self._event, self._address = event, address
        self._others = False
        """Whether some server has refused a command of the module. Until then nobody looks up which server has a key."""
        self._doors: dict[str, Door] = {}
        self._told: dict[str, Door] = {}
        self._scripts_since: dict[str, float] = {}
        self._questions: dict[str, Question] = {}
        self._lock = threading.Lock()
        unlocked_in_children(self, "_lock")

    @property
    def direct(self) -> bool:
        """Whether calls are sent as commands of the module, as far as anybody knows."""
        return self.commands == "module" or (self.commands == "auto" and not self._others)

    def lacks(self, error: BaseException) -> bool:
        """Whether a server has answered that it has no module, and a call may be sent otherwise."""
        if self.commands == "module" or not is_unknown(error):
            return False
        self._others = True
        return True

    def without_module(self, server: str) -> bool:
        """Whether a server is known to have no module."""
        return self.commands == "functions" or (not self.direct and self._doors.get(server) in ("library", "script"))

    def send(self, words: Words, key: str | bytes, command: str, server: str, lacking: bool = False) -> Steps:
        """Send a call that does not wait, through the door of a server. `lacking` says that it has just refused a command of the module."""
        for _ in range(_TRIES):
            door = self._doors.get(server, "")
            if door in ("", "module"):
                if self.commands == "auto" and not lacking:
                    try:
                        reply = yield Send(words, key, command)
                    except ThrottleError as error:
                        if not is_unknown(error):
                            raise
                    else:
                        self._found(server, "module", "%s has the module: calls are sent as its commands")
                        return reply
                lacking = False
                yield from self._ask(server, door, key)
                continue
            if door == "script" and time.monotonic() - self._scripts_since[server] > _SCRIPTS:
                self._forget(server, door)
                continue
            try:
                return (yield Send(as_function(words) if door == "library" else as_script(words), key, command))
            except ThrottleError as error:
                if door == "script":
                    self._check_scripts(server, error)
                if not (_is_no_function(error) if door == "library" else _is_no_script(error)):
                    raise
            self._forget(server, door)  # the server may have anything now
        # Where the key is cannot be found out, such as while it moves through a cluster. A whole script follows it by itself.
        return (yield Send(as_script(words, whole=True), key, command))

    def _forget(self, server: str, door: Door) -> None:
        with self._lock:
            if self._doors.get(server) == door:
                del self._doors[server]

    def find(self, key: str | bytes, server: str) -> Steps:
        """Find the door of a server that has just refused a command of the module."""
        door = self._doors.get(server, "")
        if door in ("", "module"):
            yield from self._ask(server, door, key)

    def _ask(self, server: str, seen: Door, key: str | bytes) -> Steps:
        """Find out how a server takes calls. Of all callers that want to know one asks, and the others wait for it."""
        with self._lock:
            if self._doors.get(server, "") != seen:
                return
            question = self._questions.get(server)
            mine = question is None or question.left <= 0
            if question is None or mine:
                question = self._questions[server] = Question(self._event())
        if not mine:
            if not (yield question):
                raise OutageError(f"the server has not said within {_PATIENCE:g} s whether it takes functions")
            if question.error is not None:
                raise question.error
            return
        try:
            yield from self._find(server, key)
        except Exception as error:
            question.error = error
            raise
        finally:
            with self._lock:
                if self._questions.get(server) is question:
                    del self._questions[server]
            question.done.set()

    def _find(self, server: str, key: str | bytes) -> Steps:
        """Look for the library, load it if there is none, or an older one, and fall back to the script."""
        # Where functions are all that may be called, nobody has looked for the module.
        auto = self.commands == "auto"
        has, lacks, refuses = ("%s has no module, and", "%s has no module", "%s has no module and refuses") if auto else ("%s has", "%s", "%s refuses")
        slowly = "calls are sent as scripts, which take longer"
        scripts = ""
        refused: Exception | None = None
        for _ in range(_ROUNDS):
            found = yield from self._version_on(key)
            old = 0
            if found is None:
                scripts = f"{has} a function cl_version of somebody else's library, beside which ours cannot be loaded: {slowly}"
                refused = None
                break
            if isinstance(found, int) and found >= version():
                self._found(server, "library", f"{has} the function library {_dotted(found)}: calls are sent as functions")
                return
            if isinstance(found, int):
                old = found
                loaded = yield from self._replace(old, key)
            elif _is_no_function(found):
                loaded = (yield Alone([["FUNCTION", "LOAD", _named()]], key))[0]
            else:
                loaded = found
            if not isinstance(loaded, Exception):
                place = f" in place of {_dotted(old)}" if old else ""
                self._found(server, "library", f"{lacks}: the function library {_dotted(version())} was loaded{place}, and calls are sent as functions")
                return
            if is_outage(loaded):
                raise translate("FUNCTION", loaded)
            refused = loaded
            scripts = f"{refuses} functions ({_text(refused)}): {slowly}"
            if old:
                scripts = f"{has} the function library {_dotted(old)}, which may not be replaced by {_dotted(version())} ({_text(refused)}): {slowly}"
            if not str(loaded).endswith("already exists"):
                break
        loaded = (yield Alone([["EVAL", script(), "0", "cl_version"]], key))[0]
        if not isinstance(loaded, Exception):
            self._scripts_since[server] = time.monotonic()
            self._found(server, "script", scripts, warn=True)
        elif is_outage(loaded):
            raise translate("EVAL", loaded)
        else:
            text = "the function cl_version is somebody else's" if refused is None else _text(refused)
            raise MistakeError(f"the server has no throttle.so, and refuses functions ({text}) and scripts: {_text(loaded)}")

    @staticmethod
    def _version_on(key: str | bytes) -> Steps:
        """Give the version of the library of a server, the error of a server that has none, or None for a function of somebody else's."""
        found = (yield Alone([["FCALL_RO", "cl_version", "0"]], key))[0]
        if isinstance(found, Exception):
            return found
        if not isinstance(found, int) or not 1 <= found <= _NEWEST:
            return None
        if found >= version():  # it has to have our functions, too; ours misses its key
            peeked = (yield Alone([["FCALL_RO", "cl_peek", "0"]], key))[0]
            if not isinstance(peeked, Exception) or _is_no_function(peeked):
                return None
        return found

    @staticmethod
    def _replace(old: int, key: str | bytes) -> Steps:
        """Put the library into the place of an older one, in one transaction, and give the reply, or the error of what was refused.

        REPLACE of one name would put this library over a newer one that came in between. Names of functions are unique on a server: beside a
        library of another name, nothing is loaded. Where MULTI is refused, nothing else is sent: the rest would run one by one.
        """
        # One that an operator loaded is called throttle. Any other library of that name is somebody else's.
        by_hand = (yield Alone([["FUNCTION", "LIST", "LIBRARYNAME", "throttle"]], key))[0]
        name = "throttle" if "cl_version" in repr(by_hand) else f"throttle_{old}"
        replies = yield Alone([["MULTI"]], key, then=[["FUNCTION", "DELETE", name], ["FUNCTION", "LOAD", _named()], ["EXEC"]])
        # What may not be queued, or the answers of the transaction.
        loaded = next((reply for reply in replies if isinstance(reply, Exception)), replies[-1])
        return loaded[-1] if isinstance(loaded, list) else loaded

    def _check_scripts(self, server: str, error: ThrottleError) -> None:
        """Raise an error if a server takes no scripts any more."""
        reply = _reply(error)
        if not is_unknown(error) and (reply is None or not library_error(reply, "NoPermissionError")):
            return
        with self._lock:
            self._doors.pop(server, None)
        raise MistakeError(f"the server has no throttle.so, and refuses functions and scripts: {reply}") from error

    def _found(self, server: str, door: Door, text: str, warn: bool = False) -> None:
        with self._lock:
            self._doors[server] = door
            before = self._told.get(server, "")
            self._told[server] = door
        if before != door and (before or door != "module"):
            (log.warning if warn else log.info)("throttle: %s", text.replace("%s", self._address(server) or "the server", 1))
