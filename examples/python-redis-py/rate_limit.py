"""Rate limiting with redis-throttle and redis-py: WSGI middleware, a retry, several keys, slots.

Clients are redis.Redis or redis.RedisCluster.
"""

import contextlib
import logging
import math
import random
import re
import time
import uuid

import redis


# The integers of replies, in their order. A newer server may add others after them.
FIELDS = "limited rule limit remaining retry_after_ms reset_after_ms next_after_ms granted wait_ms".split()


def limit(client, key, *words):
    """Send CL.LIMIT with its limits and options in words; return the reply's fields."""
    return send(client, FIELDS, "CL.LIMIT", key, *words)


KEYS_FIELDS = [*FIELDS, "shadow", "key"]


def limit_keys(client, limits, *options):
    """Send CL.MLIMIT with the limits in words of each key: {"{acme}:user:42": ["RATE", "5/s"], ...}.

    All keys are charged or none. In a cluster they need a hash tag in common, such as {acme}.
    The reply's key is the one whose limit decided.
    """
    words = [word for limit in limits.values() for word in ["NEXT", *limit]][1:]
    reply = send(client, KEYS_FIELDS, "CL.MLIMIT", len(limits), *limits, *words, *options)
    return {**reply, "key": list(limits)[reply["key"] - 1]}


def send(client, names, *words):
    reply = client.execute_command(*words, "COMPACT")
    fields = dict(zip(names, reply))
    if len(fields) < len(names) or not all(isinstance(n, int) for n in fields.values()):
        raise ValueError(f"{words[0]} replied {reply}")
    return fields


# How replies begin of a server that will decide the same call later, or that another
# server decides in its place. redis-py takes the code off those for which it has a class.
NOT_NOW = re.compile(r"(BUSY|CLUSTERDOWN|MASTERDOWN|MISCONF|NOREPLICAS|OOM|TRYAGAIN) |command not allowed when used memory")
CLUSTER_UNREACHABLE = re.compile(r"Redis Cluster cannot be connected|All slots are not covered|TTL exhausted")

UNREACHABLE = (
    redis.ConnectionError,  # LOADING and too many clients, too
    redis.TimeoutError,
    redis.ReadOnlyError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.SlotNotCoveredError,
)


def is_outage(error):
    """Whether Redis is out of reach or in a state in which it does not decide.

    Anything else, such as a bad limit, is a mistake, which must not let everybody through.
    """
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError)):
        return False  # although they are ConnectionErrors
    if isinstance(error, UNREACHABLE):
        return True
    if isinstance(error, (redis.exceptions.ClusterError, redis.exceptions.RedisClusterException)):
        # When a node is out of reach, RedisCluster looks for the node that has its keys now, and raises
        # what fails on the way.
        return bool(CLUSTER_UNREACHABLE.match(str(error))) or any(map(is_outage, contexts(error)))
    return isinstance(error, redis.ResponseError) and bool(NOT_NOW.match(str(error)))


def contexts(error):
    """The errors that were being handled when error was raised."""
    while error := error.__context__:
        yield error


class RateLimit:
    """WSGI middleware: count requests per window (seconds) from each address, then 429."""

    def __init__(self, app, client, count, window):
        self.app, self.client = app, client
        self.rate = f"{count}/{window}s"
        self.policy = f'"default";q={count};w={window}'

    def __call__(self, environ, start_response):
        try:
            reply = limit(self.client, "http:" + environ["REMOTE_ADDR"], "RATE", self.rate)
        except Exception as error:
            if not is_outage(error):
                raise  # the server answers 500
            logging.warning("requests are not limited: %s", error)
            return self.app(environ, start_response)

        fields = [
            ("RateLimit-Policy", self.policy),
            ("RateLimit", f'"default";r={reply["remaining"]};t={seconds(reply["next_after_ms"])}'),
        ]
        if reply["limited"]:
            fields += [("Retry-After", str(seconds(reply["retry_after_ms"]))), ("Content-Type", "text/plain")]
            start_response("429 Too Many Requests", fields)
            return [b"Too many requests\n"]

        def start_with_fields(status, headers, exc_info=None):
            return start_response(status, headers + fields, exc_info)

        return self.app(environ, start_with_fields)


def seconds(ms):
    return math.ceil(ms / 1000)


class Limited(Exception):
    """The call was limited to the end."""


def retry(call, attempts=10, base=0.1, cap=10.0):
    """Call until the reply is not limited, and return it.

    Pauses for as long as the reply says, plus a random time of up to base, twice base
    and so on, to cap (seconds): exponential backoff with full jitter.
    """
    for attempt in range(attempts):
        reply = call()
        if not reply["limited"]:
            return reply
        if reply["retry_after_ms"] < 0 or attempt + 1 == attempts:
            break  # -1: it never succeeds
        jitter = random.uniform(0, min(cap, base * 2**attempt))
        time.sleep(reply["retry_after_ms"] / 1000 + jitter)
    raise Limited(reply)


class LeaseLost(Exception):
    """The lease has lapsed: the slot may be somebody else's."""


LEASE_FIELDS = "limited limit remaining retry_after_ms lease_ms wait_ms".split()


@contextlib.contextmanager
def slot(client, key, slots, ttl):
    """Hold one of the slots of key during a with statement, or raise Limited.

    If the process dies, the slot is free after ttl (seconds). Work that may take longer calls
    renew, which the statement gives it, every now and then, and stops when that raises.
    """
    lease = ["ID", uuid.uuid4().hex]
    reply = send(client, LEASE_FIELDS, "CL.LEASE", key, *lease, "SLOTS", slots, "TTL", f"{ttl}s")
    if reply["limited"]:
        raise Limited(reply)

    def renew():
        if send(client, LEASE_FIELDS, "CL.RENEW", key, *lease, "TTL", f"{ttl}s")["limited"]:
            raise LeaseLost(key)

    try:
        yield renew
    finally:
        try:
            client.execute_command("CL.RELEASE", key, *lease)
        except Exception as error:
            if not is_outage(error):
                raise
            logging.warning("a slot of %s stays taken for %s s: %s", key, ttl, error)
