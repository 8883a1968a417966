"""The hook under LiteLLM's own proxy, with a model that is made up (mock_response)."""

from __future__ import annotations

import os
import pathlib
import secrets
import subprocess
import sys

import httpx
import pytest

from redis_throttle import Limiter, rate
from servers import Server, await_true, free_port

HOOK = '''
import os
from redis_throttle import rate
from redis_throttle.asyncio import Limiter
from redis_throttle.litellm import ThrottleHook

throttle = ThrottleHook(limiter=Limiter.from_url(os.environ["TEST_URL"], timeout="5s"), requests=rate(6, "365d"), tokens=rate(1000, "365d"), slots=2,
                        default_max_tokens=300, by=lambda user, data: "everybody")
'''
CONFIG = '''
model_list:
  - model_name: fine
    litellm_params: {model: openai/gpt-4o-mini, api_key: none, mock_response: "one two three"}
  - model_name: broken
    litellm_params: {model: openai/gpt-4o-mini, api_key: none, mock_response: "litellm.InternalServerError"}
litellm_settings:
  callbacks: throttle_hook.throttle
  num_retries: 0
general_settings: {}
'''


@pytest.mark.timeout(240)
def test_requests_are_admitted_and_settled_by_the_proxy(server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "throttle_hook.py").write_text(HOOK)
    (tmp_path / "config.yaml").write_text(CONFIG)
    port, secret = free_port(), f"sk-{secrets.token_hex(32)}"
    environment = {**os.environ, "TEST_URL": server.url, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_MASTER_KEY": secret}
    with open(tmp_path / "log", "w") as log:
        proxy = subprocess.Popen([sys.executable, "-W", "ignore", str(pathlib.Path(sys.executable).with_name("litellm")), "--config", "config.yaml",
                                  "--host", "127.0.0.1", "--port", str(port)], cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        authorization = {"Authorization": f"Bearer {secret}"}
        with (httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, headers=authorization) as client,
              Limiter.from_url(server.url) as limiter):
            def alive() -> bool:
                assert proxy.poll() is None, (tmp_path / "log").read_text()[-3000:]
                try:
                    return client.get("/health/liveliness").status_code == 200
                except httpx.TransportError:
                    return False

            await_true(alive, "the proxy starts", patience=180)

            def ask(model: str, **more: object) -> httpx.Response:
                return client.post("/v1/chat/completions", json={"model": model, "messages": [{"role": "user", "content": "hello"}], **more})

            def left() -> int:
                return limiter.peek("{llm:everybody}:tokens", rate(1000, "365d"), cost=0).remaining

            def running() -> int:
                return int(server.do("ZCARD", "{llm:everybody}:slots"))

            first = ask("fine")
            assert first.status_code == 200, first.text + (tmp_path / "log").read_text()[-3000:]
            used = first.json()["usage"]["total_tokens"]
            # LiteLLM logs after it has answered.
            await_true(lambda: running() == 0, "the slot is free")
            assert left() == 1000 - used, "the estimate of 300 and more came back"

            assert ask("broken").status_code == 500
            await_true(lambda: running() == 0, "the slot of a request that failed is free")
            assert left() == 1000 - used, "it used nothing"

            with client.stream("POST", "/v1/chat/completions", json={
                    "model": "fine", "stream": True, "messages": [{"role": "user", "content": "hello"}]}) as stream:
                assert stream.status_code == 200
                assert b"[DONE]" in stream.read()
            await_true(lambda: running() == 0, "the slot of a stream is free")
            before = left()
            assert 1000 - used > before > 1000 - 300

            refused = ask("fine", max_tokens=5000)
            assert refused.status_code == 429
            assert "the limit of tokens is reached" in refused.text
            assert left() == before, "all of them or nothing"

            for name in ("a", "b"):
                limiter.lease("{llm:everybody}:slots", slots=2, ttl="1m", id=name).take()
            refused = ask("fine")
            assert refused.status_code == 429
            assert "the limit of slots is reached" in refused.text
            assert int(refused.headers["Retry-After"]) <= 60
            server.do("DEL", "{llm:everybody}:slots")

            answers = [ask("fine", max_tokens=1).status_code for _ in range(4)]
            assert answers == [200, 200, 200, 429], "six requests in all"
    finally:
        proxy.terminate()
        proxy.wait()
