"""Celery's own `rate_limit`, as its manual sets it, beside ours: two workers, each with a queue, compared by how many
tasks run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from servers import PATIENCE, Server
from test_celery import worker

TASKS = '''
import os
import redis
from celery import Celery
from redis_throttle import Limiter, rate
from redis_throttle.celery import LimitedTask

url = os.environ["TEST_URL"]
ran = redis.Redis.from_url(url + "/3")
app = Celery("tasks", broker=url + "/1", backend=url + "/2")
app.conf.update(worker_prefetch_multiplier=0, broker_connection_retry_on_startup=True)
HOURLY, OURS = rate(1, "1h"), {"base": LimitedTask, "throttle_limiter": Limiter.from_url(url, timeout="5s")}


def task(name, **options):
    @app.task(name=name, bind=True, **options)
    def run(self):
        ran.incr(name)
        if name.startswith("retried") and not self.request.retries:
            raise self.retry(countdown=0)


for name, theirs, ours in (
    ("limited", {"rate_limit": "1/h"}, {"throttle_limits": HOURLY}),
    ("annotated", {}, {"throttle_limits": rate(0, "1h")}),
    ("retried", {"rate_limit": "1/h"}, {"throttle_limits": HOURLY}),
    ("of nothing", {"rate_limit": 0}, {"throttle_limits": rate(0, "1h")}),
    ("both", {"rate_limit": "1/h"}, {"throttle_limits": rate(8, "1h"), "rate_limit": "1/h"}),
    ("rolling", {"rate_limit": "1/h"}, {"throttle_limits": HOURLY}),
):
    task(name + ", theirs", **theirs)
    task(name + ", ours", **OURS, **ours)
app.conf.task_annotations = {"annotated, theirs": {"rate_limit": "1/h"}, "annotated, ours": {"throttle_limits": HOURLY}}


@app.task(name="last")
def last():
    pass
'''
RECIPES = {
    "limited": (2, 1),  # each worker by itself; all workers together
    "annotated": (2, 1),
    "retried": (2, 1),  # a retry is a task more
    "of nothing": (4, 0),  # no limit; nobody
    "both": (2, 2),  # the stricter one
}
ROLLING = {"rolling, theirs": 1, "rolling, ours": 1}
"""One worker has the old task, the other the new one: each keeps to its limit."""

SEND = f"""
import json, tasks
for name in json.loads({json.dumps(json.dumps(list(RECIPES)))}):
    for queue in ("q0", "q1"):
        for whose in ("theirs", "ours"):
            for _ in range(2):
                tasks.app.send_task(f"{{name}}, {{whose}}", queue=queue)
for queue, whose in (("q0", "theirs"), ("q1", "ours")):
    for _ in range(2):
        tasks.app.send_task(f"rolling, {{whose}}", queue=queue)
for _ in range(2):  # a queue keeps its order, also that of retries, which were sent before the first of these ran
    for queue in ("q0", "q1"):
        tasks.app.send_task("last", queue=queue).get(timeout={5 * PATIENCE})
print(json.dumps({{name.decode(): int(tasks.ran.get(name)) for name in tasks.ran.keys()}}))
"""


@pytest.mark.timeout(480)
def test_how_many_tasks_run_beside_the_limits_of_celery(own_server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "TEST_URL": own_server.url}
    workers = [worker(n, tmp_path, environment, 1, "-Q", f"q{n}") for n in range(2)]
    try:
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", SEND], cwd=tmp_path, env=environment, capture_output=True, text=True)
        logs = "".join((tmp_path / f"log{n}").read_text() for n in range(2))
        assert run.returncode == 0, run.stderr + logs
        ran = json.loads(run.stdout)
        assert {name: (ran.get(f"{name}, theirs", 0), ran.get(f"{name}, ours", 0)) for name in RECIPES} == RECIPES, logs
        assert {name: ran[name] for name in ROLLING} == ROLLING, logs
    finally:
        for process in workers:
            process.terminate()
        for process in workers:
            process.wait()
