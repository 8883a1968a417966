"""A process that forks: gunicorn that loads its application first, Celery's workers, multiprocessing. No child shares a
connection with its parent."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import httpx
import pytest

from forks import ended_well, forked, held_by_a_thread
from redis_throttle import Limiter, Remote, connect, fixed
from redis_throttle._server.connect import AwayCluster
from servers import PATIENCE, Cluster, Server, await_true, free_port

PLENTY = fixed(1_000_000, "1d")


@pytest.fixture(params=["redis", "valkey"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_processes_on_a_cluster_have_connections_of_their_own(cluster: Cluster, library: str) -> None:
    """A reply that another process reads would be seen: each key has a limit of its own."""
    keys = [f"k{n}" for n in range(12)]

    def call(process: int) -> None:
        for times in range(1, 31):
            for n, key in enumerate(keys):
                limit = 1000 + 100 * process + n
                result = limiter.limit(f"{key}:{process}", fixed(limit, "1d"))
                assert (result.limit, result.remaining) == (limit, limit - times)

    with Limiter.from_url(cluster.url.replace("redis", library), timeout="5s") as limiter:
        for key in keys:
            limiter.limit(key, PLENTY)  # a connection to each node
        children = [forked(lambda process=process: call(process), limiter.close) for process in range(1, 4)]  # type: ignore[misc]
        call(0)
        ended_well(*children)
        assert limiter.limit("k0", PLENTY).remaining == 1_000_000 - 2, "a child that closes its limiter closes nothing of its parent's"


def test_a_child_does_not_wait_for_calls_of_its_parent_to_a_cluster(cluster: Cluster, library: str) -> None:
    """Threads of the parent have all connections while it forks, and are not there in the child to free their
    places."""
    with Limiter.from_url(cluster.url.replace("redis", library), timeout="10s", options={"max_connections": 4}) as limiter:
        limiter.limit("k", PLENTY)
        owner = cluster.owner("k")
        transport = limiter.decider._next._transport  # type: ignore[attr-defined]
        [room] = transport._rooms.values()
        owner.pause()
        threads = [threading.Thread(target=limiter.limit, args=("k", PLENTY)) for _ in range(4)]
        for thread in threads:
            thread.start()
        await_true(lambda: room._value == 0, "the parent's threads wait for replies")
        child = forked(lambda: os.kill(owner.process.pid, signal.SIGCONT), lambda: limiter.limit("k", PLENTY))
        ended_well(child)
        for thread in threads:
            thread.join()
        assert limiter.limit("k", PLENTY).remaining == 1_000_000 - 7


def test_a_child_does_not_wait_for_locks_of_a_cluster_that_its_parent_holds(cluster: Cluster, library: str) -> None:
    with Limiter.from_url(cluster.url.replace("redis", library), timeout="5s") as limiter:
        limiter.limit("k", PLENTY)
        client = limiter.decider._next._transport.client  # type: ignore[attr-defined]
        pools = [node.redis_connection.connection_pool if library == "redis" else node.valkey_connection.connection_pool for node in client.get_nodes()]
        names = ("_lock", "_fork_lock", "_initialization_lock")
        locks = [getattr(owner, name) for owner in (client, client.nodes_manager, *pools) for name in names if hasattr(owner, name)]
        with held_by_a_thread(locks):
            ended_well(forked(lambda: limiter.limit("k", PLENTY), client.nodes_manager.initialize, limiter.close))
        assert limiter.limit("k", PLENTY).remaining == 1_000_000 - 3


def test_a_child_does_not_wait_for_locks_of_a_cluster_that_was_away_at_first(cluster: Cluster, library: str) -> None:
    late = AwayCluster(lambda: connect(cluster.url.replace("redis", library), timeout="5s"))
    with Limiter(Remote(late)) as limiter:
        limiter.limit("k", PLENTY)
        with held_by_a_thread([late.nodes_manager._lock]):
            ended_well(forked(lambda: limiter.limit("k", PLENTY), late.nodes_manager.initialize))
        assert limiter.limit("k", PLENTY).remaining == 1_000_000 - 3
    late.close()


APPLICATION = """
import os
from redis_throttle import Limiter, fixed

limiter = Limiter.from_url(os.environ["TEST_URL"], timeout="5s")
for n in range(12):
    limiter.limit(f"k{n}", fixed(1000, "1d"))  # a connection to each node, before gunicorn forks


def app(environ, start_response):
    n = int(environ["QUERY_STRING"])
    result = limiter.limit(f"k{n % 12}", fixed(1000 + n, "1d"), cost=0)
    start_response("200 OK", [("Process", str(os.getpid()))])
    return [str(result.limit).encode()]
"""


def test_workers_of_gunicorn_that_loads_the_application_first(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    port = free_port()
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen([sys.executable, "-m", "gunicorn", "--preload", "-w", "3", "--threads", "2", "-b", f"127.0.0.1:{port}", "application:app"],
                                   cwd=tmp_path, env={**os.environ, "TEST_URL": cluster.url}, stdout=log, stderr=log)
    try:
        def get(n: int) -> httpx.Response:
            return httpx.get(f"http://127.0.0.1:{port}/?{n}", timeout=PATIENCE)

        def listens() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            with contextlib.suppress(httpx.ConnectError):
                return get(0).status_code == 200
            return False

        await_true(listens, "gunicorn listens")
        got: dict[int, httpx.Response] = {}

        def ask(first: int) -> None:
            for n in range(first, 300, 6):
                got[n] = get(n)

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {n: answer.text for n, answer in got.items()} == {n: str(1000 + n) for n in range(300)}, "each request has its own reply"
        assert len({answer.headers["Process"] for answer in got.values()}) > 1, "several workers answered"
    finally:
        process.terminate()
        process.wait()


TASKS = """
import os
from celery import Celery
from redis_throttle import Limiter, fixed
from redis_throttle.celery import LimitedTask

limiter = Limiter.from_url(os.environ["TEST_CLUSTER"], timeout="5s")
for n in range(12):
    limiter.limit(f"k{n}", fixed(1000, "1d"))  # a connection to each node, before the worker forks
app = Celery("tasks", broker=os.environ["TEST_URL"] + "/1", backend=os.environ["TEST_URL"] + "/2")
app.conf.update(broker_connection_retry_on_startup=True)


class Mail(LimitedTask):
    throttle_limits = fixed(1_000_000, "1d")
    throttle_limiter = limiter

    def throttle_key(self, n):
        return f"mail:{n % 12}"


@app.task(base=Mail)
def mail(n):
    result = limiter.limit(f"k{n % 12}", fixed(1000 + n, "1d"), cost=0)
    return n, result.limit, os.getpid()
"""


@pytest.mark.timeout(120)
def test_workers_of_celery(cluster: Cluster, server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "TEST_URL": server.url, "TEST_CLUSTER": cluster.url}
    with open(tmp_path / "log", "w") as log:
        worker = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "3",
                                   "-n", "w@%h", "--loglevel", "warning", "--without-gossip", "--without-mingle"],
                                  cwd=tmp_path, env=environment, stderr=log, stdout=log)
    try:
        code = f"import tasks; print([x.get(timeout={PATIENCE}) for x in [tasks.mail.delay(n) for n in range(120)]])"
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr + (tmp_path / "log").read_text()
        results = eval(run.stdout)  # ours
        assert [(n, limit) for n, limit, _ in results] == [(n, 1000 + n) for n in range(120)], "each task has its own reply"
        assert len({process for _, _, process in results}) > 1, "several workers ran them"
    finally:
        worker.terminate()
        worker.wait()
