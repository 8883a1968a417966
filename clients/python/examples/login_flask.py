"""A login page with Flask. docs/choosing.md ("Login protection") says why it has these limits."""

import unicodedata

from flask import Flask, request

from redis_throttle import Limiter, rate
from redis_throttle.http import header_fields
from redis_throttle.wsgi import client_address

app = Flask(__name__)
limiter = Limiter.from_url("redis://127.0.0.1:6379")


def is_right(account, password):
    return password == "correct horse"  # yours


def fold(account):
    return unicodedata.normalize("NFKC", account).strip().lower()[:200]  # Ann, ann and "ann " are one account


@app.post("/login")
def login():
    account, password = fold(request.form.get("account", "")), request.form.get("password", "")
    mine = f"{{login:{account}}}:{client_address(request.environ)}"
    attempt = {mine: rate(5, "15m", name="address"), f"{{login:{account}}}": rate(300, "1d", name="account")}
    result = limiter.limit_all(attempt, ban="1h", ban_after="10/1h", each=True)
    if result.limited:
        return "too many attempts", 429, header_fields(attempt, result)
    if not is_right(account, password):
        return "account or password are wrong", 401
    limiter.reset(mine)
    return "welcome"
