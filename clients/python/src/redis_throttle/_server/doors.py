"""How a call is sent to a server: as a command of the module, as a function of the library, or as a script.

Nothing is asked beforehand. A server that lacks what it is sent says so, and nothing has happened then; so the call
itself is the question, and a server with the module costs no round trip more. Each server has a door of its own.
`Doors` is told in steps, which `transport` takes for threads and `asynctransport` for asyncio.
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

from .._core.duration import Duration, seconds
from .._core.errors import MistakeError, OutageError, ThrottleError, is_outage, library_error, translate, without_arguments
from .._core.forked import unlocked_in_children
from .._core.undecided import log

Commands = Literal["auto", "module", "functions"]
"""What servers may be sent: commands of the module alone, functions and scripts alone, or what a server has."""

Door = Literal["", "module", "library", "script"]
"""How a server is called; nothing is not known yet."""

Words = list[str | bytes]

_TRIES = 5
"""How many answers that a server lacks what it was sent a call takes."""
_ROUNDS = 3
"""How often somebody else may load a library while this process is about to."""
_ASKED_AFTER = 300.0
"""How long calls are sent as functions or scripts before a server is asked again, in seconds: its rights, or what is
loaded there, may have changed."""
_NEWEST = 999_999
"""The version 99.99.99. What is no number up to it is no version."""
_PATIENCE = 5.0
"""How long a caller waits for another one that asks the same server, in seconds."""

_READING = frozenset({"cl_peek", "cl_leases", "cl_inspect"})


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
    """Return the library under a name with its version, so that no other version is put over it, nor it over another
    one."""
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
    """Send commands to the server that has a key, over a connection of their own. The step gives a list of replies and
    errors.

    `then` is sent when they were answered without an error.
    """

    commands: Sequence[Sequence[str | bytes]]
    key: str | bytes
    then: Sequence[Sequence[str | bytes]] = ()


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


# spec/clients/missing.json has these patterns, and answers of servers, services and proxies by which they are tested.
_MISSING = re.compile(r"(ERR )?(unknown (sub)?command|unsupported command|command is not available|"
                      r"(handle \w+, )?command '?[\w.|]+'? (is )?not (support|allowed|available))", re.I)
_RIGHT = re.compile(r"NOPERM .* run the '([^']+)' command", re.I)


def is_missing(error: BaseException) -> bool:
    """Whether a command is not there for this client: the server does not know it, or the user may not run it."""
    reply = _reply(error)
    return reply is not None and bool(_MISSING.match(_text(reply)) or right_of(reply))


def right_of(error: BaseException) -> str:
    """Return the command that the user may not run, if that is what a server says; otherwise nothing."""
    reply = _reply(error)
    found = None if reply is None else _RIGHT.match(_text(reply))
    return found[1] if found else ""


def _text(reply: BaseException | None) -> str:
    """Return what a server has replied, with the code that the libraries cut off, and without arguments, of which one
    is a key."""
    code = "NOPERM " if reply is not None and library_error(reply, "NoPermissionError") else ""
    return code + without_arguments(str(reply).removeprefix(code))


def _is_no_function(error: BaseException) -> bool:
    return _says(error, "Function not found")


def _is_elsewhere(error: BaseException) -> bool:
    """Whether a server that was asked by itself is not, or not alone, the one of the key."""
    return library_error(error, "AskError") or library_error(error, "MovedError")


def _is_no_script(error: BaseException) -> bool:
    # The libraries cut the code off.
    return _says(error, "NOSCRIPT") or _says(error, "No matching script")


def as_function(words: Words) -> Words:
    """Return a command of the module as a call of a function."""
    name, keys, rest = _parts(words)
    return ["FCALL_RO" if name in _READING else "FCALL", name, str(len(keys)), *keys, *rest]


def as_script(words: Words, whole: bool = False, writes: bool = False) -> Words:
    """Return a command of the module as a call of the script, by its name or as a whole. `writes` says that a call that
    reads is sent as one that may write."""
    name, keys, rest = _parts(words)
    command = ("EVAL" if whole else "EVALSHA") + ("_RO" if name in _READING and not writes else "")
    return [command, script() if whole else sha(), str(len(keys)), *keys, name, *rest]


def _parts(words: Words) -> tuple[str, Words, Words]:
    name = str(words[0]).lower().replace(".", "_")
    if name in ("cl_mlimit", "cl_settle"):
        n = int(words[1])
        return name, words[2:2 + n], words[2 + n:]
    return name, words[1:2], words[2:]


class _Known:
    """What is known of servers, in all loops of a process."""

    def __init__(self) -> None:
        self.others = False
        """Whether some server has refused a command of the module. Until then nobody looks up which server has a
        key."""
        self.doors: dict[str, Door] = {}
        self.told: dict[str, Door] = {}
        self.since: dict[str, float] = {}
        self.right = ""
        """The command of the module that the user of some server may not run."""
        self.writes: set[str] = set()
        """The servers that take no EVALSHA_RO."""
        self.lock = threading.Lock()
        unlocked_in_children(self, "lock")


def _has_function(listed: Any, name: str) -> bool:
    """Whether a library of FUNCTION LIST has a function of exactly this name. By RESP2 maps are lists."""
    text = name.encode()
    if isinstance(listed, dict):
        return _has_function([part for pair in listed.items() for part in pair], name)
    if not isinstance(listed, (list, tuple)):
        return False
    pairs = zip(listed[::2], listed[1::2], strict=False)
    return any(field in (b"name", "name") and value in (text, name) for field, value in pairs if not isinstance(field, (list, dict))) or any(
        _has_function(part, name) for part in listed)


class Doors:
    """The doors of the servers of a client. `address` says how the log calls a server, and `event` makes what is waited
    for."""

    def __init__(self, commands: Commands, event: Callable[[], Event], address: Callable[[str], str], known: _Known | None = None) -> None:
        self.commands: Commands = commands
        self._event, self._address = event, address
        self._known = _Known() if known is None else known
        self._questions: dict[str, Question] = {}

    def beside(self) -> Doors:
        """Return the doors of the same servers for another loop, which cannot wait for the questions of this one."""
        return Doors(self.commands, self._event, self._address, self._known)

    @property
    def direct(self) -> bool:
        """Whether calls are sent as commands of the module, as far as anybody knows."""
        return self.commands == "module" or (self.commands == "auto" and not self._known.others)

    def straight(self, words: Words) -> bool:
        """Whether a command is sent as it is, and its error alone says whether the module is there."""
        return self.direct and (self.commands == "module" or words[0] != "CL.INSPECT")

    def lacks(self, error: BaseException) -> bool:
        """Whether a server has answered that it has no module, and a call may be sent otherwise."""
        if self.commands == "module" or not is_missing(error):
            return False
        self._known.right = self._known.right or right_of(error)
        self._known.others = True
        return True

    def without_module(self, server: str) -> bool:
        """Whether a server is known to have no module."""
        return self.commands == "functions" or (not self.direct and self._standing(server) in ("library", "script"))

    def _standing(self, server: str) -> Door:
        """Return the door of a server. It is forgotten when it has stood for long."""
        door = self._known.doors.get(server, "")
        if door in ("library", "script") and time.monotonic() - self._known.since[server] > _ASKED_AFTER:
            self._forget(server, door)
            return ""
        return door

    def send(self, words: Words, key: str | bytes, command: str, server: str, lacking: bool = False) -> Steps:
        """Send a call that does not wait, through the door of a server. `lacking` says that it has just refused a
        command of the module."""
        for _ in range(_TRIES):
            door = self._standing(server)
            if door in ("", "module"):
                if self.commands == "auto" and not lacking:
                    try:
                        reply = yield Send(words, key, command)
                    except ThrottleError as error:
                        if words[0] == "CL.INSPECT" and is_missing(error):
                            yield from self._refuse_older(words[1], key, error)
                        if not self.lacks(error):
                            raise
                    else:
                        self._found(server, "module", "%s has the module: calls are sent as its commands")
                        return reply
                lacking = False
                if (yield from self._ask(server, door, key)):
                    break
                continue
            sent = as_function(words) if door == "library" else as_script(words, writes=server in self._known.writes)
            try:
                return (yield Send(sent, key, command))
            except ThrottleError as error:
                if door == "script" and self._takes_no_reading_script(server, sent, error):
                    continue
                if door == "script":
                    self._check_scripts(server, error)
                if not (_is_no_function(error) or is_missing(error) if door == "library" else _is_no_script(error)):
                    if self._connection_lost(error):
                        self._forget(server, door)  # it may be another server next time, or have the module
                    raise
            self._forget(server, door)  # the server may have anything now
        # Where the key is cannot be found out, such as while it moves through a cluster. A script follows it by itself.
        writes = server in self._known.writes
        try:
            return (yield Send(as_script(words, writes=writes), key, command))
        except ThrottleError as error:
            if not _is_no_script(error):
                raise
        return (yield Send(as_script(words, whole=True, writes=writes), key, command))

    @staticmethod
    def _refuse_older(name: str | bytes, key: str | bytes, error: ThrottleError) -> Steps:
        """Refuse a module that is older than a command, or a right to it that lacks: other calls are not sent otherwise
        for that. CL.PEEK without limits, which every version refuses in other words, tells whether the module is
        there."""
        try:
            yield Send(["CL.PEEK", name], key, "CL.PEEK")
        except MistakeError as peeked:
            if is_missing(peeked):
                return
        if right_of(error):
            raise error
        raise MistakeError("CL.INSPECT: the server's throttle.so is older than this command") from error

    def _connection_lost(self, error: ThrottleError) -> bool:
        return isinstance(error, OutageError) and _reply(error) is None and not library_error(error.__cause__ or error, "TimeoutError")

    def _takes_no_reading_script(self, server: str, sent: Words, error: ThrottleError) -> bool:
        """Whether a server has just refused EVALSHA_RO, and is not sent it again."""
        if sent[0] != "EVALSHA_RO" or not is_missing(error):
            return False
        self._known.writes.add(server)
        return True

    def _forget(self, server: str, door: Door) -> None:
        with self._known.lock:
            if self._known.doors.get(server) == door:
                del self._known.doors[server]

    def find(self, key: str | bytes, server: str) -> Steps:
        """Find the door of a server that has just refused a command of the module."""
        door = self._known.doors.get(server, "")
        if door in ("", "module"):
            yield from self._ask(server, door, key)

    def _ask(self, server: str, seen: Door, key: str | bytes) -> Steps:
        """Find out how a server takes calls. Of all callers that want to know one asks, and the others wait for it.

        Gives whether the key is elsewhere, so that the server says nothing of itself.
        """
        with self._known.lock:
            if self._known.doors.get(server, "") != seen:
                return False
            question = self._questions.get(server)
            mine = question is None or question.left <= 0
            if question is None or mine:
                question = self._questions[server] = Question(self._event())
        if not mine:
            if not (yield question):
                raise OutageError(f"the server has not said within {_PATIENCE:g} s whether it takes functions")
            if question.error is not None:
                raise question.error
            return False
        try:
            return (yield from self._find(server, key))
        except Exception as error:
            question.error = error
            raise
        finally:
            with self._known.lock:
                if self._questions.get(server) is question:
                    del self._questions[server]
            question.done.set()

    def _find(self, server: str, key: str | bytes) -> Steps:
        """Look for the library, load it if there is none, or an older one, and fall back to the script. Gives whether
        the key is elsewhere."""
        # Where functions are all that may be called, nobody has looked for the module.
        auto = self.commands == "auto"
        right = self._known.right
        without = f"%s does not let this user run {right}" if right else "%s has no module"
        has, lacks, refuses = (f"{without}, and", without, f"{without} and refuses") if auto else ("%s has", "%s", "%s refuses")
        slowly = "calls are sent as scripts, which take longer"
        scripts = ""
        refused: Exception | None = None
        for n in range(_ROUNDS):
            found = yield from self._version_on(key)
            old = 0
            if found is None and n == 0:  # functions may have been flushed in between
                continue
            if found is None:
                scripts = f"{has} a function cl_version of somebody else's library, beside which ours cannot be loaded: {slowly}"
                refused = None
                break
            if isinstance(found, int) and found >= version():
                self._found(server, "library", f"{has} the function library {_dotted(found)}: calls are sent as functions")
                return False
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
                return False
            if _is_elsewhere(loaded):
                return True
            if is_outage(loaded):
                raise translate("FUNCTION", loaded)
            refused = loaded
            scripts = f"{refuses} functions ({_text(refused)}): {slowly}"
            if old:
                scripts = f"{has} the function library {_dotted(old)}, which may not be replaced by {_dotted(version())} ({_text(refused)}): {slowly}"
            if not str(loaded).endswith("already exists"):
                break
        loaded = (yield Alone([["EVAL", script(), "1", key, "cl_version"]], key))[0]
        if not isinstance(loaded, Exception):
            self._found(server, "script", scripts, warn=True)
        elif _is_elsewhere(loaded):
            return True
        elif is_outage(loaded):
            raise translate("EVAL", loaded)
        else:
            text = "the function cl_version is somebody else's" if refused is None else _text(refused)
            why = f"does not let this user run {right}" if right else "has no throttle.so"
            raise MistakeError(f"the server {why}, and refuses functions ({text}) and scripts: {_text(loaded)}")
        return False

    @staticmethod
    def _version_on(key: str | bytes) -> Steps:
        """Give the version of the library of a server, the error of a server that has none, or None for a function of
        somebody else's."""
        # With the key of the call: some services refuse calls without one. Both ways to call are tried, as a user may
        # have the right to one.
        found = (yield Alone([["FCALL", "cl_version", "1", key]], key))[0]
        if isinstance(found, Exception):
            return found
        if not isinstance(found, int) or not 1 <= found <= _NEWEST:
            return None
        if found >= version():  # it has to have our functions, too; ours misses its limits
            peeked = (yield Alone([["FCALL_RO", "cl_peek", "1", key]], key))[0]
            if isinstance(peeked, Exception) and is_missing(peeked):
                return peeked
            if not isinstance(peeked, Exception) or _is_no_function(peeked):
                return None
        return found

    @staticmethod
    def _replace(old: int, key: str | bytes) -> Steps:
        """Put the library into the place of an older one, in one transaction, and give the reply, or the error of what
        was refused.

        REPLACE of one name would put this library over a newer one that came in between. Names of functions are unique
        on a server: beside a library of another name, nothing is loaded. Where MULTI is refused, nothing else is sent:
        the rest would run one by one.
        """
        # One that an operator loaded is called throttle. Any other library of that name is somebody else's.
        by_hand = (yield Alone([["FUNCTION", "LIST", "LIBRARYNAME", "throttle"]], key))[0]
        name = "throttle" if _has_function(by_hand, "cl_version") else f"throttle_{old}"
        replies = yield Alone([["MULTI"]], key, then=[["FUNCTION", "DELETE", name], ["FUNCTION", "LOAD", _named()], ["EXEC"]])
        # What may not be queued, or the answers of the transaction.
        loaded = next((reply for reply in replies if isinstance(reply, Exception)), replies[-1])
        return loaded[-1] if isinstance(loaded, list) else loaded

    def _check_scripts(self, server: str, error: ThrottleError) -> None:
        """Raise an error if a server takes no scripts any more."""
        reply = _reply(error)
        if reply is None or not (is_missing(error) or library_error(reply, "NoPermissionError")):
            return
        if library_error(reply, "NoPermissionError") and not right_of(error):  # to a key
            return
        with self._known.lock:
            self._known.doors.pop(server, None)
        raise MistakeError(f"the server has no throttle.so, and refuses functions and scripts: {_text(reply)}") from error

    def _found(self, server: str, door: Door, text: str, warn: bool = False) -> None:
        with self._known.lock:
            self._known.since[server] = time.monotonic()
            self._known.doors[server] = door
            before = self._known.told.get(server, "")
            self._known.told[server] = door
        if before != door and (before or door != "module"):
            (log.warning if warn else log.info)("%s", text.replace("%s", self._address(server) or "the server", 1))
