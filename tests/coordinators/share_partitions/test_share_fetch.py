"""A ShareFetch: what it acquires, how long it waits, and which aborted records it leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from kwire.broker.timers import Timers
from kwire.codecs.batches import Record, build, iter_batches
from kwire.codecs.control import ControlType, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import PartitionData, ShareFetchRequest
from kwire.coordinators.share.machine import DONE, ShareStateAnswer
from kwire.coordinators.share.partition import ShareLimits
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from kwire.coordinators.share_partitions.led import Leadership, LedPartition
from kwire.coordinators.share_partitions.limits import ShareDeliverySettings
from kwire.coordinators.share_partitions.manager import Opening
from kwire.requests.handlers.fetching.share_fetch import ShareFetch, _aborted, _cut
from kwire.storage.partitions.purgatory import ExpiredRequests
from tests.coordinators.share_partitions.simulation.logs import DataLog, DataPartition

TOPIC_ID = b"t" * 16
NODE = 1
RECORDS = 6
"""Of each partition, in one batch."""
MAX_WAIT_MS = 5_000


class World:
    """Two partitions of a topic, their share partitions, and the fetches of one member."""

    def __init__(self, limits: ShareLimits | None = None, *, committed_only: bool = False) -> None:
        self.settings = ShareDeliverySettings(limits or ShareLimits(), "earliest", committed_only)
        self.logs = [DataLog(), DataLog()]
        self.partitions = [DataPartition(log, NODE) for log in self.logs]
        for partition in self.partitions:
            partition.follow(NODE, 1, 1)
        self.led: dict[int, LedPartition] = {}
        self.openings: dict[int, Opening] = {}
        self.hosted = SimpleNamespace(expired=ExpiredRequests())
        self.metadata = SimpleNamespace(topic_name=lambda topic_id: "t")
        leaders = [SimpleNamespace(leader=7, leader_epoch=9)] * 2
        self.image = SimpleNamespace(topics={"t": SimpleNamespace(partitions=leaders)})

    def open(self, index: int) -> LedPartition:
        """The share partition, whose state has been read."""
        partition = cast("Any", self.partitions[index])
        led = LedPartition(
            ShareKey("g", TOPIC_ID, index),
            Leadership(partition, 1),
            ShareState(0, 1),
            lambda: self.settings,
            cast("Any", self),
            Timers(),
            0,
            lambda: None,
            cast("Any", None),
            lambda: None,
        )
        self.led[index] = led
        return led

    # -- the parts of a ShareManager and of a share coordinator

    def of(self, group_id: str) -> ShareDeliverySettings:
        return self.settings

    def write(self, key: ShareKey, written: ShareStateWrite) -> ShareStateAnswer:
        return DONE

    def find(self, key: ShareKey) -> LedPartition | None:
        return self.led.get(key.partition)

    def refusal(self, key: ShareKey) -> ErrorCode | None:
        return None

    def opening(self, key: ShareKey) -> Opening:
        return self.openings.setdefault(key.partition, Opening())

    async def fetch(
        self, max_bytes: int = 1 << 20, max_records: int = 100, min_bytes: int = 1
    ) -> dict[int, PartitionData]:
        """The answers of a fetch of both partitions, by partition."""
        request = ShareFetchRequest("g", "m", 0, MAX_WAIT_MS, min_bytes, max_bytes)
        request.max_records = request.batch_size = max_records
        shares = SimpleNamespace(
            find=self.find, refusal=self.refusal, opening=self.opening, settings=self
        )
        places = [(TOPIC_ID, index) for index in range(2)]
        fetch = ShareFetch(cast("Any", self), cast("Any", shares), request, places)
        return {place[1]: data for place, data in (await fetch.run()).items()}


async def fetch_beside(
    world: World, event: Callable[[], object]
) -> tuple[dict[int, PartitionData], float]:
    """Return the answers of a fetch, and the seconds that it took; `event` happens after one."""

    async def happen() -> None:
        await trio.sleep(1)
        event()

    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(happen)
        answers = await world.fetch()
    return answers, trio.current_time() - begun_s


def offsets(data: PartitionData) -> list[tuple[int, int]]:
    return [(run.first_offset, run.last_offset) for run in data.acquired_records]


@pytest.fixture
def world() -> World:
    opened = World()
    for index in range(2):
        opened.open(index)
    return opened


async def test_fetch_acquires_records_of_all_partitions(world: World) -> None:
    for log in world.logs:
        log.append(RECORDS)
    answers = await world.fetch()
    assert {index: offsets(data) for index, data in answers.items()} == {
        0: [(0, RECORDS - 1)],
        1: [(0, RECORDS - 1)],
    }


async def test_fetch_acquires_nothing_beyond_its_bytes(world: World) -> None:
    """One batch is acquired, however large it is; then there is no room for another partition."""
    for log in world.logs:
        log.append(RECORDS)
    assert list(await world.fetch(max_bytes=1)) == [0]
    assert list(await world.fetch(max_bytes=1)) == [1]


async def test_fetch_acquires_nothing_beyond_its_number_of_records(world: World) -> None:
    for log in world.logs:
        log.append(RECORDS)
    assert list(await world.fetch(max_records=RECORDS)) == [0]
    assert list(await world.fetch(max_records=RECORDS)) == [1]


async def test_fetch_names_the_leader_of_a_partition_that_is_led_elsewhere(world: World) -> None:
    world.logs[1].append(RECORDS)
    world.partitions[0].follow(7, 9, 9)
    answers = await world.fetch()
    assert answers[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answers[0].current_leader.leader_id, answers[0].current_leader.leader_epoch) == (7, 9)
    assert offsets(answers[1]) == [(0, RECORDS - 1)]


async def test_fetch_of_a_committed_group_ends_at_the_last_stable_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(committed_only=True)
    for index in range(2):
        world.open(index)
    for log in world.logs:
        log.append(2)
        log.append(2)
    monkeypatch.setattr(DataPartition, "last_stable_offset", 2)
    monkeypatch.setattr(DataPartition, "log", None, raising=False)
    monkeypatch.setattr(
        "kwire.requests.handlers.fetching.share_fetch.aborted_in", lambda log, region: []
    )
    answers = await world.fetch()
    assert [offsets(data) for data in answers.values()] == [[(0, 1)], [(0, 1)]]


async def test_fetch_without_records_ends_after_its_wait(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    begun_s = trio.current_time()
    assert await world.fetch() == {}
    assert math.isclose(trio.current_time() - begun_s, MAX_WAIT_MS / 1000)
    assert world.hosted.expired.share_fetches == 1


async def test_fetch_waits_on_when_nothing_has_arrived(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """Other members may have acquired what has arrived."""

    def wake() -> None:
        for waiter in tuple(world.led[0].waiters):
            waiter.data_arrived(1 << 40)

    answers, took_s = await fetch_beside(world, wake)
    assert answers == {}
    assert math.isclose(took_s, MAX_WAIT_MS / 1000)


async def test_fetch_is_answered_as_soon_as_a_state_has_been_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It waits for records of one partition, and for the state of the other."""
    world = World()
    world.open(0)
    world.logs[1].append(RECORDS)

    answers, took_s = await fetch_beside(world, lambda: world.openings[1].end(world.open(1)))
    assert offsets(answers[1]) == [(0, RECORDS - 1)]
    assert math.isclose(took_s, 1)


async def test_fetch_waits_on_when_a_state_without_records_has_been_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World()
    world.open(0)
    answers, took_s = await fetch_beside(world, lambda: world.openings[1].end(world.open(1)))
    assert answers == {}
    assert math.isclose(took_s, MAX_WAIT_MS / 1000)


async def test_fetch_counts_no_bytes_of_a_partition_that_may_not_be_acquired(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Partition 0 has as many records in flight as it may have, so only partition 1 counts."""
    world = World(ShareLimits(max_record_locks=RECORDS))
    for index in range(2):
        world.open(index)
    world.logs[0].append(RECORDS)
    assert list(await world.fetch()) == [0]
    world.logs[0].append(RECORDS)
    world.logs[1].append(RECORDS)
    size_bytes = len(world.logs[1].batches[0][1])
    begun_s = trio.current_time()
    assert list(await world.fetch(min_bytes=size_bytes + 1)) == [1]
    assert math.isclose(trio.current_time() - begun_s, MAX_WAIT_MS / 1000)


async def test_waiting_fetch_is_answered_when_another_broker_becomes_the_leader(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    answers, took_s = await fetch_beside(world, lambda: world.partitions[0].follow(7, 9, 9))
    assert answers[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert math.isclose(took_s, 1)


async def test_waiting_fetch_waits_on_when_the_topic_is_deleted(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    def delete() -> None:
        world.metadata.topic_name = lambda topic_id: None
        world.partitions[0].follow(-1, 9, 9)

    answers, took_s = await fetch_beside(world, delete)
    assert answers == {}
    assert math.isclose(took_s, MAX_WAIT_MS / 1000)


async def test_aborted_records_are_cut_out_of_what_is_acquired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(committed_only=True)
    for index in range(2):
        world.open(index)
    for records in (2, 2, 2, 1, 3):
        world.logs[0].append(records)
    monkeypatch.setattr(DataPartition, "log", None, raising=False)
    monkeypatch.setattr(
        "kwire.requests.handlers.fetching.share_fetch.aborted_in", lambda log, region: []
    )
    monkeypatch.setattr(
        "kwire.requests.handlers.fetching.share_fetch._aborted",
        lambda headers, transactions: [(2, 3), (6, 6)],
    )
    answers = await world.fetch()
    assert offsets(answers[0]) == [(0, 1), (4, 5), (7, 9)]
    runs = [(run.first, run.last, run.delivery.is_terminal) for run in world.led[0].records._runs]
    assert [(first, last) for first, last, is_done in runs if is_done] == [(2, 3), (6, 6)]


def batch(base_offset: int, records: int, producer_id: int = -1) -> bytes:
    return bytes(
        build(
            [Record(number, 1000, None, b"x") for number in range(records)],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
    )


def marker(offset: int, producer_id: int) -> bytes:
    return bytes(
        control_batch(
            ControlType.ABORT,
            0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=1000,
            base_offset=offset,
        )
    )


def test_aborted_batches_are_those_of_open_transactions_up_to_their_marker() -> None:
    data = b"".join(
        [
            batch(0, 2, producer_id=7),
            batch(2, 1, producer_id=8),
            batch(3, 1),
            marker(4, producer_id=7),
            batch(5, 2, producer_id=7),
            batch(7, 1, producer_id=9),
            marker(8, producer_id=8),
        ]
    )
    headers = list(iter_batches(data))
    assert _aborted(headers, [(8, 2), (7, 0)]) == [(0, 1), (2, 2)]
    assert _aborted(headers, [(9, 7)]) == [(7, 7)]
    assert _aborted(headers, []) == []


@pytest.mark.parametrize(
    ("first", "last", "sent"),
    [(0, 5, [0, 1, 2]), (2, 3, [1]), (3, 3, [1]), (1, 2, [0, 1]), (4, 5, [2]), (9, 9, [0, 1, 2])],
)
def test_cut_keeps_the_batches_that_hold_the_offsets(
    first: int, last: int, sent: list[int]
) -> None:
    batches = [batch(0, 2), batch(2, 2), batch(4, 2)]
    data = b"".join(batches)
    assert _cut(data, list(iter_batches(data)), first, last) == b"".join(
        batches[number] for number in sent
    )
