"""What can go wrong, told apart as a service needs it: is Redis away, is this process too busy, or is it a mistake?"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
import traceback
from collections.abc import Iterator
from typing import ClassVar, Literal

Code = Literal["OUTAGE", "OVERLOAD", "MISTAKE", "LIMITED", "LEASE_LOST"]


class ThrottleError(Exception):
    """Any error of this package. Its text never holds a key or an argument that the server did not complain about.

    `code` says which one it is, and stays the same in later versions: `"OUTAGE"`, `"OVERLOAD"`, `"MISTAKE"`,
    `"LIMITED"` or `"LEASE_LOST"`.
    """

    code: ClassVar[Code]


class OutageError(ThrottleError):
    """The server is out of reach, or in a state in which it does not decide (LOADING, READONLY, CLUSTERDOWN and the
    like).

    It goes away by itself. Decide whether your service lets requests through meanwhile.
    """

    code: ClassVar[Code] = "OUTAGE"
    _told = False
    """Whether a guard has told the log of the outage."""
    _together: object = None
    """What calls have in common that failed as one, such as a pipeline."""


class LeftAloneError(OutageError):
    """A guard has not sent the call: the server is left alone for a while, after calls that failed."""


class OverloadError(ThrottleError):
    """This process asks for more connections than its pool has. The server may well be up.

    A service that lets requests through at this error has no limit as soon as there are enough of them.
    """

    code: ClassVar[Code] = "OVERLOAD"


class MistakeError(ThrottleError):
    """The call or the set-up is wrong: a limit, a key of another type, a missing module or permission, a closed client.

    It does not go away by itself.
    """

    code: ClassVar[Code] = "MISTAKE"


class LeaseLostError(ThrottleError):
    """A lease could not be renewed in time, so its slot may belong to somebody else."""

    code: ClassVar[Code] = "LEASE_LOST"


# The first words of replies of a server that will decide the same call later, or that another server decides.
_LATER = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN", "UNBLOCKED")

# The classes of both libraries that say the same without the code, which they cut off.
_LATER_CLASSES = {
    "BusyLoadingError", "ReadOnlyError", "ClusterDownError", "MasterDownError", "TryAgainError", "SlotNotCoveredError",
    "OutOfMemoryError", "MasterNotFoundError", "SlaveNotFoundError",
}
_MISTAKEN_CLASSES = {"AuthenticationError", "AuthorizationError", "AuthenticationWrongNumberOfArgsError"}
_LATER_TEXTS = re.compile(r"command not allowed when used memory|max number of clients|Redis is loading|Valkey is loading")
_NO_CONNECTION_LEFT = re.compile(r"Too many connections|No connection available|Connection pool exhausted", re.IGNORECASE)
_NO_CLUSTER = re.compile(r"(Redis|Valkey) Cluster cannot be connected|All slots are not covered|TTL exhausted|none of the (primary )?nodes", re.IGNORECASE)

_REFUSED = re.compile(r"\bAuth(entication|orization)Error\b|Authentication required|invalid (username-password|password)|NOAUTH|WRONGPASS|NOPERM")
_NO_MASTER = re.compile(r"No master found for ('[^']*')")
# The libraries cut off the codes of these replies.
_CODES = ((re.compile(r"(?<!WRONGPASS )(?=invalid username-password)"), "WRONGPASS "),
          (re.compile(r"(?<!NOAUTH )(?=HELLO must be called with the client|Authentication required)"), "NOAUTH "),
          (re.compile(r"(?<!CROSSSLOT )(?=Keys in request don't hash to the same slot)"), "CROSSSLOT "))
_OUT_OF_REACH = re.compile(r"\b(ConnectionError|TimeoutError)\b")


def library_error(error: BaseException, name: str) -> bool:
    """Whether error is of the class with this name in redis-py or valkey-py, or of a subclass."""
    for library in ("redis", "valkey"):
        module = sys.modules.get(f"{library}.exceptions")
        kind = getattr(module, name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return True
    return False


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _before(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    last: BaseException | None = error
    while last is not None and id(last) not in seen:
        seen.add(id(last))
        yield last
        last = last.__cause__ or last.__context__


def _closed_meanwhile(error: BaseException) -> bool:
    """Whether a connection was closed while a task used it.

    When a master is gone, a client for asyncio closes connections that other tasks write to or read from. These tasks
    then call methods of None, or find a buffer closed.
    """
    if library_error(error, "RedisError") or library_error(error, "ValkeyError"):
        return str(error) == "Buffer is closed."
    if not isinstance(error, AttributeError) or error.obj is not None or error.__traceback__ is None:
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__")).startswith(("redis.", "valkey."))


def _is_untrusted(error: BaseException) -> bool:
    """Whether the certificate of a server is not trusted, or has expired."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _before(error))


def _is_refused(error: BaseException) -> bool:
    """Whether nodes of a cluster, or all Sentinels, refuse the login. The libraries say then that no node can be
    reached, or that there is no master."""
    if any(_names(cause) & _MISTAKEN_CLASSES for cause in _before(error)):
        return True
    text = str(error)
    return bool(_REFUSED.search(text)) and not _OUT_OF_REACH.search(text)


def is_overload(error: BaseException) -> bool:
    """Whether error, of a client library or of this package, says that this process is out of connections."""
    if isinstance(error, OverloadError) or "MaxConnectionsError" in _names(error):
        return True
    return library_error(error, "ConnectionError") and bool(_NO_CONNECTION_LEFT.search(str(error)))


def is_outage(error: BaseException) -> bool:
    """Whether error, of a client library or of this package, says that the server is out of reach or does not decide
    now."""
    if isinstance(error, OutageError):
        return True
    names = _names(error)
    if is_overload(error) or names & _MISTAKEN_CLASSES or _is_untrusted(error):
        return False
    if "MasterNotFoundError" in names and _is_refused(error):
        return False
    if names & _LATER_CLASSES or _closed_meanwhile(error):
        return True
    if library_error(error, "ResponseError"):
        text = str(error)
        return text.partition(" ")[0] in _LATER or bool(_LATER_TEXTS.search(text))
    if library_error(error, "ConnectionError") or library_error(error, "TimeoutError"):
        return True
    if library_error(error, "ClusterError") or library_error(error, "RedisClusterException") or library_error(error, "ValkeyClusterException"):
        if _is_refused(error):
            return False
        # When a node is out of reach, the library looks for the node that has its slots now, and raises what goes wrong
        # with that.
        return bool(_NO_CLUSTER.search(str(error))) or any(is_outage(e) for e in _before(error) if e is not error)
    return isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError, EOFError))


def is_demoted(error: object) -> bool:
    """Whether a server says that it is not the master, or not yet: the address of the client may lead to another one
    now."""
    if not isinstance(error, Exception):
        return False
    if _names(error) & {"ReadOnlyError", "MasterDownError", "BusyLoadingError"}:
        return True
    return library_error(error, "ResponseError") and str(error).removeprefix("ERR ").startswith(("READONLY ", "MASTERDOWN ", "LOADING "))


def may_have_run(error: BaseException) -> bool:
    """Whether the server may have run the call that ended with this error, or may run it yet: it has not said itself
    what is wrong."""
    if isinstance(error, OutageError):
        return not isinstance(error, LeftAloneError)
    return not isinstance(error, (ThrottleError, ValueError, TypeError))


def replied(error: BaseException) -> bool:
    """Whether the server has replied, if only with an error."""
    return isinstance(error, MistakeError) and (error.__cause__ is None or library_error(error.__cause__, "ResponseError"))


def without_arguments(text: str) -> str:
    """Return what a server has replied without the arguments that it repeats, of which one is a key."""
    return text.partition(", with args beginning with")[0]


def translate(command: str, error: Exception, server: str = "") -> ThrottleError:
    """Return error as one of this package, to be raised from it. `server` says where the client asks, for people."""
    if isinstance(error, ThrottleError):
        return error
    # A server without the module repeats the arguments, and keys do not belong into logs.
    text = without_arguments(str(error)) or type(error).__name__
    if _closed_meanwhile(error):
        text = "the connection was closed by another call, which found the server gone"
    elif "MasterNotFoundError" in _names(error) and (found := _NO_MASTER.search(text)):  # the libraries print their clients
        text = f"no Sentinel names the master {found[1]}" + (f": {error.__cause__}" if error.__cause__ else "")
    for missing, code in _CODES:
        text = missing.sub(code, text)
    if text.startswith("CROSSSLOT"):
        text = f"{text}: in a cluster the keys of a call need the same hash tag, such as {{42}}:requests and {{42}}:tokens"
    kind = OutageError if is_outage(error) else OverloadError if is_overload(error) else MistakeError
    if kind is OutageError or _is_refused(error) or _is_untrusted(error):
        told = [part for part in server.split(", ") if part and part not in text]
        text += f" ({', '.join(told)})" if told else ""
    return kind(f"{command}: {text}")
