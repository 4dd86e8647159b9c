"""The work of a Fetch, for consumers; kwire.requests.handlers.fetching.replica_fetch is that for
followers.

How it is to be answered is at the head of kwire.requests.handlers.fetch.
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
from kwire.storage.partitions.purgatory import ParkedFetch

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
    """What a consumer may be given, where that is bounded: see kwire.security.quotas."""

    def charge(self, fetch: Fetch) -> int:
        """Pay for what was found; for how many ms the consumer rests instead, 0 if it may have it.

        Who rests is answered without records, and asks again (KIP-219).
        """


class Fetch:
    """One request being answered: `read`, perhaps several times, until it is enough to respond.

    `answers` are what the last `read` found in the partitions that are here, in the order they
    were read, and `unknown` are those that are not.  An incremental fetch leaves out of `answers`
    the partitions with nothing to tell.  `available_bytes` is what counts towards `min_bytes`
    while the request waits, as `read_bytes` does when it comes in; they differ (as Apache Kafka's
    do) where the limits keep records back.  `cold` are look-ups that would wait for the disk.
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
        plan = self.plan = copy(self.plan)
        plan.targets = dict(plan.targets)
        for key in keys:
            target = plan.targets.pop(key)
            data = _nothing(target.asked, error)
            data.aborted_transactions = []
            self.denied.append((target, data))

    # Reading

    def read(self) -> bool:
        """Look at all partitions anew; True if there is no reason to wait (any longer)."""
        answers: Answers = []
        self.answers, self.unknown = answers, []
        self.at_once = False
        self.available_bytes = 0
        node_id = self.broker.node_id
        committed_only = self.committed_only
        incremental = self.plan.session is not None
        room = self.max_bytes
        nothing_yet = True
        found = read_bytes = watermarks = 0
        for target in self.plan.targets.values():
            partition = target.partition
            if partition is None or partition.leader != node_id:
                partition = self._find(target)
                if partition is None:
                    continue
            found += 1
            asked = target.asked
            log = partition.log
            watermark = partition.high_watermark
            watermarks += watermark
            if (  # nothing to read and nothing to tell: most partitions of a session, most times
                incremental
                and asked.fetch_offset == watermark == target.high_watermark
                and target.log_start_offset == log.log_start_offset
                and not log.offline
                and asked.current_leader_epoch in (-1, partition.leader_epoch)
                and asked.last_fetched_epoch < 0
                and (not committed_only or partition.last_stable_offset == watermark)
            ):
                continue
            try:
                data = self._read(asked, partition, room, nothing_yet)
            except LogError as error:
                data = self._refusal(asked, error.error, partition)
            region = data.records
            if isinstance(region, Region):
                read_bytes += region.size_bytes
                room -= region.size_bytes
                nothing_yet = False
            room = max(0, room)  # a negative `max_bytes` spoils the first partition only
            if not (incremental and target.knows(data)):
                answers.append((target, data))
        self.watermarks = watermarks
        return (
            read_bytes >= self.min_bytes
            or self.at_once
            or found == 0
            or self.available_bytes >= self.min_bytes
            or self._ends_in_older_segment()
        )

    def _find(self, target: FetchTarget) -> Partition | None:
        """Who serves `target`; None after noting why nobody does."""
        was_here = self.waiting and target.partition is not None
        target.partition = None
        if target.topic is None:
            target.topic = self.broker.metadata.topic_name(target.topic_id)
            if target.topic is None:
                self._note_unknown(target, ErrorCode.UNKNOWN_TOPIC_ID)
                return None
        partition = self.broker.hosted.get(target.topic, target.asked.partition)
        if partition is None:
            self._note_absent(target, target.topic, was_here=was_here)
            return None
        if self.by_topic_id and partition.topic_id != target.topic_id:
            error = ErrorCode.INCONSISTENT_TOPIC_ID  # the session is older than the topic
        elif not (partition.is_leader or self._may_read_follower(partition)):
            error = partition.why_not_led()
        else:
            target.partition = partition
            return partition
        self.answers.append((target, self._refusal(target.asked, error, partition)))
        return None

    def _may_read_follower(self, partition: Partition) -> bool:
        """Consumers that say where they are may be sent to a near replica (KIP-392)."""
        return partition.following and self.version >= RACK_SINCE

    def _read(
        self, asked: FetchPartition, partition: Partition, room: int, nothing_yet: bool
    ) -> PartitionData:
        """What one partition has for this request; LogError if the request is wrong for it."""
        if asked.current_leader_epoch >= 0:
            partition.check_leader_epoch(asked.current_leader_epoch)
        log = partition.log
        log.check_online()
        watermark = partition.high_watermark
        stable = partition.last_stable_offset
        end = stable if self.committed_only else watermark
        data = PartitionData(
            partition_index=asked.partition,
            high_watermark=watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self.committed_only else None,
            records=b"",
        )
        if asked.last_fetched_epoch >= 0:
            diverging = diverging_epoch(asked, partition)
            if diverging is not None:
                data.diverging_epoch = diverging
                data.aborted_transactions = None
                self.at_once = True
                return data
        self._add_records(data, asked, partition, end, room, nothing_yet)
        return data

    def _add_records(
        self,
        data: PartitionData,
        asked: FetchPartition,
        partition: Partition,
        end: int,
        room: int,
        nothing_yet: bool,
    ) -> None:
        """Put in what may be read up to `end` and sent within `room` bytes."""
        offset = asked.fetch_offset
        limit = min(asked.partition_max_bytes, room)
        if offset < end and not self.may_block and offset >= data.log_start_offset:
            cold = partition.log.reader.cold_lookup(offset)
            if cold is not None:
                self.cold.append(cold)
                return
        region = partition.read(
            offset, max(limit, 0), max_offset=end, min_one_batch=nothing_yet and limit >= 0
        )
        if region is not None:
            data.records = region
            self.available_bytes += min(region.size_bytes, asked.partition_max_bytes)
            if self.committed_only:
                data.aborted_transactions = _aborted(partition, region)
        elif offset < end:
            if limit < 0:
                raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{limit} bytes asked for")
            # its first batch is larger than a limit: it counts as filling that
            self.available_bytes += min(asked.partition_max_bytes, room + 1)
            if limit > 0:
                data.aborted_transactions = None
        elif offset > end:
            self.at_once = True

    def _ends_in_older_segment(self) -> bool:
        """Whether more could be read, but not in this reply: a region is of one segment."""
        for target, data in self.answers:
            region, partition = data.records, target.partition
            if isinstance(region, Region) and partition is not None:
                end = self._end_of(data, target)
                segment = partition.log.segments.floor(end)
                if segment is not None and segment.base_offset > region.segment_base_offset:
                    return True
        return False

    def _end_of(self, data: PartitionData, target: FetchTarget) -> int:
        """Up to where a partition might have been read."""
        return data.last_stable_offset if self.committed_only else data.high_watermark

    def _note_absent(self, target: FetchTarget, topic: str, *, was_here: bool) -> None:
        asked = target.asked
        error = self.broker.hosted.absent_error(topic, asked.partition)
        if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            state = self.broker.image.topics[topic].partitions[asked.partition]
            self.answers.append((target, self._refusal(asked, error, state)))
        elif was_here:  # deleted meanwhile: told as any other error of a read
            self.answers.append((target, _nothing(asked, error)))
            self.at_once = True
        else:
            self._note_unknown(target, error)

    def _refusal(
        self, asked: FetchPartition, error: ErrorCode, partition: Partition | PartitionImage
    ) -> PartitionData:
        """The answer for a partition that is here but cannot be read as asked."""
        self.at_once = True
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self.version < STORAGE_ERROR_SINCE:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = _nothing(asked, error)
        if self.version >= CURRENT_LEADER_SINCE and error in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            data.current_leader = LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        return data

    def _note_unknown(self, target: FetchTarget, error: ErrorCode) -> None:
        data = _nothing(target.asked, error)
        data.aborted_transactions = []
        self.unknown.append((target, data))

    # Answering

    def response(self) -> FetchResponse:
        """What the last `read` found, as a reply; the session (if any) takes it as told."""
        plan = self.plan
        session = plan.session
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
            # the session was opened by a version that can ask for this and tell it
            return failed(self.request, self.version, ErrorCode.UNSUPPORTED_VERSION)
        if self.unknown:
            self.unknown.sort(key=lambda each: each[1].error_code != ErrorCode.UNKNOWN_TOPIC_ID)
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
        """Have a thread read what `read` would have waited for, then go on as if nothing had been.

        Once: what has gone from memory again by then is waited for.
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
        targets = self.plan.targets.values()
        partitions = [target.partition for target in targets if target.partition is not None]
        waiters = [self._waiters(partition) for partition in partitions]
        with trio.move_on_after(max_wait_ms / 1000), ParkedFetch(waiters) as parked:
            # Replies to earlier requests may have been sent since `read`, and others have run.
            before = self.watermarks
            if before != sum(map(self._watermark, partitions)) and self.read():
                return self.response()
            while not parked.changed:
                # What arrives within a transaction can be read only later, so it does not count.
                missing_bytes = 0 if self.committed_only else self.min_bytes - self.available_bytes
                await parked.arrival(missing_bytes)
                if self.read():
                    return self.response()
        self.read()
        return self.response()

    def _waiters(self, partition: Partition) -> set[FetchWaiter]:
        """Those who wait there for what this one can read."""
        return partition.fetch_waiters

    def _watermark(self, partition: Partition) -> int:
        """Where what it can read of a partition ends, of all that is written there."""
        return partition.high_watermark


def diverging_epoch(asked: FetchPartition, partition: Partition) -> EpochEndOffset | None:
    """Where the fetcher's log leaves the leader's, if it does (KIP-595); LogError if unknown."""
    epoch, end_offset = end_offset_for_epoch(partition.log, asked.last_fetched_epoch)
    if end_offset < 0 or asked.fetch_offset < partition.log_start_offset:
        raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _any_diverging(answers: Answers) -> bool:
    return any(data.diverging_epoch is not None for _, data in answers)


def _aborted(partition: Partition, region: Region) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id, first_offset)
        for producer_id, first_offset in aborted_in(partition.log, region)
    ]


def _nothing(asked: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=asked.partition,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


def by_topic(answers: Answers) -> list[FetchableTopicResponse]:
    """Neighbours of one topic share an entry; the order stays as it is."""
    topics: list[FetchableTopicResponse] = []
    label: str | bytes | None = None
    for target, data in answers:
        if target.key[0] == label:
            topics[-1].partitions.append(data)
            continue
        label = target.key[0]
        topics.append(
            FetchableTopicResponse(
                topic=target.topic or "", topic_id=target.topic_id, partitions=[data]
            )
        )
    return topics


def replica_id(request: FetchRequest, version: int) -> int:
    """Which broker asks; negative for consumers."""
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return -1 if request.replica_state is None else request.replica_state.replica_id


def failed(request: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """Kafka's answer to a request that it could not carry out.

    Clients of old versions look at their partitions only, so all that the request names get the
    error; from version 13 on it is told once.
    """
    topics = []
    for topic in request.topics if version < TOPIC_IDS_SINCE else ():
        partitions = [_nothing(asked, error) for asked in topic.partitions]
        for data in partitions:
            data.aborted_transactions = []
        topics.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
    return FetchResponse(error_code=error, session_id=request.session_id, responses=topics)
