"""An application whose handlers compute for 10 ms: without a limit, with one that is far, and with one that is not.

TEST_URL names the server.
"""

from __future__ import annotations

import os
import time

from fastapi import Depends, FastAPI

from redis_throttle import fixed
from redis_throttle.asyncio import Limiter
from redis_throttle.fastapi import RateLimit

LIMIT = 40


def compute() -> None:
    ends = time.thread_time() + 0.01
    while time.thread_time() < ends:
        pass


app = FastAPI()
if "TEST_URL" in os.environ:  # test_load.py imports this, too
    limiter = Limiter.from_url(os.environ["TEST_URL"])
    for name, depends in {
        "without": [],
        "far": [Depends(RateLimit(limiter, fixed(1_000_000, "1d")))],
        "tight": [Depends(RateLimit(limiter, fixed(LIMIT, "1d")))],
    }.items():
        @app.get(f"/{name}/async", dependencies=depends)
        async def of_asyncio() -> None:
            compute()

        @app.get(f"/{name}/sync", dependencies=depends)
        def of_threads() -> None:
            compute()
