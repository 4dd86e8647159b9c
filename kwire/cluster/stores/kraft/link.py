"""MetadataLink: the driver of the observer, with sockets and files; it publishes the images.

One task runs `run`.  It carries out the observer's effects in their order, each to its end, before
the next request.  So only this task touches the log and the replay.  Large work, such as reading a
snapshot, is done in a thread while the task waits for it.  A snapshot of this broker's own image is
written in a thread beside the task: the image never changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.metadata.features import KRAFT_VERSION
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError, Watcher
from kwire.cluster.stores.kraft import quorum_state
from kwire.cluster.stores.kraft.checkpoint import SnapshotState, batches_of
from kwire.cluster.stores.kraft.controllers import (
    ControllerChannel,
    ControllerPeers,
    LeaderNews,
)
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
    Limits,
    Observer,
    ObserverIdentity,
    Refuse,
    SnapshotId,
    Truncate,
    Wait,
)
from kwire.cluster.stores.kraft.records import BadMetadata
from kwire.cluster.stores.kraft.replaying import (
    MetadataReplay,
    PublishedImage,
    why_unsupported,
)
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.kraft.metadata_log import MetadataLog
    from kwire.codecs.messages.fetch import FetchResponse
    from kwire.codecs.messages.fetch_snapshot import FetchSnapshotResponse

QUIET_MS: Final = 10_000
"""The least time between two log messages about troubles with the controllers."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Quorum:
    """Where the controllers are, by the settings."""

    bootstrap: tuple[Address, ...]
    """controller.quorum.bootstrap.servers, or the addresses of `controller.quorum.voters`."""
    static_voters: tuple[int, ...] = ()
    """The node ids in `controller.quorum.voters`; empty without that setting."""


def _steady_ms() -> int:
    """Return the time of trio's clock, which does not go back."""
    return int(trio.current_time() * 1000)


def _now_ms() -> int:
    """Return the time of day, in ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _SinceSnapshot:
    """How much metadata came since the newest snapshot, and when that was taken."""

    record_bytes: int = 0
    taken_ms: int = field(default_factory=_now_ms)
    is_running: bool = False


class MetadataLink:
    """See the module."""

    def __init__(
        self,
        identity: ObserverIdentity,
        quorum: Quorum,
        log: MetadataLog,
        peers: ControllerPeers,
        limits: Limits | None = None,
    ) -> None:
        """Read the newest snapshot of `log`.  Raises StoreError if it cannot be read."""
        self.news = LeaderNews()
        self._identity = identity
        self._quorum = quorum
        self._log = log
        self._peers = peers
        self._watchers: list[Watcher] = []
        self._caught_up = trio.Event()
        self._failure: StoreError | None = None
        self._since = _SinceSnapshot()
        self._logged_ms = -QUIET_MS
        self._replay = MetadataReplay(identity.cluster_id)
        leader = quorum_state.read(log.files, log.folder)
        self._observer = Observer(
            identity, quorum.bootstrap, log, limits or Limits(), leader=leader
        )
        self.news.set(leader)
        try:
            self._restore()
        except BadMetadata as error:
            raise StoreError(
                f"{log.folder}: {error}; if the files are damaged, remove the folder, and they are"
                " fetched from the controllers again"
            ) from error

    def _restore(self) -> None:
        """Replay the newest snapshot on the disk; what follows is not known to be committed."""
        newest = self._log.newest_snapshot
        if newest is not None:
            self._replay.load(newest.end_offset, newest.epoch, self._log.snapshot(newest))
            self._note_voters()

    # -- what others see

    @property
    def image(self) -> ClusterImage:
        """The image that was published last."""
        return self._replay.image

    @property
    def node_id(self) -> int:
        """The node id of this broker."""
        return self._identity.node_id

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with each image from now on, and its delta."""
        self._watchers.append(watcher)

    async def load(self) -> ClusterImage:
        """Wait until everything is here that was committed at the start; return the image.

        Raises StoreError if this broker cannot be in that cluster.
        """
        await self._caught_up.wait()
        if self._failure is not None:
            raise self._failure
        return self.image

    def channel(self, client_id: str, request_timeout_ms: int, work: str = "") -> ControllerChannel:
        """Return a channel to the leading controller, with connections of its own for its work."""
        return ControllerChannel(self._peers, self.news, client_id, request_timeout_ms, work)

    @property
    def is_caught_up(self) -> bool:
        """Whether `load` returns at once."""
        return self._caught_up.is_set() and self._failure is None

    # -- the task

    async def run(self) -> None:
        """Follow the controllers until cancelled.  Raises StoreError if that cannot go on."""
        try:
            async with trio.open_nursery() as nursery:
                await self._follow(nursery)
        except* (StoreError, BadMetadata, OSError, LogError) as errors:
            self._failure = _failure_of(errors)
        if self._failure is not None:
            self._caught_up.set()  # `load` raises it
            raise self._failure

    async def _follow(self, nursery: trio.Nursery) -> None:
        client_id = f"raft-client-{self._identity.node_id}"
        while True:
            step = self._observer.step(_steady_ms())
            if isinstance(step, Wait):
                await trio.sleep(max(step.until_ms - _steady_ms(), 0) / 1000)
                continue
            peer = self._peers.peer(step.address, client_id, step.timeout_ms)
            try:
                answer = await peer.call(step.request)
            except PeerError as error:
                self._observer.failed(step, str(error), _steady_ms())
            else:
                await self._process(step, answer, nursery)
            self._log_trouble()

    async def _process(
        self, step: Ask, answer: FetchResponse | FetchSnapshotResponse, nursery: trio.Nursery
    ) -> None:
        """Carry out what an answer leads to.  A damaged part of it is asked for again."""
        for effect in self._observer.answered(step, answer, _steady_ms()):
            try:
                await self._carry_out(effect, nursery)
            except LogError as error:
                if error.error == ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                why = f"{step.address} sent what does not fit: {error.detail}"
                self._observer.failed(step, why, _steady_ms())
                return
            except _DamagedSnapshot as error:
                self._observer.snapshot_refused(str(error), _steady_ms())
                return

    async def _carry_out(self, effect: Effect, nursery: trio.Nursery) -> None:
        log, now_ms = self._log, _now_ms()
        match effect:
            case FollowLeader(leader):
                self._write_quorum_state()
                self.news.set(leader)
            case Append(batches, epoch):
                log.append(batches, epoch, now_ms)
                self._since.record_bytes += len(batches)
            case Truncate(offset):
                _logger.warning("the metadata log is truncated to offset %d", offset)
                log.truncate(offset, now_ms)
            case BeginSnapshot(snapshot):
                log.begin_snapshot(snapshot)
            case AddPiece(content):
                log.add_piece(content)
            case InstallSnapshot(snapshot):
                await self._install(snapshot)
            case Commit(high_watermark):
                await self._commit(high_watermark, nursery)
            case Refuse(why):
                raise StoreError(why)

    async def _install(self, snapshot: SnapshotId) -> None:
        """Replay the downloaded snapshot, and let it replace the log."""
        try:
            batches = await trio.to_thread.run_sync(self._log.begun_batches)
            published = await trio.to_thread.run_sync(
                self._replay.load, snapshot.end_offset, snapshot.epoch, batches
            )
        except BadMetadata as error:
            self._log.drop_begun()
            raise _DamagedSnapshot(f"snapshot {snapshot} is damaged: {error}") from error
        self._log.install(_now_ms())
        self._since = _SinceSnapshot()
        self._note_voters()
        self._publish(published)

    async def _commit(self, high_watermark: int, nursery: trio.Nursery) -> None:
        """Replay and publish what is committed and on the disk."""
        replay, log = self._replay, self._log
        end = min(high_watermark, log.end_offset)
        for batch in log.batches(replay.end_offset, end):
            published = replay.add(batch)
            if batch.is_control:
                self._note_voters()
            if published is not None:
                self._publish(published)
                await trio.lowlevel.checkpoint()
        if replay.end_offset >= high_watermark and not self._caught_up.is_set():
            self._check_supported()
            self._caught_up.set()
        self._snapshot_if_due(nursery)

    def _publish(self, published: PublishedImage) -> None:
        if self._caught_up.is_set() and published.delta.features is not None:
            self._check_supported()
        for watcher in self._watchers:
            watcher(published.image, published.delta)

    def _check_supported(self) -> None:
        """Raise StoreError if the cluster has a metadata.version that kwire does not know."""
        why = why_unsupported(self.image)
        if why is not None:
            raise StoreError(why)

    # -- voters and quorum-state

    def _note_voters(self) -> None:
        """Take the addresses of the voters that the log names."""
        if self._replay.voters is not None:
            self._observer.voters = [
                Address(endpoint.host, endpoint.port)
                for voter in self._replay.voters.voters
                for endpoint in voter.endpoints
                if endpoint.name.upper() == self._peers.listener
            ]

    def _write_quorum_state(self) -> None:
        voters = self._quorum.static_voters
        is_static = voters and not self.image.features.level(KRAFT_VERSION)
        quorum_state.write(
            self._log.files, self._log.folder, self._observer.leader, voters if is_static else None
        )

    # -- snapshots of this broker's own image

    def _snapshot_if_due(self, nursery: trio.Nursery) -> None:
        """Begin a snapshot if the limits of MetadataLog.retention are reached.

        In a transaction of records there is no image to write.
        """
        since, limits = self._since, self._log.retention
        newest, image = self._log.newest_snapshot, self.image
        age_ms = _now_ms() - since.taken_ms
        is_old = 0 < limits.snapshot_after_ms <= age_ms
        if since.is_running or self._replay.in_transaction:
            return
        if since.record_bytes < limits.snapshot_after_bytes and not is_old:
            return
        if image.version > (0 if newest is None else newest.end_offset):
            self._since = _SinceSnapshot(is_running=True)
            nursery.start_soon(self._write_snapshot, SnapshotState.of(self._replay))

    async def _write_snapshot(self, state: SnapshotState) -> None:
        """Write a snapshot in a thread, then keep it, unless a downloaded one is newer."""
        snapshot = SnapshotId(state.image.version, state.epoch)
        batches = batches_of(state, _now_ms())
        await trio.to_thread.run_sync(self._log.write_snapshot, snapshot, batches)
        self._log.keep_snapshot(snapshot, _now_ms())
        self._since.is_running = False

    # -- troubles

    def _log_trouble(self) -> None:
        """Log why the controllers do not answer, at most once in QUIET_MS."""
        trouble, now_ms = self._observer.trouble, _steady_ms()
        if trouble is None or now_ms - self._logged_ms < QUIET_MS:
            return
        heard_ms = self._observer.last_heard_ms
        if heard_ms is not None and now_ms - heard_ms < self._observer.limits.request_timeout_ms:
            return  # an election, or one lost answer
        self._logged_ms = now_ms
        _logger.warning("the controllers do not send metadata: %s; trying again", trouble)

    def close(self) -> None:
        """Close the connections and the log."""
        self._peers.close()
        self._log.close()


class _DamagedSnapshot(Exception):
    """A downloaded snapshot cannot be read."""


def _failure_of(errors: BaseExceptionGroup[BaseException]) -> StoreError:
    """Return the first error of the group as a StoreError."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, StoreError):
        return first
    if isinstance(first, LogError):
        return StoreError(f"the metadata log cannot be used: {first.detail or first}")
    return StoreError(f"the metadata log cannot be used: {first}")


def bootstrap_of(servers: Sequence[str], voters: Sequence[str]) -> Quorum:
    """Return the quorum of `controller.quorum.bootstrap.servers` and `controller.quorum.voters`.

    A server is `host:port`, a voter `id@host:port`.  Raises ValueError.
    """
    static = [voter.partition("@")[::2] for voter in voters]
    addresses = [*servers, *(address for _, address in static)]
    return Quorum(
        tuple(_address(text) for text in addresses), tuple(int(number) for number, _ in static)
    )


def _address(text: str) -> Address:
    """Return the address in `host:port`; an IPv6 host is in brackets."""
    host, colon, port = text.strip().rpartition(":")
    if not host or not colon or not port.isdecimal():
        raise ValueError(f"{text} is not host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
