"""Servers without the module: the library is found, loaded or replaced, or scripts are sent, and each call is charged
once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import pathlib
import re
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis

from redis_throttle import FOREVER, Call, Key, LimitedError, Limiter, MistakeError, OutageError, Remote, Result, Slots, fixed, rate, window
from redis_throttle._server import doors
from redis_throttle._server.polling import Pause, pause, polling
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.testing import FakeLimiter
from servers import ROOT, Ask, Cluster, Server, await_true

DAY = fixed(10, "1d")


@pytest.fixture(scope="module")
def _bare() -> Iterator[Server]:
    server = Server(with_module=False)
    yield server
    server.stop()


@pytest.fixture
def bare(_bare: Server) -> Server:
    """A server without the module, the library, scripts and keys."""
    for words in (("FLUSHALL",), ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH")):
        _bare.do(*words)
    allow(_bare)
    return _bare


def allow(server: Server, *but: str) -> None:
    """Allow the limiter's user everything but some."""
    server.do("ACL", "SETUSER", "limiter", "reset", "on", ">secret", "~*", "&*", "+@all", *but)


def url_of(server: Server) -> str:
    return server.url.replace("redis://", "redis://limiter:secret@")


def library(number: int) -> str:
    """Return the library as one of another version."""
    return doors.library().replace(f"local VERSION = {doors.version()}", f"local VERSION = {number}", 1)


def named(number: int) -> str:
    return library(number).replace("name=throttle", f"name=throttle_{number}", 1)


def libraries(server: Server) -> list[str]:
    found = server.do("FUNCTION", "LIST")
    return sorted(entry[b"library_name"].decode() if isinstance(entry, dict) else entry[1].decode() for entry in found)


def sent(server: Server) -> dict[str, int]:
    """Return how often a server was sent what decides."""
    stats = server.client().info("commandstats")
    return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}


def test_the_package_carries_the_library() -> None:
    text = (ROOT / "functions/throttle.lua").read_text()
    assert doors.library() == text
    assert doors.script() == text.partition("\n")[2]
    assert doors.sha() == hashlib.sha1(doors.script().encode()).hexdigest()
    assert doors._dotted(doors.version()) == tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]["version"]


RIGHTS = {"load": ("-function|load",), "function": ("-fcall", "-fcall_ro", "-function"), "script": ("-fcall", "-fcall_ro", "-function", "-eval", "-evalsha")}

TABLE = json.loads((ROOT / "spec/clients/doors.json").read_text())["cases"]


def told(text: str) -> str:
    """Return a text of the table with versions for N, N-1 and N+1."""
    number = doors.version()
    return re.sub(r"\bN([+-]1)?\b", lambda match: doors._dotted(number + int(match[1] or 0)), text)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["rule"])
def test_a_case_of_the_table(bare: Server, server: Server, get: Ask, caplog: pytest.LogCaptureFixture, case: dict[str, Any]) -> None:
    there = server if case.get("module") else bare
    for words in (("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH")):
        there.do(*words)
    if "library" in case:
        number = doors.version() + int(case["library"].removeprefix("N") or 0)
        there.do("FUNCTION", "LOAD", library(number) if case.get("by_hand") else named(number))
    if "theirs" in case:
        there.do("FUNCTION", "LOAD", f"#!lua name=theirs\n{case['theirs']}")
    allow(there, *case.get("acl", ()))
    limiter = get.limiter(url_of(there), commands=case["commands"])
    sends = {"module": "cl.limit", "library": "fcall", "script": "evalsha"}.get(case["door"])
    if "inspect" in case:
        with pytest.raises(MistakeError, match=case["inspect"]):
            get(limiter.inspect("k"))
    with caplog.at_level(logging.INFO, logger="redis_throttle"):
        for left in (4, 3):
            before = sent(there)
            if sends is None:
                with pytest.raises(MistakeError, match=case.get("says", ".")):
                    get(limiter.limit("k", fixed(5, "1d")))
            else:
                assert get(limiter.limit("k", fixed(5, "1d"))).remaining == left
    if sends is not None:
        assert sent(there)[sends] - before.get(sends, 0) == 1
    assert len(libraries(there)) == (1 if "loaded" in case or "theirs" in case else 0)
    if "loaded" in case:
        there_is = there.do("FCALL_RO", "cl_version", "0")
        assert doors._dotted(there_is) == told(case["loaded"])
    lines = [record for record in caplog.records if record.getMessage().startswith("redis-throttle: ")]
    assert len(lines) == (1 if "log" in case else 0)
    if "log" in case:
        assert told(case["log"]) in lines[0].getMessage()
        assert f"127.0.0.1:{there.port}" in lines[0].getMessage()
        assert lines[0].levelname == ("WARNING" if case["door"] == "script" else "INFO")
    for n, moment in enumerate(case.get("then", ()), 3):
        there.do(*moment.split())
        assert get(limiter.limit("k", fixed(5, "1d"))).remaining == 5 - n
    get(limiter.close())


def test_a_server_that_is_sent_scripts_is_asked_again_later(bare: Server, get: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(bare, *RIGHTS["load"])
    limiter = get.limiter(url_of(bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    allow(bare)
    assert get(limiter.limit("k", DAY)).remaining == 8
    assert libraries(bare) == []
    monkeypatch.setattr(doors, "_ASKED_AFTER", 0.0)
    assert get(limiter.limit("k", DAY)).remaining == 7
    assert libraries(bare) == [f"throttle_{doors.version()}"]
    get(limiter.close())


def test_a_library_of_somebody_else_is_not_deleted(bare: Server, get: Ask) -> None:
    bare.do("FUNCTION", "LOAD", "#!lua name=throttle\nredis.register_function('theirs', function() return 'theirs' end)")
    bare.do("FUNCTION", "LOAD", named(doors.version() - 1))
    limiter = get.limiter(url_of(bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    assert libraries(bare) == ["throttle", f"throttle_{doors.version()}"]
    get(limiter.close())


def test_every_verb_has_the_answer_of_the_module(bare: Server, server: Server, get: Ask) -> None:
    """One after the other on a server with the module and one without."""

    def acts(limiter: Any) -> list[Any]:
        some: list[Any] = [
            lambda: limiter.limit("k", DAY, rate(5, "1h", burst=9), cost=3, each=True), lambda: limiter.limit("k", DAY, rate(5, "1h", burst=9), cost=20),
            lambda: limiter.peek("k", DAY, rate(5, "1h", burst=9)), lambda: limiter.refund("k", DAY, rate(5, "1h", burst=9), cost=2),
            lambda: limiter.limit_all({"{t}:a": DAY, "{t}:b": window(2, "1h")}, cost=2), lambda: limiter.limit_all({"{t}:a": DAY, "{t}:b": window(2, "1h")}),
            lambda: limiter.limit_any({"{t}:b": window(2, "1h"), "{t}:a": DAY}), lambda: limiter.ban("k", "1h"), lambda: limiter.ban("k", "0"),
            lambda: limiter.limit("w", window(1, "1h"), ban="1h", ban_after="2/1h"), lambda: limiter.reset("w"), lambda: limiter.release("jobs", id="a"),
            lambda: limiter.renew("jobs", id="a", ttl="1m"), lambda: limiter.limit("q", rate(1, "1h"), max_wait="5h"),
        ]
        return [get(act()) for act in some]

    def shown(answers: list[Any]) -> list[Any]:
        return [(a.limited, a.key, a.rule, a.limit, a.remaining, a.granted, a.banned, len(a.each)) if isinstance(a, Result) else
                round(a.total_seconds()) if isinstance(a, timedelta) else a for a in answers]

    with_module, without = get.limiter(server.url), get.limiter(url_of(bare))
    assert shown(acts(without)) == shown(acts(with_module))
    for limiter, there in ((with_module, server), (without, bare)):
        lease = limiter.lease("jobs", slots=1, ttl="1m", id="mine")
        get(lease.take())
        with pytest.raises(LimitedError):
            get(limiter.lease("jobs", slots=1, ttl="1m").take())
        get(lease.release())
        assert there.do("EXISTS", "jobs") == 0
        admission = limiter.admit({"{t}:tokens": rate(100, "1d", take=50), "{t}:running": Slots(1, "1m")})
        get(admission.take())
        admission.used("{t}:tokens", 20)
        get(admission.settle())
        assert get(limiter.peek("{t}:tokens", rate(100, "1d"))).remaining == 80
        get(limiter.close())


MOMENTS: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
    ("FUNCTION FLUSH", (), [("FUNCTION", "FLUSH")]),
    ("SCRIPT FLUSH", RIGHTS["function"], [("SCRIPT", "FLUSH")]),
    ("functions are allowed", RIGHTS["function"], [("SCRIPT", "FLUSH"), ("ACL", "SETUSER", "limiter", "+@all")]),
]


@pytest.mark.parametrize(("rights", "then"), [moment[1:] for moment in MOMENTS], ids=[moment[0] for moment in MOMENTS])
def test_what_is_gone_is_looked_for_within_the_call_and_charged_once(bare: Server, get: Ask, rights: tuple[str, ...], then: list[tuple[str, ...]]) -> None:
    allow(bare, *rights)
    limiter = get.limiter(url_of(bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    for words in then:
        bare.do(*words)
    assert get(limiter.limit("k", DAY)).remaining == 8
    assert get(limiter.limit("k", DAY)).remaining == 7
    get(limiter.close())


def test_a_server_that_gets_the_module_is_sent_its_commands(own_bare: Server, get: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """As after a failover: it has the module and no library."""
    from servers import module

    limiter = get.limiter(own_bare.url)
    assert get(limiter.limit("k", DAY)).remaining == 9
    own_bare.do("FUNCTION", "FLUSH")
    own_bare.do("MODULE", "LOAD", module())
    with caplog.at_level(logging.INFO, logger="redis_throttle"):
        assert get(limiter.limit("k", DAY)).remaining == 8, "the key goes on"
    assert "has the module: calls are sent as its commands" in caplog.text
    assert libraries(own_bare) == []
    get(limiter.close())


def test_a_module_that_appears_is_noticed_also_without_an_outage(own_bare: Server, get: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library, and the connection, stay as they are. A program that only waits notices it as well."""
    from servers import module

    monkeypatch.setattr(doors, "_ASKED_AFTER", 1.0)
    limiter, waits = get.limiter(own_bare.url), get.limiter(own_bare.url)
    assert get(limiter.limit("k", DAY)).remaining == 9
    with pytest.raises(MistakeError, match="module"):
        get(waits.wait("w", DAY))
    own_bare.do("MODULE", "LOAD", module())

    def noticed(act: Any, key: str, command: str) -> bool:
        try:
            get(act(key, DAY))
        except MistakeError:
            return False
        return command in sent(own_bare)

    await_true(lambda: noticed(limiter.limit, "k", "cl.limit"), "calls are sent as commands")
    await_true(lambda: noticed(waits.wait, "w", "cl.wait"), "callers wait")
    get(limiter.close())
    get(waits.close())


@pytest.fixture
def own_bare() -> Iterator[Server]:
    server = Server(with_module=False)
    yield server
    server.stop()


def test_a_newer_library_that_comes_in_between_is_left_there(bare: Server, get: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process puts one there after this one has seen an older one, or none."""
    newer = doors.version() + 100
    for older in (None, doors.version() - 1):
        bare.do("FUNCTION", "FLUSH")
        if older is not None:
            bare.do("FUNCTION", "LOAD", named(older))
        there = iter([older])
        real = doors.Alone

        def asked(commands: Any, key: Any, then: Any = (), real: Any = real, there: Any = there) -> Any:
            if commands[0][0] not in ("FCALL", "FCALL_RO") and next(there, ...) is not ...:
                bare.do("FUNCTION", "FLUSH")
                bare.do("FUNCTION", "LOAD", named(newer))
            return real(commands, key, then)

        monkeypatch.setattr(doors, "Alone", asked)
        limiter = get.limiter(url_of(bare))
        get(limiter.limit("k", DAY))
        assert libraries(bare) == [f"throttle_{newer}"], older
        get(limiter.close())
        monkeypatch.undo()


def test_callers_that_begin_together_load_one_library(bare: Server) -> None:
    limiter, left = Limiter.from_url(url_of(bare)), []
    barrier = threading.Barrier(20)

    def call() -> None:
        barrier.wait()
        left.append(limiter.limit("k", fixed(100, "1d")).remaining)

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(left) == list(range(80, 100)), "each was charged once"
    assert bare.client().info("commandstats")["cmdstat_function|load"]["calls"] >= 1
    limiter.close()


async def test_so_do_tasks(bare: Server) -> None:
    before = bare.client().info("commandstats").get("cmdstat_function|load", {"calls": 0})["calls"]
    async with AsyncLimiter.from_url(url_of(bare)) as limiter:
        left = await asyncio.gather(*(limiter.limit("k", fixed(1000, "1d")) for _ in range(50)))
        assert sorted(result.remaining for result in left) == list(range(950, 1000))
    assert bare.client().info("commandstats")["cmdstat_function|load"]["calls"] - before == 1


def test_an_outage_while_it_asks_is_an_outage(own_bare: Server, get: Ask) -> None:
    limiter = get.limiter(own_bare.url, timeout="1s")
    own_bare.pause()
    with pytest.raises(OutageError):
        get(limiter.limit("k", DAY))
    own_bare.resume()
    own_bare.do("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(OutageError):
        get(limiter.limit("k", DAY))
    own_bare.do("REPLICAOF", "NO", "ONE")

    def works() -> bool:
        try:
            return get(limiter.limit("k", DAY)) is not None
        except OutageError:
            return False

    await_true(works, "it has found the library")
    get(limiter.close())


def test_a_server_that_became_a_replica_is_an_outage_also_for_a_script(own_bare: Server, get: Ask) -> None:
    """Redis 7.0 puts ERR before what a script has met."""
    allow(own_bare, *RIGHTS["function"])
    limiter = get.limiter(url_of(own_bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    own_bare.do("REPLICAOF", "127.0.0.1", "1")
    for _ in range(2):
        with pytest.raises(OutageError):
            get(limiter.limit("k", DAY))
    own_bare.do("REPLICAOF", "NO", "ONE")
    assert get(limiter.limit("k", DAY)).remaining == 8
    get(limiter.close())


def test_a_choice_is_kept(bare: Server, server: Server, get: Ask) -> None:
    limiter = get.limiter(url_of(bare), commands="module")
    with pytest.raises(MistakeError, match="unknown command"):
        get(limiter.limit("k", DAY))
    get(limiter.close())
    assert libraries(bare) == []
    limiter = get.limiter(server.url, commands="functions")
    assert get(limiter.limit("k", DAY)).remaining == 9
    get(limiter.close())
    with Limiter.from_url(server.url) as other:
        assert other.limit("k", DAY).remaining == 8, "both work on a key in turns"
    server.do("FUNCTION", "FLUSH")


def test_a_server_that_takes_nothing_says_so(bare: Server, get: Ask) -> None:
    allow(bare, *RIGHTS["script"])
    limiter = get.limiter(url_of(bare))
    for _ in range(2):
        with pytest.raises(MistakeError, match=r"no throttle\.so, and refuses functions \(.*\) and scripts"):
            get(limiter.limit("secret", DAY))
    get(limiter.close())


def test_a_call_that_waits_polls_where_it_may(bare: Server, get: Ask) -> None:
    limiter = get.limiter(url_of(bare))
    with pytest.raises(MistakeError, match=r"CL\.WAIT needs the module, or the option poll"):
        get(limiter.wait("k", rate(1, "1s"), timeout="5s"))
    get(limiter.close())
    limiter = get.limiter(url_of(bare), poll="50ms")
    for limits in (rate(1, "200ms"), window(1, "200ms")):
        key = str(limits)
        for _ in range(3):
            assert get(limiter.wait(key, limits, timeout="30s")).allowed
        with pytest.raises(LimitedError):
            get(limiter.wait(key, fixed(1, "1d"), cost=2, timeout=FOREVER))
    get(limiter.limit("full", window(1, "1h")))
    with pytest.raises(LimitedError):
        get(limiter.wait("full", window(1, "1h"), timeout="20ms"))
    get(limiter.ban("banned", "2h"))
    for limits in (rate(5, "1s"), window(5, "1s")):  # at once: the ban lasts longer
        with pytest.raises(LimitedError):
            get(limiter.wait("banned", limits, timeout="1h"))
    get(limiter.limit("late", rate(1, "1h")))
    with pytest.raises(LimitedError):  # at once: the units would come too late
        get(limiter.wait("late", rate(1, "1h"), timeout="30m"))
    with pytest.raises(MistakeError, match="group, weight and priority need the module"):
        get(limiter.wait("k", window(1, "1s"), timeout="1s", group="a"))
    first = limiter.lease("jobs", slots=1, ttl="1m")
    get(first.take())
    with pytest.raises(LimitedError):
        get(limiter.lease("jobs", slots=1, ttl="1m", timeout="20ms").take())
    get(first.release())
    second = limiter.lease("jobs", slots=1, ttl="1m", timeout="30s")
    get(second.take())
    get(second.release())
    get(limiter.close())


async def test_a_caller_that_leaves_gives_back_what_it_had_reserved(bare: Server) -> None:
    limits = rate(1, "1h")
    async with AsyncLimiter.from_url(url_of(bare), poll="50ms") as limiter:
        await limiter.limit("k", limits)
        waiting = asyncio.create_task(limiter.wait("k", limits))
        while (await limiter.peek("k", limits)).retry_after < timedelta(minutes=90):  # type: ignore[operator]
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(30):
            while (await limiter.peek("k", limits)).retry_after > timedelta(minutes=60):  # type: ignore[operator]
                await asyncio.sleep(0.005)


def test_pauses_are_as_long_as_it_takes_and_come_apart() -> None:
    short, long = [pause(0.1, 1) for _ in range(200)], [pause(10, 1) for _ in range(200)]
    assert 0.1 <= min(short) < max(short) <= 0.11
    assert 0.5 <= min(long) < max(long) <= 1
    assert pause(0, 1) == 0.001


def test_the_last_question_is_asked_when_the_time_is_over() -> None:
    times = iter((0.0, 0.0, 0.0095, 0.01, 0.01))
    steps = polling(Call("wait", (Key("k", (DAY,)),), max_wait="10ms"), 1, lambda: next(times))
    fake = FakeLimiter()
    fake.limit("k", DAY, cost=10)
    limited = fake.peek("k", DAY)
    assert isinstance(next(steps), Call)
    for left in (0.01, 0.0005):
        paused = steps.send(limited)
        assert isinstance(paused, Pause)
        assert paused.seconds == pytest.approx(left)
        assert isinstance(next(steps), Call)
    with pytest.raises(StopIteration) as end:
        steps.send(limited)
    assert end.value.value.wait == timedelta(milliseconds=10)


@pytest.mark.parametrize(("options", "says"), [
    ({"commands": "lua"}, '"auto", "module" or "functions"'), ({"poll": "0"}, "poll.*not positive"), ({"poll": 3}, "poll.*unit"),
])
def test_options_are_checked_at_construction(options: Any, says: str) -> None:
    for make in (lambda: Limiter.from_url("redis://127.0.0.1:1", **options), lambda: AsyncLimiter.from_url("redis://127.0.0.1:1", **options),
                 lambda: Limiter(redis.Redis(), **options), lambda: Remote(redis.Redis(), **options)):
        with pytest.raises((TypeError, ValueError), match=says):
            make()
    with pytest.raises(TypeError, match="poll is for a limiter on a client"):
        Limiter(FakeLimiter(), poll="1s")


def test_a_cluster_has_a_door_for_each_master(get: Ask) -> None:
    cluster = Cluster(node_timeout_ms=60_000, with_module=False)
    try:
        cluster.nodes[0].do("ACL", "SETUSER", "default", *RIGHTS["function"])
        limiter = get.limiter(cluster.url)
        keys = [next(key for key in map(str, range(1000)) if cluster.owner(key) is node) for node in cluster.nodes]
        for _ in range(2):
            for key in keys:
                assert get(limiter.limit(key, DAY)).allowed
        assert get(limiter.limit_all({"{t}:a": DAY, "{t}:b": DAY})).allowed
        assert [libraries(node) for node in cluster.nodes[1:]] == [[f"throttle_{doors.version()}"]] * 2
        assert "evalsha" in sent(cluster.nodes[0])
        for key in keys:
            assert get(limiter.peek(key, DAY)).remaining == 8
        get(limiter.close())
    finally:
        cluster.stop()


def test_the_wheel_has_the_library(tmp_path: pathlib.Path) -> None:
    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "build", "-q", "--no-isolation", "--outdir", tmp_path, ROOT / "clients/python"], check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read("redis_throttle/_server/throttle.lua").decode() == doors.library()


MISSING = json.loads((ROOT / "spec/clients/missing.json").read_text())


@pytest.mark.parametrize("case", MISSING["cases"], ids=lambda case: f"{case['sent']}: {case['reply'][:50]}")
def test_an_answer_says_whether_the_command_is_there(case: dict[str, Any]) -> None:
    try:
        from redis._parsers import BaseParser
    except ImportError:  # redis-py 4
        from redis.connection import BaseParser  # type: ignore[attr-defined]

    error = BaseParser.parse_error(case["reply"])  # type: ignore[no-untyped-call]
    there = case["leads_to"] in ("mistake", "outage", "load", "again", "EVAL") or "READONLY" in case["reply"]
    assert doors.is_missing(error) is not there
    if "lacks" in case and case["reply"].startswith("NOPERM"):
        assert doors.right_of(error) == case["lacks"]
    assert "beginning with" not in doors._text(error)


def test_a_user_who_may_only_read_functions_is_sent_scripts(bare: Server, get: Ask) -> None:
    allow(bare, "-fcall")
    limiter = get.limiter(url_of(bare))
    assert [get(limiter.limit("k", DAY)).remaining for _ in range(2)] == [9, 8]
    get(limiter.close())


def test_functions_that_are_flushed_between_two_questions_are_loaded(bare: Server, get: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.do("FUNCTION", "LOAD", named(doors.version()))
    real: Any = doors.Alone
    flushed: list[Any] = []

    def asked(commands: Any, key: Any, then: Any = ()) -> Any:
        if commands[0][:2] == ["FCALL_RO", "cl_peek"] and not flushed:
            flushed.append(bare.do("FUNCTION", "FLUSH"))
        return real(commands, key, then)

    monkeypatch.setattr(doors, "Alone", asked)
    limiter = get.limiter(url_of(bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    assert flushed
    assert libraries(bare) == [f"throttle_{doors.version()}"]
    get(limiter.close())


def test_a_library_whose_text_names_ours_is_somebody_elses(bare: Server, get: Ask) -> None:
    bare.do("FUNCTION", "LOAD", "#!lua name=throttle\nredis.register_function('not_cl_version', function() return 'cl_version' end)")
    bare.do("FUNCTION", "LOAD", named(doors.version() - 1))
    limiter = get.limiter(url_of(bare))
    assert get(limiter.limit("k", DAY)).remaining == 9
    assert libraries(bare) == ["throttle", f"throttle_{doors.version()}"]
    get(limiter.close())


def test_scripts_that_only_read_are_sent_as_others_where_evalsha_ro_is_refused(bare: Server, get: Ask) -> None:
    allow(bare, *RIGHTS["function"], "-evalsha_ro", "-eval_ro")
    limiter = get.limiter(url_of(bare))
    get(limiter.limit("k", DAY))
    assert get(limiter.peek("k", DAY)).remaining == 9
    get(limiter.close())


def test_a_right_that_lacks_is_told_by_its_name(bare: Server, server: Server, get: Ask, caplog: pytest.LogCaptureFixture) -> None:
    allow(server, "-cl.limit")
    limiter = get.limiter(url_of(server))
    with caplog.at_level(logging.INFO, logger="redis_throttle"):
        assert get(limiter.limit("k", DAY)).remaining == 9
    assert "does not let this user run cl.limit" in caplog.text
    get(limiter.close())
