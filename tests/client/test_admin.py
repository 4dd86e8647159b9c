"""Topics, settings, groups and offsets, by the calls that the command line makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigAlteration, ConfigResource, ConfigResourceKind, Source
from kwire.client.configs import alter_configs as alter
from kwire.client.configs import describe_configs as describe
from kwire.client.consumer import Consumer, Reset
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.groups import (
    commit_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    fetch_offsets,
    list_groups,
)
from kwire.client.producer import Producer
from kwire.client.reset import Target, plan_reset
from kwire.client.topics import add_partitions, create_topic, delete_topic, list_topics

Eventually = Callable[[Callable[[], bool]], None]


def test_topic_is_created_grown_and_deleted(
    cluster: Cluster, unique: str, eventually: Eventually
) -> None:
    created = create_topic(cluster, unique, partitions=2, configs={"retention.ms": "1000"})
    assert created.num_partitions == 2
    eventually(lambda: unique in [topic.name for topic in list_topics(cluster)])
    with pytest.raises(BrokerRefused, match="TOPIC_ALREADY_EXISTS"):
        create_topic(cluster, unique)
    add_partitions(cluster, unique, 5)
    eventually(lambda: len(cluster.topic(unique).partitions) == 5)
    with pytest.raises(Misuse, match="the number can only be raised"):
        add_partitions(cluster, unique, 5)
    delete_topic(cluster, unique)
    eventually(lambda: unique not in [topic.name for topic in list_topics(cluster)])
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.topic(unique)


def test_create_topic_with_validate_only_creates_nothing(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=2, validate_only=True)
    assert unique not in [topic.name for topic in list_topics(cluster)]
    with pytest.raises(BrokerRefused, match="INVALID_REPLICATION_FACTOR"):
        create_topic(cluster, unique, replication_factor=3, validate_only=True)


def test_configs_of_a_topic_are_altered_and_described(
    cluster: Cluster, unique: str, eventually: Eventually
) -> None:
    create_topic(cluster, unique, partitions=1)
    topic = ConfigResource(ConfigResourceKind.TOPIC, unique)

    def changed() -> dict[str, str | None]:
        configs = describe(cluster, topic)
        return {c.name: c.value for c in configs if c.config_source == Source.TOPIC}

    (retention,) = cluster.retrying(
        lambda: describe(cluster, topic, ["retention.ms"]), unknown_topic_grace_s=60
    )
    assert (retention.value, retention.config_source) == ("604800000", Source.DEFAULT)
    alter(cluster, topic, {"retention.ms": (ConfigAlteration.SET, "5000")})
    alter(cluster, topic, {"cleanup.policy": (ConfigAlteration.APPEND, "compact")})
    eventually(lambda: changed() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"})
    alter(cluster, topic, {"retention.ms": (ConfigAlteration.DELETE, None)}, validate_only=True)
    assert describe(cluster, topic, ["retention.ms"])[0].value == "5000"
    with pytest.raises(BrokerRefused, match="INVALID_CONFIG"):
        alter(cluster, topic, {"retention.ms": (ConfigAlteration.SET, "soon")})


def test_configs_of_a_broker_are_described(cluster: Cluster) -> None:
    cluster.refresh([])
    (node_id,) = cluster.nodes
    (setting,) = describe(
        cluster, ConfigResource(ConfigResourceKind.BROKER, str(node_id)), ["node.id"]
    )
    assert (setting.value, setting.read_only) == (str(node_id), True)
    with pytest.raises(Misuse, match="name of a broker is its id"):
        describe(cluster, ConfigResource(ConfigResourceKind.BROKER, "first"))


def test_group_is_listed_described_and_deleted(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=2)
    with pytest.raises(BrokerRefused, match="GROUP_ID_NOT_FOUND"):
        describe_group(cluster, unique)
    consumer = Consumer(cluster, reset=Reset.EARLIEST)
    consumer.subscribe(unique, [unique])
    assert consumer.wait_for_assignment(120)
    group = describe_group(cluster, unique)
    assert (group.state, group.assignor, group.type) == ("Stable", "range", "classic")
    (member,) = group.members
    assert member.assignment == [TopicPartition(unique, 0), TopicPartition(unique, 1)]
    assert unique in [g.group_id for g in list_groups(cluster, ["Stable"])]
    with pytest.raises(BrokerRefused, match="the group has active members"):
        delete_group(cluster, unique)
    with pytest.raises(BrokerRefused, match="UNKNOWN_MEMBER_ID"):
        commit_offsets(cluster, unique, {TopicPartition(unique, 0): 0})
    consumer.close()
    delete_group(cluster, unique)
    assert unique not in [g.group_id for g in list_groups(cluster)]


def test_offsets_of_a_group_are_committed_fetched_and_deleted(
    cluster: Cluster, unique: str
) -> None:
    create_topic(cluster, unique, partitions=2)
    first, second = TopicPartition(unique, 0), TopicPartition(unique, 1)
    commit_offsets(cluster, unique, {first: 3, second: 7})
    assert {p: c.offset for p, c in fetch_offsets(cluster, unique).items()} == {first: 3, second: 7}
    assert list(fetch_offsets(cluster, unique, [second])) == [second]
    assert fetch_offsets(cluster, f"{unique}-other") == {}
    delete_offsets(cluster, unique, [first])
    assert list(fetch_offsets(cluster, unique)) == [second]


def test_plan_reset_limits_offsets_to_the_partition(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    for timestamp in (1_000, 2_000, 3_000):
        producer.send(unique, b"v", timestamp_ms=timestamp)
    producer.flush()
    at = TopicPartition(unique, 0)

    def planned(target: Target, value: int = 0) -> int:
        return plan_reset(cluster, {at: 2}, [at], target, value)[at]

    assert planned(Target.EARLIEST) == 0
    assert planned(Target.LATEST) == 3
    assert planned(Target.OFFSET, 1) == 1
    assert planned(Target.OFFSET, 99) == 3
    assert planned(Target.SHIFT, -1) == 1
    assert planned(Target.SHIFT, -99) == 0
    assert planned(Target.SHIFT, 99) == 3
    assert planned(Target.TIMESTAMP, 1_500) == 1
    with pytest.raises(Misuse, match="cannot shift"):
        plan_reset(cluster, {}, [at], Target.SHIFT, 1)
    with pytest.raises(Misuse, match="nothing to reset"):
        plan_reset(cluster, {}, [], Target.EARLIEST, 0)


def test_leader_id_refreshes_metadata_after_a_missing_leader(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1)
    place = TopicPartition(unique, 0)
    leader_id = cluster.retrying(lambda: cluster.leader_id(place))
    cluster.topics[unique].partitions[0].leader_id = -1  # as while a cluster starts
    with pytest.raises(BrokerRefused, match="LEADER_NOT_AVAILABLE"):
        cluster.leader_id(place)
    assert cluster.leader_id(place) == leader_id
