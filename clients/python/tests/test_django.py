"""The throttles under Django REST framework, each configuration in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from servers import ROOT, Server

NOWHERE = "redis://127.0.0.1:1"
DJANGO = """
import json, sys
import django
from django.conf import settings

given = json.loads(sys.argv[1])
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["rest_framework"], DATABASES={}, USE_TZ=True,
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_THROTTLE_CLASSES": ["redis_throttle.django.AnonRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": given["rate"]}, **given.get("framework", {}),
    },
    REDIS_THROTTLE=given["throttle"],
)
django.setup()
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView


class Page(APIView):
    def get(self, request):
        return Response("hello")


urlpatterns = [path("", Page.as_view())]
client = APIClient(raise_request_exception=False)
if given.get("used_up"):
    from redis_throttle.django import limiter
    limiter().client.connection_pool.max_connections = 1
    taken = limiter().client.connection_pool.get_connection("_")
print(json.dumps([[response.status_code, response.headers.get("Retry-After")] for response in (client.get("/", **meta) for meta in given["requests"])]))
"""


RECIPES = """
from redis_throttle.django import AnonRateThrottle, ScopedRateThrottle

said = []

class Parsing(AnonRateThrottle):  # of periods that the framework does not know
    rate = "2/15m"
    def parse_rate(self, rate):
        return 2, 900

class Setting(AnonRateThrottle):
    rate = "9/day"
    def __init__(self):
        super().__init__()
        self.num_requests, self.duration = 2, 900

class Choosing(AnonRateThrottle):  # by the request
    def allow_request(self, request, view):
        self.rate = "2/hour"
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

class Telling(AnonRateThrottle):
    rate = "2/day"
    def throttle_success(self):
        said.append("yes")
        return super().throttle_success()
    def throttle_failure(self):
        said.append("no")
        return super().throttle_failure()

class Nothing(AnonRateThrottle):
    rate = "many"
    def parse_rate(self, rate):
        return None, None

class Waiting(AnonRateThrottle):
    rate = "2/day"
    def wait(self):
        return 7

def asked(throttle):
    class Recipe(APIView):
        throttle_classes = [throttle]
        def get(self, request):
            return Response("hello")
    urlpatterns[:] = [path("", Recipe.as_view())]
    from django.urls import clear_url_caches
    clear_url_caches()
    from redis_throttle.django import limiter
    limiter().client.flushall()
    return [[r.status_code, r.headers.get("Retry-After")] for r in (client.get("/") for _ in range(3))]

print(json.dumps({throttle.__name__: asked(throttle) for throttle in (Parsing, Setting, Choosing, Telling, Waiting, Nothing)} | {"said": said}))
"""


FIELDS = """
from redis_throttle.django import AnonRateThrottle, ScopedRateThrottle, UserRateThrottle

class Burst(AnonRateThrottle):
    scope, rate = "burst", "2/hour"

class Sustained(AnonRateThrottle):
    scope, rate = "sustained", "RATE 5/h FIXED 9/d"

class Nameless(AnonRateThrottle):
    scope, rate = "\u00fcber", "2/hour"

class Tried(AnonRateThrottle):
    scope, rate = "tried", "RATE 5/h SHADOW"

def asked(*throttles):
    class Fields(APIView):
        throttle_classes = throttles
        def get(self, request):
            return Response("hello")
    urlpatterns[:] = [path("", Fields.as_view())]
    from django.urls import clear_url_caches
    clear_url_caches()
    from redis_throttle.django import limiter
    limiter().client.flushall()
    names = ("RateLimit-Policy", "RateLimit", "Retry-After")
    return [[r.status_code, *(r.headers.get(name) for name in names)] for r in (client.get("/") for _ in range(3))]

alone = Burst()
alone.allow_request(client.get("/").wsgi_request, None)  # of a view that is none of the framework
print(json.dumps({"both": asked(Burst, Sustained), "nameless": asked(Nameless)[0], "tried": asked(Tried)[0]}))
"""


SKIP = """
from rest_framework.settings import api_settings
from redis_throttle.django import AnonRateThrottle, ScopedRateThrottle, UserRateThrottle, _checked
from redis_throttle.testing import FakeLimiter

table = json.loads(open(given["table"], encoding="utf-8").read())

class User(UserRateThrottle):
    rate = "0/day"

class Scoped(ScopedRateThrottle):
    THROTTLE_RATES = {"page": "0/day"}

class Skipped(APIView):
    throttle_classes, throttle_scope = [AnonRateThrottle, User, Scoped], "page"
    def get(self, request):
        return Response("hello")

urlpatterns[:] = [path("", Skipped.as_view())]
fake = FakeLimiter()

def passes(row, **setting):
    settings.REDIS_THROTTLE = {"LIMITER": fake, "SKIP": row.get("networks", table["networks"]), "TRUSTED": row.get("trusted", table["trusted"]), **setting}
    forwarded = {"HTTP_X_FORWARDED_FOR": ", ".join(row["forwarded"])} if "forwarded" in row else {}
    response = client.get("/", REMOTE_ADDR=row["peer"], HTTP_FORWARDED="for=10.2.3.4", HTTP_X_REAL_IP="10.2.3.4", **forwarded)
    assert (response.status_code, "RateLimit" in response.headers) in ((200, False), (429, True)), response.status_code
    return response.status_code == 200

def refused(**setting):
    settings.REDIS_THROTTLE = {"LIMITER": fake, **setting}
    try:
        _checked()
    except django.core.exceptions.ImproperlyConfigured as error:
        return str(error)

wrong = [row["rule"] for row in table["requests"] if passes(row) != row["skipped"]]
charged = sum(call.keys[0].name.startswith("throttle_") for call in fake.asked)
api_settings.NUM_PROXIES = 1  # which a client can write, where nobody is in front
counted = [passes({"peer": "10.2.3.4"}, TRUSTED=[]), *(passes({"peer": peer, "forwarded": ["10.2.3.4"]}, TRUSTED=[]) for peer in ("10.1.0.1", "203.0.113.7"))]
print(json.dumps({
    "wrong": wrong, "charged": charged, "counted": counted,
    "said": {option: [refused(**{option: ["127.0.0.1", entry]}) for entry in table["refused"]] for option in ("SKIP", "TRUSTED")},
    "no list": [refused(SKIP=value) for value in ("10.0.0.0/8", None, len, 5)],
}))
"""


def test_requests_of_networks_are_not_limited() -> None:
    table = ROOT / "spec/clients/networks.json"
    given = {"rate": "0/day", "requests": [], "throttle": {"URL": NOWHERE}, "table": str(table)}
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO + SKIP, json.dumps(given)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    got = json.loads(ran.stdout.splitlines()[-1])
    assert got["wrong"] == []
    assert got["charged"] >= sum(not row["skipped"] for row in json.loads(table.read_text())["requests"]), "the others are limited"
    assert got["counted"] == [True, False, False], "NUM_PROXIES says nothing of who passes"
    for option, said in got["said"].items():
        assert len(said) > 40
        for text in said:
            assert re.match(rf"REDIS_THROTTLE: {'SKIP' if option == 'SKIP' else 'trusted'}: '.*' is no address and no network", str(text), re.DOTALL), text
    for text in got["no list"]:
        assert text.startswith("REDIS_THROTTLE: SKIP must be a list of addresses and networks, such as ["), text
    assert "Name the proxies in TRUSTED" in ran.stderr


def test_responses_have_the_fields_of_each_throttle(server: Server) -> None:
    given = {"rate": "9/day", "requests": [], "throttle": {"URL": server.url, "TIMEOUT": "5s"}}
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO + FIELDS, json.dumps(given)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    got = json.loads(ran.stdout.splitlines()[-1])
    policy = '"burst";q=2;w=3600, "sustained-1";q=5;w=3600, "sustained-2";q=9;w=86400'
    assert [(status, fields) for status, fields, _, _ in got["both"]] == [(200, policy), (200, policy), (429, policy)]
    first, second, third = (fields for _, _, fields, _ in got["both"])
    assert re.fullmatch(r'"burst";r=1;t=\d+, "sustained-1";r=4;t=720, "sustained-2";r=8;t=\d+', first)
    assert re.fullmatch(r'"burst";r=0;t=\d+, "sustained-1";r=3;t=\d+, "sustained-2";r=7;t=\d+', second)
    assert third.startswith('"burst";r=0;t=')
    assert 3500 < int(got["both"][2][3]) <= 3600
    assert got["nameless"][1] == '"default";q=2;w=3600', "a header field is ASCII"
    assert got["tried"] == [200, None, None, None], "no field tells of shadows"


def run_recipes(url: str) -> dict[str, Any]:
    given = {"rate": "9/day", "requests": [], "throttle": {"URL": url, "TIMEOUT": "5s"}}
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO + RECIPES, json.dumps(given)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def test_classes_may_be_written_as_those_of_the_framework_are(server: Server) -> None:
    """What its manual and its users write into subclasses limits here, too."""
    got = run_recipes(server.url)
    for name in ("Parsing", "Setting", "Choosing", "Telling", "Waiting"):
        assert [status for status, _ in got[name]] == [200, 200, 429], name
    assert got["Parsing"][2][1] == got["Setting"][2][1] == "900"
    assert got["Choosing"][2][1] == "3600"
    assert got["Waiting"][2][1] == "7"
    assert got["said"] == ["yes", "yes", "no"]
    assert [status for status, _ in got["Nothing"]] == [500] * 3, "a rate that says nothing is a mistake"


def run(rate: str = "2/day", requests: Any = ({},), framework: Any = None, used_up: bool = False, **throttle: Any) -> subprocess.CompletedProcess[str]:
    given = {"rate": rate, "requests": requests, "framework": framework or {}, "used_up": used_up,
             "throttle": {"TIMEOUT": "5s", **throttle}}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", DJANGO, json.dumps(given)], capture_output=True, text=True)


def ask(**options: Any) -> list[Any]:
    ran = run(**options)
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout))


def statuses(**options: Any) -> list[int]:
    return [status for status, _ in ask(**options)]


@pytest.mark.parametrize("rate", ["0/day", "0/m", "RATE 0/d", "RATE 5/s FIXED 0/d"])
def test_a_rate_of_0_lets_nobody_through(server: Server, rate: str) -> None:
    assert ask(rate=rate, URL=server.url) == [[429, None]]


@pytest.mark.parametrize(("answer", "want"), [(None, [200, None]), ("allow", [200, None]), ("deny", [503, "1"]), ("raise", [500, None])])
def test_an_outage_does_what_was_chosen(answer: str | None, want: list[Any]) -> None:
    assert ask(URL=NOWHERE, **({"OUTAGE": answer} if answer else {})) == [want]


@pytest.mark.parametrize(("answer", "want"), [(None, [503, "1"]), ("allow", [200, None]), ("raise", [500, None])])
def test_so_does_an_overload(server: Server, answer: str | None, want: list[Any]) -> None:
    assert ask(URL=server.url, used_up=True, **({"OVERLOAD": answer} if answer else {})) == [want]


@pytest.mark.parametrize(("answer", "want"), [(None, [500, None]), ("deny", [503, "1"]), ("allow", [200, None])])
def test_so_does_a_mistake(server: Server, answer: str | None, want: list[Any]) -> None:
    server.do("LPUSH", "throttle_anon_127.0.0.1", "1")
    assert ask(URL=server.url, **({"MISTAKE": answer} if answer else {})) == [want]


@pytest.mark.parametrize(("throttle", "says"), [
    ({"OUTAGE": "let through"}, 'called "allow" now'), ({"OUTAGE": "denny"}, "OUTAGE must be"), ({"OVERLOAD": "unavailable"}, "OVERLOAD must be"),
    ({"MISTAKE": True}, "MISTAKE must be"), ({"OUTGAE": "deny"}, "'OUTGAE' is none of"), ({"TRUSTED": "10.1.0.1"}, "TRUSTED|trusted"), ({"IPV6": 0}, "ipv6"),
    ({"SKIP": ["10.1.2.3/8"]}, "SKIP: '10.1.2.3/8' .* write '10.0.0.0/8'"), ({"SKIP": "10.0.0.0/8"}, "SKIP must be a list"),
    ({"COMMANDS": "lua"}, "commands must be"), ({"POLL": "soon"}, "poll"),
])
def test_a_setting_that_is_wrong_is_found_at_the_start(throttle: dict[str, Any], says: str) -> None:
    ran = run(URL=NOWHERE, requests=[], **throttle)
    assert ran.returncode != 0
    assert "ImproperlyConfigured" in ran.stderr
    assert re.search(says, ran.stderr)


def test_whom_a_request_without_a_user_counts_for(server: Server) -> None:
    """A client that sends another X-Forwarded-For each time is the same client; the framework by itself would take it
    for another."""
    def at(address: str, *forwarded: str) -> dict[str, str]:
        return {"REMOTE_ADDR": address, **({"HTTP_X_FORWARDED_FOR": ", ".join(forwarded)} if forwarded else {})}

    assert statuses(URL=server.url, requests=[at("203.0.113.9", f"198.51.100.{n}") for n in range(3)]) == [200, 200, 429]
    assert statuses(URL=server.url, requests=[at(f"2001:db8:1:2::{n}") for n in range(1, 4)]) == [200, 200, 429]
    assert statuses(URL=server.url, IPV6=48, requests=[at(f"2001:db8:2:{n}::1") for n in range(3)]) == [200, 200, 429]
    assert statuses(URL=server.url, requests=[at("203.0.113.10"), at("::ffff:203.0.113.10"), at("203.0.113.10")]) == [200, 200, 429]
    assert statuses(URL=server.url, requests=[at("")] * 3) == [200, 200, 429]
    proxied = [at("10.1.0.1", "198.51.100.1", "203.0.113.11"), at("10.1.0.2", "198.51.100.2", "203.0.113.11"), at("10.1.0.1", "203.0.113.11")]
    assert statuses(URL=server.url, TRUSTED=["10.1.0.0/24"], requests=proxied) == [200, 200, 429]
    server.do("FLUSHALL")
    assert statuses(URL=server.url, framework={"NUM_PROXIES": 1}, requests=proxied) == [200, 200, 429]
    assert statuses(URL=server.url, framework={"NUM_PROXIES": 0}, requests=proxied[:1] * 3) == [200, 200, 429]
    assert statuses(URL=server.url, framework={"NUM_PROXIES": 1}, TRUSTED=["10.1.0.0/24"], MISTAKE="deny", requests=proxied[:1]) == [503]


def test_the_setting_says_what_the_server_is_sent(own_server: Server) -> None:
    assert statuses(rate="1/day", requests=[{}, {}], URL=own_server.url, COMMANDS="functions", POLL="100ms") == [200, 429]
    sent = own_server.do("INFO", "commandstats")
    assert "cmdstat_fcall" in sent
    assert "cmdstat_cl.limit" not in sent
