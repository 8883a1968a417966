"""How a call reaches the server over a client of redis-py or valkey-py: once, whatever the client's retries.

A call that charges units and is sent again because its reply was lost would charge twice. So a call goes over a connection of
the client's pool by hand. A call that waits has a connection of its own, outside of the pool: callers that wait, and that may
have long left, would keep everybody else from the server.
"""

from __future__ import annotations

import inspect
from typing import Any

from .call import Call
from .errors import is_outage, library_error, translate

REDIRECTS = 5
"""How often a caller that waits follows its key through a cluster."""


def is_cluster(client: Any) -> bool:
    """Whether client is one for a cluster."""
    return hasattr(client, "get_node_from_key")


def pool_of(client: Any) -> Any:
    """Return the pool of a client for one server; None if it keeps to one connection, or has its own way to send."""
    return getattr(client, "connection_pool", None) if getattr(client, "connection", None) is None else None


def pool_arguments(pool: Any) -> tuple[str, ...]:
    """Return what get_connection of a pool wants: a command's name where the library still requires one."""
    if pool is None:
        return ()
    first = next(iter(inspect.signature(pool.get_connection).parameters.values()), None)
    required = first is not None and first.default is inspect.Parameter.empty and first.kind is first.POSITIONAL_OR_KEYWORD
    return ("CL",) if required else ()


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """Return where the key of a call is now, if error says so."""
    if library_error(error, "MovedError") or library_error(error, "AskError"):
        return error.host, error.port  # type: ignore[attr-defined]
    text = str(error)
    if library_error(error, "ResponseError") and text.startswith(("MOVED ", "ASK ")):
        host, _, port = text.rpartition(" ")[2].rpartition(":")
        return host, int(port)
    return None


def is_asked(error: BaseException) -> bool:
    """Whether a redirection holds for one call only, which must say that it was sent there."""
    return library_error(error, "AskError") or str(error).startswith("ASK ")


class Transport:
    """Sends calls over a synchronous client."""

    def __init__(self, client: Any, patience: float) -> None:
        self.client = client
        self.patience = patience
        self.cluster = is_cluster(client)
        self.pool = None if self.cluster else pool_of(client)
        self.arguments = pool_arguments(self.pool)

    def decide(self, call: Call) -> Any:
        """Send a call that is answered at once, and return the reply."""
        words = call.words()
        try:
            return self._send(words, call.keys[0].name)
        except Exception as error:
            raise translate(call.command, error) from error

    def _send(self, words: list[str | bytes], key: str | bytes) -> Any:
        if self.cluster:
            return self.client.execute_command(*words, target_nodes=self.client.get_node_from_key(key))
        if self.pool is None:
            return self.client.execute_command(*words)
        connection = self.pool.get_connection(*self.arguments)
        try:
            connection.send_command(*words)
            return connection.read_response()
        except BaseException as error:
            if not library_error(error, "ResponseError"):
                connection.disconnect()
            raise
        finally:
            self.pool.release(connection)

    def wait(self, call: Call) -> Any:
        """Send a call that is answered when its turn has come, and return the reply."""
        words = call.words()
        try:
            return self._wait(words, call.keys[0].name)
        except Exception as error:
            raise translate(call.command, error) from error

    def _wait(self, words: list[str | bytes], key: str | bytes) -> Any:
        client = self.client
        if self.cluster:
            get = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
            client = get(client.get_node_from_key(key))
        pool = client.connection_pool
        # The patience also bounds connecting and sending, which the client may have left without a limit.
        options = {**pool.connection_kwargs, "socket_timeout": self.patience}
        asking = False
        for left in reversed(range(REDIRECTS)):
            connection = pool.connection_class(**options)
            try:
                connection.connect()
                if asking:
                    connection.send_command("ASKING")
                    connection.read_response()
                connection.send_command(*words)
                while not connection.can_read(timeout=self.patience):
                    self._see_alive(key)
                return connection.read_response()
            except Exception as error:
                there = moved_to(error)
                if there is None or not left:
                    raise
                options["host"], options["port"] = there
                asking = is_asked(error)
            finally:
                connection.disconnect()
        raise AssertionError

    def _see_alive(self, key: str | bytes) -> None:
        """Ask the server for a sign of life. Any reply is one, and so is a pool that is busy."""
        try:
            self._send(["PING"], key)
        except Exception as error:
            if is_outage(error) and not library_error(error, "ResponseError"):
                raise
