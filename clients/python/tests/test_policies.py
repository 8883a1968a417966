"""Policies: spec/clients/policies.json in both forms, and what a table cannot say: when the hash is read, and by
whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from forks import ended_well, forked
from redis_throttle import Cached, Guard, Limit, LimitedError, Limiter, Policies, Remote, Result, Slots, fixed, policy, rate, window
from redis_throttle._core.call import Call, Key
from redis_throttle._core.limit import label
from redis_throttle._layers import policies
from redis_throttle._layers.policybook import Book
from redis_throttle._layers.rules import Rule, Rules, parse_field, parse_value
from redis_throttle._server import policyhash
from redis_throttle.asyncio import Guard as AsyncGuard
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Policies as AsyncPolicies
from redis_throttle.asyncio import Remote as AsyncRemote
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import PATIENCE, ROOT, Cluster, Server, await_true
from test_cases import call_of

SPEC = json.loads((ROOT / "spec/clients/policies.json").read_text())
HASH = "throttle:policies"
API = policy("api", rate(100, "1m"))
LONG = f"{PATIENCE}s"
"""How long servers may take on a busy machine."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Give the first reading more time than 200 ms, which a busy machine may need, where a test is not about it."""
    if request.node.get_closest_marker("defaults") is None:
        monkeypatch.setattr(policies, "FIRST", PATIENCE)


def limits_of(given: list[dict[str, Any]], name: str = "") -> tuple[Limit, ...]:
    limits = tuple(Limit(**limit) for limit in given)
    return policy(name, *limits) if name else limits


def asked(given: dict[str, Any]) -> Call:
    """Return a call of the table, whose keys may have policies."""
    names = [key.get("policy", "") for key in given["keys"]]
    plain = {**given, "keys": [{name: value for name, value in key.items() if name != "policy"} for key in given["keys"]]}
    if given["verb"] == "settle":
        keys = tuple(Key(key["name"], limits_of(key.get("limits", [])), leased="limits" not in key) for key in plain["keys"])
        call = Call("settle", keys, id=given["id"], several=True)
    elif given["verb"] == "wait":
        call = call_of({"max_wait": "1s", **plain})
    else:
        call = call_of(plain)
    keys = tuple(Key(key.name, policy(name, *key.limits) if name else key.limits, key.slots, key.ttl, key.leased)
                 for key, name in zip(call.keys, names, strict=True))
    return Call(**{field: getattr(call, field) for field in Call.__dataclass_fields__ if field != "keys"}, keys=keys)


class Next:
    """A decider that remembers what it was asked, and answers as the table says."""

    def __init__(self, result: Result | None = None) -> None:
        self.result, self.asked = Result() if result is None else result, list[Call]()

    def decide(self, call: Call, /) -> Result:
        self.asked.append(call)
        return self.result


class AsyncNext(Next):
    async def decide(self, call: Call, /) -> Result:  # type: ignore[override]
        return super().decide(call)


def result_of(given: dict[str, Any] | None) -> Result | None:
    return None if given is None else Result(**{"key_index" if name == "key" else name: value for name, value in given.items()})


@pytest.mark.parametrize("name", SPEC["names"]["good"])
def test_a_name(name: str) -> None:
    [limit] = policy(name, rate(1, "1m"))
    assert limit.policy_name == name
    assert limit == rate(1, "1m"), "a name changes no limit"
    assert limit.replace(take=3).policy_name == name


@pytest.mark.parametrize("name", SPEC["names"]["bad"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 of"):
        policy(name, rate(1, "1m"))


@pytest.mark.parametrize("case", SPEC["values"], ids=lambda case: case["value"][:60] or "empty")
def test_a_value(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises((ValueError, TypeError)) as raised:
            parse_value("api", case["value"])
        assert case["error"] in str(raised.value)
        return
    value = parse_value("api", case["value"])
    assert (value.limits == ()) == case.get("none", False)
    assert value.limits == limits_of(case.get("limits", []))
    assert [limit.name for limit in value.limits] == [limit.get("name", "") for limit in case.get("limits", [])]
    assert [label(value.limits, rule) for rule in range(len(value.limits))] == case.get("names", [])
    assert (value.ban, value.ban_after) == (case.get("ban"), case.get("ban_after"))


@pytest.mark.parametrize("case", SPEC["fields"], ids=lambda case: case["field"] or "empty")
def test_a_field(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(ValueError, match="not the name of a policy"):
            parse_field(case["field"])
        return
    field = parse_field(case["field"])
    assert (field.name, field.key, field.prefix) == (case["name"], case.get("key", case.get("prefix")), "prefix" in case)


CHOICES = Rules(Rule.read(field, parse_field(field), text) for field, text in SPEC["choices"]["hash"].items())


@pytest.mark.parametrize("case", SPEC["choices"]["of"], ids=lambda case: f"{case['name']} {case['key']}")
def test_which_field_counts(case: dict[str, Any]) -> None:
    for key in (case["key"], case["key"].encode()):
        rule = CHOICES.choose(case["name"], key)
        assert (None if rule is None else rule.field) == case["field"]


@pytest.mark.parametrize("form", ["threads", "asyncio"])
@pytest.mark.parametrize("case", SPEC["calls"], ids=lambda case: case["name"])
def test_what_is_handed_on(case: dict[str, Any], form: str) -> None:
    call, given = asked(case["call"]), result_of(case.get("next"))
    lines: list[str] = []
    results: list[Result] = []
    if form == "threads":
        next = Next(given)
        layer = Policies(next, lambda: case["hash"], log=lines.append)
        results += [layer.decide(call), layer.decide(call)]
    else:
        next = AsyncNext(given)
        their = AsyncPolicies(next, lambda: case["hash"], log=lines.append)

        async def decide() -> None:
            results.extend([await their.decide(call), await their.decide(call)])

        asyncio.run(decide())
    assert results[0] == results[1]
    if case["passes_on"] is None:
        assert next.asked == []
    else:
        assert next.asked == [asked(case["passes_on"])] * 2
    for name, value in case.get("result", {}).items():
        assert getattr(results[0], "key_index" if name == "key" else name) == value
    said = [line for line in lines if not line.startswith(f"{HASH}: ")]
    assert len(said) == bool(case["logs"])
    for part in case["logs"]:
        assert part in said[0]
    if "names" in case:
        assert [[label(key.limits, rule) for rule in range(len(key.limits))] for key in next.asked[0].keys] == case["names"]
    changed = case["passes_on"] is None or [key.limits for key in next.asked[0].keys] != [key.limits for key in call.keys]
    assert bool(results[0].policies) >= changed
    for applied, key in zip(results[0].policies, call.keys, strict=bool(results[0].policies)):
        if applied is not None:
            assert (applied.name, applied.field) == (key.limits[0].policy_name, CHOSEN(case["hash"], key))


def CHOSEN(hash: dict[str, str], key: Key) -> str:  # noqa: N802
    found = Rules(Rule.read(field, parse_field(field), text) for field, text in hash.items() if "RTE" not in text)
    rule = found.choose(key.limits[0].policy_name, key.name)
    assert rule is not None
    return rule.field


@pytest.mark.parametrize("form", ["threads", "asyncio"])
@pytest.mark.parametrize("case", SPEC["reads"], ids=lambda case: case["name"])
def test_readings(case: dict[str, Any], form: str) -> None:
    """Each step is one reading, to which the time jumps, and what is said of it and counts then."""
    lines: list[str] = []
    step: dict[str, Any] = {}
    done = 0

    def hash() -> Mapping[str, str]:
        nonlocal done
        done += 1
        if step["hash"] is None:
            raise ConnectionError("away")
        return dict(step["hash"])

    layer: Any = Policies(Next(), hash, log=lines.append) if form == "threads" else AsyncPolicies(AsyncNext(), hash, log=lines.append)

    async def decide(call: Call) -> None:
        decided = layer.decide(call)
        if form == "asyncio":
            await decided

    async def read(number: int) -> None:
        layer._due = 0.0
        await decide(Call("peek", (Key("k", API),)))
        ends = time.monotonic() + PATIENCE
        while (done < number or (layer._reading if form == "threads" else not layer._reading[0].done())) and time.monotonic() < ends:
            await asyncio.sleep(0.001)
        assert done == number

    async def steps() -> None:
        for number, one in enumerate(case["steps"], 1):
            step.update(one)
            lines.clear()
            await read(number)
            assert len(lines) == len(one["logs"]), lines
            for said in one["logs"]:
                assert any(said in line for line in lines), (said, lines)
            for counts in one["counts"]:
                rule = layer._book._rules.choose(counts["name"], counts["key"])
                assert (None if rule is None else rule.value.text) == counts["value"]

    asyncio.run(steps())


def taken(book: Book, hash: dict[str, str]) -> None:
    for _ in book.take(hash):
        pass


def test_of_many_changes_the_first_are_said() -> None:
    lines: list[str] = []
    book = Book(HASH, lines.append)
    taken(book, {f"api/user:{n:03}": "RATE 1/m" for n in range(100)})
    assert lines == [f"{HASH}: 100 policies"]
    lines.clear()
    taken(book, {f"api/user:{n:03}": "RATE 2/m" for n in range(100)})
    assert lines == [f'policy api/user:{n:03} is "RATE 2/m" now, it was "RATE 1/m"' for n in range(20)] + [f"{HASH}: 80 more changes"]


def test_the_hash_is_read_whole_once_in_a_minute_whatever_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    book = Book(HASH, lambda line: None)
    assert book.version() is None
    taken(book, {"@version": "7"})
    assert book.version() == "7"
    now += 59
    assert book.version() == "7"
    now += 1
    assert book.version() is None


def test_no_line_of_the_log_can_be_made_by_a_value() -> None:
    lines: list[str] = []
    taken(Book(HASH, lines.append), {"a\nb": "x", "api/\udcff\n": "RATE x", "api": 'RATE "\n'})
    assert len(lines) == 3
    for line in lines:
        line.encode()
        assert "\n" not in line


def test_all_limits_of_a_key_have_one_policy() -> None:
    limiter = Limiter(Policies(FakeLimiter(), dict))
    for limits in ((API, policy("other", rate(1, "1m"))), (API, rate(1, "1m"))):
        with pytest.raises(ValueError, match="have one policy"):
            limiter.limit("k", *limits)


def test_limits_go_wherever_limits_go() -> None:
    limiter = Limiter(Policies(FakeLimiter(), lambda: {"api": "RATE 2/m"}))
    assert [limiter.limit("k", API).limited for _ in range(3)] == [False, False, True]
    assert limiter.peek("k", API).limit == 2
    assert limiter.refund("k", API) == 1
    assert limiter.limit_all({"k": API}).allowed
    with pytest.raises(LimitedError) as raised:
        limiter.wait("k", API, timeout="1ms")
    assert [one and one.field for one in raised.value.result.policies] == ["api"]


def test_the_first_key_with_room_may_be_one_without_a_limit() -> None:
    limiter = Limiter(Policies(FakeLimiter(), lambda: {"free": "NONE"}))
    keys: Any = {"a": rate(1, "1h"), "b": policy("free", rate(1, "1h")), "c": rate(1, "1h")}
    results = [limiter.limit_any(keys) for _ in range(3)]
    assert [(result.key, result.key_index, result.by) for result in results] == [("a", 0, "server"), ("b", 1, "none"), ("b", 1, "none")]


def test_an_admission_settles_what_it_has_taken() -> None:
    """The policy lets all through, has changed, or is rehearsed by a shadow that was not charged."""
    hash = {"tokens": "RATE 1000/h"}
    fake = FakeLimiter()
    limiter = Limiter(layer := Policies(fake, lambda: hash))

    def left(limit: Limit) -> int:
        return fake.peek("{k}:tokens", limit).remaining

    def admitted(used: int, then: str) -> None:
        fake.reset("{k}:tokens")
        keys: Any = {"{k}:tokens": policy("tokens", rate(100, "1h", take=80)), "{k}:slots": Slots(1, "1m")}
        with limiter.admit(keys) as admission:
            admission.used("{k}:tokens", used)
            hash["tokens"] = then
            layer._due = 0.0
            await_true(lambda: (limiter.peek("k", policy("tokens", rate(1, "1m"))), layer._book._read.texts["tokens"] == then)[1], "it is read")  # type: ignore[union-attr]

    admitted(300, "RATE 500/h")
    assert left(rate(1000, "1h")) == 700
    admitted(300, "NONE")
    assert left(rate(500, "1h")) == 200
    admitted(300, "RATE 1000/h WINDOW 50/h SHADOW")
    assert left(rate(1000, "1h")) == 1000
    admitted(30, "RATE 1000/h")
    assert left(rate(1000, "1h")) == 970
    assert left(window(50, "1h")) == 50


def test_a_cache_forgets_with_the_number() -> None:
    hash = {"api": "RATE 1/h"}
    limiter = Limiter(layer := Policies(Cached(FakeLimiter()), lambda: hash))
    assert [limiter.limit("k", API).by for _ in range(3)] == ["server", "server", "cache"]
    hash["api"] = "RATE 10/h"
    layer._due = 0.0
    await_true(lambda: limiter.limit("k", API, cost=0).limit == 10, "the number is read")
    assert limiter.limit("k", API).by == "server"


def test_a_guard_decides_by_the_limits_that_count() -> None:
    away = FakeLimiter()
    away.fail()
    limiter = Limiter(Policies(Guard(away, policy="local"), lambda: {"api": "RATE 7/h"}))
    result = limiter.limit("k", API)
    assert (result.by, result.limit) == ("local", 7)


@pytest.mark.parametrize(("options", "error", "says"), [
    ({"refresh": "0"}, ValueError, "refresh"), ({"refresh": 1}, TypeError, "refresh"), ({"name": ""}, ValueError, "name"), ({"log": 3}, TypeError, "log"),
])
@pytest.mark.parametrize("form", [Policies, AsyncPolicies])
def test_options_are_checked(form: Any, options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        form(Next(), dict, **options)
    with pytest.raises(TypeError, match="next must be a decider"):
        form("x", dict)
    with pytest.raises(TypeError, match="give the client"):
        form(Next())


def test_what_a_hook_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def hook(line: str) -> None:
        raise RuntimeError("broken")

    limiter = Limiter(Policies(FakeLimiter(), lambda: {"api": "RATE 2/m"}, log=hook))
    with caplog.at_level(logging.ERROR, logger="redis_throttle"):
        assert limiter.limit("k", API).limit == 2
    await_true(lambda: any("the log of policies has failed" in record.message for record in caplog.records), "it is told")


# When the hash is read.


class Source:
    """A hash that counts how often it is read, and may be slow."""

    def __init__(self, **hash: str) -> None:
        self.hash, self.reads, self.threads = hash, 0, set[str]()
        self.go = threading.Event()
        self.go.set()

    def __call__(self) -> dict[str, str]:
        self.reads += 1
        self.threads.add(threading.current_thread().name)
        self.go.wait(PATIENCE)
        return dict(self.hash)


def test_one_reading_at_a_time_and_none_without_calls() -> None:
    source = Source(api="RATE 2/m")
    limiter = Limiter(Policies(FakeLimiter(), source, refresh="10ms"))
    limiter.limit("k", rate(1, "1m"))
    assert source.reads == 0, "no policy was asked for"
    limiter.limit("k", API)
    assert source.reads == 1
    source.go.clear()
    await_true(lambda: (limiter.peek("k", API), source.reads)[1] == 2, "a later call has it read again")
    for _ in range(100):
        limiter.peek("k", API)  # which does not wait
    assert source.reads == 2
    source.go.set()
    assert source.threads == {"throttle-policies"}


@pytest.mark.defaults
def test_the_first_call_waits_shortly_and_the_default_counts() -> None:
    source = Source(api="RATE 2/m")
    source.go.clear()
    limiter = Limiter(Policies(FakeLimiter(), source, refresh="1h"))
    assert limiter.peek("k", API).limit == 100
    source.go.set()
    await_true(lambda: limiter.peek("k", API).limit == 2, "the reading ends in the background")
    assert source.reads == 1


@pytest.mark.defaults
async def test_so_does_that_of_asyncio() -> None:
    go, reads = asyncio.Event(), 0

    async def source() -> dict[str, str]:
        nonlocal reads
        reads += 1
        await go.wait()
        return {"api": "RATE 2/m"}

    limiter = AsyncLimiter(AsyncPolicies(AsyncFakeLimiter(), source, refresh="1h"))
    results = await asyncio.gather(*[limiter.peek("k", API) for _ in range(10)])
    assert {result.limit for result in results} == {100}
    go.set()
    await until(lambda: limiter.peek("k", API), lambda result: result.limit == 2)
    assert reads == 1
    await limiter.close()


async def until(act: Callable[[], Awaitable[Result]], is_right: Callable[[Result], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_right(await act()):
            await asyncio.sleep(0.002)


def test_a_function_that_never_returns_ends_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "_LOST", 0.05)
    hang, calls, lines = threading.Event(), list[int](), list[str]()

    def read() -> dict[str, str]:
        calls.append(len(calls) + 1)
        n = calls[-1]
        if n == 2 or n > 3:
            hang.wait()
        return {"api": f"RATE {n}/h"}

    layer = Policies(FakeLimiter(), read, refresh="1ms", log=lines.append)

    def asks(count: int) -> bool:
        return Limiter(layer).peek("k", API).limit == count

    try:
        assert asks(1)
        await_true(lambda: asks(3) or len(calls) > 3, "the third reading counts")
        assert any("no answer within" in line for line in lines)
        await_true(lambda: (asks(3), len(calls))[1] == 3 + policyhash.MOST_LOST, "all hang")
        for _ in range(20):
            assert asks(3)
            time.sleep(0.01)
        assert len(calls) == 3 + policyhash.MOST_LOST, "those that hang are not piled up"
    finally:
        hang.set()
    await_true(lambda: layer._lost == 0, "all have returned")


async def test_those_of_asyncio_that_cannot_be_cancelled_are_not_piled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policyhash, "_PATIENCE", 0.01)
    hang, calls, lines = asyncio.Event(), list[int](), list[str]()

    async def read() -> dict[str, str]:
        calls.append(len(calls) + 1)
        n = calls[-1]
        while n > 1 and not hang.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await hang.wait()
        return {"api": f"RATE {n}/h"}

    limiter = AsyncLimiter(AsyncPolicies(AsyncFakeLimiter(), read, refresh="1ms", log=lines.append))
    try:
        await until(lambda: limiter.peek("k", API), lambda result: len(calls) == 1 + policyhash.MOST_LOST)
        for _ in range(20):
            assert (await limiter.peek("k", API)).limit == 1
            await asyncio.sleep(0.01)
        assert len(calls) == 1 + policyhash.MOST_LOST
        assert ["no answer within" in line for line in lines[1:]] == [True], "a failure is said once"
    finally:
        hang.set()
    await until(lambda: limiter.peek("k", API), lambda result: result.limit == calls[-1] > 1 + policyhash.MOST_LOST)
    await limiter.close()


async def test_nor_does_one_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policyhash, "_PATIENCE", 0.05)
    calls: list[int] = []

    async def read() -> dict[str, str]:
        calls.append(len(calls) + 1)
        if len(calls) == 2:
            await asyncio.Event().wait()
        return {"api": f"RATE {len(calls)}/h"}

    limiter = AsyncLimiter(AsyncPolicies(AsyncFakeLimiter(), read, refresh="1ms", log=lambda line: None))
    assert (await limiter.peek("k", API)).limit == 1
    ends = time.monotonic() + PATIENCE
    while (await limiter.peek("k", API)).limit < 3 and time.monotonic() < ends:
        await asyncio.sleep(0.01)
    assert len(calls) >= 3
    await limiter.close()


async def test_a_function_of_asyncio_does_not_outlive_the_layer() -> None:
    calls, began, ended = list[int](), asyncio.Event(), asyncio.Event()

    async def read() -> dict[str, str]:
        calls.append(1)
        if len(calls) > 1:
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
        return {}

    limiter = AsyncLimiter(AsyncPolicies(AsyncFakeLimiter(), read, refresh="1ms", log=lambda line: None))
    while not began.is_set():
        await limiter.peek("k", API)
        await asyncio.sleep(0.002)
    await limiter.close()
    await asyncio.wait_for(ended.wait(), 1)


def test_a_limiter_of_a_module_is_used_in_any_number_of_loops() -> None:
    hash = {"api": "RATE 1/m"}
    hangs = asyncio.Event

    async def source() -> dict[str, str]:
        if hash["api"] == "hang":
            await hangs().wait()
        return dict(hash)

    limiter = AsyncLimiter(AsyncPolicies(AsyncFakeLimiter(), source, refresh="1ms"))

    async def peek(n: int) -> None:
        await until(lambda: limiter.peek("k", API), lambda result: result.limit == n)

    for n in range(1, 4):
        hash["api"] = f"RATE {n}/m"
        asyncio.run(peek(n))

    async def leave() -> None:
        hash["api"] = "hang"
        for _ in range(20):
            await asyncio.sleep(0.001)
            await limiter.peek("k", API)

    asyncio.run(leave())  # which ends amid a reading
    hash["api"] = "RATE 9/m"
    asyncio.run(peek(9))
    errors: list[BaseException] = []

    def in_a_thread(n: int) -> None:
        try:
            asyncio.run(peek(n))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=in_a_thread, args=(9,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# On servers.


def odd_values() -> list[str]:
    own = {"RATE": ["", "BURST 1", f"BURST {2**63 - 1}"], "WINDOW": [""], "FIXED": ["", "FIRST", "OFFSET 1h", "OFFSET 36500d", "OFFSET 40000d", "TZ UTC",
           "TZ europe/berlin", "TZ Europe/Berlin", "TZ ../etc"]}
    periods = ["0.000001ms", "7ns", "3.5s", "1d", "36500d", "36501d", "292y", "100y", "1w", "5300w", "1mo", "1201mo"]
    more = ["RATE 5/m OFFSET 0", "WINDOW 5/m BURST 1", "FIXED 5/d FIRST TZ UTC", "RATE 05/m", "RATE 5/m SHADOW SHADOW", "RATE 5/M"]
    counts = (0, 1, 2**53, 2**63 - 1)
    return more + [f"{kind} {count}/{period} {word}" for kind, words in own.items() for count in counts for period in periods for word in words]


def test_a_value_that_is_read_is_one_that_the_server_takes(server: Server) -> None:
    """Otherwise a typo would make a mistake of each call, and not nothing."""
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        for value in (values := odd_values()):
            pipeline.execute_command("CL.PEEK", "k", *value.split())
        replies = pipeline.execute(raise_on_error=False)

    def is_read(value: str) -> bool:
        with contextlib.suppress(ValueError, TypeError):
            return parse_value("api", value) is not None
        return False

    read = [value for value in values if is_read(value)]
    assert read == [value for value, reply in zip(values, replies, strict=True) if not isinstance(reply, Exception)]
    assert 100 < len(read) < len(values) - 100


@pytest.fixture(params=["redis", "valkey", "decoded", "resp3"])
def client(server: Server, request: pytest.FixtureRequest) -> Any:
    import redis
    import valkey

    kind = str(request.param)
    if kind == "valkey":
        return valkey.Valkey(port=server.port, socket_timeout=PATIENCE)
    return redis.Redis(port=server.port, socket_timeout=PATIENCE, decode_responses=kind == "decoded", protocol=3 if kind == "resp3" else 2)


def test_it_is_read_over_any_client(server: Server, client: Any) -> None:
    server.do("HSET", HASH, "api", "RATE 60/m", "api/Zoë*", "RATE 5/m", "api/raw", b"\xff", b"api/\xff", "RATE 6/m")
    with contextlib.closing(client), Limiter(Policies(Guard(Remote(client, timeout=LONG)), client)) as limiter:
        assert limiter.limit("k", API).limit == 60
        assert limiter.limit("Zoë:1", API).limit == 5
        assert limiter.limit(b"\xff", API).limit == 6  # type: ignore[arg-type]
        assert limiter.client is client


def test_it_is_read_over_the_client_behind(server: Server) -> None:
    server.do("HSET", HASH, "api", "RATE 60/m")
    remote = Remote.from_url(server.url, timeout=LONG)
    for layer in (Policies(Guard(remote)), Policies(Guard(remote), remote), Policies(Limiter(remote))):
        assert layer.decide(Call("peek", (Key("k", API),))).limit == 60
    remote.close()


def test_it_is_read_from_a_cluster(cluster: Cluster) -> None:
    cluster.owner(HASH).do("HSET", HASH, "api", "RATE 60/m")
    with Limiter(Policies(Guard(Remote.from_url(cluster.url, timeout=LONG)))) as limiter:
        assert [limiter.limit(f"k{n}", API).limit for n in range(12)] == [60] * 12


@pytest.mark.parametrize("library", ["redis", "valkey"])
async def test_it_is_read_over_a_client_of_asyncio(server: Server, cluster: Cluster, library: str) -> None:
    server.do("HSET", HASH, "api", "RATE 60/m")
    cluster.owner(HASH).do("HSET", HASH, "api", "RATE 60/m")
    for url in (server.url, cluster.url):
        async with AsyncLimiter(AsyncPolicies(AsyncGuard(AsyncRemote.from_url(url.replace("redis", library), timeout=LONG)))) as limiter:
            assert (await limiter.limit("k", API)).limit == 60


async def test_connections_of_a_client_of_asyncio_stay_its_own(server: Server) -> None:
    import redis.asyncio

    server.do("HSET", HASH, "api", "RATE 60/m")
    client = redis.asyncio.Redis(port=server.port, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
    async with client, AsyncLimiter(layer := AsyncPolicies(AsyncFakeLimiter(), client)) as limiter:
        assert (await limiter.limit("k", API)).limit == 60
        source: Any = layer._source
        [line] = source._remote._lines.all()
        assert line.client is not client
        assert client.connection_pool._available_connections == []


def reads_of(server: Server) -> tuple[int, int]:
    with server.client() as client:
        stats: Any = client.info("commandstats")
    return tuple(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("hgetall", "hget"))


def test_with_a_version_it_is_read_whole_when_that_changes(server: Server) -> None:
    server.do("HSET", HASH, "api", "RATE 60/m", "@version", "1")
    server.do("CONFIG", "RESETSTAT")
    with Limiter(Policies(Guard(Remote.from_url(server.url, timeout=LONG)), refresh="5ms")) as limiter:
        await_true(lambda: (limiter.peek("k", API), reads_of(server)[1])[1] >= 5, "it looks at the version")
        assert reads_of(server)[0] == 1
        server.do("HSET", HASH, "api", "RATE 30/m", "@version", "2")
        await_true(lambda: limiter.peek("k", API).limit == 30, "the new version is read")
        assert reads_of(server)[0] == 2


def test_a_right_that_lacks_is_named(own_server: Server) -> None:
    own_server.do("ACL", "SETUSER", "app", "on", ">secret", "~k", "+cl.limit", "+cl.peek", "+ping", "+hello", "+client")
    lines: list[str] = []
    url = own_server.url.replace("redis://", "redis://app:secret@")
    with Limiter(Policies(Guard(Remote.from_url(url, timeout=LONG)), refresh="5ms", log=lines.append)) as limiter:
        assert limiter.peek("k", API).limit == 100
        await_true(lambda: len(lines) == 1, "it is told")
        assert "the defaults of the code count" in lines[0]
        assert "+hgetall +hget %R~throttle:policies" in lines[0]
        own_server.do("HSET", HASH, "api", "RATE 60/m")
        own_server.do("ACL", "SETUSER", "app", "+hgetall", "+hget", f"%R~{HASH}")
        await_true(lambda: limiter.peek("k", API).limit == 60, "it is read again")
        await_true(lambda: lines[1:] == [f"{HASH} is read again", f"{HASH}: 1 policy"], "so it says")


def test_what_was_read_counts_while_the_server_is_away(own_server: Server) -> None:
    own_server.do("HSET", HASH, "api", "RATE 60/m")
    lines: list[str] = []
    with Limiter(Policies(Guard(Remote.from_url(own_server.url, timeout=LONG), policy="local"), refresh="5ms", log=lines.append)) as limiter:
        assert limiter.limit("k", API).limit == 60
        own_server.kill()
        await_true(lambda: limiter.limit("k", API).by == "local" and len(lines) == 2, "the outage is seen")
        assert "what was read last counts" in lines[1]
        assert limiter.limit("k", API).limit == 60


class Load:
    """Callers that ask again and again, until they are told to stop."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.results: list[list[tuple[float, Result]]] = []
        self.errors: list[BaseException] = []

    def note(self, results: list[tuple[float, Result]], began: float, result: Result) -> None:
        results.append((began, result))

    def thread(self, limiter: Limiter) -> None:
        mine: list[tuple[float, Result]] = []
        self.results.append(mine)
        try:
            while not self.stop.is_set():
                began = time.monotonic()
                mine.append((began, limiter.limit("user:42", policy("api", fixed(1000, "300d", first=True)))))
        except BaseException as error:
            self.errors.append(error)

    def loop(self, limiter: AsyncLimiter) -> None:
        async def ask() -> None:
            mine: list[tuple[float, Result]] = []
            self.results.append(mine)
            while not self.stop.is_set():
                began = time.monotonic()
                mine.append((began, await limiter.limit("user:42", policy("api", fixed(1000, "300d", first=True)))))

        async def run() -> None:
            await asyncio.gather(ask(), ask())

        try:
            asyncio.run(run())
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.timeout(120)
def test_a_number_is_changed_under_load(server: Server) -> None:
    """Two processes' worth of limiters, each with two callers. The limit goes from 1000 to 300, and to 400."""
    server.do("HSET", HASH, "other", "RATE 1/m")
    mine = [Limiter(Policies(Guard(Remote.from_url(server.url, timeout=LONG)), refresh="20ms")) for _ in range(2)]
    theirs = [AsyncLimiter(AsyncPolicies(AsyncGuard(AsyncRemote.from_url(server.url, timeout=LONG)), refresh="20ms")) for _ in range(2)]
    load = Load()
    threads = [threading.Thread(target=load.thread, args=(limiter,)) for limiter in mine for _ in range(2)]
    threads += [threading.Thread(target=load.loop, args=(limiter,)) for limiter in theirs]
    for thread in threads:
        thread.start()

    def decided_by(limit: int) -> bool:
        return len(load.results) == 8 and all(mine and mine[-1][1].limit == limit for mine in load.results)

    try:
        await_true(lambda: decided_by(1000), "everybody asks, by the number of the code")
        server.do("HSET", HASH, "api", "FIXED 300/300d FIRST")
        await_true(lambda: decided_by(300) or bool(load.errors), "everybody decides by the new number")
        server.do("HSET", HASH, "api", "FIXED 1400/300d FIRST")
        await_true(lambda: decided_by(1400) or bool(load.errors), "everybody decides by the next number")
        await_true(lambda: all(mine[-1][1].limited for mine in load.results) or bool(load.errors), "all units are gone")
    finally:
        load.stop.set()
        for thread in threads:
            thread.join()
        for limiter in mine:
            limiter.close()
    assert load.errors == [], "no call has failed"
    every = [result for results in load.results for _, result in results]
    assert {result.limit for result in every} == {1000, 300, 1400}
    assert {tuple(one and one.field for one in result.policies) for result in every} == {(), ("api",)}
    passed = sum(result.granted for result in every if not result.limited)
    assert passed == 1400, "as many units as the last number, which is the highest, and no more"
    for limit in (1000, 300):
        assert all(result.limited or result.remaining < limit for result in every if result.limit == limit)


def test_children_read_for_themselves(server: Server) -> None:
    """A process that forks amid a reading, as gunicorn and Celery do: no child waits for it, or for a lock."""
    server.do("HSET", HASH, "api", "RATE 60/m")
    source = Source(api="RATE 60/m")
    slow = Limiter(amid := Policies(FakeLimiter(), source, refresh="1ms"))
    plain = Limiter(Policies(Guard(Remote.from_url(server.url, timeout=LONG)), refresh="1ms"))
    assert plain.limit("k", API).limit == slow.limit("k", API).limit == 60
    source.go.clear()
    await_true(lambda: (slow.peek("k", API), amid._reading)[1], "a thread reads")
    server.do("HSET", HASH, "api", "RATE 30/m")

    def in_the_child() -> None:
        source.go = threading.Event()
        source.go.set()
        source.hash["api"] = "RATE 30/m"
        for limiter in (slow, plain):
            await_true(lambda limiter=limiter: limiter.peek("k", API).limit == 30, "the child reads")  # type: ignore[misc]

    with amid._lock:
        children = [forked(in_the_child) for _ in range(2)]
        ended_well(*children)
    source.go.set()
    plain.close()


@pytest.mark.parametrize("form", ["threads", "asyncio"])
def test_a_reading_keeps_no_interpreter_from_its_exit(form: str) -> None:
    import subprocess
    import sys

    program = {"threads": """
import threading
from redis_throttle import Limiter, Policies, policy, rate
from redis_throttle.testing import FakeLimiter
def source():
    threading.Event().wait()
limiter = Limiter(Policies(FakeLimiter(), source))
print(limiter.limit("k", policy("api", rate(100, "1m"))).limit)
import atexit
atexit.register(lambda: print(limiter.limit("k", policy("api", rate(100, "1m"))).limit))
""", "asyncio": """
import asyncio
from redis_throttle import policy, rate
from redis_throttle.asyncio import Limiter, Policies
from redis_throttle.testing import AsyncFakeLimiter
async def source():
    await asyncio.Event().wait()
limiter = Limiter(Policies(AsyncFakeLimiter(), source))
async def main():
    print((await limiter.limit("k", policy("api", rate(100, "1m")))).limit)
asyncio.run(main())
asyncio.run(main())
"""}[form]
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "100\n100\n", "")
