"""The queue of dead letters: order, retries, and no dead letter twice."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.batches import Compression, Record, build, iter_batches, recompress, records
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.dead_letters import (
    Cause,
    DeadLetters,
    DeadLetterTopicState,
    LetterSource,
)
from kwire.coordinators.share_partitions.dead_letter_batches import (
    PendingLetters,
    copies,
    letter_batch,
)
from kwire.coordinators.share_partitions.dead_letter_queue import ATTEMPTS, DeadLetterQueue
from kwire.coordinators.share_partitions.limits import ShareDeliverySettings
from kwire.log import LogError
from tests.coordinators.share_partitions.simulation.logs import Bytes

TOPIC, NOW_MS = "dlq.t", 1_700_000_000_000
REST_S = 100.0
SETTINGS = ShareDeliverySettings(cast("Any", None), "earliest", False, TOPIC)


class Source:
    """The partition that a group reads, with these batches."""

    topic, index = "t", 0

    def __init__(self, *batches: bytes) -> None:
        self.batches = batches
        self.high_watermark = sum(header.last_offset_delta + 1 for _, header in self._headers())

    def _headers(self) -> list[Any]:
        return [header for batch in self.batches for header in iter_batches(batch)]

    def read(self, offset: int, size_bytes: int, *, max_offset: int, **_: bool) -> Bytes | None:
        """As Partition.read; one batch at a time."""
        if offset < 0:
            raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE)
        for batch in self.batches:
            for _pos, header in iter_batches(batch):
                if header.last_offset >= offset:
                    return Bytes(batch)
        return None


class DeadTopic:
    """A dead-letter topic with one partition, which takes the place of a DeadLetterTopics too."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.answers: list[ErrorCode] = []
        """The answers to the next appends; later ones succeed."""
        self.lands: list[bool] = []
        """Whether the next appends take effect, whatever the answer."""
        self.reads: list[ErrorCode] = []
        """The answers to the next reads."""
        self.read_from: list[int] = []
        self.asked: list[int] = []
        self.known = DeadLetterTopicState(True, True, "dlq.", True)
        self.creations: list[Exception | None] = []
        self.has_leader = True
        self.limit = 1 << 20

    def state(self, topic: str) -> DeadLetterTopicState:
        return self.known

    def size_bytes_max(self, topic: str) -> int:
        return self.limit

    async def create(self, topic: str) -> None:
        await trio.lowlevel.checkpoint()
        problem = self.creations.pop(0)
        if problem is not None:
            raise problem
        self.known = self.known._replace(exists=True, is_enabled=True)

    def partition(self, topic: str, source_partition: int) -> DeadTopic | None:
        self.asked.append(source_partition)
        return self if self.has_leader else None

    async def append(self, batch: bytearray) -> ErrorCode:
        await trio.lowlevel.checkpoint()
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if self.lands.pop(0) if self.lands else answer is ErrorCode.NONE:
            self.batches.append(bytes(batch))
        return answer

    async def read(self, offset: int) -> bytes:
        await trio.lowlevel.checkpoint()
        self.read_from.append(offset)
        if self.reads and (error := self.reads.pop(0)) is not ErrorCode.NONE:
            raise LogError(error)
        at = 0
        for batch in self.batches:
            [(_, header)] = iter_batches(batch)
            if at >= offset:
                moved = bytearray(batch)
                moved[:8] = at.to_bytes(8, "big")
                return bytes(moved)
            at += header.last_offset_delta + 1
        return b""

    @property
    def letters(self) -> list[int]:
        """The offsets of all dead letters, in order."""
        return [
            int(record.headers[2][1] or b"") for batch in self.batches for record in records(batch)
        ]


class Queue:
    """A queue that writes to a dead-letter topic, and what became of its entries."""

    def __init__(self) -> None:
        self.topic = DeadTopic()
        nursery = SimpleNamespace(start_soon=trio.lowlevel.spawn_system_task)
        node: Any = SimpleNamespace(running_nursery=nursery, now_ms=lambda: NOW_MS)
        self.settings = SETTINGS
        self._queue = DeadLetterQueue(node, cast("Any", None), cast("Any", self))
        self._queue.topics = cast("Any", self.topic)
        self.done: list[tuple[int, int]] = []
        self.done_at_s = 0.0
        self.source = Source()

    @property
    def counts(self) -> tuple[int, int]:
        """The records with a dead letter, and those that were given up."""
        return self._queue.written, self._queue.given_up

    def of(self, group_id: str) -> ShareDeliverySettings:
        return self.settings

    def send(
        self,
        first: int,
        last: int,
        *,
        may_be_written: bool = False,
        is_wanted: Callable[[], bool] = lambda: True,
        group: str = "g",
    ) -> None:
        self._queue.send(
            group,
            cast("Any", self.source),
            DeadLetters(first, last, 2, Cause.REJECTED),
            may_be_written=may_be_written,
            is_wanted=is_wanted,
            done=lambda: self._finished(first, last),
        )

    def _finished(self, first: int, last: int) -> None:
        self.done.append((first, last))
        self.done_at_s = trio.current_time()

    async def rest(self) -> None:
        """Wait longer than all attempts take; the queue is empty then."""
        await trio.sleep(REST_S)
        assert not self._queue._lanes


@pytest.fixture
def queue() -> Queue:
    return Queue()


async def test_dead_letters_are_written_in_order_and_together(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.send(0, 1)
    queue.send(5, 5)
    await queue.rest()
    assert queue.topic.letters == [0, 1, 5]
    assert len(queue.topic.batches) == 1
    assert queue.done == [(0, 1), (5, 5)]
    assert queue.topic.read_from == [], "nothing is searched"


async def test_dead_letters_that_do_not_fit_follow_in_later_batches(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.topic.limit = 500
    queue.send(0, 5)
    queue.send(6, 6)
    await queue.rest()
    assert queue.topic.letters == [0, 1, 2, 3, 4, 5, 6]
    assert all(len(batch) <= 500 for batch in queue.topic.batches)
    assert 3 <= len(queue.topic.batches) <= 5


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_dead_letters_are_written_once_after_an_unclear_answer(
    autojump_clock: MockClock, queue: Queue, error: ErrorCode, lands: bool
) -> None:
    queue.topic.answers, queue.topic.lands = [error], [lands]
    queue.send(0, 2)
    await queue.rest()
    assert queue.topic.letters == [0, 1, 2]
    assert queue.done == [(0, 2)]


async def test_resumed_dead_letters_are_written_only_if_they_are_missing(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.send(3, 4)
    queue.send(6, 6)
    await queue.rest()
    queue.send(2, 7, may_be_written=True)
    await queue.rest()
    assert queue.topic.letters == [3, 4, 6, 2, 5, 7]
    assert queue.done[-1] == (2, 7)


async def test_resumed_dead_letters_that_are_all_there_are_not_written_again(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.send(0, 3)
    await queue.rest()
    queue.send(1, 2, may_be_written=True)
    await queue.rest()
    assert queue.topic.letters == [0, 1, 2, 3]
    assert queue.done[-1] == (1, 2)
    assert queue.counts == (6, 0)


async def test_compressed_dead_letters_are_found(autojump_clock: MockClock, queue: Queue) -> None:
    queue.send(0, 1)
    await queue.rest()
    queue.topic.batches[0] = bytes(recompress(queue.topic.batches[0], Compression.GZIP))
    queue.send(0, 1, may_be_written=True)
    await queue.rest()
    assert queue.topic.letters == [0, 1]


async def test_dead_letters_of_another_group_or_topic_are_not_taken_for_these(
    autojump_clock: MockClock,
    queue: Queue,
) -> None:
    queue.send(0, 0, group="other")
    queue.source.topic = "u"
    queue.send(0, 0)
    await queue.rest()
    queue.source.topic = "t"
    queue.send(0, 0, may_be_written=True)
    await queue.rest()
    assert queue.topic.letters == [0, 0, 0]


async def test_resumed_dead_letters_wait_for_those_that_are_being_written(
    autojump_clock: MockClock, queue: Queue
) -> None:
    """A share partition is opened again while its earlier dead letters are not written yet."""
    queue.send(0, 3)
    queue.send(1, 2, may_be_written=True)
    queue.send(0, 5, may_be_written=True)
    await queue.rest()
    assert queue.topic.letters == [0, 1, 2, 3, 4, 5]
    assert queue.done == [(0, 3), (1, 2), (0, 5)]


async def test_topic_is_read_twice_and_to_its_end_in_a_search(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.send(0, 0, may_be_written=True)
    await queue.rest()
    assert queue.topic.read_from == [0, 0], "the second read sees what the first came before"
    queue.send(9, 9)
    await queue.rest()
    queue.topic.read_from = []
    queue.send(5, 5, may_be_written=True)
    await queue.rest()
    assert queue.topic.read_from == [0, 1, 2]


async def test_dead_letters_are_given_up_after_the_last_attempt(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.topic.answers = [ErrorCode.NETWORK_EXCEPTION] * ATTEMPTS
    queue.topic.lands = [False] * ATTEMPTS
    start_s = trio.current_time()
    queue.send(0, 0)
    queue.send(1, 1)
    await queue.rest()
    assert 15 <= queue.done_at_s - start_s < 16
    assert (queue.topic.letters, queue.done) == ([], [(0, 0), (1, 1)])
    assert queue.counts == (0, 2)


async def test_dead_letters_are_given_up_if_the_topic_cannot_be_read(
    autojump_clock: MockClock, queue: Queue
) -> None:
    queue.topic.reads = [ErrorCode.NETWORK_EXCEPTION] * ATTEMPTS
    queue.send(0, 0, may_be_written=True)
    await queue.rest()
    assert (queue.topic.letters, queue.done) == ([], [(0, 0)])


async def test_dead_letters_wait_for_a_leader(autojump_clock: MockClock, queue: Queue) -> None:
    queue.topic.has_leader = False
    queue.send(0, 0)
    await trio.sleep(1.5)
    assert queue.done == []
    queue.topic.has_leader = True
    await queue.rest()
    assert queue.topic.letters == [0]


async def test_refused_batch_is_given_up_at_once(autojump_clock: MockClock, queue: Queue) -> None:
    queue.topic.answers = [ErrorCode.MESSAGE_TOO_LARGE]
    queue.send(0, 0)
    await queue.rest()
    assert (queue.topic.letters, queue.done) == ([], [(0, 0)])


async def test_nothing_is_written_to_a_topic_that_may_not_have_dead_letters(
    autojump_clock: MockClock, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.topic.known = DeadLetterTopicState(True, False, "dlq.", True)
    queue.send(0, 0)
    await queue.rest()
    assert (queue.topic.letters, queue.done) == ([], [(0, 0)])
    [logged] = caplog.messages
    assert logged == (
        "Cannot write the dead letters of offsets 0 to 0 of t-0 in share group g: DLQ is not "
        "enabled on configured DLQ topic for share group: g, topic: dlq.t. The records are "
        "archived all the same."
    )


@pytest.mark.parametrize(
    ("problems", "letters"),
    [
        ([None], [0]),
        ([StoreError("away"), None], [0]),
        ([Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "no")], []),
        ([StoreError("away")] * ATTEMPTS, []),
    ],
    ids=["at once", "later", "never", "not in time"],
)
async def test_missing_topic_is_created(
    autojump_clock: MockClock, queue: Queue, problems: list[Exception | None], letters: list[int]
) -> None:
    queue.topic.known = DeadLetterTopicState(False, False, "dlq.", True)
    queue.topic.creations = list(problems)
    queue.send(0, 0)
    await queue.rest()
    assert (queue.topic.letters, queue.done) == (letters, [(0, 0)])


async def test_dead_letters_of_a_share_partition_led_elsewhere_are_left_to_the_next_leader(
    autojump_clock: MockClock,
    queue: Queue,
) -> None:
    queue.send(0, 0, is_wanted=lambda: False)
    queue.send(1, 1)
    queue.send(2, 2, is_wanted=lambda: False)
    await queue.rest()
    assert (queue.topic.letters, queue.done) == ([1], [(1, 1)])


# -- batches


def pending(source: Source, first: int, last: int) -> PendingLetters:
    return PendingLetters(
        LetterSource("t", 0, "g"),
        cast("Any", source),
        DeadLetters(first, last, 1, Cause.REJECTED),
        copies_records=True,
        may_be_written=False,
        is_wanted=lambda: True,
        done=lambda: None,
    )


def plain(base_offset: int, *values: bytes | None, **options: Any) -> bytes:  # noqa: ANN401 - build's
    made = [Record(0, 1, b"k%d" % at, value, [("own", b"h")]) for at, value in enumerate(values)]
    return bytes(build(made, base_offset=base_offset, **options))


def test_copies_have_keys_and_values_and_no_own_headers() -> None:
    source = Source(plain(0, b"a", None), plain(2, b"b", compression=Compression.GZIP))
    batch = letter_batch([pending(source, 0, 2)], NOW_MS, 1 << 20)
    made = list(records(batch.data))
    assert [(each.key, each.value) for each in made] == [
        (b"k0", b"a"),
        (b"k1", None),
        (b"k0", b"b"),
    ]
    assert [len(each.headers) for each in made] == [6, 6, 6]
    assert [last for _, last in batch.through] == [2]


def test_records_that_cannot_be_read_have_headers_only() -> None:
    source = Source(plain(0, b"a"))
    batch = letter_batch([pending(source, 0, 4)], NOW_MS, 1 << 20)
    assert [each.value for each in records(batch.data)] == [b"a", None, None, None, None]
    assert copies(cast("Any", source), -5, 0, 1 << 20) == ({}, 0)


def test_copies_of_records_larger_than_a_batch_may_be_are_left_out() -> None:
    source = Source(
        plain(0, b"a" * 2000, b"b"), plain(2, b"c" * 2000, b"d", compression=Compression.GZIP)
    )
    found = copies(cast("Any", source), 0, 3, 1000)
    assert {offset: value for offset, (_, value) in found.records.items()} == {1: b"b"}
    assert found.last == 3


def test_copies_end_before_the_record_that_has_no_room() -> None:
    source = Source(plain(0, *[b"a" * 300] * 6))
    found = copies(cast("Any", source), 1, 5, 1000)
    assert (sorted(found.records), found.last) == ([1, 2, 3], 3)


def test_batch_is_as_large_as_the_topic_allows() -> None:
    for limit in range(400, 900, 37):
        entry = pending(Source(), 0, 99)
        entry.copies_records = False
        batch = letter_batch([entry], NOW_MS, limit)
        assert len(batch.data) <= limit
        [(_, last)] = batch.through
        entry.letters = DeadLetters(0, last + 1, 1, Cause.REJECTED)
        assert len(letter_batch([entry], NOW_MS, 1 << 20).data) > limit


def test_single_dead_letter_may_be_larger_than_the_topic_allows() -> None:
    batch = letter_batch([pending(Source(), 3, 9)], NOW_MS, 100)
    assert [last for _, last in batch.through] == [3]
