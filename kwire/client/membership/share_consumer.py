"""A consumer of a share group (KIP-932): reads records and acknowledges them.

The consumer holds each record until the acquisition lock ends.  Unacknowledged records are released
at the end of the session.  That counts as a delivery.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, BrokerUnreachable, RequestTimedOut, check
from kwire.client.fetcher import FETCH_SIZE_BYTES_MAX, ConsumedRecord, records_of
from kwire.client.membership.share import ShareMember
from kwire.codecs.batches import check_crc, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import share_acknowledge, share_fetch
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import PartitionData, ShareFetchRequest

ROLE: Final = "share"
RECORDS_MAX: Final = 500
"""Kafka's default of max.poll.records."""
STRICT: Final = 1
"""`share_acquire_mode`, from version 2 on: no more records than `max_records`."""
BEGIN_EPOCH, END_EPOCH = 0, -1
_SESSION_OVER = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class Acknowledgement(IntEnum):
    """How a record is acknowledged.  The values are those of the protocol."""

    NO_RECORD = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


@dataclass(slots=True)
class _Session:
    """The share session with one broker.  It ends with its connection."""

    connection: BrokerConnection
    epoch: int = BEGIN_EPOCH
    places: set[TopicPartition] = field(default_factory=set)
    held: dict[TopicPartition, list[tuple[int, int, list[int]]]] = field(default_factory=dict)
    """Unacknowledged ranges (first and last offset), with the offsets that have records."""


class ShareConsumer:
    """A share consumer that acknowledges all its records in the same way, at each `commit`."""

    def __init__(
        self, cluster: Cluster, group_id: str, topics: Iterable[str], kind: Acknowledgement
    ) -> None:
        """`kind` is the acknowledgement of each record that `poll` returns: accept, release or
        reject."""
        self._cluster = cluster
        self._kind = kind
        self._member = ShareMember(cluster, group_id, topics)
        self._sessions: dict[int, _Session] = {}
        self.is_at_end = False
        """Whether the last poll found no records for this member."""

    @property
    def gives_back(self) -> bool:
        """Whether records are released; then the end of the session is enough."""
        return self._kind is Acknowledgement.RELEASE

    @property
    def has_joined(self) -> bool:
        """Whether the member has partitions."""
        return bool(self._member.assignment)

    def poll(self, timeout_s: float, at_most: int | None = None) -> list[ConsumedRecord]:
        """The next records, at most `at_most`; none if there are none within `timeout_s`."""
        self._member.beat()
        try:
            by_leader = self._cluster.by_leader(self._member.assignment)
            for leader, topics in by_leader.items():
                places = [place for partitions in topics.values() for place in partitions]
                wait_s = timeout_s / len(by_leader)
                records = self._fetch(leader, places, wait_s, at_most or RECORDS_MAX)
                if records:
                    self.is_at_end = False
                    return records
        except (BrokerUnreachable, RequestTimedOut, BrokerRefused) as error:
            self._handle(error)
            return []
        self.is_at_end = self.has_joined
        if not by_leader:
            time.sleep(timeout_s)
        return []

    def commit(self) -> None:
        """Acknowledge all records that were read."""
        for leader, session in list(self._sessions.items()):
            if session.held and not session.connection.closed:
                self._acknowledge(leader, session)

    def close(self) -> None:
        """Release the records that are not acknowledged, and leave the group."""
        group_id, member_id = self._member.group_id, self._member.member_id
        for session in self._sessions.values():
            if session.epoch != BEGIN_EPOCH and not session.connection.closed:
                session.connection.call(ShareAcknowledgeRequest(group_id, member_id, END_EPOCH))
        self._sessions.clear()
        self._member.leave()

    # -- requests to the leaders

    def _fetch(
        self, leader: int, places: list[TopicPartition], wait_s: float, at_most: int
    ) -> list[ConsumedRecord]:
        """Acquires at most `at_most` records of the partitions `places` from one leader, waiting at
        most `wait_s` seconds.  The request names only changes to the partitions of the share
        session."""
        session = self._session(leader)
        added, removed = set(places) - session.places, session.places - set(places)
        request = ShareFetchRequest(
            self._member.group_id,
            self._member.member_id,
            session.epoch,
            max_wait_ms=int(wait_s * 1000),
            min_bytes=1,
            max_bytes=FETCH_SIZE_BYTES_MAX,
            max_records=at_most,
            batch_size=at_most,
            topics=[
                share_fetch.FetchTopic(
                    topic_id, [share_fetch.FetchPartition(index) for index in indexes]
                )
                for topic_id, indexes in self._by_id(added)
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id, indexes)
                for topic_id, indexes in self._by_id(removed)
            ],
        )
        if session.connection.version_for(request) >= 2:
            request.share_acquire_mode = STRICT
        reply = self._call(leader, session, request)
        session.places = set(places)
        return [
            record
            for topic in reply.responses
            for data in topic.partitions
            for record in self._take(session, topic.topic_id, data)
        ]

    def _session(self, leader: int) -> _Session:
        """Return the share session with a leader.  After a new connection the session begins anew,
        since the leader ends a session together with its connection."""
        connection = self._cluster.node(leader, ROLE)
        session = self._sessions.get(leader)
        if session is None or session.connection is not connection:
            session = self._sessions[leader] = _Session(connection)
        return session

    def _call(
        self, leader: int, session: _Session, request: ShareFetchRequest | ShareAcknowledgeRequest
    ) -> Any:  # noqa: ANN401 - the response of either request
        """The response to a request of the session.  An error ends the session."""
        reply = session.connection.call(request)
        if reply.error_code:
            del self._sessions[leader]
        check(reply.error_code, f"share session with broker {leader}", reply.error_message)
        session.epoch += 1
        return reply

    def _take(
        self, session: _Session, topic_id: bytes, data: PartitionData
    ) -> list[ConsumedRecord]:
        """The records of a partition that this member acquired.

        Their batches may also have records that other members hold.
        """
        place = TopicPartition(self._cluster.topic_name(topic_id) or "", data.partition_index)
        check(data.error_code, f"share fetch of {place}", data.error_message)
        records = _records(place, data)
        acquired = []
        for run in data.acquired_records:
            in_run = [r for r in records if run.first_offset <= r.offset <= run.last_offset]
            offsets = [record.offset for record in in_run]
            held = session.held.setdefault(place, [])
            held.append((run.first_offset, run.last_offset, offsets))
            acquired += in_run
        return acquired

    def _acknowledge(self, leader: int, session: _Session) -> None:
        """Acknowledges all records that were acquired from one leader.  Raises BrokerRefused if the
        leader refuses, for example because the acquisition lock has ended."""
        held, session.held = session.held, {}
        ids = self._cluster.topic_ids(sorted({place.topic for place in held}))
        topics: dict[bytes, list[share_acknowledge.AcknowledgePartition]] = {}
        for place, runs in held.items():
            if place.topic in ids:
                batches = [self._batch(*run) for run in runs]
                topics.setdefault(ids[place.topic], []).append(
                    share_acknowledge.AcknowledgePartition(place.partition, batches)
                )
        request = ShareAcknowledgeRequest(
            self._member.group_id,
            self._member.member_id,
            session.epoch,
            topics=[share_acknowledge.AcknowledgeTopic(*topic) for topic in topics.items()],
        )
        reply = self._call(leader, session, request)
        for topic in reply.responses:
            for result in topic.partitions:
                what = f"acknowledge records of {self._cluster.topic_name(topic.topic_id)}"
                check(result.error_code, what, result.error_message)

    def _batch(
        self, first: int, last: int, offsets: list[int]
    ) -> share_acknowledge.AcknowledgementBatch:
        """Return the acknowledgement of the acquired offsets `first` to `last`.  Offsets that are
        not in `offsets` have no record (they were compacted, or are markers) and are acknowledged
        as gaps."""
        with_record = set(offsets)
        types = [
            int(self._kind if offset in with_record else Acknowledgement.NO_RECORD)
            for offset in range(first, last + 1)
        ]
        return share_acknowledge.AcknowledgementBatch(first, last, types)

    def _by_id(self, places: Iterable[TopicPartition]) -> list[tuple[bytes, list[int]]]:
        """Partition indexes by topic id; topics that do not exist are left out."""
        indexes_by_topic: dict[str, list[int]] = {}
        for place in sorted(places):
            indexes_by_topic.setdefault(place.topic, []).append(place.partition)
        ids = self._cluster.topic_ids(sorted(indexes_by_topic))
        return [(ids[name], indexes) for name, indexes in indexes_by_topic.items() if name in ids]

    def _handle(self, error: BrokerUnreachable | RequestTimedOut | BrokerRefused) -> None:
        """Prepare the next poll after an error.  Raises it if it is not retriable."""
        session_ended = isinstance(error, BrokerRefused) and error.code in _SESSION_OVER
        if not session_ended and not error.retriable:
            raise error
        self._cluster.tell_of_trouble(error)
        for topic in self._member.topics:
            self._cluster.forget_leader(topic)
        time.sleep(BACKOFF_S)


def _records(place: TopicPartition, data: PartitionData) -> list[ConsumedRecord]:
    """Return the records in a partition of a response, without markers.  Raises an error if a
    batch is damaged."""
    batches = data.records or b""
    assert isinstance(batches, bytes | memoryview), "decoding makes slices of the frame"
    view = memoryview(batches)
    consumed: list[ConsumedRecord] = []
    for position, header in iter_batches(view):
        check_crc(view, position, header)
        if not header.is_control:
            consumed += records_of(place, header.base_offset, view, position, header)
    return consumed
