"""A page of another origin reads how much is left, and after a 429 when it may ask again. Tried in Chromium, where it
is installed."""

from __future__ import annotations

import contextlib
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import uvicorn
from flask import Flask
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from redis_throttle import asgi, window, wsgi
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter
from servers import await_true

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

HOUR = window(1, "1h")
EXPOSED = ["RateLimit", "RateLimit-Policy", "Retry-After"]


def ok(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


@contextlib.contextmanager
def starlette() -> Generator[str]:
    app = Starlette(routes=[Route("/", ok)])
    app.add_middleware(asgi.RateLimit, limiter=AsyncFakeLimiter(), limits=HOUR, key=lambda _: "k")
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_headers=["X-Own"], expose_headers=EXPOSED)  # the last one runs first
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    await_true(lambda: server.started, "it listens")
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def flask() -> Generator[str]:
    app = Flask(__name__)
    app.add_url_rule("/", view_func=lambda: "ok", methods=["GET"])
    limited = wsgi.RateLimit(app.wsgi_app, FakeLimiter(), HOUR, key=lambda _: "k")

    def cors(environ: Any, start_response: Any) -> Any:
        def start(status: str, fields: list[tuple[str, str]], *more: Any) -> Any:
            allowed = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Headers", "X-Own"), ("Access-Control-Expose-Headers", ", ".join(EXPOSED))]
            return start_response(status, [*fields, *allowed], *more)

        return limited(environ, start)

    with make_server("127.0.0.1", 0, cors, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


SCRIPT = """<script>(async () => { let told = ''; for (let i = 0; i < 2; i++) {
  try { const r = await fetch('%s', { headers: { 'X-Own': '1' } }); told += [r.status, r.headers.get('RateLimit'), r.headers.get('Retry-After')] + '; ' }
  catch (e) { told += e + '; ' }
} await fetch('/told?' + encodeURIComponent(told)) })()</script>"""


@pytest.mark.parametrize("site", [starlette, flask])
def test_a_page_of_another_origin_reads_when_it_may_ask_again(site: Any) -> None:
    told: queue.Queue[str] = queue.Queue()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/told?"):
                told.put(unquote(self.path.partition("?")[2]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((SCRIPT % url).encode() if self.path == "/" else b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with site() as url, ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        threading.Thread(target=page.serve_forever, args=(0.01,), daemon=True).start()
        home = pathlib.Path(tempfile.mkdtemp(prefix="chromium-"))
        browser = subprocess.Popen(
            [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}",
             "--remote-debugging-port=0", f"http://127.0.0.1:{page.server_port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert told.get(timeout=120) == '200,"default";r=0;t=3600,; 429,"default";r=0;t=3600,3600; '
        finally:
            browser.kill()
            browser.wait()
            page.shutdown()

        def gone() -> bool:  # its children may write a moment longer
            shutil.rmtree(home, ignore_errors=True)
            return not home.exists()

        await_true(gone, "its folder is empty")
