"""What a connection holds that has asked for much, and says nothing now."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.server.network.connection import BUFFER_SIZE_BYTES
from tests.inside import RawClient, running_broker, until

RESIDENT = Path("/proc/self/statm")
FILLER_BYTES = BUFFER_SIZE_BYTES * 3 // 4
LARGE = ListGroupsRequest(states_filter=["x" * 1024] * (FILLER_BYTES // 1024))
CLIENTS = 200


def resident_bytes() -> int:
    """Of this process."""
    return int(RESIDENT.read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.slow
@pytest.mark.skipif(not RESIDENT.exists(), reason="what is resident is asked of Linux")
async def test_silent_connection_returns_its_request_memory(tmp_path: Path) -> None:
    """Each has filled most of its buffer, and is answered after it gave that back too."""
    async with running_broker(tmp_path) as broker:
        clients = [await RawClient.connect(broker) for _ in range(CLIENTS)]
        before = resident_bytes()
        for client in clients:
            await client.ask(LARGE, 4, ListGroupsResponse)
        await until(lambda: resident_bytes() - before < CLIENTS * FILLER_BYTES / 4)
        for client in clients:
            assert (await client.ask(LARGE, 4, ListGroupsResponse)).error_code == 0
