"""Celery tasks in a real worker, with the server as broker and result store."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from redis_throttle import Limiter, fixed, rate, window
from servers import PATIENCE, ROOT, Server, await_true

TASKS = '''
import os, time
from celery import Celery
from redis_throttle import Limiter, rate, window
from redis_throttle.celery import LimitedTask

url = os.environ["TEST_URL"]
app = Celery("tasks", broker=url + "/1", backend=url + "/2")
app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, result_extended=True)


class Patient(LimitedTask):
    throttle_limiter = Limiter.from_url(url, timeout="5s")  # a busy machine may take longer than usual, and then a task asks twice


class Rescheduled(Patient):
    throttle_limits = window(1, "700ms")
    throttle_jitter = __import__("datetime").timedelta(milliseconds=50)


class InLine(Patient):
    throttle_limits = rate(1, "300ms")
    throttle_wait = "20s"


class Never(Patient):
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
import tasks, time
print(time.time())
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
        began, rescheduled, in_line, never, eager = run.stdout.splitlines()
        for text, apart in ((rescheduled, 0.7), (in_line, 0.3)):
            results = sorted(eval(text))  # ours
            assert [retries for _, retries in results] == [0, 0, 0, 0], "a task that is rescheduled uses up no retry"
            assert results[-1][0] - float(began) > 3 * apart - 0.01, text
        assert never.startswith("MistakeError"), never
        assert "limit of 1" in never
        assert eval(eager)[1] == 0
    finally:
        for process in workers:
            process.terminate()
        for process in workers:
            process.wait()


QUEUE = '''
import datetime, os, time
from celery import Celery
from redis_throttle import Limiter, OverloadError, rate
from redis_throttle.celery import LimitedTask

url = os.environ["TEST_URL"]
app = Celery("tasks", broker=url + "/1", backend=url + "/2")
app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)


class Patient(LimitedTask):
    throttle_limiter = Limiter.from_url(url, timeout="5s")


class Slow(Patient):
    throttle_limits = rate(1, "1s", burst=1)


class Queued(Patient):
    throttle_limits = rate(10, "1s", burst=1)


class Busy(Patient):
    throttle_limits = rate(50, "1s")
    throttle_pause = datetime.timedelta(milliseconds=10)
    throttle_jitter = datetime.timedelta(0)
    asked = 0

    def throttle_key(self):
        Busy.asked += 1
        if Busy.asked < 3:
            raise OverloadError("made up")
        return "busy"


@app.task(base=Slow)
def queued(n):
    return time.time()


@app.task(base=Queued, bind=True, max_retries=2)
def retried(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task(base=Busy)
def busy():
    return Busy.asked


@app.task(base=Queued, throttle_limits=rate(0, "1s"))
def nobody():
    return "never"


@app.task(base=Patient)
def unlimited():
    return "never"
'''


@pytest.mark.timeout(180)
def test_tasks_under_a_rate_ask_once_and_run_in_order(own_server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(QUEUE)
    environment = {**os.environ, "TEST_URL": own_server.url}
    process = worker(0, tmp_path, environment, concurrency=1)
    try:
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", f"""
import tasks
print(tasks.retried.delay().get(timeout={PATIENCE}))
print(tasks.busy.delay().get(timeout={PATIENCE}))
for task in tasks.nobody, tasks.unlimited:
    try:
        print(task.delay().get(timeout={PATIENCE}))
    except Exception as error:
        print(type(error).__name__, error)
"""], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr + (tmp_path / "log0").read_text()
        retried, busy, nobody, unlimited = run.stdout.splitlines()
        assert retried == "2"
        assert asked(own_server) == 3 + 1 + 1, "a retry takes units of its own, although the try before had reserved some"
        assert busy == "3", "it came back after two overloads"
        assert nobody.startswith("MistakeError"), nobody
        assert "throttle_limits" in unlimited

        # The first slot is ten seconds away, and each a second after the one before: so long the worker may take to ask
        # for the next task, or to send back one that has asked.
        began = time.time()
        with Limiter.from_url(own_server.url) as limiter:
            limiter.limit("celery:tasks.queued", rate(1, "1s", burst=1), cost=10, charge="force")
        calls = asked(own_server)
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", f"""
import tasks
print([x.get(timeout={2 * PATIENCE}) for x in [tasks.queued.delay(n) for n in range(8)]])
"""], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr + (tmp_path / "log0").read_text()
        times = eval(run.stdout)  # ours
        assert times == sorted(times), "they run in the order in which they were sent"
        assert asked(own_server) - calls == 8, "each asks once"
        assert times[-1] - began > 10 + 7 - 0.01, "their limit holds them back"
    finally:
        process.terminate()
        process.wait()


def asked(server: Server) -> int:
    with server.client() as client:
        return int(client.info("commandstats")["cmdstat_cl.limit"]["calls"])


@pytest.mark.timeout(180)
def test_the_example_of_the_readme(own_server: Server, tmp_path: pathlib.Path) -> None:
    [code] = [block for block in re.findall(r"```python\n(.*?)```", (ROOT / "clients/python/README.md").read_text(), re.S) if "LimitedTask" in block]
    (tmp_path / "tasks.py").write_text(code.replace("127.0.0.1:6379", f"127.0.0.1:{own_server.port}"))
    process = worker(0, tmp_path, dict(os.environ))
    try:
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", f"""
import tasks
tasks.app.conf.broker_connection_retry_on_startup = True
sent = [tasks.send.delay(f"{{name}}@example.{{end}}") for name in ("ann", "bob", "eve") for end in ("com", "org")]
print([one.get(timeout={PATIENCE}) for one in sent][-1])
"""], cwd=tmp_path, capture_output=True, text=True)
        assert run.stdout == "sent to eve@example.org\n", run.stderr + (tmp_path / "log0").read_text()
        assert asked(own_server) == 6, "each asks once"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(("options", "says"), [
    ({"throttle_outage": "let through"}, 'throttle_outage must be .*called "allow" now'),
    ({"throttle_overload": "retry"}, "throttle_overload must be"),
    ({"throttle_mistake": None}, "throttle_mistake must be"),
    ({"throttle_outage": timedelta(seconds=10)}, "throttle_pause"),
    ({"throttle_commands": "lua"}, "commands must be"),
    ({"throttle_poll": "soon"}, "poll"),
])
def test_answers_are_checked_when_a_task_is_defined(options: dict[str, object], says: str) -> None:
    from celery import Celery

    from redis_throttle.celery import LimitedTask

    with pytest.raises(ValueError, match=says):
        type("Mail", (LimitedTask,), options)

    def mail() -> None:
        """Do nothing."""

    with pytest.raises(ValueError, match=says):  # a decorator defines it when the app is finalized, or at its first use
        Celery("nothing").task(base=LimitedTask, lazy=False, **options)(mail)


@pytest.mark.parametrize(("answer", "runs"), [("allow", True), ("raise", False), ("open", None)])
def test_answers_may_come_from_the_annotations_of_the_app(answer: str, runs: bool | None) -> None:
    """As limits and all attributes of a task may."""
    from celery import Celery

    from redis_throttle import OutageError
    from redis_throttle.celery import LimitedTask

    app = Celery("nothing", set_as_current=False)
    app.conf.update(throttle_url="redis://127.0.0.1:1", task_annotations={"mail": {"throttle_outage": answer, "throttle_limits": rate(5, "1s")}})

    @app.task(base=LimitedTask, name="mail")  # type: ignore[untyped-decorator]
    def mail() -> str:
        return "sent"

    if runs:
        assert mail() == "sent"
    else:
        with pytest.raises(ValueError if runs is None else OutageError, match="throttle_outage must be" if runs is None else None):
            mail()


def worker(n: int, folder: pathlib.Path, environment: dict[str, str], concurrency: int = 4, *more: str) -> subprocess.Popen[bytes]:
    with open(folder / f"log{n}", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tasks", "worker", "--pool", "threads", "--concurrency", str(concurrency),
             "-n", f"w{n}@%h", "--loglevel", "warning", "--without-gossip", "--without-mingle", *more],
            cwd=folder, env=environment, stderr=log, stdout=log)


def test_without_a_url_the_mistake_is_named() -> None:
    from celery import Celery

    from redis_throttle import MistakeError
    from redis_throttle.celery import LimitedTask

    app = Celery("nothing")

    class Mail(LimitedTask):
        throttle_limits = rate(1, "1s")

    @app.task(base=Mail)  # type: ignore[untyped-decorator]
    def mail() -> float:
        return time.time()

    with pytest.raises(MistakeError, match="throttle_url"):
        mail()


@pytest.mark.parametrize(("answer", "runs"), [("allow", True), ("deny", False), ("raise", False)])
def test_a_task_that_cannot_come_back_keeps_to_its_answers(answer: str, runs: bool) -> None:
    """A task that is called directly, or eager."""
    from celery import Celery

    from redis_throttle import OutageError
    from redis_throttle.celery import LimitedTask

    app = Celery("nothing", set_as_current=False)
    app.conf.update(throttle_url="redis://127.0.0.1:1", task_always_eager=True, task_eager_propagates=True)

    @app.task(base=LimitedTask, throttle_limits=rate(5, "1s"), throttle_outage=answer)  # type: ignore[untyped-decorator]
    def mail() -> str:
        return "sent"

    for call in (mail, lambda: mail.delay().get()):
        if runs:
            assert call() == "sent"
        else:
            with pytest.raises(OutageError):
                call()


def test_settings_say_what_the_server_is_sent(own_server: Server) -> None:
    """Those of the app, and of a task before them. A task that waits polls where they allow it."""
    from celery import Celery

    from redis_throttle import MistakeError, fixed
    from redis_throttle.celery import LimitedTask

    app = Celery("nothing", set_as_current=False)
    app.conf.update(throttle_url=own_server.url, throttle_commands="functions", throttle_poll="50ms")

    def task(name: str, **options: object) -> LimitedTask:
        def work() -> None:
            """Do nothing."""

        made: LimitedTask = app.task(base=LimitedTask, lazy=False, name=name, throttle_limits=fixed(5, "1d"), **options)(work)
        return made

    by_app, by_task, later = task("by_app"), task("by_task", throttle_commands="module"), task("later")
    by_app()
    assert "cmdstat_fcall" in own_server.do("INFO", "commandstats")
    assert "cmdstat_cl.wait" not in own_server.do("INFO", "commandstats")
    by_task()
    assert "cmdstat_cl.wait" in own_server.do("INFO", "commandstats")
    app.conf.throttle_poll = None
    with pytest.raises(MistakeError, match="poll"):
        later()


LIMITS = {"window": window(1, "1d"), "fixed": fixed(1, "1d"), "rate": rate(1, "1d"), "two": (rate(1, "1s"), window(1, "1d"))}


@pytest.mark.parametrize(("timeout", "most"), [(None, 3600), (6, 6)])
@pytest.mark.parametrize("limits", list(LIMITS))
def test_a_task_comes_back_before_its_broker_gives_it_to_another_worker(own_server: Server, limits: str, timeout: int | None, most: int) -> None:
    """A task is held without a confirmation until it runs: with a longer countdown it would run twice."""
    app, task, countdowns = celery_on(own_server, LIMITS[limits], timeout, throttle_reserve="7d")
    for _ in range(3):
        begin(app, task)
    assert len(countdowns()) == 2
    assert all(most * 0.35 < countdown < most * 0.6 for countdown in countdowns()), "both ask again in time"


def test_a_task_that_comes_back_early_keeps_the_units_that_it_has_reserved(own_server: Server) -> None:
    app, task, countdowns = celery_on(own_server, rate(1, "10s", burst=1), 8, throttle_reserve="1h")
    began = time.time()
    begin(app, task)
    begin(app, task)
    [message] = messages(own_server)
    headers = message["headers"]
    assert began + 9.9 < headers["throttle_reserved"][2] < time.time() + 10.1
    begin(app, task, id=headers["id"], throttle_reserved=headers["throttle_reserved"])
    assert len(countdowns()) == 2, "it comes back once more"
    assert asked(own_server) == 2, "and does not ask again"
    begin(app, task, id=headers["id"], throttle_reserved=[*headers["throttle_reserved"][:2], time.time()])
    assert len(countdowns()) == 2, "it runs"
    assert asked(own_server) == 2


@pytest.mark.timeout(180)
def test_a_task_that_waits_for_longer_than_the_visibility_timeout_runs_once(own_server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(f"""
import os, time
from celery import Celery
from redis_throttle import Limiter, window
from redis_throttle.celery import LimitedTask

url = os.environ["TEST_URL"]
app = Celery("tasks", broker=url + "/1")
app.conf.update(broker_transport_options={{"visibility_timeout": 3}}, worker_prefetch_multiplier=10, broker_connection_retry_on_startup=True)

@app.task(base=LimitedTask, throttle_limits=window(1, "15s"), throttle_limiter=Limiter.from_url(url, timeout="5s"))
def work(n):
    with open({str(tmp_path / "ran")!r}, "a") as file:
        print(n, file=file)
""")
    environment = {**os.environ, "TEST_URL": own_server.url}
    process = worker(0, tmp_path, environment)
    ran = tmp_path / "ran"
    try:
        subprocess.run([sys.executable, "-W", "ignore", "-c", "import tasks; [tasks.work.delay(n) for n in range(2)]"], cwd=tmp_path, env=environment,
                       check=True)
        await_true(lambda: ran.exists() and len(ran.read_text().split()) >= 2, "both run", 90)
        client = own_server.client()
        client.select(1)
        await_true(lambda: not client.exists("unacked", "celery"), "nothing is left")
        assert sorted(ran.read_text().split()) == ["0", "1"]
    finally:
        process.terminate()
        process.wait()


def celery_on(server: Server, limits: Any, visibility_timeout: int | None, **options: Any) -> tuple[Any, Any, Callable[[], list[float]]]:
    """Return an app, a task, and a function that returns after how many seconds the tasks in its queue are to run."""
    from celery import Celery

    from redis_throttle.celery import LimitedTask

    app = Celery("nothing", set_as_current=False, broker=f"{server.url}/0")
    app.conf.update(throttle_url=server.url, broker_transport_options={} if visibility_timeout is None else {"visibility_timeout": visibility_timeout})

    def work() -> None:
        """Do nothing."""

    def countdowns() -> list[float]:
        now = datetime.now(UTC)
        return [(datetime.fromisoformat(message["headers"]["eta"]) - now).total_seconds() for message in messages(server)]

    return app, app.task(base=LimitedTask, lazy=False, name="work", throttle_limits=limits, **options)(work), countdowns


def begin(app: Any, task: Any, **request: Any) -> None:
    """Have a task run as a worker does, which sends it again when it is limited."""
    from celery.exceptions import Retry

    task.push_request(called_directly=False, is_eager=False, retries=0, args=(), kwargs={}, **{"id": uuid.uuid4().hex, **request})
    try:
        with contextlib.suppress(Retry):
            task()
    finally:
        task.pop_request()


def messages(server: Server) -> list[dict[str, Any]]:
    return [json.loads(message) for message in server.do("LRANGE", "celery", 0, -1)]
