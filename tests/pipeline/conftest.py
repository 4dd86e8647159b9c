"""What the tests of jobs share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is taken and on which nobody listens, so that nobody comes to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"
