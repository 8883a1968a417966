"""Real servers with the module, each on ports and in a folder of its own; and one that is made up."""

from __future__ import annotations

import asyncio
import inspect
import os
import pathlib
import random
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from redis_throttle import Limiter
from redis_throttle.asyncio import Limiter as AsyncLimiter

ROOT = pathlib.Path(__file__).resolve().parents[3]
PATIENCE = 30.0
"""Bounds a hang, in seconds."""


def module() -> str:
    return os.environ.get("THROTTLE_SO") or str(ROOT / "build/throttle.so")


def program() -> str:
    return os.environ.get("THROTTLE_SERVER") or "redis-server"


_claims: dict[int, socket.socket] = {}


def free_port() -> int:
    """Return a port that nobody listens on, nor on that of the cluster bus, 10,000 above. It belongs to this process
    until it ends or gives it back.

    Both are below the range from which outgoing connections get theirs. The sign of a claim is the UDP port of the same
    number, which no server uses: tests in any language look at it.
    """
    while True:
        port = random.randrange(11_000, 22_000)
        if _claimed(port) and _claimed(port + 10_000):
            return port


def _claimed(port: int) -> bool:
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        claim.bind(("127.0.0.1", port))
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
    except OSError:
        claim.close()
        return False
    _claims[port] = claim
    return True


def give_back(port: int) -> None:
    for claimed in (port, port + 10_000):
        _claims.pop(claimed).close()


def await_true(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {patience} s")


def _state(pid: int) -> str:
    """Say in a letter what a process does, as proc(5) does. Its name, which comes before, may hold any character."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


class Server:
    """A server that this test started."""

    def __init__(self, *options: str, with_module: bool = True, configuration: str = "") -> None:
        """Start it. A program that wants a file, such as a Sentinel, gets a `configuration`, to which the port is
        added."""
        self.dir = tempfile.TemporaryDirectory(prefix="throttle-python-")
        self.port = free_port()
        self.options = [*options, *(["--loadmodule", module()] if with_module else [])]
        self.url = f"redis://127.0.0.1:{self.port}"
        # In the folder, so that two servers never share a dump.
        self.common = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes", "--enable-module-command", "yes"]
        if configuration:
            (pathlib.Path(self.dir.name) / "conf").write_text(f"port {self.port}\nbind 127.0.0.1\n{configuration}\n")
            self.common = ["conf"]
        self.start()

    def start(self) -> None:
        with open(pathlib.Path(self.dir.name) / "log", "a") as log:
            self.process = subprocess.Popen([program(), *self.common, *self.options], cwd=self.dir.name, stdout=log, stderr=log)
        await_true(self._answers, "the server starts")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server has ended: {self.log()}")
        try:
            with redis.Redis(port=self.port, socket_timeout=1) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def log(self) -> str:
        return (pathlib.Path(self.dir.name) / "log").read_text()

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=PATIENCE)

    def do(self, *words: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*words)

    def replication(self) -> dict[str, Any]:
        """Return what INFO says of replication."""
        with self.client() as client:
            return dict(client.info("replication"))

    def pause(self) -> None:
        """Stop the process without its noticing, like a host that hangs; it answers nobody any more when this
        returns."""
        self.process.send_signal(signal.SIGSTOP)
        await_true(lambda: _state(self.process.pid) == "T", "the server stands still")

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.resume()
        self.kill()
        assert "BUG REPORT" not in self.log(), self.log()
        self.dir.cleanup()
        give_back(self.port)


class Cluster:
    """Three masters that share the slots."""

    def __init__(self, node_timeout_ms: int = 2000, with_module: bool = True) -> None:
        """Start it. A node that does not answer for `node_timeout_ms` is taken for dead, and without a replica the
        cluster is down then."""
        self.nodes = [Server("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms), with_module=with_module) for _ in range(3)]
        share = 16384 // 3 + 1
        for i, node in enumerate(self.nodes):
            node.do("CLUSTER", "ADDSLOTSRANGE", i * share, min((i + 1) * share, 16384) - 1)
            node.do("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            node.do("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        self.await_agreement()

    def await_agreement(self) -> None:
        for node in self.nodes:
            await_true(lambda node=node: self._whole(node), "the cluster agrees")  # type: ignore[misc]

    @staticmethod
    def _whole(node: Server) -> bool:
        info = node.do("CLUSTER", "INFO")
        info = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
        return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3")

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def owner(self, key: str) -> Server:
        slot = int(self.nodes[0].do("CLUSTER", "KEYSLOT", key))
        return self.nodes[slot // (16384 // 3 + 1)]

    def add_replica(self, node: Server) -> Server:
        """Add a replica of a node, which is promoted when the node dies."""
        replica = Server("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0")
        self.nodes.append(replica)
        replica.do("CLUSTER", "MEET", "127.0.0.1", node.port)
        name = node.do("CLUSTER", "MYID").decode()

        def follows() -> bool:
            try:
                return bool(replica.do("CLUSTER", "REPLICATE", name))
            except redis.ResponseError:  # it does not know the node yet
                return False

        await_true(follows, "the replica follows")
        await_true(lambda: replica.replication().get("master_link_status") == "up", "the replica has the data")
        for other in self.nodes:
            await_true(lambda other=other: "slave" in str(other.do("CLUSTER", "NODES")), "every node knows the replica")  # type: ignore[misc]
        return replica

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


class Watched:
    """A master, its replica, and a Sentinel that promotes the replica."""

    def __init__(self) -> None:
        self.master = Server("--repl-diskless-sync-delay", "0")
        self.replica = Server("--replicaof", "127.0.0.1", str(self.master.port))
        self.sentinel = Server("--sentinel", with_module=False, configuration="\n".join([
            f"sentinel monitor mymaster 127.0.0.1 {self.master.port} 1",
            "sentinel down-after-milliseconds mymaster 2000",
            "sentinel failover-timeout mymaster 10000",
        ]))
        await_true(lambda: self.replica.replication().get("master_link_status") == "up", "the replica has the data")
        await_true(lambda: len(self.sentinel.do("SENTINEL", "REPLICAS", "mymaster")) == 1, "the Sentinel knows the replica")

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/mymaster"

    def stop(self) -> None:
        for server in (self.sentinel, self.replica, self.master):
            server.stop()


HELLO = b"%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"


class MadeUp:
    """A server that expects words and answers with replies, one exchange after the other. It knows nothing else of the
    protocol."""

    def __init__(self) -> None:
        outer = self
        self.exchanges: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.lock = threading.Lock()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while words := outer._read(self.rfile):
                    answer = outer.answer(words)
                    if answer is None:
                        return
                    self.wfile.write(answer)

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Listener(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def _read(stream: Any) -> list[str]:
        try:
            return [stream.read(int(stream.readline()[1:]) + 2)[:-2].decode() for _ in range(int(stream.readline()[1:] or 0))]
        except (OSError, ValueError):
            return []

    def answer(self, words: list[str]) -> bytes | None:
        if not words[0].startswith("CL."):
            return {"HELLO": HELLO, "PING": b"+PONG\r\n"}.get(words[0], b"+OK\r\n")
        with self.lock:
            if not self.exchanges:
                self.problems.append(f"nothing more was expected, and {words} came")
                return b"-ERR unexpected\r\n"
            exchange = self.exchanges.pop(0)
        if exchange["sends"] != words:
            self.problems.append(f"expected {exchange['sends']}, and {words} came")
        reply = exchange["reply"]
        return None if isinstance(reply, dict) and reply.get("closes") else encode(reply)

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def encode(reply: Any) -> bytes:
    """Return a reply as RESP."""
    if isinstance(reply, dict):
        return b"-%s\r\n" % str(reply["error"]).encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, str):
        return b"$%d\r\n%s\r\n" % (len(reply.encode()), reply.encode())
    return b"*%d\r\n" % len(reply) + b"".join(encode(part) for part in reply)


class Ask:
    """Asks a limiter of threads, or one of asyncio, and waits for the answer."""

    def __init__(self, asynchronous: bool) -> None:
        self.asynchronous, self.runner = asynchronous, asyncio.Runner() if asynchronous else None

    def limiter(self, url: str, **options: Any) -> Any:
        return (AsyncLimiter if self.asynchronous else Limiter).from_url(url, **options)

    def __call__(self, answer: Any) -> Any:
        if not inspect.isawaitable(answer):
            return answer
        assert self.runner is not None

        async def wait() -> Any:
            return await answer

        return self.runner.run(wait())


class Clock:
    """A clock that a test sets, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
