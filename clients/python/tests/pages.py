"""The pages behind middlewares of ASGI and WSGI in tests."""

from __future__ import annotations

from typing import Any


async def asgi_page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def wsgi_page(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"hello"]
