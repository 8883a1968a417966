"""The examples for frameworks: the login pages of examples/, and routes and plans."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from servers import ROOT, Server

PACKAGE = ROOT / "clients/python"
BLOCKS = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S) + [page.read_text() for page in (PACKAGE / "examples").glob("*.py")]

Ask = Callable[..., httpx.Response]


def block(*words: str) -> str:
    [found] = [text for text in BLOCKS if all(word in text for word in words)]
    return str(found)


class Example:
    """An example in a module of its own, on a server, and a client that asks its application."""

    def __init__(self, server: Server, name: str, code: str) -> None:
        self.module: Any = types.ModuleType(name)
        sys.modules[name] = self.module  # where Django looks for urlpatterns
        exec(compile(code.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}"), name, "exec"), self.module.__dict__)
        self.runner = asyncio.Runner()
        app = getattr(self.module, "application", None) or self.module.app
        self.asynchronous = type(app).__name__ == "FastAPI"
        self.app = app

    def ask(self, method: str, url: str, address: str = "203.0.113.7", **options: Any) -> httpx.Response:
        if not self.asynchronous:
            with httpx.Client(transport=httpx.WSGITransport(self.app, remote_addr=address), base_url="http://test") as client:
                return client.request(method, url, **options)

        async def get() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app, client=(address, 1)), base_url="http://test") as client:
                return await client.request(method, url, **options)

        return self.runner.run(get())

    def close(self) -> None:
        if self.asynchronous:
            self.runner.run(self.module.limiter.close())
        else:
            self.module.limiter.close()
        self.runner.close()
        del sys.modules[self.module.__name__]


@pytest.fixture
def example(server: Server) -> Iterator[Callable[..., Ask]]:
    made: list[Example] = []

    def make(*words: str) -> Ask:
        code = block(*words)
        if "settings.configure(" in code:
            from django.conf import settings

            if settings.configured:  # by another test: the routes are given below
                code = re.sub(r"settings\.configure\(.*\)\n", "settings.ROOT_URLCONF = __name__\nsettings.ALLOWED_HOSTS = ['*']\n", code)
        made.append(Example(server, f"example_{len(made)}_{words[0].lower()}", code))
        return made[-1].ask

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("words", [("FastAPI(", "/login"), ("Flask(", "/login"), ("settings.configure(", "login")], ids=["FastAPI", "Flask", "Django"])
def test_a_login_page_stops_who_guesses_and_nobody_else(example: Callable[..., Ask], server: Server, words: tuple[str, ...]) -> None:
    ask = example(*words)

    def login(password: str, account: str = "ann", address: str = "203.0.113.7") -> httpx.Response:
        return ask("POST", "/login", address=address, data={"account": account, "password": password})

    guesses = [login("guess") for _ in range(15)]
    assert [answer.status_code for answer in guesses] == [401] * 5 + [429] * 10
    assert int(guesses[5].headers["Retry-After"]) <= 180
    assert int(guesses[14].headers["Retry-After"]) > 3500, "banned for an hour"
    assert login("correct horse").status_code == 429, "the password is not looked at"
    for spelling in ("Ann", "ANN", "ann ", " aNN", "\uff41nn"):
        assert login("correct horse", account=spelling).status_code == 429, f"{spelling!r} is the same account"
    assert '"address"' in guesses[5].headers["RateLimit"]
    assert '"account"' in guesses[5].headers["RateLimit"]
    assert ask("POST", "/login").status_code < 500, "nor is a body that is missing an error of the server"
    assert login("correct horse", address="198.51.100.2").status_code == 200, "its owner is not locked out"
    assert login("correct horse", account="bob").status_code == 200
    for _ in range(4):
        assert login("guess", account="eve").status_code == 401
    assert login("correct horse", account="eve").status_code == 200
    assert server.do("EXISTS", "{login:eve}:203.0.113.7") == 0, "a login that succeeds forgets the attempts"


def test_routes_and_plans_of_fastapi(example: Callable[..., Ask]) -> None:
    ask = example("PLANS", "FastAPI(")
    searches = [ask("GET", "/search")]
    while searches[-1].status_code == 200:
        assert len(searches) < 100
        searches.append(ask("GET", "/search"))
    assert len(searches) > 10
    assert searches[0].headers["RateLimit-Policy"] == '"default";q=10;w=60'
    assert searches[-1].status_code == 429
    assert searches[-1].json()["detail"]["title"] == "Quota Exceeded"
    assert ask("GET", "/search", address="198.51.100.2").status_code == 200
    free = ask("GET", "/items", headers={"api-key": "key-of-acme"})
    assert free.headers["RateLimit-Policy"] == '"second";q=6;w=3, "month";q=1000;w=2629746'
    assert free.headers["RateLimit"].startswith('"second";r=4;t=1, "month";r=999;t=')
    assert [ask("GET", "/items", headers={"api-key": "key-of-globex"}).status_code for _ in range(10)] == [200] * 10
    nobody = ask("GET", "/items", headers={"api-key": "made up"})
    assert (nobody.status_code, nobody.json()) == (200, [])
    assert "RateLimit" not in nobody.headers


def test_views_of_plain_django(example: Callable[..., Ask]) -> None:
    ask = example("django_views")
    searches = [ask("GET", "/search")]
    while searches[-1].status_code == 200:
        assert len(searches) < 100
        searches.append(ask("GET", "/search"))
    assert len(searches) > 10
    assert searches[0].headers["RateLimit-Policy"] == '"default";q=10;w=60'
    assert (searches[-1].status_code, searches[-1].json()["title"]) == (429, "Quota Exceeded")
    assert ask("GET", "/search", address="198.51.100.2").status_code == 200
    month = ask("GET", "/items", headers={"api-key": "key-of-acme"})
    assert (month.status_code, month.headers["RateLimit"].partition(";t=")[0]) == (200, '"default";r=999')
    assert ask("GET", "/items").status_code == 401
