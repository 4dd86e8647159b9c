"""Connections that wait for their clients: they have neither a task nor a buffer."""

from __future__ import annotations

import mmap
import select
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.server.network.connection import Connection
from kwire.server.network.memory import BUFFER_SIZE_BYTES, NO_BUFFER
from tests.inside import RawClient, running_broker, until

RESIDENT = Path("/proc/self/statm")
FILLER_BYTES = BUFFER_SIZE_BYTES * 3 // 4
LARGE = ListGroupsRequest(states_filter=["x" * 1024] * (FILLER_BYTES // 1024))
CLIENTS = 200

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="each has a task here")


def resident_bytes() -> int:
    """Of this process."""
    return int(RESIDENT.read_text().split()[1]) * mmap.PAGESIZE


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections that the broker has begun to serve."""
    begun: list[Connection] = []
    begin = Connection.begin

    def noted(
        self: Connection, nursery: trio.Nursery, on_end: Callable[[Connection], None]
    ) -> None:
        begin(self, nursery, on_end)
        begun.append(self)

    monkeypatch.setattr(Connection, "begin", noted)
    monkeypatch.setattr("kwire.server.network.listener.REAP_INTERVAL_S", 0.01)
    return begun


def has_task(connection: Connection) -> bool:
    """Whether a task of trio serves this connection."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks = [root]
    while tasks:
        task = tasks.pop()
        if task.name == connection.context.connection_id:
            return True
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return False


def is_idle(connection: Connection) -> bool:
    return connection._view is NO_BUFFER and not has_task(connection)


async def ask(client: RawClient) -> None:
    assert (await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0


async def create_topic(client: RawClient) -> None:
    """Send a request whose answer takes time: the topic has to be on the disk."""
    topic = CreatableTopic(name="flights", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    assert (await client.ask(request, 5, CreateTopicsResponse)).topics


@needs_epoll
async def test_connection_gets_a_task_once_a_request_waits(
    tmp_path: Path, connections: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.network.listener.REAP_INTERVAL_S", 3600)
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await ask(client)
        [connection] = connections
        assert not has_task(connection)
        await create_topic(client)
        assert has_task(connection)
        await ask(client)


@needs_epoll
async def test_idle_connection_gives_up_task_and_buffer_and_is_served_again(
    tmp_path: Path, connections: list[Connection]
) -> None:
    large = ListGroupsRequest(states_filter=["x" * 1024] * 1024)
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        for request in (create_topic, ask):
            await create_topic(client)
            await until(lambda: is_idle(connections[0]))
            await request(client)
        await until(lambda: is_idle(connections[0]))
        assert (await client.ask(large, 4, ListGroupsResponse)).error_code == 0


@needs_epoll
async def test_idle_connection_ends_with_its_client(
    tmp_path: Path, connections: list[Connection]
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await create_topic(client)
        await until(lambda: is_idle(connections[0]))
        await client.stream.aclose()
        await until(lambda: connections[0]._transport.fileno() < 0)


@needs_epoll
async def test_broker_that_stops_closes_idle_connections(
    tmp_path: Path, connections: list[Connection]
) -> None:
    stop = trio.Event()
    async with running_broker(tmp_path, stop=stop) as broker:
        clients = [await RawClient.connect(broker) for _ in range(2)]
        await create_topic(clients[0])
        await ask(clients[1])
        await until(lambda: all(map(is_idle, connections)))
        stop.set()
        for client in clients:
            assert await client.receive_frame() is None


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
