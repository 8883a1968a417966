"""As `transport`, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self, cast

from .._core.call import Call
from .._core.errors import MistakeError, OverloadError, is_demoted, is_outage, library_error
from .doors import Alone, Commands, Doors, Question, Send, Steps, Words
from .lateness import Lateness, Within
from .loops import close_client, drop_client, drop_pool
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

_CONNECTS = 5
"""How often connecting is tried while this process is late."""

_WAITING = 10_000
"""How many calls wait at most for a pipeline."""

AT_ONCE = 50
"""How many calls are sent to a node of a cluster at once: each needs a connection, and many that connect at once in one
thread are all late."""


_Entry = tuple[list[str | bytes], asyncio.Future[Any], float]
"""A call that waits for a pipeline: its words, its answer, and since when it waits."""


class _Talk(Within):
    """Bounds what a task sends and reads over a connection, in place of the library's own limits: those count time in
    which the loop could not read."""

    def __init__(self, lateness: Lateness, seconds: float, connection: Any) -> None:
        super().__init__(lateness, seconds)
        self._connection = connection

    async def __aenter__(self) -> Self:
        self._limit, self._connection.socket_timeout = self._connection.socket_timeout, None
        return await super().__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._connection.socket_timeout is None:  # the library may have set another one
            self._connection.socket_timeout = self._limit
        try:
            await super().__aexit__(kind, error, trace)
        except TimeoutError:
            raise _timeout_of(self._connection) from error


def _patient(kind: Any, lateness: Lateness) -> type[Any]:
    """Return a class of connections like another one whose limits, to connect and to read, count no time in which the
    loop could not read."""

    async def connect(self: Any) -> None:
        limit, self.socket_connect_timeout = self.socket_connect_timeout, None
        try:
            async with contextlib.nullcontext() if limit is None else Within(lateness, limit):
                await kind._connect(self)
        finally:
            self.socket_connect_timeout = limit

    async def read(self: Any, *args: Any, **options: Any) -> Any:
        async with contextlib.nullcontext() if self.socket_timeout is None else _Talk(lateness, self.socket_timeout, self):
            return await kind.read_response(self, *args, **options)

    return type(kind.__name__, (kind,), {"_connect": connect, "read_response": read})


class AsyncTransport(Pooled):
    """Sends calls over a client for asyncio."""

    def __init__(self, client: Any, timeout: float, patience: float, commands: Commands = "auto", doors: Doors | None = None) -> None:
        super().__init__(client, timeout, patience, commands, asynchronous=True, doors=doors)
        self.mine = False
        """Whether the client is closed with the transport."""
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone keeps no task
        self._leaving: set[asyncio.Task[None]] = set()
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._signing = asyncio.Lock()
        self._signs: dict[tuple[Place, str], Sign] = {}
        self._queue: deque[_Entry] = deque()
        self._timer: asyncio.Handle | None = None  # of the first in the queue
        self._under_way = 0
        self._lateness = Lateness()
        self._patient = False  # whether the limits of the connections count no time in which the loop could not read
        if self._own is not None:
            self._be_patient()

    def own(self) -> None:
        """Have the client closed with the transport, and its connections count no time in which the loop could not
        read."""
        self.mine = True
        if self._own is None:
            self._be_patient()

    def _be_patient(self) -> None:
        self._patient = True
        if self.pool is not None:
            self.pool.connection_class = _patient(self.pool.connection_class, self._lateness)
        elif self.cluster:
            manager = self.client.nodes_manager
            for node in [*manager.startup_nodes.values(), *manager.nodes_cache.values()]:
                node.connection_class = _patient(node.connection_class, self._lateness)
                manager.connection_kwargs = {**manager.connection_kwargs, "connection_class": node.connection_class}

    def _within(self, seconds: float) -> Within:
        """Bound what is done by time in which the loop could read: a loop that computes finds replies late, and they
        are there."""
        return Within(self._lateness, seconds)

    def _room(self, node: Any = None) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until the pool has a connection: most pools raise an error at once."""
        most = self._most if node is None else min(most_connections(self.client, node) or AT_ONCE, AT_ONCE)
        if not most:
            return contextlib.nullcontext()
        name = "" if node is None else node.name
        room = self._rooms.get(name) or self._rooms.setdefault(name, asyncio.Semaphore(most))
        return self._wait_for(room, most) if room.locked() else room

    @contextlib.asynccontextmanager
    async def _wait_for(self, room: asyncio.Semaphore, most: int) -> AsyncGenerator[None]:
        try:
            async with self._within(ROOM):
                await room.acquire()
        except TimeoutError:
            raise no_room(most) from None
        try:
            yield
        finally:
            room.release()

    async def decide(self, call: Call) -> Any:
        """Send a call that is answered at once, as its server takes it, and return the reply."""
        key = call.keys[0].name
        if call.verb == "denied" and self.doors.without_module(await self._name_of(key)):
            raise MistakeError("CL.DENIED needs the module, which the server lacks")
        # Where CL.DENIED is missing, the module may be older.
        return await self.ask(call.words(), key, call.command, plain=call.verb in ("reset", "denied"))

    async def ask(self, words: Words, key: str | bytes, command: str, *, plain: bool = False) -> Any:
        """Send a command as the server of a key takes it, or as it is where it is plain, and return the reply."""
        lacking = False
        if plain or self.doors.straight(words):
            try:
                return await self._decide(words, key, command)
            except MistakeError as error:
                if plain or not self.doors.lacks(error):
                    raise
                lacking = True
        return await self._take(self.doors.send(words, key, command, await self._name_of(key), lacking))

    async def apart(self, words: Words, key: str | bytes) -> Any:
        """As that of `Transport`."""
        try:
            return await self._send(words, key, disable_decoding=True)
        except Exception as error:
            raise self.told(str(words[0]), error) from error

    async def find_door(self, key: str | bytes) -> None:
        """As that of `Transport`."""
        await self._take(self.doors.find(key, await self._name_of(key)))

    async def _name_of(self, key: str | bytes) -> str:
        if self.cluster:
            with contextlib.suppress(Exception):  # the call itself says what is wrong
                await self.client.initialize()
        return self.node_of(key)

    async def _take(self, steps: Steps) -> Any:
        """Take the steps of a call through a door."""
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Send):
                        gave: Any = await self._decide(step.words, step.key, step.command)
                    elif isinstance(step, Alone):
                        gave = await self._alone(step)
                    else:
                        gave = await self._over(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(gave)
        except StopIteration as end:
            return end.value

    @staticmethod
    async def _over(question: Question) -> bool:
        try:
            async with asyncio.timeout(question.left):
                await cast(asyncio.Event, question.done).wait()
        except TimeoutError:
            return False
        return True

    async def _alone(self, step: Alone) -> list[Any]:
        """Send commands to the server that has a key, over a connection of their own."""
        try:
            place = await self._node(step.key) if self.cluster else self.pool
            connection = place.connection_class(**place.connection_kwargs)
            try:
                await connection.connect()
                replies: list[Any] = []
                for commands in (step.commands, step.then):
                    if any(isinstance(reply, Exception) for reply in replies):
                        break
                    await connection.send_packed_command(connection.pack_commands(commands))
                    replies += [await self._answer_of(connection) for _ in commands]
                if any(is_demoted(reply) for reply in replies):
                    await self._leave_master()
                return replies
            finally:
                await _disconnect(connection)
        except Exception as error:
            raise self.told(str(step.commands[0][0]), error) from error

    @staticmethod
    async def _answer_of(connection: Any) -> Any:
        try:
            return await connection.read_response()
        except Exception as error:
            if not library_error(error, "ResponseError"):
                raise
            return error

    async def _decide(self, words: Words, key: str | bytes, command: str) -> Any:
        """Send words with those of other calls, and return the reply."""
        if self.pool is None or self._under_way < self._pipelines:
            self._under_way += 1
            began = time.monotonic()
            try:
                return await self._send(words, key)
            except Exception as error:
                together = object()
                if library_error(error, "TimeoutError"):
                    if self.pool is None and self._was_late(began):
                        error = _late()
                    self._give_up(error, together)
                raise failed(self.told(command, error), together) from error
            finally:
                self._hand_over()
        if len(self._queue) >= _WAITING:
            raise OverloadError(f"{_WAITING:,} calls of this process wait for the server")
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._timer is None:
            self._lateness.watch()
            self._timer = asyncio.get_running_loop().call_later(ROOM, self._look)
        self._queue.append((words, waiting, self._lateness.clock()))
        reply, together = await waiting  # a caller that is cancelled cancels it: it is not sent, if it was not
        if isinstance(reply, Exception):
            made = failed(self.told(command, reply), together)
            raise made from None if made is reply else reply
        return reply

    def _look(self, turn: int = 0) -> None:
        """Answer those that have waited for a pipeline for too long. All wait as long, so the first is the next."""
        while self._queue:
            _, waiting, came = self._queue[0]
            if not waiting.done():
                again = self._lateness.again(came, ROOM, self._look, turn)
                if again is not None:
                    self._timer = again
                    return
                _answer(waiting, no_room(self._most or self._pipelines), None)
            self._queue.popleft()
        self._rest()

    def _rest(self) -> None:
        """Watch no more: nobody is in the queue."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._lateness.unwatch()

    def _hand_over(self) -> None:
        """Send the next pipeline, of the calls that wait."""
        batch: list[_Entry] = []
        while self._queue and len(batch) < LONGEST:
            entry = self._queue.popleft()
            if not entry[1].done():  # the caller has left
                batch.append(entry)
        if not self._queue:
            self._rest()
        if batch:
            self.in_background(self._share(batch))
        else:
            self._under_way -= 1

    def _give_up(self, error: Exception, together: object) -> None:
        """End the calls that have waited while the server did not answer: they would have to wait once more."""
        late, self._queue = self._queue, deque()
        self._rest()
        for _, waiting, _ in late:
            _answer(waiting, error, together)

    async def _connection(self) -> Any:
        """Return a connection of the pool. Connecting is tried again when this process was late: nothing has been sent
        then."""
        for left in reversed(range(_CONNECTS)):
            began = time.monotonic()
            try:
                return await self.pool.get_connection(*self.arguments)
            except Exception as error:
                if not library_error(error, "TimeoutError") or not self._was_late(began):
                    raise
                if not left:
                    raise _late() from error
        raise AssertionError

    def _talk(self, connection: Any) -> _Talk:
        return _Talk(self._lateness, self.timeout, connection)

    def _was_late(self, began: float) -> bool:
        """Whether a time limit of somebody else's connection was noticed long after it was over, because the loop was
        busy: that says nothing about the server."""
        return not self._patient and time.monotonic() - began > 1.25 * self.timeout

    async def _share(self, batch: list[_Entry]) -> None:
        together = object()
        left = deque(waiting for _, waiting, _ in batch)
        demoted = False
        try:
            async with self._room():
                connection = await self._connection()
                # Nobody is charged who has left while it connected.
                batch = [entry for entry in batch if not entry[1].done()]
                left = deque(waiting for _, waiting, _ in batch)
                try:
                    async with self._talk(connection) as talk:
                        await connection.send_packed_command(connection.pack_commands([words for words, _, _ in batch]))
                        for _, waiting, _ in batch:
                            reply = await self._answer_of(connection)
                            talk.restart()
                            left.popleft()
                            demoted = demoted or is_demoted(reply)
                            _answer(waiting, reply, None)
                    if demoted:
                        await _disconnect(connection)
                except BaseException:
                    await _disconnect(connection)
                    raise
                finally:
                    await self.pool.release(connection)
            if demoted:
                await self._leave_master()
        except Exception as error:
            for waiting in left:
                _answer(waiting, error, together)
            if library_error(error, "TimeoutError") or isinstance(error, OverloadError):
                self._give_up(error, together)
        finally:
            self._hand_over()

    async def _send(self, words: list[str | bytes], key: str | bytes, **reading: bool) -> Any:
        if self.cluster:
            node = await self._node(key)
            async with self._room(node):
                return await self.client.execute_command(*words, target_nodes=node)
        if self.pool is None:
            return await self.client.execute_command(*words)
        async with self._room():
            connection = await self._connection()
            try:
                async with self._talk(connection):
                    await connection.send_command(*words)
                    return await connection.read_response(**reading)
            except BaseException as error:
                # A caller that is cancelled leaves a reply on its way, which must not be read as that of the next call.
                if not library_error(error, "ResponseError") or is_demoted(error):
                    await _disconnect(connection)
                if is_demoted(error):
                    await self._leave_master()
                raise
            finally:
                await self.pool.release(connection)

    async def _leave_master(self) -> None:
        """Close the idle connections to a server that is not the master any more: the next call asks anew where the
        address leads."""
        if self.pool is not None:
            await self.pool.disconnect(inuse_connections=False)

    async def _node(self, key: str | bytes) -> Any:
        await self.client.initialize()
        return self.client.get_node_from_key(key)

    async def wait(self, call: Call) -> Any:
        """Send a call that is answered when its turn has come. A caller that is cancelled leaves the line."""
        words = call.words()
        try:
            return await self._wait(call, words)
        except Exception as error:
            if is_demoted(error):
                await self._leave_master()
            raise self.told(call.command, error) from error

    async def _wait(self, call: Call, words: list[str | bytes]) -> Any:
        key = call.keys[0].name
        place = await self._node(key) if self.cluster else self.pool
        options = {**place.connection_kwargs, "socket_timeout": None}
        if options.get("socket_connect_timeout") is None:
            options["socket_connect_timeout"] = self.patience
        asking = False
        for left in reversed(range(REDIRECTS)):
            connection = place.connection_class(**options)
            reading: asyncio.Task[Any] | None = None
            cancelled = False
            try:
                await connection.connect()
                run = await self._run_at(connection)
                if asking:
                    await connection.send_command("ASKING")
                    await asyncio.wait_for(connection.read_response(), self.patience)
                await connection.send_command(*words)
                reading = task = asyncio.ensure_future(connection.read_response())
                last = last_of(call, self.patience)
                while not (await asyncio.wait({task}, timeout=self.patience))[0]:
                    await self._see_alive(connection, place, options, run)
                    if time.monotonic() > last and not task.done():
                        raise lost(self.patience)
                return task.result()
            except Exception as error:
                there = moved_to(error)
                if there is None or not left:
                    raise
                options["host"], options["port"] = there[0] or options["host"], there[1]
                asking = is_asked(error)
            except asyncio.CancelledError:
                cancelled = True
                # The answer may have come before the caller has it.
                if reading is not None and reading.done():
                    self._give_back(call, reading)
                raise
            finally:
                if reading is not None and cancelled and not reading.done():
                    self.in_background(self._leave(call, connection, reading), self._leaving)
                else:
                    if reading is not None:  # of a server that gives no sign of life
                        reading.cancel()
                    await _disconnect(connection)
        raise AssertionError

    def in_background(self, work: Any, *kinds: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        for tasks in (self._tasks, *kinds):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _leave(self, call: Call, connection: Any, reading: asyncio.Task[Any]) -> None:
        """End the wait of a caller that has left. The connection is closed in one direction only: an answer may be on
        its way."""
        try:
            writer = getattr(connection, "_writer", None)
            if writer is not None and writer.can_write_eof():
                with contextlib.suppress(OSError):
                    writer.write_eof()
                await asyncio.wait({reading}, timeout=self.patience)
            else:  # TLS has no half-closed connections
                await asyncio.wait({reading}, timeout=0)
        finally:
            if not reading.done():
                reading.cancel()
            await _disconnect(connection)
        if reading.done():
            self._give_back(call, reading)

    def _give_back(self, call: Call, reading: asyncio.Task[Any]) -> None:
        """Return the units that were granted to a caller that has left. The server takes back by itself what was only
        reserved."""
        if reading.cancelled() or reading.exception() is not None or call.verb != "wait":
            return
        result = call.result(reading.result())
        if not result.limited and result.granted > 0:
            self.in_background(self._refund(Call("refund", call.keys, cost=call.cost)))

    async def _refund(self, call: Call) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.decide(call), self.patience)

    async def close(self) -> None:
        """Close the connections, but not those of a client that is somebody else's."""
        await self._close(self.mine)

    async def end(self) -> None:
        """Close all connections: their loop ends, and no other one can use them. The client opens others when it is
        used again."""
        await self._close(True)

    async def _close(self, client: bool) -> None:
        for task in (tasks := [*self._leaving]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._own is not None:
            await self._own.disconnect()
        if client:
            await close_client(self.client)

    def drop(self) -> None:
        """Close the connections of a loop that is closed."""
        if self._own is not None:
            drop_pool(self._own)
        drop_client(self.client)

    async def _run_at(self, connection: Any) -> str:
        """As that of `Transport`."""
        await connection.send_command(*WHO)
        return run_of(await asyncio.wait_for(self._answer_of(connection), self.patience))

    async def _see_alive(self, waiting: Any, pool: Any, options: dict[str, Any], run: str) -> None:
        """As that of `Transport`."""
        place = _place_of(waiting)
        if place is None:
            return
        async with self._signing:
            at, error = self._signs.get((place, run), (0.0, None))
            if time.monotonic() - at > self.patience / 2:
                error = await self._no_sign(pool, place)
                if error is None and run:
                    error = await self._not_there(pool, options, run)
                self._signs[place, run] = time.monotonic(), error
        if error is not None:
            raise error

    async def _no_sign(self, pool: Any, place: Place) -> Exception | None:
        connection = pool.connection_class(**asking(pool.connection_kwargs, place, self.patience))
        began = time.monotonic()
        try:
            connect_to = getattr(connection, "connect_to", None)  # connect() of a Sentinel's leads to the master
            await (connection.connect() if connect_to is None else connect_to(place))
            await connection.send_command("PING")
            async with self._within(self.patience):
                await connection.read_response()
        except Exception as error:
            # Of this process, whose loop was busy, unless the limits of the connection have left that out.
            late = not self._patient and time.monotonic() - began > 1.25 * self.patience
            if is_outage(error) and not late and not library_error(error, "ResponseError"):
                return error
        finally:
            await _disconnect(connection)
        return None

    async def _not_there(self, pool: Any, options: dict[str, Any], run: str) -> Exception | None:
        """As that of `Transport`."""
        connection = pool.connection_class(**options)
        there = ""
        with contextlib.suppress(Exception):
            try:
                async with asyncio.timeout(self.patience):
                    await connection.connect()
                    there = await self._run_at(connection)
            finally:
                await _disconnect(connection)
        return elsewhere() if there and there != run else None


def _place_of(connection: Any) -> Place | None:
    """Return where a connection leads; None if it is closed."""
    writer = getattr(connection, "_writer", None)
    found = None if writer is None else writer.get_extra_info("peername")
    return found if isinstance(found, str) or not found else (found[0], found[1])


def _timeout_of(connection: Any) -> Exception:
    """Return the error of the library of a connection for a reply that did not come in time."""
    for kind in type(connection).__mro__:
        module = sys.modules.get(f"{kind.__module__.partition('.')[0]}.exceptions")
        if (made := getattr(module, "TimeoutError", None)) is not None:
            return cast(Exception, made(f"Timeout reading from {connection._host_error()}"))
    raise AssertionError


def _late() -> OverloadError:
    return OverloadError("this process was too busy to read the reply in time")


def _answer(waiting: asyncio.Future[Any], reply: Any, together: object) -> None:
    if not waiting.done():  # the caller may have left
        waiting.set_result((reply, together))


async def _disconnect(connection: Any) -> None:
    if "nowait" in inspect.signature(connection.disconnect).parameters:
        await connection.disconnect(nowait=True)
    else:
        await connection.disconnect()
