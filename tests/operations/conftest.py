"""The scenes about which an operator asks, one of each for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operations.scenes import (
    BrokenCluster,
    TroubledBroker,
    broken_cluster,
    troubled_broker,
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TroubledBroker]:
    """A broker on which something is wrong for each question."""
    with troubled_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenCluster]:
    """A cluster of three brokers, one of which was killed."""
    with broken_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found
