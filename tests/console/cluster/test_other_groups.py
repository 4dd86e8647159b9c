"""Share groups and streams groups as the pages show them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.membership.share_consumer import Acknowledgement, ShareConsumer
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.conformance.wire.cases.build import batch, commit, fill
from kwire.conformance.wire.cases.streams_group import (
    counting,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage
from kwire.console.cluster.groups import describe, group_rows, list_groups
from kwire.console.cluster.resets import ResetChoice, carry_out, preview
from kwire.testing import BrokerProcess
from tests.streams_stage import stage_on

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(shared_broker: BrokerProcess, unique: str) -> Iterator[Stage]:
    made = stage_on(shared_broker.bootstrap, unique)
    yield made
    made.finish()


def test_page_of_a_streams_group_has_tasks_and_topology(
    stage: Stage, shared_broker: BrokerProcess
) -> None:
    topic, group = stage.topic(partitions=2), new_group(stage)
    fill(stage, topic, batch(stage, b"one"), batch(stage, b"two"))
    epoch = join_until_assigned(stage, join(group, "m-1", counting(stage, topic)))
    stage.ask(commit(group, topic, 1, member_id="m-1", generation=epoch))
    with Cluster(shared_broker.bootstrap, timeout_s=60) as cluster:
        page = describe(cluster, group)
    assert (page.type, page.state, page.epoch) == ("streams", "Stable", epoch)
    [member] = page.members
    assert member.tasks is not None
    assert member.tasks.active == ["0_0", "0_1", "1_0", "1_1"]
    assert [part.subtopology_id for part in page.subtopologies] == ["0", "1"]
    assert page.subtopologies[0].sources == [topic.name]
    lags = {row.partition: row.lag for row in page.partitions}
    assert lags[TopicPartition(topic.name, 0)] == 1
    assert not page.notes


def test_share_group_shows_deliveries_and_is_reset(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1)
    place = TopicPartition(unique, 0)
    consumer = ShareConsumer(cluster, unique, [unique], Acknowledgement.REJECT)
    producer, written = Producer(cluster), 0
    while not consumer.poll(0.1, 2):  # a new group reads what is written after its first fetch
        producer.send(unique, None, b"value", partition=0)
        producer.flush()
        written += 1
    consumer.commit()
    page = describe(cluster, unique)
    assert page.share_trouble is None
    [row] = page.partitions
    assert (row.partition, row.end_offset, len(row.members)) == (place, written, 1)
    consumer.close()
    [listed] = [each for each in list_groups(cluster).groups if each.group_id == unique]
    [listed_row] = group_rows(cluster, [listed])
    assert (listed_row.type, listed_row.members, listed_row.topics) == ("share", 0, [unique])
    plan = preview(cluster, unique, ResetChoice("latest"))
    assert [each.new for each in plan.rows] == [written]
    carry_out(cluster, unique, {each.partition: each.new for each in plan.rows})
    assert [row.offset for row in describe(cluster, unique).partitions] == [written]
