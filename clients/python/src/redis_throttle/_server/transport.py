"""How a call reaches the server over a client for threads: once, whatever the client's retries.

A call that charges units and is sent again because its reply was lost would charge twice. So a call goes over a
connection of the client's pool by hand. A call that waits has a connection of its own, outside of the pool: callers
that wait, and that may have long left, would keep everybody else from the server.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, cast

from .._core.call import Call
from .._core.errors import MistakeError, is_demoted, is_outage, library_error
from .._core.forked import begun_in_children
from .doors import Alone, Commands, Send, Steps, Words
from .pool import (
    LONGEST,
    REDIRECTS,
    ROOM,
    WHO,
    Place,
    Pooled,
    Sign,
    asking,
    elsewhere,
    failed,
    is_asked,
    last_of,
    lost,
    most_connections,
    moved_to,
    no_room,
    run_of,
)


class Waiting:
    """A call that waits to be sent, and then for its reply."""

    __slots__ = ("batch", "done", "left", "reply", "words")

    def __init__(self, words: list[str | bytes]) -> None:
        self.words = words
        self.reply: Any = None
        self.batch: list[Waiting] | None = None
        self.done = threading.Event()
        self.left = False
        """Whether its caller was interrupted."""


class Transport(Pooled):
    """Sends calls over a synchronous client."""

    def __init__(self, client: Any, timeout: float, patience: float, commands: Commands = "auto") -> None:
        super().__init__(client, timeout, patience, commands, asynchronous=False)
        self._begin()
        begun_in_children(self, Transport._begin)  # calls of the parent do not end there

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[Waiting] = deque()
        self._under_way = 0
        self._rooms: dict[str, threading.Semaphore] = {}
        self._signing = threading.Lock()
        self._signs: dict[tuple[Place, str], Sign] = {}

    @contextlib.contextmanager
    def _room(self, node: Any = None) -> Generator[None]:
        """Wait until the pool has a connection: most pools raise an error at once."""
        most = self._most if node is None else most_connections(self.client, node)
        if not most:
            yield
            return
        name = "" if node is None else node.name
        room = self._rooms.get(name) or self._rooms.setdefault(name, threading.Semaphore(most))
        if not room.acquire(timeout=ROOM):
            raise no_room(most)
        try:
            yield
        finally:
            room.release()

    def decide(self, call: Call) -> Any:
        """Send a call that is answered at once, as its server takes it, and return the reply."""
        key = call.keys[0].name
        if call.verb == "denied" and self.doors.without_module(self.node_of(key)):
            raise MistakeError("CL.DENIED needs the module, which the server lacks")
        # Where CL.DENIED is missing, the module may be older.
        return self.ask(call.words(), key, call.command, plain=call.verb in ("reset", "denied"))

    def ask(self, words: Words, key: str | bytes, command: str, *, plain: bool = False) -> Any:
        """Send a command as the server of a key takes it, or as it is where it is plain, and return the reply."""
        lacking = False
        if plain or self.doors.straight(words):
            try:
                return self._decide(words, key, command)
            except MistakeError as error:
                if plain or not self.doors.lacks(error):
                    raise
                lacking = True
        return self._take(self.doors.send(words, key, command, self.node_of(key), lacking))

    def apart(self, words: Words, key: str | bytes) -> Any:
        """Send a command by itself, and return its reply. No call shares its pipeline, and so waits for a long
        reply."""
        try:
            if self.pool is None:
                return self._send(words, key)
            with self._room():
                connection = self.pool.get_connection(*self.arguments)
                try:
                    connection.send_command(*words)
                    return connection.read_response(disable_decoding=True)
                except BaseException as error:
                    if not library_error(error, "ResponseError"):
                        connection.disconnect()
                    raise
                finally:
                    self.pool.release(connection)
        except Exception as error:
            raise self.told(str(words[0]), error) from error

    def find_door(self, key: str | bytes) -> None:
        """Find out how the server of a key takes calls, after it has refused a command of the module."""
        self._take(self.doors.find(key, self.node_of(key)))

    def _take(self, steps: Steps) -> Any:
        """Take the steps of a call through a door."""
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Send):
                        gave: Any = self._decide(step.words, step.key, step.command)
                    elif isinstance(step, Alone):
                        gave = self._alone(step)
                    else:
                        gave = cast(threading.Event, step.done).wait(step.left)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(gave)
        except StopIteration as end:
            return end.value

    def _alone(self, step: Alone) -> list[Any]:
        """Send commands to the server that has a key, over a connection of their own."""
        try:
            pool = self._pool_for(step.key)
            connection: Any = pool.connection_class(**pool.connection_kwargs)
            try:
                connection.connect()
                replies: list[Any] = []
                for commands in (step.commands, step.then):
                    if any(isinstance(reply, Exception) for reply in replies):
                        break
                    connection.send_packed_command(connection.pack_commands(commands))
                    replies += [self._answer_of(connection) for _ in commands]
                self._look_for_master(*replies)
                return replies
            finally:
                connection.disconnect()
        except Exception as error:
            raise self.told(str(step.commands[0][0]), error) from error

    @staticmethod
    def _answer_of(connection: Any) -> Any:
        try:
            return connection.read_response()
        except Exception as error:
            if not library_error(error, "ResponseError"):
                raise
            return error

    def _pool_for(self, key: str | bytes) -> Any:
        client = self.client
        if self.cluster:
            get = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
            client = get(client.get_node_from_key(key))
        return self._own or client.connection_pool

    def _decide(self, words: Words, key: str | bytes, command: str) -> Any:
        """Send words with those of other calls, and return the reply."""
        if self.pool is None:  # it has its own way to send
            try:
                return self._send(words, key)
            except Exception as error:
                raise self.told(command, error) from error
        mine = Waiting(words)
        batch = self._enter(mine)
        if batch is not None:
            try:
                self._exchange(batch)
            finally:
                self._hand_over()
        if isinstance(mine.reply, Exception):
            raise failed(self.told(command, mine.reply), mine.batch[0] if mine.batch else None) from mine.reply
        return mine.reply

    def _enter(self, mine: Waiting) -> list[Waiting] | None:
        """Return the calls of a pipeline that this caller is to send; None when another one has sent its call."""
        with self._lock:
            if self._under_way < self._pipelines:
                self._under_way += 1
                mine.batch = [mine]
                return mine.batch
            self._queue.append(mine)
        try:
            if not mine.done.wait(ROOM):
                with self._lock:
                    if mine in self._queue:
                        self._queue.remove(mine)
                        raise no_room(self._most or self._pipelines)
                mine.done.wait()
        except BaseException:
            with self._lock:
                mine.left = True
                if mine in self._queue:
                    self._queue.remove(mine)
            if mine.batch and mine.batch[0] is mine and mine.done.is_set() and mine.reply is None:
                self._hand_over(mine.batch[1:])
            raise
        return mine.batch if mine.batch and mine.batch[0] is mine else None

    def _hand_over(self, first: Sequence[Waiting] = ()) -> None:
        """Have the first of those that wait send the next pipeline."""
        with self._lock:
            batch = [*first]
            while self._queue and len(batch) < LONGEST:
                batch.append(self._queue.popleft())
            for waiting in batch:
                waiting.batch = batch
            if not batch:
                self._under_way -= 1
                return
        batch[0].done.set()

    def _exchange(self, batch: list[Waiting]) -> None:
        """Send the calls of a pipeline over one connection, and read their replies."""
        answered = 0
        try:
            with self._room():
                connection = self.pool.get_connection(*self.arguments)
                # Nobody is charged who has left while it connected.
                batch[1:] = [waiting for waiting in batch[1:] if not waiting.left]
                try:
                    connection.send_packed_command(connection.pack_commands([waiting.words for waiting in batch]))
                    for waiting in batch:
                        try:
                            waiting.reply = connection.read_response()
                        except Exception as error:
                            if not library_error(error, "ResponseError"):
                                raise
                            waiting.reply = error
                        answered += 1
                except BaseException as error:
                    connection.disconnect()
                    self._look_for_master(error)
                    raise
                else:
                    if self._look_for_master(*[waiting.reply for waiting in batch]):
                        connection.disconnect()
                finally:
                    self.pool.release(connection)
        except Exception as error:
            late = self._late() if library_error(error, "TimeoutError") else []
            for waiting in [*batch[answered:], *late]:
                waiting.reply = error
            answered = len(batch)
            for waiting in late:
                waiting.batch = batch
                waiting.done.set()
        finally:
            for waiting in batch[answered:]:
                waiting.reply = ConnectionError("the caller that sent this call with others was interrupted")
            for waiting in batch[1:]:
                waiting.done.set()

    def _look_for_master(self, *replies: object) -> bool:
        """Close the idle connections when a server is not the master any more: the next call asks anew where the
        address leads."""
        if not any(is_demoted(reply) for reply in replies):
            return False
        if self.pool is not None:
            with contextlib.suppress(TypeError):  # a pool of another kind, whose connections are left one by one
                self.pool.disconnect(inuse_connections=False)
        return True

    def _late(self) -> list[Waiting]:
        """Return the calls that have waited while the server did not answer: they would have to wait once more."""
        with self._lock:
            late, self._queue = list(self._queue), deque()
            return late

    def _send(self, words: list[str | bytes], key: str | bytes) -> Any:
        if self.cluster:
            node = self.client.get_node_from_key(key)
            with self._room(node):
                return self.client.execute_command(*words, target_nodes=node)
        return self.client.execute_command(*words)

    def wait(self, call: Call) -> Any:
        """Send a call that is answered when its turn has come, and return the reply."""
        words = call.words()
        try:
            return self._wait(call, words)
        except Exception as error:
            self._look_for_master(error)
            raise self.told(call.command, error) from error

    def _wait(self, call: Call, words: list[str | bytes]) -> Any:
        key = call.keys[0].name
        pool = self._pool_for(key)
        # The patience also bounds connecting and sending, which the client may have left without a limit.
        options = {**pool.connection_kwargs, "socket_timeout": self.patience}
        asking = False
        for left in reversed(range(REDIRECTS)):
            connection: Any = pool.connection_class(**options)
            try:
                connection.connect()
                run = self._run_at(connection)
                if asking:
                    connection.send_command("ASKING")
                    connection.read_response()
                connection.send_command(*words)
                last = last_of(call, self.patience)
                while not connection.can_read(timeout=self.patience):
                    self._see_alive(connection, pool, options, run)
                    if time.monotonic() > last and not connection.can_read(timeout=0):
                        raise lost(self.patience)
                return connection.read_response()
            except Exception as error:
                there = moved_to(error)
                if there is None or not left:
                    raise
                options["host"], options["port"] = there[0] or options["host"], there[1]  # without a host it is that of the server
                asking = is_asked(error)
            except BaseException:
                # A caller that is interrupted, such as by gevent.Timeout: the answer may be on its way.
                threading.Thread(target=self._leave, args=(call, connection), name="throttle-leave", daemon=True).start()
                connection = None
                raise
            finally:
                if connection is not None:
                    connection.disconnect()
        raise AssertionError

    def _leave(self, call: Call, connection: Any) -> None:
        """End the wait of a caller that has left, and return the units that were granted to it.

        The connection is closed in one direction only: an answer may be on its way. What was only reserved the server
        takes back.
        """
        with contextlib.suppress(Exception):
            stream = getattr(connection, "_sock", None)
            try:
                if stream is None:
                    return
                patience = self.patience
                if hasattr(stream, "cipher"):  # TLS has no half-closed connections
                    patience = 0
                else:
                    stream.shutdown(socket.SHUT_WR)
                if not connection.can_read(timeout=patience):
                    return
                result = call.result(connection.read_response())
            finally:
                connection.disconnect()
            if call.verb == "wait" and not result.limited and result.granted > 0:
                self.decide(Call("refund", call.keys, cost=call.cost))

    def close(self) -> None:
        """Close the connections of a pool of its own."""
        if self._own is not None:
            self._own.disconnect()

    def _run_at(self, connection: Any) -> str:
        """Ask the server at the other end which one it is."""
        connection.send_command(*WHO)
        return run_of(self._answer_of(connection))

    def _see_alive(self, waiting: Any, pool: Any, options: dict[str, Any], run: str) -> None:
        """Ask the server of a call that waits for a sign of life. Any reply is one. One call asks for all that wait
        there.

        The client's address may lead to a new master by now: its reply would say nothing about a server that hangs.
        """
        place = _place_of(waiting)
        if place is None:
            return
        with self._signing:
            at, error = self._signs.get((place, run), (0.0, None))
            if time.monotonic() - at > self.patience / 2:
                error = self._no_sign(pool, place)
                if error is None and run:
                    error = self._not_there(pool, options, run)
                self._signs[place, run] = time.monotonic(), error
        if error is not None:
            raise error

    def _no_sign(self, pool: Any, place: Place) -> Exception | None:
        connection = pool.connection_class(**asking(pool.connection_kwargs, place, self.patience))
        try:
            connect_to = getattr(connection, "connect_to", None)  # connect() of a Sentinel's leads to the master
            connection.connect() if connect_to is None else connect_to(place)
            connection.send_command("PING")
            connection.read_response()
        except Exception as error:
            if is_outage(error) and not library_error(error, "ResponseError"):
                return error
        finally:
            connection.disconnect()
        return None

    def _not_there(self, pool: Any, options: dict[str, Any], run: str) -> Exception | None:
        """Return an error if another server answers by now where a call waits, such as behind a balancer. It tells only
        who logs in."""
        connection = pool.connection_class(**{**options, "socket_timeout": self.patience})
        there = ""
        with contextlib.suppress(Exception):
            try:
                connection.connect()
                there = self._run_at(connection)
            finally:
                connection.disconnect()
        return elsewhere() if there and there != run else None


def _place_of(connection: Any) -> Place | None:
    """Return where a connection leads; None if it is closed."""
    try:
        found = connection._sock.getpeername()
    except (AttributeError, OSError):
        return None
    return found if isinstance(found, str) else (found[0], found[1])
