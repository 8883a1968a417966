"""Six requests to a web server that allows five an hour, then jobs under limits of other kinds, with the package
redis-throttle."""

import contextlib
import os
import sys
import threading
import urllib.error
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

from redis_throttle import LimitedError, Limiter, client_address, rate
from redis_throttle.wsgi import RateLimit


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello\n"]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def limited(limiter, limits):
    """The page, limited by the client's address. A service with other limits on this Redis needs other keys."""
    return RateLimit(hello, limiter, limits, key=lambda environ: "http:" + client_address(environ))


def get(app):
    """GET / from a server with app."""
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.handle_request).start()
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/")
        except urllib.error.HTTPError as response:
            return response


def connect():
    """A limiter for REDIS_URL, with REDIS_CLUSTER for the cluster that it is a node of."""
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    if os.environ.get("REDIS_CLUSTER"):
        return Limiter.from_url(url.replace("redis://", "redis+cluster://"), options={"cluster_error_retry_attempts": 1})
    return Limiter.from_url(url)


def demo(limiter):
    for key in "http:127.0.0.1", "jobs", "{acme}", "{acme}:ann", "{acme}:bob", "exports":
        limiter.reset(key)  # so that it prints the same each time

    # Requests go through in an outage of Redis. A mistake, such as a key of another type, is an error.
    app = limited(limiter, rate(5, "1h"))
    for n in range(1, 7):
        response = get(app)
        print(f"request {n}: {response.status}")
        for field in "RateLimit-Policy", "RateLimit", "Retry-After":
            if field in response.headers:
                print(f"  {field}: {response.headers[field]}")

    nowhere = Limiter.from_url("redis://127.0.0.1:1")
    print("request without Redis:", get(limited(nowhere, rate(5, "1h"))).status)

    for n in 1, 2:
        waited = limiter.wait("jobs", rate(1, "2s"), timeout="10s").wait
        print(f"job {n}: done", "after a wait" if waited else "at once")

    for user in "ann", "ann", "ann", "bob", "bob":
        # Both keys are charged or none is. In a cluster they need a hash tag in common.
        keys = {"{acme}:" + user: rate(2, "1h"), "{acme}": rate(3, "1h")}
        result = limiter.limit_all(keys)
        print(f"{user}:", "limited by " + result.key if result.limited else "allowed")

    with export(limiter, 1), export(limiter, 2):
        try:
            with export(limiter, 3):
                pass
        except LimitedError:
            print("export 3: no slot is free")
    with export(limiter, 4) as lease:
        lease.check()  # between the steps of the work: it raises when the lease was lost


@contextlib.contextmanager
def export(limiter, n):
    """One of two at once. The lease renews itself; if the process dies, the slot is free after 30 seconds."""
    with limiter.lease("exports", slots=2, ttl="30s") as lease:
        print(f"export {n}: begun")
        yield lease


def serve(limiter, count):
    """Serve the page until it is ended, with count requests an hour."""
    app = limited(limiter, rate(count, "1h"))
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if sys.argv[1:2] == ["serve"]:
    serve(connect(), int((sys.argv[2:] or [5])[0]))
else:
    demo(connect())
