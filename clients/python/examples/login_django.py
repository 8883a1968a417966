"""A login page with Django, as a program of one file. docs/choosing.md ("Login protection") says why it has these
limits."""

import unicodedata

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

from redis_throttle import Limiter, rate
from redis_throttle.http import header_fields
from redis_throttle.wsgi import client_address

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="yours")
limiter = Limiter.from_url("redis://127.0.0.1:6379")


def is_right(account, password):
    return password == "correct horse"  # yours


def fold(account):
    return unicodedata.normalize("NFKC", account).strip().lower()[:200]  # Ann, ann and "ann " are one account


@require_POST
def login(request):
    account, password = fold(request.POST.get("account", "")), request.POST.get("password", "")
    mine = f"{{login:{account}}}:{client_address(request.META)}"
    attempt = {mine: rate(5, "15m", name="address"), f"{{login:{account}}}": rate(300, "1d", name="account")}
    result = limiter.limit_all(attempt, ban="1h", ban_after="10/1h", each=True)
    if result.limited:
        return HttpResponse("too many attempts", status=429, headers=dict(header_fields(attempt, result)))
    if not is_right(account, password):
        return HttpResponse("account or password are wrong", status=401)
    limiter.reset(mine)
    return HttpResponse("welcome")


urlpatterns = [path("login", login)]
application = get_wsgi_application()
