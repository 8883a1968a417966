"""A login page with FastAPI. docs/choosing.md ("Login protection") says why it has these limits."""

import unicodedata
from typing import Annotated

from fastapi import FastAPI, Form, HTTPException, Request

from redis_throttle import rate
from redis_throttle.asgi import client_address
from redis_throttle.asyncio import Limiter
from redis_throttle.http import header_fields

app = FastAPI()
limiter = Limiter.from_url("redis://127.0.0.1:6379")


def is_right(account: str, password: str) -> bool:
    return password == "correct horse"  # yours


def fold(account: str) -> str:
    return unicodedata.normalize("NFKC", account).strip().lower()[:200]  # Ann, ann and "ann " are one account


@app.post("/login")
async def login(request: Request, account: Annotated[str, Form()], password: Annotated[str, Form()]) -> str:
    account = fold(account)
    mine = f"{{login:{account}}}:{client_address(request.scope)}"
    attempt = {mine: rate(5, "15m", name="address"), f"{{login:{account}}}": rate(300, "1d", name="account")}
    result = await limiter.limit_all(attempt, ban="1h", ban_after="10/1h", each=True)
    if result.limited:
        raise HTTPException(429, "too many attempts", dict(header_fields(attempt, result)))
    if not is_right(account, password):
        raise HTTPException(401, "account or password are wrong")
    await limiter.reset(mine)
    return "welcome"
