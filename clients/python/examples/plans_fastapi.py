"""Limits of a route, and of the plan that a customer has, in FastAPI."""

from fastapi import Depends, FastAPI, Request

from redis_throttle import fixed, rate
from redis_throttle.asyncio import Limiter
from redis_throttle.fastapi import RateLimit

limiter = Limiter.from_url("redis://127.0.0.1:6379")
CUSTOMERS = {"key-of-acme": "free", "key-of-globex": "paid"}
MONTH = {"zone": "Europe/Berlin", "name": "month"}  # begins at midnight of the first in Berlin, also when clocks change
PLANS = {
    "free": (rate(2, "1s", burst=5, name="second"), fixed(1000, "1mo", **MONTH)),
    "paid": (rate(50, "1s", burst=100, name="second"), fixed(1_000_000, "1mo", **MONTH)),
}


def customer(request: Request) -> str | None:
    key = request.headers.get("api-key", "")
    return f"customer:{key}" if key in CUSTOMERS else None  # None is not limited here: the route refuses it


def plan(request: Request):
    return PLANS[CUSTOMERS[request.headers["api-key"]]]


app = FastAPI()


@app.get("/search", dependencies=[Depends(RateLimit(limiter, rate(10, "1m")))])
async def search() -> list[str]:
    return ["by the client's address, ten a minute"]


@app.get("/items", dependencies=[Depends(RateLimit(limiter, plan, key=customer))])
async def items(request: Request) -> list[str]:
    return ["by the plan"] if customer(request) else []
