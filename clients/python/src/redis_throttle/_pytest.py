"""The plugin for pytest: fixtures with a fake of each limiter, and with throttle-dev."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import AsyncFakeLimiter, FakeLimiter, ThrottleDev


@pytest.fixture
def throttle() -> FakeLimiter:
    """A `redis_throttle.Limiter` without a server, whose clock the test moves."""
    from .testing import FakeLimiter

    return FakeLimiter()


@pytest.fixture
def async_throttle() -> AsyncFakeLimiter:
    """A `redis_throttle.asyncio.Limiter` without a server, whose clock the test moves."""
    from .testing import AsyncFakeLimiter

    return AsyncFakeLimiter()


@pytest.fixture(scope="module")
def _throttle_dev() -> Iterator[ThrottleDev]:
    from .testing import ThrottleDev

    with ThrottleDev() as server:
        yield server


@pytest.fixture
def throttle_dev(_throttle_dev: ThrottleDev) -> ThrottleDev:
    """throttle-dev without keys, one for all tests of a file. Its clock stands still until the test moves it."""
    _throttle_dev.clear()
    return _throttle_dev
