"""The observer beside a simulated quorum: elections, lost answers, logs that begin later.

At each moment the observer may have published only what is committed.  Once the quorum is quiet, it
has the leader's log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.stores.kraft.observing import (
    AddPiece,
    Address,
    Append,
    Ask,
    BeginSnapshot,
    Commit,
    Effect,
    FollowLeader,
    InstallSnapshot,
    Observer,
    ObserverIdentity,
    Refuse,
    SnapshotId,
    Truncate,
    Wait,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import fetch, fetch_snapshot
from kwire.codecs.messages.fetch import FetchResponse, PartitionData
from kwire.codecs.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

NODES = (100, 101, 102)
ADDRESSES = {node: Address("c", node) for node in NODES}
PIECE_BYTES = 1
RECORDS_MAX = 3


def ends_of(epochs: list[int], start: int) -> dict[int, int]:
    """Where each epoch of a log ends that begins at `start`."""
    return {epoch: start + index + 1 for index, epoch in enumerate(epochs)}


@dataclass
class EpochLog:
    """A log of which only the epoch of each record counts."""

    start_offset: int = 0
    epochs: list[int] = field(default_factory=list)
    snapshot_epoch: int = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.epochs)

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else self.snapshot_epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        ends = ends_of(self.epochs, self.start_offset)
        known = [each for each in ends if each <= epoch]
        if known:
            return max(known), ends[max(known)]
        return self.snapshot_epoch, self.start_offset


@dataclass
class Quorum:
    """The controllers as one log: a new leader may drop what is not committed."""

    leader: int = NODES[0]
    epoch: int = 1
    log: EpochLog = field(default_factory=lambda: EpochLog(epochs=[1]))
    committed: int = 1
    history: list[int] = field(default_factory=lambda: [1])
    """The epoch of each committed record, from offset 0 on."""

    def append(self) -> None:
        self.log.epochs.append(self.epoch)

    def commit(self, count: int) -> None:
        self.committed = min(self.committed + count, self.log.end_offset)
        while len(self.history) < self.committed:
            self.history.append(self.log.epochs[len(self.history) - self.log.start_offset])

    def elect(self, leader: int, lost: int) -> None:
        """Another leader, which lacks the last `lost` records that are not committed."""
        self.leader, self.epoch = leader, self.epoch + 1
        end = max(self.log.end_offset - lost, self.committed)
        del self.log.epochs[end - self.log.start_offset :]
        self.append()

    def forget(self) -> None:
        """The log begins at the end of what is committed; a snapshot has the rest."""
        dropped = self.committed - self.log.start_offset
        if dropped:
            self.log.snapshot_epoch = self.log.epochs[dropped - 1]
            del self.log.epochs[:dropped]
            self.log.start_offset = self.committed

    @property
    def snapshot(self) -> SnapshotId:
        return SnapshotId(self.log.start_offset, self.log.snapshot_epoch)

    def answer(self, ask: Ask) -> FetchResponse | FetchSnapshotResponse:
        node = next(node for node, address in ADDRESSES.items() if address == ask.address)
        if isinstance(ask.request, FetchSnapshotRequest):
            return self._piece(node, ask.request)
        return self._fetch(node, ask.request)

    def _fetch(self, node: int, request: fetch.FetchRequest) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        partition = PartitionData(
            high_watermark=self.committed,
            current_leader=fetch.LeaderIdAndEpoch(self.leader, self.epoch),
        )
        if asked.current_leader_epoch < self.epoch:
            partition.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif node != self.leader:
            partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif asked.fetch_offset < self.log.start_offset:
            partition.snapshot_id = fetch.SnapshotId(*self.snapshot)
        else:
            epoch, end = self.log.end_offset_for(asked.last_fetched_epoch)
            if epoch != asked.last_fetched_epoch or asked.fetch_offset > end:
                partition.diverging_epoch = fetch.EpochEndOffset(epoch, end)
            else:
                first = asked.fetch_offset - self.log.start_offset
                # Each record is a byte: its epoch.
                partition.records = bytes(self.log.epochs[first : first + RECORDS_MAX])
        address = ADDRESSES[self.leader]
        return FetchResponse(
            responses=[fetch.FetchableTopicResponse(partitions=[partition])],
            node_endpoints=[fetch.NodeEndpoint(self.leader, address.host, address.port)],
        )

    def _piece(self, node: int, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        asked = request.topics[0].partitions[0]
        wanted = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if node != self.leader or wanted != self.snapshot:
            return FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        content = bytes(self.history[: wanted.end_offset])
        piece = fetch_snapshot.ResponsePartitionSnapshot(
            snapshot_id=asked.snapshot_id,
            size=len(content),
            position=asked.position,
            unaligned_records=content[asked.position : asked.position + PIECE_BYTES],
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(partitions=[piece])
        return FetchSnapshotResponse(topics=[topic])


class World:
    """The observer, its log, its clock, and the quorum."""

    def __init__(self) -> None:
        self.quorum = Quorum()
        self.log = EpochLog()
        identity = ObserverIdentity("c", 1, b"d" * 16)
        self.observer = Observer(identity, list(ADDRESSES.values()), self.log)
        self.now_ms = 0
        self.published: list[int] = []
        self.downloaded = b""

    def round(self, *, lost: bool = False) -> None:
        """One request and its answer, or its loss."""
        step = self.observer.step(self.now_ms)
        while isinstance(step, Wait):
            self.now_ms = step.until_ms
            step = self.observer.step(self.now_ms)
        if lost:
            self.observer.failed(step, "lost", self.now_ms)
        else:
            for effect in self.observer.answered(step, self.quorum.answer(step), self.now_ms):
                self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Append(batches, epoch):
                assert max(batches) <= epoch
                self.log.epochs += batches
            case Truncate(offset):
                assert self.log.start_offset <= offset < self.log.end_offset
                del self.log.epochs[offset - self.log.start_offset :]
            case BeginSnapshot():
                self.downloaded = b""
            case AddPiece(content):
                self.downloaded += content
            case InstallSnapshot(snapshot):
                assert list(self.downloaded) == self.quorum.history[: snapshot.end_offset]
                self.log.start_offset, self.log.snapshot_epoch = snapshot
                self.log.epochs.clear()
                self.published = list(self.downloaded)
            case Commit(high_watermark):
                end = min(high_watermark, self.log.end_offset)
                first = len(self.published) - self.log.start_offset
                self.published += self.log.epochs[first : end - self.log.start_offset]
            case FollowLeader(leader):
                assert leader.epoch <= self.quorum.epoch
            case Refuse(why):
                pytest.fail(why)
        assert self.published == self.quorum.history[: len(self.published)]


EVENTS = st.sampled_from(
    [
        *["append"] * 4,
        *["commit"] * 2,
        *["elect"] * 2,
        "forget",
        *["round"] * 4,
        "lost",
    ]
)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 5)), min_size=5, max_size=60))
def test_observer_publishes_only_what_is_committed_and_gets_all_of_it(
    events: list[tuple[str, int]],
) -> None:
    world = World()
    quorum = world.quorum
    for event, number in events:
        match event:
            case "append":
                quorum.append()
            case "commit":
                quorum.commit(number)
            case "elect":
                quorum.elect(NODES[number % 3], number)
            case "forget":
                quorum.forget()
            case "round":
                world.round()
            case "lost":
                world.round(lost=True)
    quorum.commit(1000)
    for _ in range(200):
        world.round()
        if world.log.end_offset == quorum.log.end_offset and world.published == quorum.history:
            break
    assert world.published == quorum.history
    kept = quorum.log.epochs[-len(world.log.epochs) :] if world.log.epochs else []
    assert world.log.epochs[-len(kept) :] == kept or not kept
    assert world.log.end_offset == quorum.log.end_offset
