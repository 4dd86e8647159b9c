"""A follower's incremental fetches: each kind of news is reported, with and without the shortcut.

`ReplicaFetch._has_no_news` passes over partitions whose follower knows everything.  Every test runs
with it and without it.
"""

from __future__ import annotations

from typing import cast

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.replication.isr import IsrChanges
from kwire.cluster.replication.leading import LeaderContext, Leading
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.primitives import records_size
from kwire.log import delete_records
from kwire.requests.handlers.fetching.replica_fetch import ReplicaFetch
from tests.requests.handlers.node import NODE_ID, Node

FOLLOWER, BROKER_EPOCH = 2, 50
BATCH = 146
VERSION = 12
COUNT = 3
EPOCH = 4


class NoProposals:
    """Stands in for IsrChanges; the followers of these tests stay in the ISR."""

    def propose(self, partition: object, isr: tuple[int, ...]) -> None:
        raise AssertionError(isr)


class Stage:
    """A broker that leads three partitions, and a follower with one fetch session."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.now_ms = 1_000
        self.is_stale = False
        self.session_id = self.session_epoch = 0
        node.create("t", COUNT)
        self.context = LeaderContext(
            cast(IsrChanges, NoProposals()),
            now_ms=lambda: self.now_ms,
            is_alive=lambda _: True,
            is_eligible=lambda _: True,
            is_stale=lambda _id, _epoch: self.is_stale,
            lag_max_ms=10_000,
        )
        for index in range(COUNT):
            self.lead(index, EPOCH)
        assert self.fetch(**{f"p{index}": 0 for index in range(COUNT)}) == {
            index: (ErrorCode.NONE, 0, 0) for index in range(COUNT)
        }
        assert self.fetch() == {}

    def lead(self, index: int, leader_epoch: int) -> None:
        partition = self.node.partition("t", index)
        replicas = (NODE_ID, FOLLOWER)
        state = PartitionImage(NODE_ID, leader_epoch, leader_epoch, replicas, replicas)
        partition.follow(state)
        leading = partition.leading = Leading(partition, self.context)
        leading.follow(state, new_leader=True, new_epoch=True)

    def append(self, index: int) -> int:
        """Append a batch; returns the log end offset."""
        self.node.append("t", index)
        return self.node.partition("t", index).log_end_offset

    def fetch(
        self, *, leader_epoch: int = EPOCH, fetched_epoch: int = EPOCH, **offsets: int
    ) -> dict[int, tuple[ErrorCode, int, int]]:
        """Error, high watermark and bytes of records of each partition in the next response."""
        asked = [
            FetchPartition(
                partition=int(name[1:]),
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=fetched_epoch if offset else -1,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for name, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_id=FOLLOWER,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchTopic(topic="t", partitions=asked)] if asked else [],
        )
        reply: FetchResponse = self.node.call(request, VERSION)
        assert not reply.error_code
        self.session_id, self.session_epoch = reply.session_id, self.session_epoch + 1
        self.reply = reply
        return {
            data.partition_index: (
                ErrorCode(data.error_code),
                data.high_watermark,
                records_size(data.records or b""),
            )
            for topic in reply.responses
            for data in topic.partitions
        }


@pytest.fixture(params=["with the shortcut", "without it"])
def stage(request: pytest.FixtureRequest, node: Node, monkeypatch: pytest.MonkeyPatch) -> Stage:
    if request.param == "without it":
        monkeypatch.setattr(ReplicaFetch, "_has_no_news", lambda *_: False)
    return Stage(node)


def test_response_has_only_the_partitions_with_new_records(stage: Stage) -> None:
    end = stage.append(1)
    assert stage.fetch() == {1: (ErrorCode.NONE, 0, BATCH)}
    # The progress of this fetch raises the high watermark, which the next response reports.
    assert stage.fetch(p1=end) == {}
    assert stage.node.partition("t", 1).high_watermark == end
    assert stage.fetch() == {1: (ErrorCode.NONE, end, 0)}
    assert stage.fetch() == {}


def test_fetch_without_news_keeps_the_follower_caught_up(stage: Stage) -> None:
    stage.now_ms += 9_000
    assert stage.fetch() == {}
    leading = stage.node.partition("t", 0).leading
    assert leading is not None
    follower = leading.follower(FOLLOWER)
    assert follower is not None
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (10_000, 10_000)


def test_new_log_start_offset_is_reported_once(stage: Stage) -> None:
    end = stage.append(0)
    assert stage.fetch() == {0: (ErrorCode.NONE, 0, BATCH)}
    assert stage.fetch(p0=end) == {}
    assert stage.fetch() == {0: (ErrorCode.NONE, end, 0)}
    delete_records(stage.node.partition("t", 0).log, 1, end)
    assert stage.fetch() == {0: (ErrorCode.NONE, end, 0)}
    assert stage.reply.responses[0].partitions[0].log_start_offset == 1
    assert stage.fetch() == {}


def test_later_leader_epoch_fences_the_follower_until_it_names_it(stage: Stage) -> None:
    stage.lead(2, EPOCH + 1)
    assert stage.fetch() == {2: (ErrorCode.FENCED_LEADER_EPOCH, -1, 0)}
    assert stage.fetch(p2=0, leader_epoch=EPOCH + 1) == {2: (ErrorCode.NONE, 0, 0)}
    assert stage.fetch() == {}


def test_diverging_log_is_reported_until_the_follower_has_truncated_it(stage: Stage) -> None:
    """The follower has records of an epoch that its leader does not know; the logs end alike."""
    end = stage.append(0)
    stage.lead(0, EPOCH + 2)
    both = stage.append(0)
    stage.fetch(p0=both, leader_epoch=EPOCH + 2, fetched_epoch=EPOCH + 1)
    for _ in range(2):
        diverging = stage.reply.responses[0].partitions[0].diverging_epoch
        assert diverging is not None
        assert (diverging.epoch, diverging.end_offset) == (EPOCH, end)
        assert stage.fetch() == {0: (ErrorCode.NONE, 0, 0)}
    assert stage.fetch(p0=end, leader_epoch=EPOCH + 2) == {0: (ErrorCode.NONE, 0, BATCH)}


def test_restarted_follower_is_refused_for_partitions_without_news(stage: Stage) -> None:
    stage.is_stale = True
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0
    assert stage.fetch() == dict.fromkeys(range(COUNT), refused)


def test_offline_log_is_reported(stage: Stage) -> None:
    stage.node.partition("t", 1).log.offline = True
    assert stage.fetch() == {1: (ErrorCode.KAFKA_STORAGE_ERROR, -1, 0)}


def test_partition_that_is_deleted_is_reported(stage: Stage) -> None:
    stage.node.delete("t")
    assert set(stage.fetch()) == set(range(COUNT))
