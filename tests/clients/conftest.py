"""What the tests of stock clients share."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def unique(unique: str) -> str:
    """A name that no earlier run used either: `--bootstrap` names a broker that runs on."""
    return f"{unique}-{time.time_ns() // 1_000_000:x}"
