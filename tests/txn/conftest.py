"""Fixtures: Apache Kafka for the transaction tests that compare with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.txn.apache import ApacheTransactions


@pytest.fixture(scope="module")
def apache_transactions(
    apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheTransactions]:
    """Tests keep apart by their transactional ids. It ends with its module: a coordinator that has
    markers to write to a node that is gone tries all the time."""
    with ApacheTransactions(tmp_path_factory.mktemp("apache")) as started:
        yield started
