"""Fixtures of the tests of stock clients."""

from __future__ import annotations

import time

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """kafka-python leaves sockets to the garbage collector, which may come by in a later test."""
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning"))


@pytest.fixture
def unique(unique: str) -> str:
    """A name that no earlier run has used, since a broker of `--bootstrap` keeps running."""
    return f"{unique}-{time.time_ns() // 1_000_000:x}"
