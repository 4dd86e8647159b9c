"""A consumer group (KIP-848) of librdkafka members continues when its coordinator is lost."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.groups import GroupDescription, describe_group, fetch_offsets
from kwire.client.topics import create_topic
from kwire.testing import SharedClusterProcess
from tests.clients.librdkafka import TIMEOUT_S, consumer, produce, values

pytestmark = pytest.mark.slow

PARTITIONS, RECORDS = 6, 300
SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
MEMBER = {"group.protocol": "consumer", "enable.auto.commit": "false"}


class Members:
    """Consumers of one group, and what they have seen by the numbers of records."""

    def __init__(self, stack: ExitStack, bootstrap: str, count: int) -> None:
        self.seen = Counter[int]()
        self._all = [stack.enter_context(consumer(bootstrap, "g", **MEMBER)) for _ in range(count)]
        for each in self._all:
            each.subscribe(["t"])

    def _poll(self, member: Consumer) -> None:
        while message := member.poll(0.02):
            if message.error() is None:
                self.seen.update(values([message]))

    def share_all(self, records: int) -> None:
        """Until each has as many partitions, and so many records were seen."""
        deadline = time.monotonic() + TIMEOUT_S
        shares: list[int] = []
        while (
            shares != [PARTITIONS // len(self._all)] * len(self._all) or self.seen.total() < records
        ):
            assert time.monotonic() < deadline, (shares, self.seen.total())
            for each in self._all:
                self._poll(each)
            shares = [len(each.assignment()) for each in self._all]

    def commit(self) -> None:
        """What each has been given; again while the coordinator is looked for."""
        deadline = time.monotonic() + TIMEOUT_S
        for each in self._all:
            while True:
                try:
                    each.commit(asynchronous=False)
                    break
                except KafkaException:
                    assert time.monotonic() < deadline
                    self._poll(each)


def described(cluster: Cluster) -> GroupDescription:
    """Once its two members have told the coordinator of what they have."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        group = describe_group(cluster, "g")
        if (group.type, group.state, len(group.members)) == ("consumer", "Stable", 2):
            return group
        assert time.monotonic() < deadline, group


def test_group_continues_after_its_coordinator_is_lost(tmp_path: Path) -> None:
    places = [TopicPartition("t", index) for index in range(PARTITIONS)]
    with (
        SharedClusterProcess(tmp_path, 3, SETTINGS) as brokers,
        Cluster(brokers.bootstrap, timeout_s=TIMEOUT_S) as cluster,
        ExitStack() as stack,
    ):
        create_topic(cluster, "t", partitions=PARTITIONS)
        members = Members(stack, brokers.bootstrap, 2)
        members.share_all(0)
        produce(brokers.bootstrap, "t", RECORDS)
        members.share_all(RECORDS)
        members.commit()
        before = described(cluster)
        coordinator = before.coordinator_id
        brokers.brokers[coordinator].kill()
        brokers.wait_until_members()

        produce(brokers.bootstrap, "t", 2 * RECORDS, acks="all")
        members.share_all(3 * RECORDS)
        members.commit()
        after = described(cluster)
        assert after.coordinator_id != coordinator
        assert {each.member_id for each in after.members} == {
            each.member_id for each in before.members
        }
        assert sum(fetch_offsets(cluster, "g")[each].offset for each in places) == 3 * RECORDS
        assert set(members.seen) == set(range(2 * RECORDS))
        assert members.seen.total() == 3 * RECORDS, "nobody began anew: nothing came twice"
