"""Six requests to a web server that allows five an hour, then jobs under limits of other kinds."""

import contextlib
import os
import sys
import threading
import urllib.error
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

import redis

from rate_limit import Limited, RateLimit, limit, limit_keys, retry, slot


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello\n"]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def get(app):
    """GET / from a server with app."""
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.handle_request).start()
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/")
        except urllib.error.HTTPError as response:
            return response


def connect():
    """A client for REDIS_URL, with REDIS_CLUSTER for the cluster that it is a node of."""
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    options = {"socket_timeout": 1}
    if os.environ.get("REDIS_CLUSTER"):
        return redis.RedisCluster.from_url(url, cluster_error_retry_attempts=1, **options)
    return redis.Redis.from_url(url, **options)


def demo(client):
    for key in "http:127.0.0.1", "jobs", "{acme}", "{acme}:ann", "{acme}:bob", "exports":
        client.delete(key)  # so that it prints the same each time

    app = RateLimit(hello, client, count=5, window=3600)
    for n in range(1, 7):
        response = get(app)
        print(f"request {n}: {response.status}")
        for field in "RateLimit-Policy", "RateLimit", "Retry-After":
            if field in response.headers:
                print(f"  {field}: {response.headers[field]}")

    nowhere = redis.Redis(port=1)
    print("request without Redis:", get(RateLimit(hello, nowhere, count=5, window=3600)).status)

    job(client, 1)
    job(client, 2)

    for user in "ann", "ann", "ann", "bob", "bob":
        reply = limit_keys(client, {"{acme}:" + user: ["RATE", "2/h"], "{acme}": ["RATE", "3/h"]})
        print(f"{user}:", "limited by " + reply["key"] if reply["limited"] else "allowed")

    with export(client, 1), export(client, 2):
        try:
            with export(client, 3):
                pass
        except Limited:
            print("export 3: no slot is free")
    with export(client, 4) as renew:
        renew()


def job(client, n):
    attempts = 0

    def ask():
        nonlocal attempts
        attempts += 1
        return limit(client, "jobs", "RATE", "1/2s")

    retry(ask)
    print(f"job {n}: done", "at once" if attempts == 1 else "after a wait")


@contextlib.contextmanager
def export(client, n):
    """One of two at once."""
    with slot(client, "exports", slots=2, ttl=30) as renew:
        print(f"export {n}: begun")
        yield renew


def serve(client, count):
    """Serve the page until it is ended, with count requests an hour."""
    app = RateLimit(hello, client, count=count, window=3600)
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if sys.argv[1:2] == ["serve"]:
    serve(connect(), (sys.argv[2:] or [5])[0])
else:
    demo(connect())
