"""ReplicaFetcher: a task that copies partitions from one leader broker to this broker.

It works in rounds.  A round first prepares the partitions that need it (truncates the log, or asks
the leader where its log ends), then sends one Fetch for all partitions that are ready, then appends
the records of the response.  An error of one partition delays that partition for
`replica.fetch.backoff.ms` and stops no other.  An error of the connection delays all of them.

The state of a partition changes only between two checkpoints.  After each await the fetcher looks
the partition up again: meanwhile the controller may have named another leader (even this broker),
or removed the partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Role
from kwire.cluster.replication import leader_questions
from kwire.cluster.replication.fetch_session import FetchSessionClient, Key
from kwire.cluster.replication.followed import FollowedPartition
from kwire.cluster.replication.following import (
    FetchStep,
    FullTruncation,
    Truncation,
    first_step,
    truncation_after_out_of_range,
    truncation_for_epoch_end,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.codecs.messages.fetch import ReplicaState as FetchReplicaState
from kwire.log import (
    LogError,
    append_as_follower,
    truncate_fully,
    truncate_to,
)

if TYPE_CHECKING:
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.storage.partitions.partition import Partition
    from kwire.storage.partitions.replication_quota import ReplicationQuota

log = logging.getLogger("kwire.replication")

DIVERGING_EPOCH_SINCE: Final = 12
"""First version of Fetch in which the leader reports where the two logs diverge (KIP-595)."""
REPLICA_STATE_SINCE: Final = 15
"""First version of Fetch that carries the broker epoch of the follower (KIP-903)."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""Bytes appended before other tasks get a turn; appending them takes half a millisecond."""


class ReplicaFetcher:
    """Fetches partitions from broker `leader`; fetchers of the same leader differ in `number`."""

    def __init__(
        self, host: ReplicationContext, leader: int, number: int, quota: ReplicationQuota
    ) -> None:
        """`number` tells apart fetchers of one leader; each has its own connection.

        `quota` limits the bytes per second of all fetchers together.
        """
        self.leader = leader
        self.number = number
        self._host = host
        self._quota = quota
        self._peer = host.peer(leader, Role.FETCHER, number)
        self._session = FetchSessionClient()
        self._followed: dict[tuple[str, int], FollowedPartition] = {}
        self._changed = trio.Event()
        # Holds for current brokers; set for the leader's Fetch version in each round.
        self._truncates_on_fetch = True
        self._missed_update = False
        """Whether this broker ignored a part of a response that the leader does not repeat."""
        self._logged_failure: str | None = None
        """Reason of the connection failure that was logged last; None while the leader answers."""

    def __len__(self) -> int:
        return len(self._followed)

    def lags(self) -> Iterator[tuple[str, int, int]]:
        """Yield topic, index and lag of each partition.

        The lag is the number of records up to the leader's high watermark, at the last response.
        """
        for (topic, index), followed in self._followed.items():
            yield topic, index, followed.lag

    def add(self, partition: Partition) -> None:
        """Fetch `partition` in its present leader epoch, from its log end offset on."""
        self._followed[partition.topic, partition.index] = FollowedPartition(partition)
        self._changed.set()

    def remove(self, topic: str, index: int) -> None:
        """Stop fetching a partition; records in a pending response are dropped."""
        del self._followed[topic, index]
        self._changed.set()

    def is_current(self, followed: FollowedPartition) -> bool:
        """Whether this fetcher still fetches the partition, in the same leader epoch."""
        partition = followed.partition
        return self._followed.get((partition.topic, partition.index)) is followed

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed = trio.Event()
            ready = self._ready_partitions()
            if not ready:
                await self._wait_for_work()
                continue
            try:
                await self._round(ready)
            except PeerError as error:
                self._back_off_all(error, ready)
            await trio.lowlevel.checkpoint()

    def _ready_partitions(self) -> list[FollowedPartition]:
        """Return the partitions whose delay has passed, and resets their delays.

        A partition that waits for the controller is not ready.
        """
        now = trio.current_time()
        ready = [
            followed
            for followed in self._followed.values()
            if followed.delayed_until <= now and followed.step is not FetchStep.WAIT_FOR_CONTROLLER
        ]
        for followed in ready:
            followed.delayed_until = 0.0
        return ready

    async def _wait_for_work(self) -> None:
        """Wait until partitions are added or removed, or until the first delay has passed."""
        waiting = [
            followed.delayed_until
            for followed in self._followed.values()
            if followed.step is not FetchStep.WAIT_FOR_CONTROLLER
        ]
        with trio.move_on_at(min(waiting, default=float("inf"))):
            await self._changed.wait()

    def _back_off_all(self, error: PeerError, ready: list[FollowedPartition]) -> None:
        """Delay all of `ready` because the leader did not answer.

        A warning is logged once; the same reason again is logged at DEBUG.
        """
        self._session.lost()
        if self._logged_failure is None:
            self._host.leader_lost(self.leader)
        level = logging.DEBUG if self._logged_failure == error.why else logging.WARNING
        self._logged_failure = error.why
        log.log(level, "Cannot fetch from the leader: %s. Retrying.", error)
        for followed in ready:
            self._delay(followed)

    def _delay(self, followed: FollowedPartition, *, is_brief: bool = False) -> None:
        """Fetch the partition after `replica.fetch.backoff.ms`, or sooner if `is_brief`."""
        pause_ms = self._host.config.replica_fetch_backoff_ms
        if is_brief:
            pause_ms = followed.pause_after_refusal_ms(pause_ms)
        followed.delayed_until = trio.current_time() + pause_ms / 1000

    async def _round(self, ready: list[FollowedPartition]) -> None:
        """Prepares and fetches the partitions of `ready`, and appends their records.

        Raises PeerError.
        """
        version = await self._peer.version_for(FetchRequest())
        self._truncates_on_fetch = version >= DIVERGING_EPOCH_SINCE
        if any(followed.step is not FetchStep.FETCH for followed in ready):
            await self._prepare(ready)
        # `_prepare` awaits: since then a partition may have been removed, delayed, or have got
        # another step.
        fetched = [
            followed
            for followed in ready
            if followed.step is FetchStep.FETCH
            and self.is_current(followed)
            and not followed.delayed_until
        ]
        if self._quota.throttled:
            fetched = self._within_quota(fetched)
        if not fetched:
            return
        wanted = {followed.key: self._fetch_partition(followed) for followed in fetched}
        if self._missed_update:
            # In a session the leader reports a high watermark only when it changes.  A full
            # request makes it report all of them again.
            self._session.lost()
            self._missed_update = False
        request = self._request(version)
        self._session.fill(request, wanted)
        response: FetchResponse = await self._peer.call(request, version_max=version)
        if self._logged_failure is not None:
            log.info("Broker %d answers Fetch again.", self.leader)
            self._logged_failure = None
        if self._session.answered(response):
            await self._take_response(response, {followed.key: followed for followed in ready})
        elif response.error_code not in _SESSION_ERRORS:
            why = ErrorCode(response.error_code).name
            self._back_off_all(PeerError(f"broker {self.leader}", why), ready)

    def _within_quota(self, fetched: list[FollowedPartition]) -> list[FollowedPartition]:
        """Return the partitions of `fetched` that the replication quota permits (KIP-73).

        If it permits none, all are delayed, as after an error.
        """
        quota = self._quota
        if not quota.is_exceeded(self._host.now_ms()):
            return fetched
        within = [
            followed
            for followed in fetched
            if followed.is_behind is False
            or not quota.is_throttled(followed.partition.topic, followed.partition.index)
        ]
        if not within:
            for followed in fetched:
                self._delay(followed)
        return within

    # -- building the Fetch request

    def _request(self, version: int) -> FetchRequest:
        """Return a Fetch request without partitions, as a follower sends it.

        Since version 15 the replica's id and broker epoch are in `replica_state`.
        """
        config, host = self._host.config, self._host
        has_state = version >= REPLICA_STATE_SINCE
        return FetchRequest(
            replica_id=-1 if has_state else host.node_id,
            replica_state=FetchReplicaState(host.node_id, host.broker_epoch) if has_state else None,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
        )

    def _fetch_partition(self, followed: FollowedPartition) -> FetchPartition:
        """Return what the next Fetch asks for this partition.

        The same object as in the last request if nothing changed: the fetch session then leaves
        the partition out.
        """
        last_request = followed.last_request
        start = followed.log_start_offset
        if last_request is None or last_request.log_start_offset != start:
            last_request = followed.last_request = FetchPartition(
                partition=followed.partition.index,
                current_leader_epoch=followed.leader_epoch,
                fetch_offset=followed.log_end_offset,
                last_fetched_epoch=followed.latest_epoch if self._truncates_on_fetch else -1,
                log_start_offset=start,
                partition_max_bytes=self._host.config.replica_fetch_max_bytes,
            )
        return last_request

    # -- steps before a Fetch: the first one, or the one after OFFSET_OUT_OF_RANGE

    async def _prepare(self, ready: list[FollowedPartition]) -> None:
        """Brings partitions to the step FETCH: truncates them, or asks the leader first."""
        for followed in ready:
            if followed.step is None and self.is_current(followed):
                followed.step = first_step(followed, truncates_on_fetch=self._truncates_on_fetch)
                if followed.latest_epoch < 0:
                    # Without epochs only the records below the high watermark are sure to be
                    # the leader's.
                    truncation = Truncation(followed.partition.high_watermark, True)
                    await self._truncate(followed, truncation)
        await self._query_leader(
            ready, FetchStep.ASK_EPOCH, leader_questions.ask_epochs, self._truncation_by_epoch_end
        )
        await self._query_leader(
            ready, FetchStep.ASK_ENDS, leader_questions.ask_ends, self._truncation_by_log_ends
        )

    async def _query_leader(
        self,
        ready: list[FollowedPartition],
        step: FetchStep,
        query: leader_questions.Query,
        truncation_by: Callable[[FollowedPartition, int, int], Truncation | FullTruncation | None],
    ) -> None:
        """Sends one query about all partitions at `step`, and truncates them by its answers.

        `query` returns an error and two numbers for each partition.  `truncation_by(partition,
        first, second)` returns the truncation that follows from the numbers.
        """
        queried = [
            followed for followed in ready if followed.step is step and self.is_current(followed)
        ]
        if not queried:
            return
        answers = await query(self._peer, self._host.node_id, queried)
        for followed in queried:
            # A partition that the leader left out of its response is tried again later.
            error, first, second = answers.get(followed.key, (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0))
            if not self.is_current(followed):
                continue
            if error:
                self._partition_refused(followed, error)
                continue
            followed.step = FetchStep.FETCH
            truncation = truncation_by(followed, first, second)
            if truncation is not None:
                await self._truncate(followed, truncation)
            followed.last_request = None

    def _truncation_by_epoch_end(
        self, followed: FollowedPartition, epoch: int, end_offset: int
    ) -> Truncation:
        """Return the truncation for the leader's end offset of an epoch.

        If it is not final, the next round asks the leader about an earlier epoch.
        """
        truncation = truncation_for_epoch_end(
            followed, followed.partition.high_watermark, epoch, end_offset
        )
        if not truncation.is_final:
            followed.step = FetchStep.ASK_EPOCH
        return truncation

    @staticmethod
    def _truncation_by_log_ends(
        followed: FollowedPartition, start: int, end: int
    ) -> Truncation | FullTruncation | None:
        return truncation_after_out_of_range(followed, start, end)

    # -- using the Fetch response

    async def _take_response(
        self, response: FetchResponse, requested: dict[Key, FollowedPartition]
    ) -> None:
        """Appends the records of `response`; lets other tasks run after each BYTES_AT_ONCE."""
        # From version 13 on a response has topic ids in the place of names.
        has_ids = bool(response.responses) and not response.responses[0].topic
        by_label = {
            (key[1] if has_ids else key[0], key[2]): followed for key, followed in requested.items()
        }
        appended_bytes = 0
        for label, data in _partitions_of(response):
            followed = by_label.get((label, data.partition_index))
            if followed is None or not self.is_current(followed):
                self._missed_update = True
                continue
            if data.error_code:
                self._partition_refused(followed, ErrorCode(data.error_code))
            elif data.diverging_epoch is not None:
                end, self._missed_update = data.diverging_epoch, True
                truncation = truncation_for_epoch_end(
                    followed, followed.partition.high_watermark, end.epoch, end.end_offset
                )
                await self._truncate(followed, truncation)
            else:
                appended_bytes += self._append(followed, data)
                if appended_bytes >= BYTES_AT_ONCE:
                    appended_bytes = 0
                    await trio.lowlevel.checkpoint()

    def _append(self, followed: FollowedPartition, data: PartitionData) -> int:
        """Appends the records of one partition and takes over its offsets.

        Returns the number of bytes appended.
        """
        partition = followed.partition
        last_request = followed.last_request
        if last_request is None or last_request.fetch_offset != partition.log.log_end_offset:
            # The log was truncated or appended to since the request: these records do not fit.
            self._missed_update = True
            return 0
        size_bytes = 0
        records = data.records
        try:
            if isinstance(records, memoryview) and len(records):
                followed.last_request = None
                result = append_as_follower(
                    partition.log,
                    records,
                    leader_epoch=followed.leader_epoch,
                    now_ms=self._host.now_ms(),
                )
                size_bytes = 0 if result is None else result.size_bytes
                if result is None:
                    # The records are of a later leader epoch: the controller will name it here.
                    self._delay(followed)
            partition.followed(data.high_watermark, data.log_start_offset, size_bytes)
            self._note_progress(followed, data.high_watermark, size_bytes)
        except LogError as error:
            self._log_failed(followed, error)
        return size_bytes

    def _note_progress(
        self, followed: FollowedPartition, high_watermark: int, size_bytes: int
    ) -> None:
        """Update the lag, and what the replication quota depends on: `is_behind`, the bytes."""
        followed.lag = max(0, high_watermark - followed.log_end_offset)
        if size_bytes or followed.is_behind is None:
            followed.is_behind = followed.lag > 0
        partition = followed.partition
        if self._quota.throttled and self._quota.is_throttled(partition.topic, partition.index):
            self._quota.record(size_bytes, self._host.now_ms())

    def _log_failed(self, followed: FollowedPartition, error: LogError) -> None:
        """Handles a failed append or truncation: the partition is fetched again later."""
        self._missed_update = True
        log.error("Cannot copy %r from its leader: %s", followed, error)
        followed.last_request = None
        if followed.partition.log.offline:
            # Nothing can be appended until the controller makes a new replica of it.
            followed.step = FetchStep.WAIT_FOR_CONTROLLER
        else:
            self._delay(followed)

    def _partition_refused(self, followed: FollowedPartition, error: ErrorCode) -> None:
        """Handles an error of one partition: chooses its next step, or delays it."""
        followed.last_request = None
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and followed.step is FetchStep.FETCH:
            followed.step = FetchStep.ASK_ENDS
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            log.info(
                "%r has a later leader epoch at its leader; waiting until it is known here.",
                followed,
            )
            followed.step = FetchStep.WAIT_FOR_CONTROLLER
        else:
            level = logging.DEBUG if error in _TRANSIENT_ERRORS else logging.WARNING
            log.log(level, "Broker %d refuses Fetch of %r: %s.", self.leader, followed, error.name)
            self._delay(followed, is_brief=error in _TRANSIENT_ERRORS)

    # -- truncating the log

    async def _truncate(
        self, followed: FollowedPartition, truncation: Truncation | FullTruncation
    ) -> None:
        """Truncates the log so that it is whole after a power failure at any moment.

        A LogError delays the partition.
        """
        partition = followed.partition
        followed.last_request = None
        try:
            if isinstance(truncation, FullTruncation):
                self._truncate_fully(partition, truncation.offset)
            else:
                await self._truncate_to(followed, truncation.offset)
            partition.truncated()
        except LogError as error:
            self._log_failed(followed, error)

    def _truncate_fully(self, partition: Partition, offset: int) -> None:
        """Removes all records; the log then starts and ends at `offset`.

        The leader has deleted all records that follow those of this log.
        """
        log.warning(
            "The log of the leader of %s-%d starts at offset %d, after the log end offset here, %d."
            " Removing all records here and starting at the leader's log start offset.",
            partition.topic,
            partition.index,
            offset,
            partition.log.log_end_offset,
        )
        truncate_fully(partition.log, offset, self._host.now_ms())
        partition.high_watermark = offset

    async def _truncate_to(self, followed: FollowedPartition, offset: int) -> None:
        """Removes the records at `offset` and above, which the leader does not have.

        The files are shortened in a thread.  Stops if the partition is no longer followed in this
        epoch.
        """
        partition = followed.partition
        key = (partition.topic, partition.index)
        if offset >= partition.log.log_end_offset:
            # No record goes, but later epochs without records may leave the epoch cache.
            truncate_to(partition.log, offset, self._host.now_ms())
            return
        if offset < partition.high_watermark:
            # Only an unclean election can ask for this: committed records are lost.
            log.warning(
                "Truncating %r from offset %d to %d, below its high watermark %d: broker %d leads"
                " it in epoch %d.",
                followed,
                partition.log.log_end_offset,
                offset,
                partition.high_watermark,
                self.leader,
                followed.leader_epoch,
            )
        else:
            log.info(
                "Truncating %r from offset %d to %d.",
                followed,
                partition.log.log_end_offset,
                offset,
            )
        jobs = self._host.logs.truncate({key: offset}, self._host.now_ms())
        for job in jobs:
            # The log is shorter already: readers must not see a high watermark beyond its end
            # while the job waits for the disk.
            partition.truncated()
            await trio.to_thread.run_sync(job.run)
            job.finish()
            if not self.is_current(followed):
                return


_SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
"""Errors that `FetchSessionClient` answers with a full request."""

_TRANSIENT_ERRORS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Errors of a leader that does not know yet that it leads."""


def _partitions_of(response: FetchResponse) -> Iterator[tuple[str | bytes, PartitionData]]:
    for topic in response.responses:
        for data in topic.partitions:
            yield topic.topic or topic.topic_id, data
