"""What a measured broker counts in its coordinators: commits, rebalances, acknowledgements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.conformance.wire.cases import build
from kwire.groups.effects import Rebalance
from kwire.groups.timers import RetentionTimer
from kwire.server.metrics.counted import GROUPS_KEPT_MAX, CountingShard
from kwire.server.metrics.scrape import Scraper
from tests.coordinators.share_partitions.test_dead_letters_on_a_broker import reader_on
from tests.requests.handlers.node import Node
from tests.server.metrics.scraping import scrape, scraper_of
from tests.server.metrics.test_coordinators import (
    SETTINGS,
    beat,
    commit,
    hosting,
    join,
    join_streams,
)

GROUPS = "kafka_server_group_coordinator_metrics_"
MakeNode = Callable[..., Node]


def measured(make_node: MakeNode) -> tuple[Node, Scraper]:
    """A coordinator, and the scraper that counts from before its first partition on."""
    node = make_node(SETTINGS)
    scraper = scraper_of(node.broker)
    return hosting(node), scraper


def counts(scraper: Scraper) -> dict[str, float]:
    found = scrape(scraper)
    names = ("offset_commit", "offset_deletion", "offset_expiration", "group_completed_rebalance")
    return {name: found.of(f"{GROUPS}{name}_count") for name in names}


async def test_each_offset_of_a_commit_counts(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    commit(node, "g", 1, 2)
    commit(node, "g", 3)
    assert counts(scraper)["offset_commit"] == 3


async def test_offset_is_counted_as_deleted_or_as_expired(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    commit(node, "g", 1, 2)
    topic = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])
    assert node.call(OffsetDeleteRequest("g", [topic]), 0).error_code == ErrorCode.NONE
    shard = node.broker.coordinators.groups.runtime.shards[0]
    assert isinstance(shard, CountingShard)
    far_ms = node.broker.now_ms() + 10**12
    shard.carry_out(shard.machine.timer_fired(RetentionTimer(), far_ms))
    found = counts(scraper)
    assert (found["offset_deletion"], found["offset_expiration"]) == (1, 1)


async def test_new_epochs_are_counted_by_the_kind_of_group(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    join(node, "modern", "a")
    join(node, "modern", "b")
    join_streams(node, "app")
    found = scrape(scraper)
    rebalances = {
        kind: found.of(f"{GROUPS}{kind}_group_rebalance_count")
        for kind in ("consumer", "share", "streams")
    }
    assert rebalances == {"consumer": 2, "share": 0, "streams": 1}


async def test_rebalance_of_a_classic_group_counts_once_it_has_an_assignment(
    make_node: MakeNode,
) -> None:
    node = make_node({**SETTINGS, "group.initial.rebalance.delay.ms": "0"})
    scraper = scraper_of(node.broker)
    hosting(node)
    async with trio.open_nursery() as nursery:
        node.broker.node.begin(nursery)
        refused = node.call(build.join("g"), 4)
        member, _ = await node.wait_for(build.join("g", refused.member_id), 4)
        assert counts(scraper)["group_completed_rebalance"] == 0
        reason = scraper.counts.last_rebalances["g"].reason
        assert reason.startswith(f"member {member.member_id} joins")
        reply = node.call(build.sync("g", member.member_id, member.generation_id), 3)
        assert reply.error_code == ErrorCode.NONE
        assert counts(scraper)["group_completed_rebalance"] == 1
        nursery.cancel_scope.cancel()


async def test_rebalance_of_a_group_is_kept_with_its_reason_and_time(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    node.create("u")
    first_ms = node.broker.now_ms()

    def reason(group: str) -> str:
        return scraper.counts.last_rebalances[group].reason

    join(node, "modern", "a")
    assert reason("modern") == "member a joins"
    epoch = join(node, "modern", "b")
    assert reason("modern") == "member b joins"
    beat(node, "modern", "b", epoch, subscribed_topic_names=["t", "u"])
    assert reason("modern") == "what the members subscribe to, or its partitions, changed"
    beat(node, "modern", "b", -1)
    assert reason("modern") == "member b leaves"
    join_streams(node, "app")
    assert list(scraper.counts.last_rebalances) == ["modern", "app"]
    found = scrape(scraper).all_of("kwire_group_last_rebalance_timestamp_seconds")
    assert found.keys() == {("modern", "consumer"), ("app", "streams")}
    assert all(first_ms <= at_s * 1000 <= node.broker.now_ms() for at_s in found.values())


async def test_commit_and_a_heartbeat_without_news_begin_no_rebalance(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    epoch = join(node, "modern", "a")
    scraper.counts.last_rebalances.clear()
    beat(node, "modern", "a", epoch)
    commit(node, "simple", 1)
    assert scraper.counts.last_rebalances == {}


async def test_rebalance_whose_record_is_refused_does_not_count(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, scraper = measured(make_node)
    join(node, "modern", "a")
    scraper.counts.last_rebalances.clear()
    monkeypatch.setattr(CountingShard, "append", lambda *_: ErrorCode.NOT_COORDINATOR)
    reply = node.call(ConsumerGroupHeartbeatRequest("modern", "a", -1), 1)
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    assert scraper.counts.last_rebalances == {}


def test_last_rebalances_of_a_limited_number_of_groups_are_kept(node: Node) -> None:
    own = scraper_of(node.broker).counts
    for number in range(GROUPS_KEPT_MAX + 2):
        own.rebalanced(Rebalance(f"g-{number}", "member m joins", number))
    own.rebalanced(Rebalance("g-2", "member m leaves", 9))
    assert len(own.last_rebalances) == GROUPS_KEPT_MAX
    assert "g-1" not in own.last_rebalances
    assert list(own.last_rebalances)[-1] == "g-2"


async def test_records_that_are_loaded_do_not_count(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    commit(node, "g", 1, 2)
    join(node, "modern", "a")
    before = counts(scraper)
    coordinator = node.broker.coordinators.groups
    coordinator.runtime.resign(0)
    shard = coordinator.runtime.lead(node.partition("__consumer_offsets"))
    assert shard is not None
    await shard.load()
    assert scrape(scraper).of(f"{GROUPS}offset_count") == 2
    assert counts(scraper) == before


async def test_acknowledged_records_are_counted_by_type(tmp_path: Path) -> None:
    async with reader_on(tmp_path, {}) as reader:
        scraper = scraper_of(reader.broker)
        await reader.configure(share_auto_offset_reset="earliest")
        await reader.join()
        await reader.acquire()
        await reader.reject(0, 3)
        await reader.reject(5, 5)
        found = scrape(scraper)
        assert found.all_of("kafka_server_sharegroupmetrics_recordacknowledgements_total") == {
            ("Accept",): 0,
            ("Release",): 0,
            ("Reject",): 5,
            ("Renew",): 0,
        }


async def test_share_fetch_without_further_records_expires(tmp_path: Path) -> None:
    async with reader_on(tmp_path, {}) as reader:
        scraper = scraper_of(reader.broker)
        expires = "kafka_server_delayedsharefetchmetrics_expires_total"
        await reader.configure(share_auto_offset_reset="earliest")
        await reader.join()
        assert await reader.acquire()
        assert scrape(scraper).of(expires) == 0
        assert not await reader.acquire(max_wait_ms=10)
        assert scrape(scraper).of(expires) == 1


async def test_load_of_a_partition_is_counted_with_its_time(make_node: MakeNode) -> None:
    node, scraper = measured(make_node)
    commit(node, "g", 0, 0)
    runtime = node.broker.coordinators.groups.runtime
    runtime.resign(0)
    shard = runtime.lead(node.partition("__consumer_offsets"))
    assert shard is not None
    await shard.load()
    found = scrape(scraper)
    assert found.all_of("kwire_coordinator_loads_total") == {("group",): 1}
    seconds = found.of("kwire_coordinator_load_seconds_total", "group")
    assert 0 <= seconds == found.of("kwire_coordinator_load_longest_seconds", "group")


@pytest.mark.parametrize("name", ["new_shard", "new_led"])
def test_broker_without_metrics_has_the_plain_classes(node: Node, name: str) -> None:
    owner = node.broker.coordinators.groups.runtime if name == "new_shard" else node.broker.shares
    assert getattr(owner, name).__name__ in ("Shard", "LedPartition")
