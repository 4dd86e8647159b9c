"""A controller that serves a recorded metadata log on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from kwire.cluster.stores.kraft.observing import TOPIC, TOPIC_ID, SnapshotId
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import fetch, fetch_snapshot
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatResponse
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kwire.codecs.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from tests.cluster.peers.scripted import ReceivedRequest, Scripted, scripted
from tests.cluster.stores.kraft.recorded import CLUSTER

SERVED = (
    (int(ApiKey.FETCH), 4, 18),
    (int(ApiKey.FETCH_SNAPSHOT), 0, 1),
    (int(ApiKey.BROKER_HEARTBEAT), 0, 2),
)

NO_SNAPSHOT = SnapshotId(-1, -1)


@dataclass
class Controller:
    """Answers as the leader in `epoch`, or names `leader` if that is another one.

    A Fetch before `start` is answered with `snapshot`.  `batches_max` limits an answer.
    """

    id: int
    log: bytes
    epoch: int = 2
    leader: Controller | None = None
    start: int = 0
    high_watermark: int = 0
    snapshot: SnapshotId = NO_SNAPSHOT
    content: bytes = b""
    piece_bytes: int = 1000
    batches_max: int = 1000
    server: Scripted | None = None
    fetched: list[FetchRequest] = field(default_factory=list)
    is_mute: bool = False
    asked: trio.Event = field(default_factory=trio.Event)
    """Set at the next request."""

    def __post_init__(self) -> None:
        self.ends = {
            header.base_offset: (position, header)
            for position, header in iter_batches(memoryview(self.log))
        }
        last = max(self.ends)
        self.end_offset = self.ends[last][1].last_offset + 1
        self.high_watermark = self.high_watermark or self.end_offset

    @property
    def port(self) -> int:
        assert self.server is not None
        return self.server.port

    @property
    def requests(self) -> list[ReceivedRequest]:
        """All requests but ApiVersions."""
        assert self.server is not None
        return self.server.requests

    async def answer(self, request: ReceivedRequest) -> bytes | None:
        asked_before, self.asked = self.asked, trio.Event()
        asked_before.set()
        if self.is_mute:
            return None
        # The client id is behind the header of version 1; tags of the header follow it.
        body = request.body[1:]
        if request.api_key == ApiKey.FETCH:
            asked = FetchRequest.decode(body, request.version)
            self.fetched.append(asked)
            answer = await self._fetch(asked)
            return answer.encode(request.version)
        if request.api_key == ApiKey.FETCH_SNAPSHOT:
            piece = self._piece(FetchSnapshotRequest.decode(body, request.version))
            return piece.encode(request.version)
        code = ErrorCode.NONE if self.leader is None else ErrorCode.NOT_CONTROLLER
        return BrokerHeartbeatResponse(error_code=code).encode(request.version)

    async def _fetch(self, asked: FetchRequest) -> FetchResponse:
        if asked.cluster_id != CLUSTER:
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        wanted = asked.topics[0].partitions[0]
        assert asked.topics[0].topic_id == TOPIC_ID
        leader = self.leader or self
        epoch = leader.epoch
        partition = PartitionData(
            current_leader=fetch.LeaderIdAndEpoch(leader.id, epoch),
            high_watermark=self.high_watermark,
        )
        endpoints = [fetch.NodeEndpoint(leader.id, "127.0.0.1", leader.port)]
        if self.leader is not None or wanted.current_leader_epoch < epoch:
            partition.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.fetch_offset < self.start:
            partition.snapshot_id = fetch.SnapshotId(*self.snapshot)
        else:
            partition.records = self._records(wanted.fetch_offset)
            if not partition.records:
                await trio.sleep(0.02)  # as long as the real one waits for records, but shorter
        return FetchResponse(
            responses=[fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])],
            node_endpoints=endpoints,
        )

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a request comes after which this holds."""
        while not holds():
            await self.asked.wait()

    async def wait_fetched_to(self, offset: int) -> None:
        """Wait until a Fetch asks from that offset on: everything before it has arrived."""
        await self.wait_until(
            lambda: any(
                each.topics[0].partitions[0].fetch_offset >= offset for each in self.fetched
            )
        )

    def _records(self, offset: int) -> bytes:
        positions = [
            (position, position + header.size_bytes)
            for base, (position, header) in sorted(self.ends.items())
            if base >= offset
        ][: self.batches_max]
        return self.log[positions[0][0] : positions[-1][1]] if positions else b""

    def _piece(self, asked: FetchSnapshotRequest) -> FetchSnapshotResponse:
        wanted = asked.topics[0].partitions[0]
        if SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch) != self.snapshot:
            return FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        end = wanted.position + self.piece_bytes
        partition = fetch_snapshot.ResponsePartitionSnapshot(
            snapshot_id=wanted.snapshot_id,
            size=len(self.content),
            position=wanted.position,
            unaligned_records=self.content[wanted.position : end],
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(name=TOPIC, partitions=[partition])
        return FetchSnapshotResponse(topics=[topic])


@asynccontextmanager
async def serving(controller: Controller) -> AsyncIterator[Controller]:
    """Serve the controller on a port of its own."""
    async with scripted(controller.answer, served=SERVED) as controller.server:
        yield controller
