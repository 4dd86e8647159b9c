"""The metrics of groups of all kinds, of share groups' records, and of transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from kwire.server.metrics.collecting.groups import STATES
from kwire.server.metrics.samples import Samples
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import Transaction, TransactionState
from tests.coordinators.share_partitions.test_dead_letters_on_a_broker import reader_on
from tests.requests.handlers.node import Node
from tests.server.metrics.scraping import Scraped, scrape, scraper_of

GROUPS = "kafka_server_group_coordinator_metrics_"
MakeNode = Callable[..., Node]
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}


def coordinating(make_node: MakeNode) -> Node:
    """A broker with the partition of `__consumer_offsets`, and a topic of two partitions."""
    return hosting(make_node(SETTINGS))


def hosting(node: Node) -> Node:
    """Let a new broker coordinate groups, and create a topic of two partitions."""
    node.broker.coordinators.groups.partitions = 1
    node.create("__consumer_offsets")
    node.create("t", partitions=2)
    return node


def scrape_of(node: Node) -> Scraped:
    return scrape(scraper_of(node.broker))


def commit(node: Node, group: str, *offsets: int) -> None:
    """Commit an offset of each partition of `t`, without being a member."""
    places = [OffsetCommitRequestPartition(index, offset) for index, offset in enumerate(offsets)]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=places)])
    reply = node.call(request, 9)
    assert {each.error_code for each in reply.topics[0].partitions} == {ErrorCode.NONE}


def beat(node: Node, group: str, member: str, epoch: int, **fields: Any) -> int:  # noqa: ANN401 - its
    """Send a heartbeat of a consumer group's member; returns its epoch."""
    reply = node.call(ConsumerGroupHeartbeatRequest(group, member, epoch, **fields), 1)
    assert reply.error_code == ErrorCode.NONE, reply
    member_epoch: int = reply.member_epoch
    return member_epoch


def join(node: Node, group: str, member: str) -> int:
    fields = {"subscribed_topic_names": ["t"], "topic_partitions": []}
    return beat(node, group, member, 0, rebalance_timeout_ms=60_000, **fields)


def join_streams(node: Node, group: str) -> None:
    topology = Topology(0, [Subtopology("0", source_topics=["t"])])
    none: list[Any] = []
    request = StreamsGroupHeartbeatRequest(
        group,
        "m",
        0,
        rebalance_timeout_ms=1000,
        topology=topology,
        active_tasks=none,
        standby_tasks=none,
        warmup_tasks=none,
        process_id="p",
        client_tags=[],
    )
    assert node.call(request, 1).error_code == ErrorCode.NONE


async def test_groups_are_counted_by_kind_and_state(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    commit(coordinator, "simple", 1, 1)
    join(coordinator, "modern", "a")
    join_streams(coordinator, "app")
    found = scrape_of(coordinator)
    assert found.all_of(f"{GROUPS}group_count") == {
        ("classic",): 1,
        ("consumer",): 1,
        ("share",): 0,
        ("streams",): 1,
    }
    for kind, states in STATES.items():
        counts = found.all_of(f"{GROUPS}{kind}_group_count")
        assert {state for (state,) in counts} == set(states)
    assert found.of(f"{GROUPS}classic_group_count", "Empty") == 1
    assert found.of("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert found.of("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1
    assert found.of(f"{GROUPS}num_partitions", "active") == 1
    states_of = found.all_of("kwire_group_state")
    assert ("simple", "classic", "Empty") in states_of
    assert {(group, kind) for group, kind, _ in states_of} == {
        ("simple", "classic"),
        ("modern", "consumer"),
        ("app", "streams"),
    }


async def test_lag_is_the_distance_from_the_committed_offset_to_the_high_watermark(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    coordinator.append("t")
    coordinator.lag("t")
    coordinator.append("t")  # no follower has it
    commit(coordinator, "g", 2, 0)
    found = scrape_of(coordinator)
    assert found.all_of("kafka_consumergroup_current_offset") == {
        ("g", "t", "0"): 2,
        ("g", "t", "1"): 0,
    }
    assert found.all_of("kafka_consumergroup_lag") == {("g", "t", "0"): 3, ("g", "t", "1"): 0}
    assert found.of(f"{GROUPS}offset_count") == 2


async def test_lag_is_missing_while_the_end_of_the_partition_is_not_known(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    commit(coordinator, "g", 2, 0)
    del coordinator.broker.hosted.by_topic["t"][1]
    found = scrape_of(coordinator)
    assert set(found.all_of("kafka_consumergroup_lag")) == {("g", "t", "0")}
    assert len(found.all_of("kafka_consumergroup_current_offset")) == 2


async def test_broker_alone_asks_nobody_for_the_ends_of_partitions(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.metrics.ends.latest_offsets", None)  # a call would fail
    coordinator = coordinating(make_node)
    commit(coordinator, "g", 2, 0)
    del coordinator.broker.hosted.by_topic["t"][1]
    await scraper_of(coordinator.broker).ends.ask()


async def test_lag_of_an_offset_beyond_the_end_is_0(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    commit(coordinator, "g", 7, 0)
    assert scrape_of(coordinator).of("kafka_consumergroup_lag", "g", "t", "0") == 0


async def test_groups_that_are_deleted_between_two_steps_do_not_break_the_scrape(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.metrics.collecting.groups.VALUES_PER_STEP", 1)
    coordinator = coordinating(make_node)
    for group in ("a", "b", "c"):
        commit(coordinator, group, 1, 1)
    machine = coordinator.broker.coordinators.groups.runtime.shards[0].machine
    samples, steps = Samples(), 0
    for _ in scraper_of(coordinator.broker).steps(samples):
        steps += 1
        if samples.names() & {"kafka_consumergroup_members"} and machine.groups:
            machine.groups.popitem()
            machine.offsets.by_group.popitem()
    assert steps > 3  # one for each group, and those of other metrics
    assert Scraped(samples).of(f"{GROUPS}group_count", "classic") == 3


async def test_each_rebalance_raises_the_epoch_of_a_group(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    join(coordinator, "g", "a")
    found = scrape_of(coordinator)
    epoch = found.of("kwire_group_epoch", "g", "consumer")
    assert found.of("kafka_consumergroup_members", "g") == 1
    join(coordinator, "g", "b")
    found = scrape_of(coordinator)
    assert found.of("kwire_group_epoch", "g", "consumer") > epoch
    assert found.of("kafka_consumergroup_members", "g") == 2


async def test_streams_group_gives_its_tasks_by_role(
    make_node: MakeNode,
) -> None:
    coordinator = coordinating(make_node)
    join_streams(coordinator, "app")
    assert scrape_of(coordinator).all_of("kwire_streams_group_tasks") == {
        ("app", "active"): 2,
        ("app", "standby"): 0,
        ("app", "warmup"): 0,
    }


async def test_transactions_are_counted_by_state_with_the_age_of_the_oldest(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("__transaction_state")
    machine = node.broker.coordinators.transactions.runtime.shards[0].machine
    for number, (state, began_ms) in enumerate(
        [
            (TransactionState.ONGOING, 5_000),
            (TransactionState.ONGOING, 3_000),
            (TransactionState.COMPLETE_COMMIT, 1_000),
        ]
    ):
        transaction = Transaction(number, 0, 60_000, state, began_ms, start_timestamp_ms=began_ms)
        machine.apply(TransactionRecord(f"x{number}", transaction))
    monkeypatch.setattr(node.broker, "now_ms", lambda: 10_500)
    found = scrape_of(node)
    assert found.all_of("kwire_transactions") == {
        ("Empty",): 0,
        ("Ongoing",): 2,
        ("PrepareCommit",): 0,
        ("PrepareAbort",): 0,
        ("CompleteCommit",): 1,
        ("CompleteAbort",): 0,
    }
    assert found.of("kwire_transaction_oldest_open_seconds") == 7.5


def test_broker_without_groups_and_transactions_creates_no_coordinator(node: Node) -> None:
    found = scrape_of(node)
    coordinators = node.broker.coordinators
    assert coordinators.groups_if_any is None
    assert coordinators.transactions_if_any is None
    assert coordinators.share_if_any is None
    assert node.broker.shares_if_any is None
    assert found.of("kwire_transactions", "Ongoing") == 0
    assert found.of(f"{GROUPS}group_count", "classic") == 0


async def test_share_group_gives_its_lag_and_the_records_in_flight_by_state(
    tmp_path: Path,
) -> None:
    async with reader_on(tmp_path, {}) as reader:
        await reader.configure(share_auto_offset_reset="earliest")
        await reader.join()
        assert await reader.acquire(max_records=10) == [(0, 9, 1)]
        await reader.reject(0, 1)
        await reader.reject(4, 4)
        await reader.until_lag(7)
        found = scrape(scraper_of(reader.broker))
        assert found.all_of("kwire_share_partition_records") == {
            ("g", "t", "0", "available"): 0,
            ("g", "t", "0", "acquired"): 7,
            ("g", "t", "0", "acknowledged"): 0,
            ("g", "t", "0", "archiving"): 0,
            ("g", "t", "0", "archived"): 1,  # those before the start offset are no longer in flight
        }
        assert found.of("kwire_share_partition_start_offset", "g", "t", "0") == 2
        assert found.of("kwire_share_partition_lag", "g", "t", "0") == 7
        assert found.of("kwire_share_partition_deliveries_max", "g", "t", "0") == 1
        assert found.of("kafka_server_sharesessioncache_sharesessionscount") == 1
        assert found.of("kafka_server_sharesessioncache_sharepartitionscount") == 1
        assert found.of(f"{GROUPS}group_count", "share") == 1
        led = reader.broker.coordinators.share.runtime.shards
        name = "kafka_server_share_coordinator_metrics_num_partitions"
        assert found.of(name, "active") == len(led) > 0
