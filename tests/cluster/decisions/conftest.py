"""A broker on the test's own loop for the tests of administrative requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio.testing

from tests.cluster.decisions.client import AdminClient
from tests.inside import RawClient, running_broker

OpenAdmin = Callable[..., AbstractAsyncContextManager[AdminClient]]


@pytest.fixture
def still_clock() -> trio.testing.MockClock:
    """A clock that stands still until a test makes it jump."""
    return trio.testing.MockClock()


@pytest.fixture
def open_admin(tmp_path: Path) -> OpenAdmin:
    """`async with open_admin({"num.partitions": "3"}) as admin:`; open it again for a restart."""

    @asynccontextmanager
    async def opened(settings: Mapping[str, str] | None = None) -> AsyncIterator[AdminClient]:
        async with running_broker(tmp_path / "data", settings) as broker:
            yield AdminClient(broker, await RawClient.connect(broker))

    return opened
