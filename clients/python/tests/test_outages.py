"""What an error says of a server that is out of reach, or does not let the client in: the table of all languages, on
real servers."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import re
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redis_throttle import Limiter, ThrottleError, fixed
from redis_throttle.asyncio import Limiter as AsyncLimiter
from servers import Cluster, Server, await_true, free_port

ROOT = pathlib.Path(__file__).parents[3]
TABLE = json.loads((ROOT / "spec/clients/outages.json").read_text())
FORMS = {"server": ("", ""), "cluster": ("+cluster", ""), "sentinel": ("+sentinel", "/mymaster")}
PER_HOUR = fixed(1000, "1h")


def certificate(folder: pathlib.Path, name: str, days: int) -> tuple[str, str]:
    """Make a certificate that signs itself, and return the files of its key and of itself."""
    key, request, cert, names = (str(folder / f"{name}.{kind}") for kind in ("key", "request", "cert", "names"))
    pathlib.Path(names).write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for words in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}"],
                  ["x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-extfile", names, "-out", cert]):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    return key, cert


class Closes(socketserver.BaseRequestHandler):
    """Closes a connection at once."""

    def handle(self) -> None:
        """Do nothing, after which the connection is closed."""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the servers of the table are; and the expired certificate, which the client trusts."""
    folder = tmp_path_factory.mktemp("outages")
    servers: list[Server] = []

    def start(*options: str) -> Server:
        servers.append(Server(*options))
        return servers[-1]

    def speaks_tls(name: str, days: int) -> tuple[str, str]:
        key, cert = certificate(folder, name, days)
        port = free_port()
        start("--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
        return f"localhost:{port}", cert

    hangs, locked = start(), start()
    hangs.pause()
    locked.do("CONFIG", "SET", "requirepass", "another")
    untrusted, _ = speaks_tls("untrusted", 2)
    expired, trusted = speaks_tls("expired", -1)
    with socketserver.ThreadingTCPServer(("127.0.0.1", free_port()), Closes) as closes:
        threading.Thread(target=closes.serve_forever, daemon=True).start()
        yield {
            "nobody listens": f"127.0.0.1:{free_port()}",
            "no such name": "nobody.invalid:6379",
            "hangs": f"127.0.0.1:{hangs.port}",
            "closes": f"127.0.0.1:{closes.server_address[1]}",
            "speaks TLS alone": untrusted,
            "speaks no TLS": f"localhost:{start().port}",
            "untrusted certificate": untrusted,
            "expired certificate": expired,
            "another password": f"127.0.0.1:{locked.port}",
            "a password": f"127.0.0.1:{locked.port}",
            "trusted": trusted,
        }
        closes.shutdown()
    for server in servers:
        server.stop()


def ask(asynchronous: bool, url: str, options: dict[str, Any]) -> ThrottleError:
    """Return the error of a call."""
    async def ask_async() -> None:
        async with AsyncLimiter.from_url(url, options=options) as limiter:
            await limiter.limit("k", PER_HOUR)

    try:
        if asynchronous:
            asyncio.run(ask_async())
        else:
            with Limiter.from_url(url, options=options) as limiter:
                limiter.limit("k", PER_HOUR)
    except ThrottleError as error:
        return error
    pytest.fail("the call was decided")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "asyncio"])
@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case in TABLE["cases"] for kind in case.get("kinds", FORMS)],
                         ids=lambda it: it["server"] if isinstance(it, dict) else it)
def test_an_error_names_the_server_and_what_is_wrong(at: dict[str, str], case: dict[str, Any], kind: str, asynchronous: bool,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "redis_throttle")
    form, rest = FORMS[kind]
    where = at[case["server"]]
    password = f":{TABLE['password']}@" if case.get("password") else ""
    url = f"redis{'s' if case.get('tls') else ''}{form}://{password}{where}{rest}"
    options = {"ssl_ca_certs": at["trusted"]} if case.get("tls") else {}
    errors: list[ThrottleError] = []

    def says() -> bool:  # a busy process may be too late for an answer, which is an overload
        error = ask(asynchronous, url, options)
        errors.append(error)
        # A cluster client asks a name's first address.
        names = where in str(error) or where.replace("localhost", "127.0.0.1") in str(error)
        return error.code == case["code"] and bool(re.search(case["says"], str(error), re.IGNORECASE)) and names

    try:
        await_true(says, "it says so")
    finally:
        assert TABLE["password"] not in "".join(map(str, errors)) + caplog.text
        print(case, errors[-1])


def test_keys_of_two_slots_need_a_hash_tag() -> None:
    cluster = Cluster()
    try:
        with redis.Redis(port=cluster.nodes[0].port) as client, pytest.raises(ThrottleError) as raised:
            Limiter(client).limit_all({"a": PER_HOUR, "b": PER_HOUR})
        assert raised.value.code == TABLE["crossslot"]["code"]
        assert re.search(TABLE["crossslot"]["says"], str(raised.value))
    finally:
        cluster.stop()
