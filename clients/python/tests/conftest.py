from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from redis_throttle import Limiter, Remote
from redis_throttle._core import undecided
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Remote as AsyncRemote
from redis_throttle.limits import AsyncThrottleStorage, ThrottleStorage
from servers import PATIENCE, Ask, Cluster, MadeUp, Server

pytest_plugins = ["redis_throttle._pytest"]
settings.configure(SECRET_KEY="x", LOGGING_CONFIG=None)  # Django 4.2 wants the key to write down an error


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers more time than the default of 200 ms, which a busy machine may need, where a test is not about
    it."""
    if request.node.get_closest_marker("defaults"):
        return
    made: list[Any] = [Limiter.from_url, AsyncLimiter.from_url, Remote.from_url, AsyncRemote.from_url]
    for function in [*(method.__func__ for method in made), Remote.__init__, AsyncRemote.__init__]:
        monkeypatch.setitem(function.__kwdefaults__, "timeout", "2s")
    storages: list[Any] = [ThrottleStorage, AsyncThrottleStorage]
    for storage in storages:
        monkeypatch.setitem(storage.__init__.__kwdefaults__, "timeout", f"{PATIENCE}s")


@pytest.fixture(autouse=True)
def _forget_warnings() -> None:
    undecided._warned.clear()


@pytest.fixture(scope="session")
def _shared() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def server(_shared: Server) -> Server:
    """A server that no other test uses at the same time; its keys are gone."""
    _shared.do("FLUSHALL")
    return _shared


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server to be stopped, killed and misconfigured."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _shared_cluster() -> Iterator[Cluster]:
    cluster = Cluster(node_timeout_ms=60_000)  # a node that a test stops is no dead one
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(_shared_cluster: Cluster) -> Cluster:
    """A cluster that no other test uses at the same time; its keys are gone."""
    for node in _shared_cluster.nodes:
        node.do("FLUSHALL")
    return _shared_cluster


@pytest.fixture
def made_up() -> Iterator[MadeUp]:
    server = MadeUp()
    yield server
    server.stop()


@pytest.fixture(params=["threads", "asyncio"])
def get(request: pytest.FixtureRequest) -> Iterator[Ask]:
    ask = Ask(request.param == "asyncio")
    yield ask
    if ask.runner is not None:
        ask.runner.close()
