"""FastAPI on uvicorn at work, with callers in another process: at most the limit passes, and no outage that is none.

It prints how long requests took with a limit and without one, in turn.
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest

from at_work import LIMIT
from flooder import Flood
from servers import Server, await_true, free_port, give_back

HERE = pathlib.Path(__file__).parent
ROUNDS = 2

pytestmark = pytest.mark.skipif(not os.environ.get("THROTTLE_LOAD"), reason="make test-load runs it: it wants the machine for itself")


def listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def send(port: int, path: str, callers: int, requests: int) -> Flood:
    words = [sys.executable, HERE / "flooder.py", port, path, callers, requests]
    return Flood(**json.loads(subprocess.check_output([str(word) for word in words])))


class Watch(threading.Thread):
    """Asks a server all the time, beside the site."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.ended = threading.Event()
        self.slowest_ms = 0.0

    def run(self) -> None:
        with self.server.client() as client:
            while not self.ended.wait(0.02):
                began = time.monotonic()
                client.ping()
                self.slowest_ms = max(self.slowest_ms, (time.monotonic() - began) * 1000)


@pytest.mark.parametrize("callers", [50, 1000])
@pytest.mark.parametrize("route", ["async", "sync"])
def test_uvicorn(server: Server, tmp_path: pathlib.Path, route: str, callers: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a socket for each caller
    port, requests = free_port(), max(callers, 300)
    log, floods = tmp_path / "log", {"without": Flood(), "far": Flood(), "tight": Flood()}
    with open(log, "w") as out:
        words = [sys.executable, "-m", "uvicorn", "at_work:app", "--app-dir", str(HERE), "--port", str(port), "--no-access-log"]
        site = subprocess.Popen(words, env={**os.environ, "TEST_URL": server.url}, stdout=out, stderr=out)
    watch = Watch(server)
    watch.start()
    try:
        await_true(lambda: listens(port), "it listens")
        for name in ["without", "far"] * ROUNDS + ["tight"]:
            floods[name].add(send(port, f"/{name}/{route}", callers, requests))
    finally:
        watch.ended.set()
        watch.join()
        site.kill()
        site.wait()
        give_back(port)
    print(f"\n{callers} callers of {route} routes, {requests} requests a flood; the server answers within {watch.slowest_ms:.0f} ms")
    for name, flood in floods.items():
        print(f"  {name}: {flood}")

    without, far, tight = floods.values()
    assert without.statuses == {"200": ROUNDS * requests}
    # With a thousand handlers to run, the process reads few replies in time.
    assert far.count(200) >= (ROUNDS * requests / 2 if callers == 50 else LIMIT), far
    assert far.count(200) + far.count(503) == ROUNDS * requests, far
    assert 0 < tight.count(200) <= LIMIT + tight.undecided, tight
    assert tight.count(200) + tight.count(429) + tight.count(503) == requests, tight
    if watch.slowest_ms < 100:  # otherwise the machine has no time for the server, which is an outage
        told = [line for line in log.read_text().splitlines() if "redis-throttle" in line and "redis-throttle: overload" not in line]
        assert (told, far.undecided, tight.undecided) == ([], 0, 0), "who was not decided in time is turned away"
