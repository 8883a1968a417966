"""Recipes of the manual of Django REST framework: our throttles beside its own, compared by what gets through."""

from __future__ import annotations

import json
import subprocess
import sys

from servers import Server

# Both modules have the same names, so each recipe is set up twice.
PROGRAM = """
import json, sys
import django
from django.conf import settings

given = json.loads(sys.argv[1])
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["rest_framework"], DATABASES={}, USE_TZ=True,
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
            "alternate": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "alternate"},
            "redis": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": given["url"]}},
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_THROTTLE_RATES": {"anon": "2/day", "user": "3/day", "burst": "2/hour", "sustained": "3/day", "contacts": "2/day", "uploads": "1/day",
                                   "login": "2/hour", "none": None},
    },
    REDIS_THROTTLE={"URL": given["url"], "TIMEOUT": "5s"},
)
django.setup()
import redis_throttle.django
from django.core.cache import caches
from django.urls import clear_url_caches, path
from rest_framework import throttling
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView


class User:
    is_authenticated = True

    def __init__(self, pk):
        self.pk = pk


def view(*throttles, **attributes):
    def hello(self, request):
        return Response("hello")
    return type("Page", (APIView,), {"throttle_classes": throttles, "get": hello, "post": hello, **attributes}).as_view()


def settings_of_all(m):
    return {"": view(m.AnonRateThrottle, m.UserRateThrottle)}


def several(m):
    class Burst(m.UserRateThrottle):
        scope = "burst"

    class Sustained(m.UserRateThrottle):
        scope = "sustained"
    return {"": view(Burst, Sustained)}


def scoped(m):
    return {name: view(m.ScopedRateThrottle, throttle_scope=scope) for name, scope in (("list", "contacts"), ("detail", "contacts"), ("upload", "uploads"))} | {
        "free": view(m.ScopedRateThrottle)}


def another_cache(m):
    class Own(m.AnonRateThrottle):
        cache = caches["alternate"]
    return {"": view(Own)}


def login(m):
    class Login(m.SimpleRateThrottle):
        scope = "login"

        def get_cache_key(self, request, view):
            return self.cache_format % {"scope": self.scope, "ident": request.data.get("account")} if request.method == "POST" else None
    return {"": view(Login)}


def rolling(m):
    class Old(throttling.AnonRateThrottle):
        cache = caches["redis"]

    class New(redis_throttle.django.AnonRateThrottle):
        pass
    return {"old": view(Old), "new": view(New)}  # of both, whichever is asked for


def no_rate(m):
    class Unlimited(m.AnonRateThrottle):
        scope = "none"
    return {"": view(Unlimited)}


def play(recipe, m, requests):
    urlpatterns[:] = [path(route, view) for route, view in globals()[recipe](m).items()]
    clear_url_caches()
    for cache in caches.all():
        cache.clear()
    redis_throttle.django.limiter().client.flushall()
    statuses = []
    for method, url, user, data in requests:
        client = APIClient()
        if user:
            client.force_authenticate(User(user))
        statuses.append(getattr(client, method)("/" + url, data, format="json" if data else None).status_code)
    return statuses


urlpatterns = []
print(json.dumps([[play(recipe, m, requests) for m in (throttling, redis_throttle.django)] for recipe, requests in given["recipes"]]))
"""
Request = tuple[str, str, str | None, dict[str, str] | None]


def get(*users: str | None, url: str = "") -> list[Request]:
    return [("get", url, user, None) for user in users]


def post(*accounts: str) -> list[Request]:
    return [("post", "", None, {"account": account}) for account in accounts]


RECIPES: dict[str, tuple[list[Request], list[int]]] = {
    "settings_of_all": (get(None, None, None, "ann", "ann", "ann", "ann", "bob"), [200, 200, 429, 200, 200, 200, 429, 200]),
    "several": (get("ann", "ann", "ann", "bob"), [200, 200, 429, 200]),
    "scoped": (get("ann", url="list") + get("ann", "ann", url="detail") + get("ann", "ann", url="upload") + get("ann", url="free"),
               [200, 200, 429, 200, 429, 200]),
    "another_cache": (get(None, None, None), [200, 200, 429]),
    "login": (post("ann", "ann", "ann", "bob") + get(None, None, None), [200, 200, 429, 200, 200, 200, 200]),
    "rolling": (get(None, url="old") + get(None, url="new") + get(None, url="old") + get(None, url="new") + get(None, url="old") + get(None, url="new"),
                [200, 200, 200, 200, 429, 429]),
    "no_rate": (get(None, None, None), [200, 200, 200]),
}


def test_what_gets_through_is_that_of_the_framework(server: Server) -> None:
    given = {"url": server.url, "recipes": [(name, requests) for name, (requests, _) in RECIPES.items()]}
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = dict(zip(RECIPES, json.loads(ran.stdout), strict=True))
    assert said == {name: [expected, expected] for name, (_, expected) in RECIPES.items()}
