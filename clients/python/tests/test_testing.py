"""The fakes and throttle-dev: what decides is what the server decides, and tests move the clock and make faults."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from redis_throttle import LimitedError, Limiter, MistakeError, OutageError, Slots, asgi, fixed, rate, window
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter, ThrottleDev
from servers import ROOT

HOUR = rate(2, "1h")


@pytest.fixture(autouse=True)
def _built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THROTTLE_DEV", str(ROOT / "build/throttle-dev"))


def test_the_clock_is_the_tests(throttle: FakeLimiter) -> None:
    assert throttle.time == datetime(2000, 1, 1, tzinfo=UTC)
    assert [throttle.limit("k", HOUR).limited for _ in range(3)] == [False, False, True]
    throttle.advance("30m")
    assert throttle.limit("k", HOUR).allowed
    throttle.set_time(datetime(2026, 3, 28, 22, 30, tzinfo=UTC))
    assert throttle.limit("day", fixed(1, "1d", zone="Europe/Berlin")).reset_after == timedelta(minutes=30)
    with pytest.raises(ValueError, match="time zone"):
        throttle.set_time(datetime(2026, 1, 1))


def test_it_has_all_verbs(throttle: FakeLimiter) -> None:
    assert throttle.limit_any({"a": rate(1, "1h"), "b": rate(1, "1h")}).key == "a"
    assert throttle.refund("a", rate(1, "1h")) == 1
    assert throttle.ban("a", "1m") == timedelta(minutes=1)
    assert throttle.limit("a", rate(1, "1h")).banned
    assert throttle.reset("a")
    with throttle.admit({"t": rate(100, "1h", take=40), "s": Slots(1, "1m")}) as admission:
        admission.used("t", 10)
        with pytest.raises(LimitedError), throttle.lease("s", slots=1, ttl="1m"):
            pytest.fail("the slot is held")
    assert throttle.peek("t", rate(100, "1h")).remaining == 90
    assert [call.verb for call in throttle.asked][:4] == ["limit", "refund", "ban", "limit"]


def test_a_call_that_waits_moves_the_clock(throttle: FakeLimiter) -> None:
    began = throttle.time
    assert [throttle.wait("k", window(1, "10s")).wait for _ in range(3)] == [timedelta(0), timedelta(seconds=10), timedelta(seconds=10)]
    assert throttle.time - began == timedelta(seconds=20)
    with pytest.raises(LimitedError):
        throttle.wait("k", window(1, "10s"), timeout="9s")
    assert throttle.time - began == timedelta(seconds=20)


def test_faults(throttle: FakeLimiter) -> None:
    throttle.fail(times=2)
    for _ in range(2):
        with pytest.raises(OutageError):
            throttle.limit("k", HOUR)
    assert throttle.limit("k", HOUR).remaining == 1
    throttle.fail(MistakeError("no module"))
    with pytest.raises(MistakeError, match="no module"):
        throttle.limit("k", HOUR)
    throttle.lose_replies()
    with pytest.raises(OutageError):
        throttle.limit("k", HOUR)
    throttle.heal()
    assert throttle.peek("k", HOUR).remaining == 0, "the reply was lost, and the unit was charged"


def test_threads_may_share_it(throttle: FakeLimiter) -> None:
    allowed: list[bool] = []
    threads = [threading.Thread(target=lambda: allowed.extend(throttle.limit("k", fixed(50, "1d")).allowed for _ in range(20))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 50


async def test_the_one_of_asyncio(async_throttle: AsyncFakeLimiter) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    app = asgi.RateLimit(page, async_throttle, HOUR, outage="deny")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert [(await client.get("/")).status_code for _ in range(3)] == [200, 200, 429]
        async_throttle.advance("1h")
        assert (await client.get("/")).status_code == 200
        async_throttle.fail()
        assert (await client.get("/")).status_code == 503


def test_throttle_dev_is_moved_in_time() -> None:
    with ThrottleDev() as server, Limiter.from_url(server.url) as limiter:
        server.set_time(datetime(2026, 1, 31, 12, tzinfo=UTC))
        assert [limiter.limit("acme", fixed(1, "1mo")).limited for _ in range(2)] == [False, True]
        server.advance("1mo")
        assert server.time == datetime(2026, 2, 28, 12, tzinfo=UTC)
        assert limiter.limit("acme", fixed(1, "1mo")).allowed
        server.advance(timedelta(days=2))
        server.clear()
        assert limiter.peek("acme", fixed(1, "1mo")).remaining == 1
        with pytest.raises(ValueError, match=r"CL\.DEV\.ADVANCE"):
            server.advance("soon")


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THROTTLE_DEV")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="THROTTLE_DEV"):
        ThrottleDev()
    with pytest.raises(RuntimeError, match="did not start"):
        ThrottleDev("/bin/true")


PLUGIN = """
from redis_throttle import Limiter, rate

def test_first(throttle_dev):
    with Limiter.from_url(throttle_dev.url, timeout="5s") as limiter:
        assert limiter.limit("k", rate(1, "1h")).allowed
        throttle_dev.advance("1h")
        assert limiter.limit("k", rate(1, "1h")).allowed

def test_second(throttle_dev, throttle):
    with Limiter.from_url(throttle_dev.url, timeout="5s") as limiter:
        assert limiter.limit("k", rate(1, "1h")).allowed, "the keys of the first test are gone"
    assert throttle.limit("k", rate(1, "1h")).allowed
"""


def test_the_plugin(tmp_path: Any) -> None:
    (tmp_path / "test_mine.py").write_text(PLUGIN)
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "redis_throttle._pytest", "-p", "no:asyncio", str(tmp_path)],
                         cwd=tmp_path, capture_output=True, text=True)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_page_about_testing_says_what_works(tmp_path: Any) -> None:
    page = (ROOT / "docs/testing.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) >= 2
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(block)
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "redis_throttle._pytest", "-p", "no:asyncio", str(tmp_path)],
                         cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
