"""The tables that every language is held to: addresses.json, networks.json, fields.json and undecided.json of
spec/clients."""

from __future__ import annotations

import ipaddress
import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest

from redis_throttle import (
    LeaseLostError,
    Limit,
    LimitedError,
    Limiter,
    MistakeError,
    OutageError,
    OverloadError,
    Result,
    ThrottleError,
    asgi,
    client_address,
    from_networks,
    wsgi,
)
from redis_throttle._web.address import within
from redis_throttle._web.fields import Policies, apart, header_fields
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import ROOT

ADDRESSES = json.loads((ROOT / "spec/clients/addresses.json").read_text())
NETWORKS = json.loads((ROOT / "spec/clients/networks.json").read_text())
FIELDS = json.loads((ROOT / "spec/clients/fields.json").read_text())
UNDECIDED = json.loads((ROOT / "spec/clients/undecided.json").read_text())


def asgi_scope(peer: str | None, *forwarded: str) -> dict[str, Any]:
    return {"type": "http", "client": None if peer is None else (peer, 4711), "headers": [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]}


def wsgi_environ(peer: str, *forwarded: str) -> dict[str, Any]:
    return {"REMOTE_ADDR": peer, **({"HTTP_X_FORWARDED_FOR": ",".join(forwarded)} if forwarded else {})}


@pytest.mark.parametrize("row", ADDRESSES["keys"], ids=lambda row: row["address"] or "none")
def test_the_key_of_an_address(row: dict[str, Any]) -> None:
    for source in (row["address"], asgi_scope(row["address"]), wsgi_environ(row["address"])):
        assert client_address(source, ipv6=row.get("ipv6", 64)) == row["key"]


@pytest.mark.parametrize("row", ADDRESSES["clients"], ids=lambda row: row["rule"])
def test_the_client_behind_proxies(row: dict[str, Any]) -> None:
    # A server decodes fields as Latin-1.
    forwarded = [value.encode().decode("latin-1") for value in row.get("forwarded", [])]
    for source in (asgi_scope(row["peer"], *forwarded), wsgi_environ(row["peer"], *forwarded)):
        assert client_address(source, trusted=ADDRESSES["trusted"]) == row["client"]


@pytest.mark.parametrize("row", NETWORKS["requests"], ids=lambda row: row["rule"])
def test_requests_of_networks(row: dict[str, Any]) -> None:
    forwarded = [value.encode().decode("latin-1") for value in row.get("forwarded", [])]
    is_within = from_networks(row.get("networks", NETWORKS["networks"]), trusted=row.get("trusted", NETWORKS["trusted"]))
    others = {"HTTP_FORWARDED": "for=10.2.3.4", "HTTP_X_REAL_IP": "10.2.3.4"}
    for source in (asgi_scope(row["peer"], *forwarded), {**wsgi_environ(row["peer"], *forwarded), **others}):
        assert is_within(source) is row["skipped"]


@pytest.mark.parametrize("option", ["skip", "trusted"])
@pytest.mark.parametrize("entry", NETWORKS["refused"])
def test_what_is_no_network_is_refused(entry: str, option: str) -> None:
    limit = Limit("RATE", 1, "1s")
    for make in (lambda: asgi.RateLimit(None, AsyncLimiter.from_url("redis://127.0.0.1:1"), limit, **{option: ["127.0.0.1", entry]}),  # type: ignore[arg-type]
                 lambda: wsgi.RateLimit(None, Limiter.from_url("redis://127.0.0.1:1"), limit, **{option: ["127.0.0.1", entry]}),  # type: ignore[arg-type]
                 lambda: wsgi.Concurrency(None, Limiter.from_url("redis://127.0.0.1:1"), 1, **{option: ["127.0.0.1", entry]})):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="^" + re.escape(f"{option}: {entry!r} is no address and no network")):
            make()


def test_the_error_says_how_a_network_is_written() -> None:
    for entry, network, address in (("10.1.2.3/8", "10.0.0.0/8", "10.1.2.3"), ("2001:db8::1/32", "2001:db8::/32", "2001:db8::1")):
        with pytest.raises(ValueError, match=re.escape(f"write '{network}', or the address '{address}'")):
            within([entry], ())
    for skip in ("10.0.0.0/8", True, 5, b"10.0.0.0/8", ipaddress.ip_network("10.0.0.0/30")):
        with pytest.raises(TypeError, match="skip must be a function of the request, or a list of addresses and networks"):
            within(skip, ())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="skip: 167772160 is no address"):
        within([167772160], ())  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^networks: '10\.1\.2\.3/8' is no address"):
        from_networks(["10.1.2.3/8"])


def test_a_server_that_has_no_address_says_so_in_several_ways() -> None:
    assert client_address({"type": "http", "client": None, "headers": []}) == "@"
    assert client_address({"type": "http"}) == "@"
    assert client_address({}) == "@"
    assert client_address({"REMOTE_ADDR": "localhost"}) == "@", "so waitress calls the peer at a Unix socket"


@pytest.mark.parametrize(("options", "says"), [
    ({"ipv6": 0}, "from 1 to 128"), ({"ipv6": 129}, "from 1 to 128"), ({"ipv6": True}, "from 1 to 128"),
    ({"trusted": "10.1.0.0/24"}, "a list"), ({"trusted": ["10.1.0.5/24"]}, "10.1.0.5/24"), ({"trusted": ["proxy"]}, "'proxy' is no address"),
])
def test_options_of_addresses_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        client_address("203.0.113.7", **options)
    for make in (lambda: asgi.RateLimit(None, AsyncLimiter.from_url("redis://127.0.0.1:1"), Limit("RATE", 1, "1s"), **options),  # type: ignore[arg-type]
                 lambda: wsgi.RateLimit(None, Limiter.from_url("redis://127.0.0.1:1"), Limit("RATE", 1, "1s"), **options)):  # type: ignore[arg-type]
        with pytest.raises((ValueError, TypeError), match=says):
            make()


def test_what_is_missing_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="redis_throttle"):
        for _ in range(3):
            client_address(wsgi_environ(""))
            client_address(wsgi_environ("10.1.0.1", "203.0.113.7"))
    assert [next(part for part in ("no address", "no proxy is trusted") if part in record.message) for record in caplog.records] == [
        "no address", "no proxy is trusted"]


def test_nothing_is_said_where_nothing_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="redis_throttle"):
        client_address(wsgi_environ("", "203.0.113.7"))
        client_address(wsgi_environ("198.51.100.1", "203.0.113.7"), trusted=["10.1.0.0/24"])
        client_address(asgi_scope("203.0.113.7", "203.0.113.7"))  # uvicorn has read the field already
    assert caplog.records == []


def limits_of(case: dict[str, Any]) -> tuple[Limit, ...]:
    return tuple(Limit(**limit) for limit in case["limits"])


def result_of(given: dict[str, Any]) -> Result:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name.endswith("_ms"):
            fields[name[:-3]] = None if value == -1 and name == "retry_after_ms" else timedelta(milliseconds=value)
        else:
            fields[{"key": "key_index", "shadow_key": "shadow_key_index"}.get(name, name)] = value
    return Result(**fields)


@pytest.mark.parametrize("case", FIELDS["cases"], ids=lambda case: case["rule"])
def test_the_header_fields_of_a_result(case: dict[str, Any]) -> None:
    limits, result = limits_of(case), result_of(case["result"])
    assert dict(header_fields([limits], result, "seconds")) == case["fields"]
    without = {name: value for name, value in case["fields"].items() if not name.startswith("X-")}
    assert dict(header_fields([limits], result)) == without


@pytest.mark.parametrize("case", FIELDS["together"], ids=lambda case: case["rule"])
def test_what_the_limits_of_a_response_are_called(case: dict[str, Any]) -> None:
    named = apart([limits_of({"limits": limits}) for limits in case["keys"]], set(case["taken"]))
    assert [[item.split(";")[0].strip('"') for item in Policies(limits).policy()] for limits in named] == case["names"]


@pytest.mark.parametrize("case", FIELDS["refused"], ids=lambda case: case["why"])
def test_what_a_header_field_cannot_carry_is_refused_at_construction(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        asgi.RateLimit(None, AsyncLimiter.from_url("redis://127.0.0.1:1"), limits_of(case))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ASCII"):
        wsgi.RateLimit(None, Limiter.from_url("redis://127.0.0.1:1"), limits_of(case))  # type: ignore[arg-type]


class Failing:
    """A limiter that decides nothing."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def decide(self, call: object) -> Result:
        raise self.error


ERRORS: dict[str, Exception] = {"outage": OutageError("away"), "overload": OverloadError("busy"), "mistake": MistakeError("wrong")}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("word", [None, *UNDECIDED["answers"]])
def test_what_becomes_of_a_request_that_could_not_be_decided(kind: str, word: str | None) -> None:
    served, began = [], []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        served.append(environ)
        start_response("200 OK", [])
        return []

    options: dict[str, Any] = {} if word is None else {kind: word}
    limited = wsgi.RateLimit(app, Failing(ERRORS[kind]), Limit("RATE", 1, "1s"), key=lambda environ: "k", **options)
    want = UNDECIDED["answers"][word or UNDECIDED["defaults"][kind]]
    try:
        list(limited({"REQUEST_METHOD": "GET"}, lambda status, headers, exc_info=None: began.append((int(status[:3]), dict(headers)))))
    except type(ERRORS[kind]):
        began.append((500, {}))
    [(status, headers)] = began
    assert (bool(served), status, headers.get("Retry-After")) == (want["served"], want["status"], want.get("retry_after"))


@pytest.mark.parametrize("word", UNDECIDED["refused"])
@pytest.mark.parametrize("kind", ERRORS)
def test_a_word_that_is_no_answer_is_refused_at_construction(kind: str, word: str) -> None:
    with pytest.raises(ValueError, match="allow"):
        wsgi.RateLimit(None, Failing(ERRORS[kind]), Limit("RATE", 1, "1s"), **{kind: word})  # type: ignore[arg-type]


def test_errors_have_the_codes_of_all_languages() -> None:
    errors: dict[str, type[ThrottleError]] = {
        "outage": OutageError, "overload": OverloadError, "mistake": MistakeError, "limited": LimitedError, "lease lost": LeaseLostError,
    }
    assert {name: error.code for name, error in errors.items()} | {"interrupted": "INTERRUPTED"} == UNDECIDED["codes"]  # which is asyncio's own error
