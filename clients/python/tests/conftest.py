from collections.abc import Iterator

import pytest

from servers import Cluster, MadeUp, Server


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
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def made_up() -> Iterator[MadeUp]:
    server = MadeUp()
    yield server
    server.stop()
