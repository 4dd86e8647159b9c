"""A consumer's Fetch: read its partitions, wait for more records, make the response.

kwire.requests.handlers.fetch states the rules; kwire.requests.handlers.fetching.replica_fetch does
the same for followers.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, ClassVar, Protocol

import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kwire.log import ColdLookup, LogError, Region, aborted_in, end_offset_for_epoch
from kwire.storage.partitions.fetch_sessions import NO_SESSION, Answers, FetchTarget, Key
from kwire.storage.partitions.purgatory import ExpiredRequests, ParkedFetch

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.storage.partitions.partition import FetchWaiter, Partition

RACK_SINCE = 11
DIVERGING_EPOCH_SINCE = 12
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADER_SINCE = 16
STORAGE_ERROR_SINCE = 6
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Budget(Protocol):
    """The byte rate quota of one consumer: see kwire.security.quotas."""

    def charge(self, fetch: Fetch) -> int:
        """Count the records of `fetch`; return the throttle time in ms, 0 if it is within quota.

        A throttled consumer gets a response without records, and fetches again (KIP-219).
        """


class Fetch:
    """One Fetch request: call `read`, several times if it has to wait, then `response`.

    `answers`         of the last `read`, for the partitions hosted here, in the order of reading;
                      an incremental fetch leaves out those whose data the client already has
    `unknown`         answers for partitions that do not exist here
    `denied`          answers for partitions that `refuse` took out of the plan
    `at_once`         whether an answer must be sent now, however few bytes it has
    `available_bytes` what counts towards `min_bytes` while the request waits; `read` counts its
                      own bytes when the request arrives.  The two differ, as in Apache Kafka, if
                      a limit keeps records back
    `cold`            look-ups of offsets that would wait for the disk
    `may_block`       whether `read` may wait for the disk itself
    `watermarks`      sum of the partitions' high watermarks at the last `read`
    """

    __slots__ = (
        "answers",
        "at_once",
        "available_bytes",
        "broker",
        "budget",
        "by_topic_id",
        "cold",
        "committed_only",
        "denied",
        "max_bytes",
        "may_block",
        "min_bytes",
        "plan",
        "request",
        "unknown",
        "version",
        "waiting",
        "watermarks",
    )

    from_replica: ClassVar[bool] = False

    def __init__(self, broker: Broker, request: FetchRequest, version: int) -> None:
        """Take the limits of the request, and its partitions from its fetch session if any."""
        self.broker = broker
        self.request = request
        self.version = version
        self.by_topic_id = version >= TOPIC_IDS_SINCE
        self.committed_only = request.isolation_level == READ_COMMITTED
        self.max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.budget: Budget | None = None
        self.answers: Answers = []
        self.unknown: Answers = []
        self.denied: Answers = []
        self.cold: list[ColdLookup] = []
        self.may_block = False
        self.at_once = False
        self.waiting = False
        self.available_bytes = 0
        self.watermarks = 0
        self.plan = broker.fetch_sessions.plan(
            request,
            by_topic_id=self.by_topic_id,
            name_of=broker.metadata.topic_name,
            now_ms=broker.now_ms(),
        )

    def refuse(self, keys: Iterable[Key], error: ErrorCode) -> None:
        """Answer these partitions with `error`, and read the others."""
        # Copies: the session owns the targets and keeps these partitions.
        plan = self.plan = copy(self.plan)
        plan.targets = dict(plan.targets)
        for key in keys:
            target = plan.targets.pop(key)
            if plan.session is not None:
                plan.session.distrust(target)
            data = _nothing(target.asked, error)
            data.aborted_transactions = []
            self.denied.append((target, data))

    # Reading

    def read(self) -> bool:
        """Read all partitions anew; True if the response may be sent without more waiting."""
        answers: Answers = []
        self.answers, self.unknown = answers, []
        self.at_once = False
        self.available_bytes = 0
        # Locals for what the loop reads: a follower or a large session has thousands of targets.
        node_id = self.broker.node_id
        committed_only = self.committed_only
        incremental = self.plan.session is not None
        settled: list[tuple[FetchTarget, Partition]] = []
        room = self.max_bytes
        nothing_yet = True
        read_bytes = watermarks = 0
        found = self.plan.watched
        for target in self._to_read():
            # A session keeps the partition object; a stopped partition has leader -1, so one
            # comparison notices both a deletion and a move.
            partition = target.partition
            if partition is None or partition.leader != node_id:
                partition = self._find(target)
                if partition is None:
                    continue
            found += 1
            fetch_partition = target.asked
            log = partition.log
            watermark = partition.high_watermark
            # The usual case in a session: no new records, and the client has everything else.
            # Each condition rules out one thing that `_read` would report.
            if (
                incremental
                and fetch_partition.fetch_offset == watermark == target.high_watermark
                and target.log_start_offset == log.log_start_offset
                and not log.offline
                and fetch_partition.current_leader_epoch in (-1, partition.leader_epoch)
                and fetch_partition.last_fetched_epoch < 0
                and (not committed_only or partition.last_stable_offset == watermark)
            ):
                settled.append((target, partition))
                continue
            watermarks += watermark
            try:
                data = self._read(fetch_partition, partition, room, nothing_yet)
            except LogError as error:
                data = self._refusal(fetch_partition, error.error, partition)
            # A Region is a range of the segment file: the records are not in memory.
            region = data.records
            if isinstance(region, Region):
                read_bytes += region.size_bytes
                room -= region.size_bytes
                nothing_yet = False
            room = max(0, room)  # a negative `max_bytes` fails the first partition only
            if not (incremental and target.knows(data)):
                answers.append((target, data))
        if settled:
            watermarks += self._settle(settled)
        self.watermarks = watermarks
        return (
            read_bytes >= self.min_bytes
            or self.at_once
            or found == 0  # no partition can ever get records
            or self.available_bytes >= self.min_bytes
            or self._ends_in_older_segment()
        )

    def _settle(self, settled: Iterable[tuple[FetchTarget, Partition]]) -> int:
        """Have the session watch these partitions; return the sum of the high watermarks of others.

        A follower may stop to follow, and an open transaction may end, without a word to watches.
        """
        session, node_id = self.plan.session, self.broker.node_id
        assert session is not None, "only a session knows what its client knows"
        watermarks = 0
        for target, partition in settled:
            if partition.leader == node_id and partition.log.first_unstable_offset is None:
                session.settle(target, partition)
            else:
                watermarks += partition.high_watermark
        return watermarks

    def _to_read(self) -> Iterable[FetchTarget]:
        """The partitions that `read` has to read, in their order."""
        session, targets = self.plan.session, self.plan.targets
        if session is None:
            return targets.values()
        if self.denied:
            return [target for target in session.to_read() if target.key in targets]
        return session.to_read()

    def _find(self, target: FetchTarget) -> Partition | None:
        """The partition that serves `target`; None after adding an answer that says why not."""
        was_hosted = self.waiting and target.partition is not None
        target.partition = None
        if target.topic is None:
            target.topic = self.broker.metadata.topic_name(target.topic_id)
            if target.topic is None:
                self._add_unknown(target, ErrorCode.UNKNOWN_TOPIC_ID)
                return None
        partition = self.broker.hosted.get(target.topic, target.asked.partition)
        if partition is None:
            self._add_absent(target, target.topic, was_hosted=was_hosted)
            return None
        if self.by_topic_id and partition.topic_id != target.topic_id:
            # The topic was deleted and created again after the session learned its id.
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        elif not (partition.is_leader or self._may_read_follower(partition)):
            error = partition.why_not_led()
        else:
            target.partition = partition
            return partition
        self.answers.append((target, self._refusal(target.asked, error, partition)))
        return None

    def _may_read_follower(self, partition: Partition) -> bool:
        """Whether a follower may serve this version: its consumers can name a rack (KIP-392)."""
        return partition.following and self.version >= RACK_SINCE

    def _read(
        self, fetch_partition: FetchPartition, partition: Partition, room: int, nothing_yet: bool
    ) -> PartitionData:
        """The answer for one partition, with at most `room` bytes of records.

        `nothing_yet` says that no partition before has records.  LogError if the request names
        a wrong leader epoch or offset.
        """
        # The epoch comes first: a consumer with stale metadata must refresh it before it believes
        # an offset error (KIP-320).
        if fetch_partition.current_leader_epoch >= 0:
            partition.check_leader_epoch(fetch_partition.current_leader_epoch)
        log = partition.log
        log.check_online()
        watermark = partition.high_watermark
        stable = partition.last_stable_offset
        end = stable if self.committed_only else watermark
        data = PartitionData(
            partition_index=fetch_partition.partition,
            high_watermark=watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self.committed_only else None,
            records=b"",
        )
        if fetch_partition.last_fetched_epoch >= 0:
            diverging = diverging_epoch(fetch_partition, partition)
            if diverging is not None:
                data.diverging_epoch = diverging
                data.aborted_transactions = None
                self.at_once = True  # the client has to truncate before any record helps it
                return data
        self._add_records(data, fetch_partition, partition, end, room, nothing_yet)
        return data

    def _add_records(
        self,
        data: PartitionData,
        fetch_partition: FetchPartition,
        partition: Partition,
        end: int,
        room: int,
        nothing_yet: bool,
    ) -> None:
        """Add the records from the fetch offset to `end` that fit into `room` bytes to `data`."""
        offset = fetch_partition.fetch_offset
        limit = min(fetch_partition.partition_max_bytes, room)
        # Finding the offset may read the index from the disk, which would stop the whole loop:
        # leave that to a thread.  An offset outside the log needs no look-up.
        if offset < end and not self.may_block and offset >= data.log_start_offset:
            cold = partition.log.reader.cold_lookup(offset)
            if cold is not None:
                self.cold.append(cold)
                return
        # KIP-74: the first partition with records sends a whole batch, whatever the limit.
        region = partition.read(
            offset, max(limit, 0), max_offset=end, min_one_batch=nothing_yet and limit >= 0
        )
        if region is not None:
            data.records = region
            self.available_bytes += min(region.size_bytes, fetch_partition.partition_max_bytes)
            if self.committed_only:
                data.aborted_transactions = _aborted(partition, region)
        elif offset < end:
            if limit < 0:
                raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{limit} bytes fetch_partition for")
            # The first batch is larger than the limit.  It counts as if it filled the limit, or
            # the request would wait although records exist.
            self.available_bytes += min(fetch_partition.partition_max_bytes, room + 1)
            if limit > 0:
                data.aborted_transactions = None
        elif offset > end:
            # In the log, but beyond what may be read, for example after a new leader truncated its
            # log.  Like Kafka, do not wait for the end to get there.
            self.at_once = True

    def _ends_in_older_segment(self) -> bool:
        """Return whether a partition has more records that do not fit into this response.

        The records of a response are a region of one segment, so those of later segments need
        another fetch: waiting for more would not help.
        """
        for target, data in self.answers:
            region, partition = data.records, target.partition
            if isinstance(region, Region) and partition is not None:
                end = self._end_of(data, target)
                segment = partition.log.segments.floor(end)
                if segment is not None and segment.base_offset > region.segment_base_offset:
                    return True
        return False

    def _end_of(self, data: PartitionData, target: FetchTarget) -> int:
        """The offset up to which this request may read the partition of `target`."""
        return data.last_stable_offset if self.committed_only else data.high_watermark

    def _add_absent(self, target: FetchTarget, topic: str, *, was_hosted: bool) -> None:
        """Add the answer for a partition that this broker does not host.

        `was_hosted` says that it did when the request began to wait.
        """
        fetch_partition = target.asked
        error = self.broker.hosted.absent_error(topic, fetch_partition.partition)
        if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            state = self.broker.image.topics[topic].partitions[fetch_partition.partition]
            self.answers.append((target, self._refusal(fetch_partition, error, state)))
        elif was_hosted:  # deleted during the wait: an error like any other error of a read
            self.answers.append((target, _nothing(fetch_partition, error)))
            self.at_once = True
        else:
            self._add_unknown(target, error)

    def _refusal(
        self,
        fetch_partition: FetchPartition,
        error: ErrorCode,
        partition: Partition | PartitionImage,
    ) -> PartitionData:
        """The answer for an existing partition that cannot serve the request; ends the wait."""
        self.at_once = True
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self.version < STORAGE_ERROR_SINCE:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = _nothing(fetch_partition, error)
        if self.version >= CURRENT_LEADER_SINCE and error in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            data.current_leader = LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        return data

    def _add_unknown(self, target: FetchTarget, error: ErrorCode) -> None:
        """Add the answer for a topic or a partition that does not exist."""
        data = _nothing(target.asked, error)
        data.aborted_transactions = []
        self.unknown.append((target, data))

    # Answering

    def response(self) -> FetchResponse:
        """The response of the last `read`; the session, if any, records it as sent."""
        plan = self.plan
        session = plan.session
        # During the wait another request came in the same session and made this one void (KIP-227).
        if plan.overtaken:
            assert session is not None
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id
            )
        if self.budget is not None:
            throttle_ms = self.budget.charge(self)
            if throttle_ms:
                return FetchResponse(
                    throttle_time_ms=throttle_ms,
                    session_id=NO_SESSION if session is None else session.id,
                )
        answers = self.answers
        if self.version < DIVERGING_EPOCH_SINCE and _any_diverging(answers):
            # A newer version opened the session; this one has no field for a diverging epoch.
            return failed(self.request, self.version, ErrorCode.UNSUPPORTED_VERSION)
        if self.unknown:  # Kafka's order: unknown ids, unknown partitions, denied partitions
            self.unknown.sort(key=lambda answer: answer[1].error_code != ErrorCode.UNKNOWN_TOPIC_ID)
            answers = answers + self.unknown
        if self.denied:
            answers = answers + self.denied
        session_id = NO_SESSION
        if session is not None:
            session_id = session.id
            session.told(answers)
        elif plan.opens_session:
            session_id = self.broker.fetch_sessions.open(
                answers,
                self.broker.now_ms(),
                by_topic_id=self.by_topic_id,
                privileged=self.from_replica,
            )
        return FetchResponse(session_id=session_id, responses=by_topic(answers))

    async def read_in(self) -> FetchResponse:
        """Let a thread read the `cold` look-ups from the disk, then read and wait as usual.

        It does so once.  If pages leave memory again before the second read, that read blocks.
        """
        for cold in self.cold:
            await trio.to_thread.run_sync(cold.read_in)
        self.may_block = True
        max_wait_ms = self.request.max_wait_ms
        if self.read() or max_wait_ms <= 0:
            return self.response()
        return await self.wait(max_wait_ms)

    async def wait(self, max_wait_ms: int) -> FetchResponse:
        """Read again as records arrive, until it is enough or `max_wait_ms` have passed."""
        self.waiting = True
        targets = self._to_read()
        partitions = [target.partition for target in targets if target.partition is not None]
        waiters = [self._waiters(partition) for partition in partitions]
        parked = ParkedFetch(waiters, self.plan.session)
        with trio.move_on_after(max_wait_ms / 1000) as time, parked:
            # Other tasks ran between `read` and here, while earlier responses were sent.  Records
            # that they appended woke nobody, so compare the watermarks and read again.
            before = self.watermarks
            if before != sum(map(self._watermark, partitions)) and self.read():
                return self.response()
            while not parked.changed:
                # With read_committed bytes that arrive within a transaction are readable only
                # after its marker, so a count of arriving bytes says nothing: wake up for each.
                missing_bytes = 0 if self.committed_only else self.min_bytes - self.available_bytes
                await parked.arrival(missing_bytes)
                if self.read():
                    return self.response()
        # The time is up, or a partition changed: send what there is, with its errors.
        if time.cancelled_caught:
            self._count_expired(self.broker.hosted.expired)
        self.read()
        return self.response()

    def _count_expired(self, expired: ExpiredRequests) -> None:
        expired.consumer_fetches += 1

    def _waiters(self, partition: Partition) -> set[FetchWaiter]:
        """The requests that wait for records of the same kind in `partition`."""
        return partition.fetch_waiters

    def _watermark(self, partition: Partition) -> int:
        """The offset in `partition` whose advance can give this request more records."""
        return partition.high_watermark


def diverging_epoch(fetch_partition: FetchPartition, partition: Partition) -> EpochEndOffset | None:
    """The epoch and offset where the client's log diverges from the leader's (KIP-595), or None.

    LogError if the leader has no such epoch any longer.
    """
    epoch, end_offset = end_offset_for_epoch(partition.log, fetch_partition.last_fetched_epoch)
    if end_offset < 0 or fetch_partition.fetch_offset < partition.log_start_offset:
        raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < fetch_partition.last_fetched_epoch or end_offset < fetch_partition.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _any_diverging(answers: Answers) -> bool:
    return any(data.diverging_epoch is not None for _, data in answers)


def _aborted(partition: Partition, region: Region) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in `region`, for read_committed clients."""
    return [
        AbortedTransaction(producer_id, first_offset)
        for producer_id, first_offset in aborted_in(partition.log, region)
    ]


def _nothing(fetch_partition: FetchPartition, error: ErrorCode) -> PartitionData:
    """Return an answer without records, for a partition that cannot be read."""
    return PartitionData(
        partition_index=fetch_partition.partition,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


def by_topic(answers: Answers) -> list[FetchableTopicResponse]:
    """The answers in their order; consecutive partitions of one topic share an entry."""
    topics: list[FetchableTopicResponse] = []
    name_or_id: str | bytes | None = None
    for target, data in answers:
        if target.key[0] == name_or_id:
            topics[-1].partitions.append(data)
            continue
        name_or_id = target.key[0]
        topics.append(
            FetchableTopicResponse(
                topic=target.topic or "", topic_id=target.topic_id, partitions=[data]
            )
        )
    return topics


def replica_id(request: FetchRequest, version: int) -> int:
    """The id of the broker that sends the request; negative for consumers."""
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return -1 if request.replica_state is None else request.replica_state.replica_id


def failed(request: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """Kafka's response to a request that fails as a whole.

    Clients of old versions look at their partitions only, so each partition of the request gets
    the error; from version 13 on only the response has it.
    """
    topics = []
    for topic in request.topics if version < TOPIC_IDS_SINCE else ():
        partitions = [_nothing(fetch_partition, error) for fetch_partition in topic.partitions]
        for data in partitions:
            data.aborted_transactions = []
        topics.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
    return FetchResponse(error_code=error, session_id=request.session_id, responses=topics)
