"""Views of plain Django with limits: by the address, and by the customer's month."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

from redis_throttle import Limiter, fixed, rate
from redis_throttle.django_views import RateLimit

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="yours")
limiter = Limiter.from_url("redis://127.0.0.1:6379")


def customer(request):
    return f"customer:{request.headers['api-key']}" if request.headers.get("api-key") == "key-of-acme" else None


@RateLimit(limiter, rate(10, "1m"))
def search(request):
    return HttpResponse("by the client's address, ten a minute")


@RateLimit(limiter, fixed(1000, "1mo", zone="Europe/Berlin"), key=customer)
def items(request):
    return HttpResponse("a thousand a month" if customer(request) else "", status=200 if customer(request) else 401)


urlpatterns = [path("search", search), path("items", items)]
application = get_wsgi_application()
