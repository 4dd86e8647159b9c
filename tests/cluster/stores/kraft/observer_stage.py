"""A stage for scripts about the observer: a log, a clock, and answers of controllers.

time MS                        the time is MS
log END EPOCH EPOCH:END ...    the log ends at END in EPOCH; where each of its epochs ends
voters HOST:PORT ...           the voters that the log names
next                           shows what the observer does next
records HW                     the answer to the last request: records, the high watermark is HW
empty HW                       the same without records
leader ID EPOCH [HOST:PORT]    an answer with error 74 that names this leader
resigned ID EPOCH              an answer with error 6 that names the old leader
error CODE [ID EPOCH]          an answer with another error of the partition
top CODE                       an answer with an error and nothing else
diverged EPOCH END             the leader's epoch EPOCH ends at END
snapshot END EPOCH             the leader has a snapshot instead of the records
piece POSITION BYTES SIZE      a part of that snapshot
other-piece POSITION BYTES     a part of another snapshot
damaged                        the driver cannot read the snapshot
silent                         no answer came

Indented lines show requests, waits and effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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
    Leader,
    Observer,
    ObserverIdentity,
    Refuse,
    SnapshotId,
    Truncate,
    Wait,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import fetch, fetch_snapshot
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.codecs.messages.fetch_snapshot import FetchSnapshotResponse

BOOTSTRAP = (Address("a", 1), Address("b", 2))


@dataclass
class FakeLog:
    """The end of a log, and where each of its epochs ends."""

    end_offset: int = 0
    last_epoch: int = 0
    start_offset: int = 0
    ends: dict[int, int] = field(default_factory=dict)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        known = [each for each in self.ends if each <= epoch]
        return (max(known), self.ends[max(known)]) if known else (-1, -1)


def address_of(text: str) -> Address:
    host, port = text.split(":")
    return Address(host, int(port))


class Stage:
    """Runs the lines of a script."""

    def __init__(self, leader: Leader | None = None) -> None:
        self.log = FakeLog()
        self.observer = Observer(ObserverIdentity("cluster", 2, b"d" * 16), BOOTSTRAP, self.log)
        if leader is not None:
            self.observer.leader = leader
        self.now_ms = 0
        self.asked: Ask | None = None
        self.downloading = SnapshotId(-1, -1)

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        handler: Callable[..., list[str]] = getattr(self, f"_{command.replace('-', '_')}")
        return handler(*words)

    def _time(self, ms: str) -> list[str]:
        self.now_ms = int(ms)
        return []

    def _log(self, end: str, epoch: str, *ends: str) -> list[str]:
        self.log.end_offset, self.log.last_epoch = int(end), int(epoch)
        self.log.ends = {int(each.split(":")[0]): int(each.split(":")[1]) for each in ends}
        return []

    def _voters(self, *addresses: str) -> list[str]:
        self.observer.voters = [address_of(each) for each in addresses]
        return []

    def _next(self) -> list[str]:
        step = self.observer.step(self.now_ms)
        if isinstance(step, Wait):
            return [f"wait until {step.until_ms}"]
        self.asked = step
        partition = step.request.topics[0].partitions[0]
        epoch = f"in epoch {partition.current_leader_epoch}"
        if isinstance(partition, FetchPartition):
            return [
                f"Fetch from {step.address} {epoch}: offset {partition.fetch_offset} behind epoch"
                f" {partition.last_fetched_epoch}, high watermark {partition.high_watermark}"
            ]
        snapshot = partition.snapshot_id
        return [
            f"FetchSnapshot from {step.address} {epoch}: {snapshot.end_offset}-{snapshot.epoch}"
            f" from {partition.position} on"
        ]

    # -- answers to Fetch

    def _records(self, high_watermark: str) -> list[str]:
        return self._fetched(high_watermark=int(high_watermark), records=b"records")

    def _empty(self, high_watermark: str) -> list[str]:
        return self._fetched(high_watermark=int(high_watermark))

    def _leader(self, leader: str, epoch: str, address: str = "") -> list[str]:
        endpoints = []
        if address:
            endpoints = [fetch.NodeEndpoint(int(leader), *address_of(address))]
        return self._fetched(
            endpoints,
            error_code=ErrorCode.FENCED_LEADER_EPOCH,
            current_leader=fetch.LeaderIdAndEpoch(int(leader), int(epoch)),
        )

    def _resigned(self, leader: str, epoch: str) -> list[str]:
        return self._error(str(int(ErrorCode.NOT_LEADER_OR_FOLLOWER)), leader, epoch)

    def _error(self, code: str, leader: str = "-1", epoch: str = "-1") -> list[str]:
        return self._fetched(
            error_code=int(code), current_leader=fetch.LeaderIdAndEpoch(int(leader), int(epoch))
        )

    def _diverged(self, epoch: str, end: str) -> list[str]:
        return self._fetched(diverging_epoch=fetch.EpochEndOffset(int(epoch), int(end)))

    def _snapshot(self, end: str, epoch: str) -> list[str]:
        self.downloading = SnapshotId(int(end), int(epoch))
        return self._fetched(snapshot_id=fetch.SnapshotId(int(end), int(epoch)))

    def _fetched(
        self,
        endpoints: list[fetch.NodeEndpoint] | None = None,
        **fields: Any,  # noqa: ANN401 - those of PartitionData
    ) -> list[str]:
        partition = PartitionData(**{"high_watermark": -1, **fields})
        answer = FetchResponse(
            responses=[fetch.FetchableTopicResponse(partitions=[partition])],
            node_endpoints=endpoints or [],
        )
        return self._answered(answer)

    # -- answers to FetchSnapshot

    def _piece(self, position: str, count: str, size: str) -> list[str]:
        return self._piece_of(self.downloading, int(position), int(count), int(size))

    def _other_piece(self, position: str, count: str) -> list[str]:
        return self._piece_of(SnapshotId(1, 1), int(position), int(count), 1000)

    def _piece_of(self, snapshot: SnapshotId, position: int, count: int, size: int) -> list[str]:
        partition = fetch_snapshot.ResponsePartitionSnapshot(
            snapshot_id=fetch_snapshot.SnapshotId(*snapshot),
            size=size,
            position=position,
            unaligned_records=bytes(count),
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(partitions=[partition])
        return self._answered(FetchSnapshotResponse(topics=[topic]))

    def _damaged(self) -> list[str]:
        self.observer.snapshot_refused("it is damaged", self.now_ms)
        return []

    # -- any answer

    def _top(self, code: str) -> list[str]:
        assert self.asked is not None
        if isinstance(self.asked.request, FetchRequest):
            return self._answered(FetchResponse(error_code=int(code)))
        return self._answered(FetchSnapshotResponse(error_code=int(code)))

    def _silent(self) -> list[str]:
        assert self.asked is not None
        self.observer.failed(self.asked, "no answer", self.now_ms)
        return []

    def _answered(self, answer: FetchResponse | FetchSnapshotResponse) -> list[str]:
        assert self.asked is not None
        effects = self.observer.answered(self.asked, answer, self.now_ms)
        return [shown(effect) for effect in effects]


def shown(effect: Effect) -> str:
    """The effect in words."""
    match effect:
        case FollowLeader(leader):
            where = "an unknown address" if leader.address is None else str(leader.address)
            return f"follow {leader.id} in epoch {leader.epoch} at {where}"
        case Append(batches, epoch):
            return f"append {len(batches)} bytes of epoch {epoch}"
        case Truncate(offset):
            return f"truncate to {offset}"
        case BeginSnapshot(snapshot):
            return f"begin snapshot {snapshot.end_offset}-{snapshot.epoch}"
        case AddPiece(content):
            return f"add {len(content)} bytes to the snapshot"
        case InstallSnapshot(snapshot):
            return f"install snapshot {snapshot.end_offset}-{snapshot.epoch}"
        case Commit(high_watermark):
            return f"publish up to {high_watermark}"
        case Refuse(why):
            return f"refuse: {why}"
