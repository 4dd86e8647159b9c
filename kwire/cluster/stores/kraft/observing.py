"""Observer: which request goes to which controller next, and what its answer means (pure).

An observer fetches `__cluster_metadata` from the leader of the controllers, one request at a time.
Its log and its sockets are the driver's:

    step = observer.step(now_ms)            an Ask to send, or a Wait
    effects = observer.answered(...)        or `failed`, if no answer came
    ... the driver carries out the effects in their order, before the next step

Without a leader it asks the bootstrap servers and the known voters in turns; any of them names the
leader.  After a failure the leader is one of those in turns, so a new leader is found although the
old one hangs.

What a Fetch answer says, beside records:

    error 74, 6, 75     another leader, or another epoch: the answer names it, if it knows it
    diverging epoch     the log has records that the leader does not have: truncate
    snapshot id         the leader no longer has the records: download its snapshot in pieces

Every error of FetchSnapshot in 4.4.0 is the error -1, because its answer throws an exception there.
So after any error the download starts anew with a Fetch, which names the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kwire.codecs.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
)
from kwire.codecs.messages.fetch_snapshot import SnapshotId as WireSnapshotId

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = bytes(15) + b"\1"
NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class Address(NamedTuple):
    """A host and a port of a controller."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Leader(NamedTuple):
    """The leader of the controllers in an epoch: its node id, and its address once it is known."""

    id: int
    epoch: int
    address: Address | None


NOBODY: Final = Leader(NO_LEADER, 0, None)


class SnapshotId(NamedTuple):
    """A snapshot of all records before an offset, the last of which is of this epoch."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ObserverIdentity:
    """Who observes: the ids of the cluster, of this node and of its metadata directory."""

    cluster_id: str
    node_id: int
    directory_id: bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in ms and sizes in bytes; the defaults are those of Apache Kafka's settings."""

    request_timeout_ms: int = 2_000
    """controller.quorum.request.timeout.ms."""
    backoff_ms: int = 20
    """controller.quorum.retry.backoff.ms, doubled after each failure in a row."""
    backoff_max_ms: int = 1_000
    max_wait_ms: int = 500
    fetch_max_bytes: int = 1_048_576
    """controller.quorum.fetch.max.bytes."""
    snapshot_max_bytes: int = 1_048_576
    """controller.quorum.fetch.snapshot.max.bytes."""


class LogView(Protocol):
    """What the observer reads of the log, which the driver changes by its effects."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that it follows; 0 in an empty log."""

    @property
    def start_offset(self) -> int:
        """The offset of the first record that the log still has."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch <= `epoch` and its end offset; (-1, -1) if there is none."""


# -- steps


@dataclass(frozen=True, slots=True)
class Ask:
    """Send the request to this address, and wait for the answer at most `timeout_ms`."""

    address: Address
    request: FetchRequest | FetchSnapshotRequest
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask for the next step at `until_ms`."""

    until_ms: int


# -- effects


@dataclass(frozen=True, slots=True)
class FollowLeader:
    """The epoch, the leader or its address changed: write it to `quorum-state`, tell others."""

    leader: Leader


@dataclass(frozen=True, slots=True)
class Append:
    """Append the complete batches among these bytes, as the leader sent them."""

    batches: bytes | bytearray | memoryview
    epoch: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove all records from this offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeginSnapshot:
    """Begin a file for the pieces of this snapshot; remove one that was begun before."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class AddPiece:
    """Append bytes to the file of the snapshot that was begun."""

    content: bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The snapshot is complete: it replaces the log and everything that was replayed."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class Commit:
    """All records before this offset are committed: replay and publish them."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """This broker cannot be in that cluster: the text says why and what to do."""

    why: str


Effect = (
    FollowLeader | Append | Truncate | BeginSnapshot | AddPiece | InstallSnapshot | Commit | Refuse
)


@dataclass(slots=True)
class _Download:
    """A snapshot that is being downloaded, and how many bytes of it are here."""

    id: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Observer:
    """See the module.  All times are ms of any clock that does not go back.

    `bootstrap` has the addresses of the settings.  `leader` is the one of `quorum-state` at a
    start, whose address is not known.
    """

    identity: ObserverIdentity
    bootstrap: Sequence[Address]
    log: LogView
    limits: Limits = field(default_factory=Limits)
    leader: Leader = NOBODY
    high_watermark: int = -1
    voters: Sequence[Address] = ()
    """Addresses of the voters that the log names; set by the driver."""
    last_heard_ms: int | None = None
    """When the leader answered last; None if it never did."""
    _turn: int = 0
    _failures: int = 0
    _not_before_ms: int = 0
    trouble: str | None = None
    """Why the last request failed; None if it succeeded."""
    _download: _Download | None = None

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ValueError("no bootstrap servers of the controllers")
        # Brokers begin with different servers, so that not all ask the first one.
        self._turn = self.identity.node_id

    # -- what to do next

    def step(self, now_ms: int) -> Ask | Wait:
        """Return the next request, or until when to wait."""
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        address = self._target()
        if self._download is not None and address == self.leader.address:
            request: FetchRequest | FetchSnapshotRequest = self._fetch_snapshot(self._download)
        else:
            request = self._fetch()
        return Ask(address, request, self.limits.request_timeout_ms)

    def _target(self) -> Address:
        """Return the leader's address; after a failure, the next of all addresses."""
        leader = self.leader.address
        if leader is not None and not self._failures:
            return leader
        known = [] if leader is None else [leader]
        servers = list(dict.fromkeys([*known, *self.bootstrap, *self.voters]))
        return servers[self._turn % len(servers)]

    def _fetch(self) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.leader.epoch,
            fetch_offset=self.log.end_offset,
            last_fetched_epoch=self.log.last_epoch,
            partition_max_bytes=0,
            replica_directory_id=self.identity.directory_id,
            high_watermark=self.high_watermark,
        )
        return FetchRequest(
            cluster_id=self.identity.cluster_id,
            replica_state=ReplicaState(self.identity.node_id, -1),
            max_wait_ms=self.limits.max_wait_ms,
            min_bytes=0,
            max_bytes=self.limits.fetch_max_bytes,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _fetch_snapshot(self, download: _Download) -> FetchSnapshotRequest:
        partition = RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=self.leader.epoch,
            snapshot_id=WireSnapshotId(*download.id),
            position=download.position,
            replica_directory_id=self.identity.directory_id,
        )
        return FetchSnapshotRequest(
            cluster_id=self.identity.cluster_id,
            replica_id=self.identity.node_id,
            max_bytes=self.limits.snapshot_max_bytes,
            topics=[RequestTopicSnapshot(TOPIC, [partition])],
        )

    # -- what came

    def failed(self, ask: Ask, why: str, now_ms: int) -> None:
        """Note that `ask` got no answer: no connection, or no answer in time."""
        self._back_off(now_ms, why)

    def answered(
        self, ask: Ask, answer: FetchResponse | FetchSnapshotResponse, now_ms: int
    ) -> list[Effect]:
        """Return the effects of the answer to `ask`."""
        if answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return [self._other_cluster(ask)]
        if isinstance(answer, FetchSnapshotResponse):
            return self._snapshot_answered(ask, answer, now_ms)
        partition = _partition(answer)
        if answer.error_code or partition is None:
            self._back_off(now_ms, _error(ask, "Fetch", answer.error_code))
            return []
        effects = self._follow(answer, partition, now_ms)
        if partition.error_code:
            if not effects:  # nothing new: it is no leader, and knows no later one
                self._back_off(now_ms, _error(ask, "Fetch", partition.error_code))
            return effects
        if ask.request.topics[0].partitions[0].current_leader_epoch != self.leader.epoch:
            return effects  # it answers for an epoch that has ended meanwhile
        self._heard(now_ms)
        return [*effects, *self._fetched(partition, now_ms)]

    def _other_cluster(self, ask: Ask) -> Refuse:
        return Refuse(
            f"the controller at {ask.address} belongs to another cluster than"
            f" {self.identity.cluster_id}, the cluster id in meta.properties; correct"
            " controller.quorum.bootstrap.servers, or use the log directory of that cluster"
        )

    def _follow(self, answer: FetchResponse, partition: PartitionData, now_ms: int) -> list[Effect]:
        """Take the leader and its address from the answer, unless they are of an earlier epoch."""
        said = partition.current_leader
        before = self.leader
        if said is None or said.leader_epoch < before.epoch:
            return []
        addresses = {each.node_id: Address(each.host, each.port) for each in answer.node_endpoints}
        if said.leader_epoch > before.epoch:
            self.leader = Leader(said.leader_id, said.leader_epoch, addresses.get(said.leader_id))
            self._download = None
        elif said.leader_id >= 0 and before.id in (NO_LEADER, said.leader_id):
            known = addresses.get(said.leader_id, before.address)
            self.leader = Leader(said.leader_id, before.epoch, known)
        if self.leader == before:
            return []
        if self.leader.address is not None:  # it is asked next
            self._failures, self._not_before_ms = 0, now_ms
        return [FollowLeader(self.leader)]

    def _fetched(self, partition: PartitionData, now_ms: int) -> list[Effect]:
        """Return the effects of an answer without an error: only one of the three kinds."""
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging is not None and diverging.epoch >= 0:
            return self._diverged(diverging.epoch, diverging.end_offset, now_ms)
        if snapshot is not None and snapshot.epoch >= 0 and snapshot.end_offset >= 0:
            snapshot_id = SnapshotId(snapshot.end_offset, snapshot.epoch)
            if self._download is not None and self._download.id == snapshot_id:
                return []
            self._download = _Download(snapshot_id)
            return [BeginSnapshot(snapshot_id)]
        effects: list[Effect] = []
        if partition.records:
            content = partition.records
            assert isinstance(content, bytes | bytearray | memoryview)
            effects.append(Append(content, self.leader.epoch))
        if partition.high_watermark > self.high_watermark:
            self.high_watermark = partition.high_watermark
        if self.high_watermark >= 0:
            effects.append(Commit(self.high_watermark))
        return effects

    def _diverged(self, epoch: int, end_offset: int, now_ms: int) -> list[Effect]:
        """Return the truncation to where this log and the leader's are the same."""
        own_epoch, own_end = self.log.end_offset_for(epoch)
        offset = min(own_end, end_offset) if own_epoch == epoch else own_end
        offset = max(offset, self.log.start_offset)
        if offset < self.high_watermark:
            return [
                Refuse(
                    f"the controllers ask to truncate the metadata log to offset {offset}, but all"
                    f" records before {self.high_watermark} are committed; their log was lost or"
                    " replaced"
                )
            ]
        if offset >= self.log.end_offset:
            self._back_off(
                now_ms,
                f"the log ends at {self.log.end_offset}, and cannot be truncated"
                f" to epoch {epoch}, offset {end_offset}",
            )
            return []
        return [Truncate(offset)]

    def _snapshot_answered(
        self, ask: Ask, answer: FetchSnapshotResponse, now_ms: int
    ) -> list[Effect]:
        """Return the effects of a piece of the snapshot."""
        download = self._download
        partition = answer.topics[0].partitions[0] if answer.topics else None
        if download is None:
            return []
        if answer.error_code or partition is None or partition.error_code:
            code = answer.error_code or (0 if partition is None else partition.error_code)
            self._download_failed(now_ms, _error(ask, "FetchSnapshot", code))
            return []
        content = partition.unaligned_records or b""
        assert isinstance(content, bytes | bytearray | memoryview)
        came = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        end = download.position + len(content)
        if (
            came != download.id
            or partition.position != download.position
            or end > partition.size
            or not (len(content) or end == partition.size)
        ):
            self._download_failed(now_ms, f"{ask.address} sent another part of a snapshot")
            return []
        self._heard(now_ms)
        download.position = end
        effects: list[Effect] = [AddPiece(content)] if len(content) else []
        if end == partition.size:
            self._download = None
            self.high_watermark = max(self.high_watermark, download.id.end_offset)
            effects.append(InstallSnapshot(download.id))
        return effects

    def _download_failed(self, now_ms: int, why: str) -> None:
        """Forget the download: the next Fetch names the newest snapshot, or another leader."""
        self._download = None
        self._back_off(now_ms, why)

    def snapshot_refused(self, why: str, now_ms: int) -> None:
        """Note that an installed snapshot was damaged: it is downloaded again."""
        self._download_failed(now_ms, why)

    # -- times

    def _heard(self, now_ms: int) -> None:
        self._failures, self.trouble = 0, None
        self.last_heard_ms = now_ms

    def _back_off(self, now_ms: int, why: str) -> None:
        """Wait twice as long after each failure in a row, and ask another server next."""
        wait_ms = min(self.limits.backoff_ms << min(self._failures, 16), self.limits.backoff_max_ms)
        self._failures += 1
        self._turn += 1
        self.trouble = why
        self._not_before_ms = now_ms + wait_ms


def _partition(answer: FetchResponse) -> PartitionData | None:
    """Return the only partition of the answer, or None if it has none."""
    for topic in answer.responses:
        for partition in topic.partitions:
            return partition
    return None


def _error(ask: Ask, api: str, code: int) -> str:
    """Return a text about a refused request; -1 is an error that the controller did not expect."""
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
    return f"{ask.address} answers {api} with {name}" if code else f"{ask.address} answers nothing"
