"""Celery tasks in a real worker, with the server as broker and result store."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from servers import PATIENCE, Server

TASKS = '''
import os, time
from celery import Celery
from redis_throttle import rate, window
from redis_throttle.celery import LimitedTask

url = os.environ["TEST_URL"]
app = Celery("tasks", broker=url + "/1", backend=url + "/2")
app.conf.update(throttle_url=url, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, result_extended=True)


class Rescheduled(LimitedTask):
    throttle_limits = window(1, "700ms")
    throttle_jitter = __import__("datetime").timedelta(milliseconds=50)


class InLine(LimitedTask):
    throttle_limits = rate(1, "300ms")
    throttle_wait = "20s"


class Never(LimitedTask):
    throttle_limits = rate(1, "1h")

    def throttle_cost(self, *args, **kwargs):
        return 2


@app.task(base=Rescheduled, bind=True, max_retries=0)
def rescheduled(self, n):
    return time.time(), self.request.retries


@app.task(base=InLine, bind=True)
def in_line(self, n):
    return time.time(), self.request.retries


@app.task(base=Never)
def never():
    return "never"
'''


@pytest.mark.timeout(120)
def test_tasks_keep_to_their_limits_in_all_workers(own_server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "TEST_URL": own_server.url}
    workers = [worker(n, tmp_path, environment) for n in range(2)]
    try:
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", f"""
import tasks
r = [tasks.rescheduled.delay(n) for n in range(4)]
i = [tasks.in_line.delay(n) for n in range(4)]
never = tasks.never.delay()
print([x.get(timeout={PATIENCE}) for x in r])
print([x.get(timeout={PATIENCE}) for x in i])
try:
    print(never.get(timeout={PATIENCE}))
except Exception as error:
    print(type(error).__name__, error)
tasks.rescheduled(9)
print(tasks.in_line.apply((9,)).get())
"""], cwd=tmp_path, env=environment, capture_output=True, text=True)
        logs = "".join((tmp_path / f"log{n}").read_text() for n in range(2))
        assert run.returncode == 0, run.stderr + logs
        rescheduled, in_line, never, eager = run.stdout.splitlines()
        for text, apart in ((rescheduled, 0.7), (in_line, 0.3)):
            results = sorted(eval(text))  # ours
            assert [retries for _, retries in results] == [0, 0, 0, 0], "a task that is rescheduled uses up no retry"
            times = [at for at, _ in results]
            # The decisions are that far apart; a task notes the time a little later, so all of them together are looked at.
            assert times[-1] - times[0] > 3 * apart - 0.25, text
        assert never.startswith("MistakeError"), never
        assert "limit of 1" in never
        assert eval(eager)[1] == 0
    finally:
        for process in workers:
            process.terminate()
        for process in workers:
            process.wait()


def worker(n: int, folder: pathlib.Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with open(folder / f"log{n}", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tasks", "worker", "--pool", "threads", "--concurrency", "4",
             "-n", f"w{n}@%h", "--loglevel", "warning", "--without-gossip", "--without-mingle"],
            cwd=folder, env=environment, stderr=log, stdout=log)


def test_without_a_url_the_mistake_is_named() -> None:
    from celery import Celery

    from redis_throttle import MistakeError, rate
    from redis_throttle.celery import LimitedTask

    app = Celery("nothing")

    class Mail(LimitedTask):
        throttle_limits = rate(1, "1s")

    @app.task(base=Mail)  # type: ignore[untyped-decorator]
    def mail() -> float:
        return time.time()

    with pytest.raises(MistakeError, match="throttle_url"):
        mail()
