"""Fetch in incremental sessions: what a response leaves out, as seen at Apache Kafka 4.3.1."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import trio
from trio.testing import MockClock

from kwire.cluster.metadata.delta import delta_between
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kwire.log import delete_records
from tests.requests.handlers.node import Node

BATCH = 146
Told = list[tuple[int, int, int, int]]


class Client:
    """A client with one fetch session; `reply` is the last response."""

    def __init__(self, node: Node, version: int = 12) -> None:
        self.node = node
        self.version = version
        self.session = 0
        self.epoch = 0
        self.reply = FetchResponse()

    def request(
        self,
        topic: str | bytes = "t",
        *,
        forget: tuple[int, ...] = (),
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        isolation_level: int = 0,
        **offsets: int,
    ) -> FetchRequest:
        """Send the next request of the session; `p0=15` fetches partition 0 from 15."""
        label = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
        asked = [
            FetchPartition(int(name[1:]), fetch_offset=offset, partition_max_bytes=1 << 20)
            for name, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=self.session,
            session_epoch=self.epoch,
            topics=[FetchTopic(**label, partitions=asked)] if asked else [],
        )
        if forget:
            request.forgotten_topics_data = [ForgottenTopic(**label, partitions=list(forget))]
        self.epoch += 1
        return request

    def fetch(self, topic: str | bytes = "t", **fields: int) -> Told:
        """(partition, error, high watermark, bytes of records) of the next reply."""
        request = self.request(topic, **fields)  # type: ignore[arg-type]  # by name
        return self.take(self.node.call(request, self.version))

    def take(self, reply: FetchResponse) -> Told:
        self.reply = reply
        self.session = reply.session_id or self.session
        return [
            (
                data.partition_index,
                data.error_code,
                data.high_watermark,
                len(data.records or b""),  # type: ignore[arg-type]  # records are bytes here
            )
            for topic in reply.responses
            for data in topic.partitions
        ]


@pytest.fixture
def t(node: Node) -> Node:
    """Topic `t`: three empty partitions."""
    node.create("t", 3)
    return node


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_session_response_has_only_changed_partitions(t: Node, version: int) -> None:
    client = Client(t, version)
    topic: str | bytes = t.broker.image.topics["t"].id if version >= 13 else "t"
    assert client.fetch(topic, p0=0, p1=0, p2=0) == [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]
    assert client.reply.session_id > 0
    assert client.fetch(topic) == []
    assert client.reply.session_id == client.session
    t.append("t", 1)
    assert client.fetch(topic) == [(1, 0, 5, BATCH)]
    assert client.fetch(topic) == [(1, 0, 5, BATCH)], "not yet asked beyond: told again"
    assert client.fetch(topic, p1=5) == []


def test_fetch_without_a_session_returns_all_partitions(t: Node) -> None:
    client = Client(t)
    client.epoch = -1
    assert client.fetch(p0=0, p1=0) == [(0, 0, 0, 0), (1, 0, 0, 0)]
    assert client.reply.session_id == 0
    assert len(t.broker.fetch_sessions) == 0


def test_session_reports_a_new_log_start_offset(t: Node) -> None:
    client = Client(t)
    t.append("t")
    client.fetch(p0=5, p1=0)
    assert client.fetch() == []
    delete_records(t.partition("t").log, 3, 5)
    assert client.fetch() == [(0, 0, 5, 0)]
    assert client.reply.responses[0].partitions[0].log_start_offset == 3
    assert client.fetch() == []


def test_session_reports_a_new_high_watermark_past_skipped_records(t: Node) -> None:
    """A consumer that seeks to the end has not read the records."""
    client = Client(t)
    client.fetch(p0=0, p1=0)
    assert client.fetch() == []
    t.append("t")
    assert client.fetch(p0=5) == [(0, 0, 5, 0)]
    assert client.fetch() == []


@pytest.mark.parametrize(("replica_id", "opened"), [(-1, False), (0, True), (7, True)])
def test_session_of_a_follower_replaces_a_consumers_session(
    make_node: Callable[..., Node], replica_id: int, opened: bool
) -> None:
    """Replica id 0 is a follower, too."""
    node = make_node({"max.incremental.fetch.session.cache.slots": "1"})
    node.create("t", 3)
    Client(node).fetch(p0=0, p1=0, p2=0)
    topic = FetchTopic(topic="t", partitions=[FetchPartition(0, partition_max_bytes=100)])
    asked = FetchRequest(replica_id=replica_id, session_epoch=0, topics=[topic])
    reply = node.call(asked, 12)
    assert (reply.session_id != 0) == opened


def test_session_reports_a_new_high_watermark_to_read_committed(t: Node) -> None:
    client = Client(t)
    t.append("t", producer=(7, 0, 0), transactional=True)
    client.fetch(p0=0, isolation_level=1)
    assert client.fetch(isolation_level=1) == []
    t.append("t")
    assert client.fetch(isolation_level=1) == [(0, 0, 10, 0)]
    assert client.fetch(isolation_level=1) == []


def test_session_repeats_errors_and_reports_their_end(t: Node) -> None:
    client = Client(t)
    t.append("t")
    client.fetch(p0=5, p1=0)
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch(p0=99) == [(0, error, -1, 0)]
    assert client.fetch() == [(0, error, -1, 0)]
    assert client.fetch(p0=5) == [(0, 0, 5, 0)]
    assert client.fetch() == []


def test_session_repeats_unknown_partitions(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch("nope", p2=0) == [(2, error, -1, 0)]
    assert client.fetch() == [(2, error, -1, 0)]
    assert client.fetch("nope", forget=(2,)) == []  # type: ignore[arg-type]  # a test's shorthand


def test_session_rotates_partitions_when_responses_are_full(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0, p1=0, p2=0)
    for index in range(3):
        t.append("t", index)
    turns = [client.fetch(max_bytes=10) for _ in range(4)]
    partitions_with_records = [[row[0] for row in turn if row[3]] for turn in turns]
    assert partitions_with_records == [[0], [1], [2], [0]]
    assert [row[0] for row in client.fetch()] == [1, 2, 0]


def test_session_error_is_the_whole_response(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0)
    client.epoch = 5
    assert client.fetch() == []
    assert client.reply == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    client.session, client.epoch = 12345, 1
    assert client.fetch() == []
    assert client.reply == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_session_by_id_follows_created_and_deleted_topics(node: Node) -> None:
    """A session keeps the name of an id; a new topic with this name is another topic."""
    topic_id = node.create("t")
    client = Client(node, 13)
    client.fetch(topic_id, p0=0)
    unheard_of = b"\x07" * 16
    assert client.fetch(unheard_of, p0=0) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, 0)]
    client.fetch(unheard_of, forget=(0,))  # type: ignore[arg-type]  # a test's shorthand
    node.delete("t")
    for _ in range(2):
        assert client.fetch() == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, 0)]
        assert client.reply.responses[0].partitions[0].aborted_transactions == []
    fresh = Client(node, 13)
    assert fresh.fetch(topic_id, p0=0) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, 0)]
    node.create("t")
    for _ in range(2):
        assert client.fetch() == [(0, ErrorCode.INCONSISTENT_TOPIC_ID, -1, 0)]
        assert client.reply.responses[0].partitions[0].aborted_transactions is None
    assert fresh.fetch() == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, 0)]


def test_session_by_name_reads_a_recreated_topic(node: Node) -> None:
    node.create("t")
    client = Client(node)
    client.fetch(p0=0)
    node.delete("t")
    assert client.fetch() == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, 0)]
    node.create("t")
    node.append("t")
    assert client.fetch() == [(0, 0, 5, BATCH)]


def test_session_by_id_finds_a_topic_created_later(node: Node) -> None:
    client = Client(node, 13)
    image = node.broker.image
    topic_id = node.create("t")
    later = node.broker.image
    node.apply(image, delta_between(later, image))
    assert client.fetch(topic_id, p0=0) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, 0)]
    node.apply(later, delta_between(image, later))
    assert client.fetch() == [(0, 0, 0, 0)]


def test_session_with_an_old_leader_epoch_is_fenced(t: Node) -> None:
    client = Client(t)
    request = client.request(p0=0)
    request.topics[0].partitions[0].current_leader_epoch = 0
    client.take(t.call(request, 12))
    assert client.fetch() == []
    t.change_leader("t", 0, leader=1, leader_epoch=1)
    assert client.fetch() == [(0, ErrorCode.FENCED_LEADER_EPOCH, -1, 0)]


def test_session_does_not_wait_for_records_held_back_by_a_limit(t: Node) -> None:
    """A read_committed reader at the log end offset is beyond the last stable offset."""
    client = Client(t)
    t.append("t", producer=(7, 0, 0), transactional=True)
    client.fetch(p0=5, isolation_level=1)
    assert client.fetch(max_wait_ms=1000, isolation_level=1) == []


def test_session_checks_a_leader_epoch_that_is_set_later(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0)
    assert client.fetch() == []
    request = client.request(p0=0)
    request.topics[0].partitions[0].current_leader_epoch = 1
    assert client.take(t.call(request, 12)) == [(0, ErrorCode.UNKNOWN_LEADER_EPOCH, -1, 0)]


def test_session_reports_a_diverging_epoch_without_new_records(t: Node) -> None:
    client = Client(t)
    t.append("t")
    t.change_leader("t", 0, leader=1, leader_epoch=1)
    t.append("t")
    client.fetch(p0=10)
    assert client.fetch() == []
    request = client.request(p0=10)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    assert client.take(t.call(request, 12)) == [(0, 0, 10, 0)]
    assert client.reply.responses[0].partitions[0].diverging_epoch == EpochEndOffset(0, 5)


def test_session_reports_a_failed_disk(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0)
    assert client.fetch() == []
    t.partition("t").log.take_offline()
    assert client.fetch() == [(0, ErrorCode.KAFKA_STORAGE_ERROR, -1, 0)]


def test_session_with_a_diverging_epoch_refuses_an_older_version(
    t: Node,
) -> None:
    client = Client(t)
    request = client.request(p0=9)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    assert client.take(t.call(request, 12)) == [(0, 0, 0, 0)]
    client.version = 11
    error = ErrorCode.UNSUPPORTED_VERSION
    assert client.fetch(p1=0) == [(1, error, -1, 0)]
    assert (client.reply.error_code, client.reply.session_id) == (error, client.session)
    client.version = 12
    assert client.fetch() == [(0, 0, 0, 0), (1, 0, 0, 0)]
    assert client.reply.responses[0].partitions[0].diverging_epoch == EpochEndOffset(0, 0)


async def test_session_wait_ends_with_the_partition_that_got_records(
    t: Node, autojump_clock: MockClock
) -> None:
    client = Client(t)
    client.fetch(p0=0, p1=0, p2=0)

    async def append() -> None:
        await trio.sleep(0.1)
        t.append("t", 2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        reply, seconds = await t.wait_for(client.request(max_wait_ms=500), 12)
    assert (client.take(reply), seconds) == ([(2, 0, 5, BATCH)], 0.1)
    reply, seconds = await t.wait_for(client.request(p2=5, max_wait_ms=500), 12)
    assert (client.take(reply), seconds) == ([], 0.5)


async def test_second_request_in_a_session_makes_the_waiting_one_void(
    t: Node, autojump_clock: MockClock
) -> None:
    client = Client(t)
    client.fetch(p0=0)
    first = client.request(max_wait_ms=500)

    async def second() -> None:
        await trio.sleep(0.1)
        assert client.fetch() == []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(second)
        reply, seconds = await t.wait_for(first, 12)
    assert seconds == 0.5
    assert reply == FetchResponse(
        error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=client.session
    )
    assert client.fetch() == []
    assert client.reply.error_code == 0


# -- what a session does not read


def test_session_reads_only_partitions_with_news(t: Node) -> None:
    """Its cost does not depend on the number of its partitions."""
    client = Client(t)
    client.fetch(p0=0, p1=0, p2=0)
    client.fetch()
    session = t.broker.fetch_sessions._sessions[client.session]
    assert (session.watched, dict(session.unread)) == (3, {})
    t.append("t", 1)
    assert session.watched == 2
    assert client.fetch() == [(1, 0, 5, BATCH)]
    assert client.fetch(p1=5) == []
    assert session.watched == 3


def test_ended_session_watches_nothing(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0, p1=0)
    client.take(t.call(client.request(forget=(1,)), 12))
    assert t.partition("t", 0).watches
    assert not t.partition("t", 1).watches
    client.epoch = -1
    client.fetch(p0=0)
    assert not t.partition("t", 0).watches


def test_displaced_session_watches_nothing(t: Node) -> None:
    client = Client(t)
    client.fetch(p0=0)
    client.fetch()
    t.broker.fetch_sessions._sessions[client.session].end()
    assert not t.partition("t", 0).watches


async def test_waiting_session_answers_after_records_of_a_watched_partition(
    t: Node, autojump_clock: MockClock
) -> None:
    client = Client(t)
    client.fetch(p0=0, p1=0)
    client.fetch()

    async def append_later() -> None:
        await trio.sleep(1)
        t.append("t", 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append_later)
        reply, seconds = await t.wait_for(client.request(max_wait_ms=5_000), 12)
    assert (client.take(reply), seconds) == ([(1, 0, 5, BATCH)], 1.0)
    assert not t.partition("t", 1).fetch_waiters


async def test_ending_a_session_leaves_its_waiting_request_waiting(
    t: Node, autojump_clock: MockClock
) -> None:
    client = Client(t)
    client.fetch(p0=0, p1=0)
    client.fetch()

    async def end_then_append() -> None:
        await trio.sleep(1)
        other = Client(t)
        other.session, other.epoch = client.session, -1
        other.fetch(p0=0)
        await trio.sleep(1)
        t.append("t", 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_then_append)
        reply, seconds = await t.wait_for(client.request(max_wait_ms=5_000), 12)
    assert (client.take(reply), seconds) == ([(1, 0, 5, BATCH)], 2.0)


class Actions:
    """Random changes of three partitions, and fetches of two sessions that get the same requests.

    One session is made to read all its partitions each time.
    """

    def __init__(self, node: Node, draw: random.Random) -> None:
        self.node = node
        self.draw = draw
        self.sessions = [Client(node), Client(node)]
        self.offsets: dict[str, int] = {}

    def act(self) -> None:
        """Do one thing at random."""
        index = self.draw.randrange(3)
        partition = self.node.partition("t", index)
        log = partition.log
        match self.draw.randrange(5):
            case 0:
                self.node.append("t", index)
            case 1 if log.log_start_offset < log.log_end_offset:
                end = log.log_end_offset
                delete_records(log, self.draw.randint(log.log_start_offset, end), end)
            case _:
                self.fetch()

    def fetch(self) -> None:
        """Send both sessions the same request, and compare the responses."""
        news = {f"p{index}": at for index, at in self._wanted()}
        forget = (2,) if self.offsets and self.draw.random() < 0.05 else ()
        max_bytes = self.draw.choice([1, 2 * BATCH, 1 << 20])
        told = []
        for number, client in enumerate(self.sessions):
            session = self.node.broker.fetch_sessions._sessions.get(client.session)
            if number and session is not None:
                for target in session.targets.values():
                    session.distrust(target)
            request = client.request("t", forget=forget, max_bytes=max_bytes, **news)
            told.append((client.take(self.node.call(request, 12)), client.reply.error_code))
        self.offsets |= {name: at for name, at in news.items() if forget != (2,) or name != "p2"}
        assert told[0] == told[1]

    def _wanted(self) -> Iterator[tuple[int, int]]:
        """The partitions that the next request changes: all in the first one."""
        for index in range(3):
            log = self.node.partition("t", index).log
            if not self.offsets or self.draw.random() < 0.3:
                yield index, self.draw.randint(log.log_start_offset, log.log_end_offset)


@pytest.mark.parametrize("seed", range(20))
def test_session_answers_as_one_that_reads_all_its_partitions(t: Node, seed: int) -> None:
    actions = Actions(t, random.Random(seed))
    for _ in range(60):
        actions.act()
