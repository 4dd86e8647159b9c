"""Tests confluent-kafka's AdminClient: topics, configs, groups, offsets, records, the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(
    admin: AdminClient, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    new = NewTopic(topic, partitions, replication_factor=1, config=config or {})
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def error_code(failure: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = failure.value.args[0].code()
    return code


def test_topics_are_created_described_and_deleted(admin: AdminClient, unique: str) -> None:
    create(admin, unique, 3)
    topic = admin.list_topics(unique, TIMEOUT_S).topics[unique]
    assert sorted(topic.partitions) == [0, 1, 2]
    described = admin.describe_topics(TopicCollection([unique]))[unique].result(TIMEOUT_S)
    assert described.name == unique
    assert not described.is_internal
    assert [len(part.replicas) for part in described.partitions] == [1, 1, 1]
    admin.delete_topics([unique])[unique].result(TIMEOUT_S)
    assert unique not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_invalid_topics_are_refused(admin: AdminClient, unique: str) -> None:
    create(admin, unique)
    refusals = [
        (NewTopic(unique, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic(f"{unique}-a", 1, 9), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("not/a/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(f"{unique}-b", 1, 1, config={"nonsense": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic(f"{unique}-c", 1, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG),
    ]
    for new, code in refusals:
        with pytest.raises(KafkaException) as failure:
            admin.create_topics([new])[new.topic].result(TIMEOUT_S)
        assert error_code(failure) == code, new


def test_validate_only_creates_no_topic(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 1, 1)], validate_only=True)[unique].result(TIMEOUT_S)
    assert unique not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_topic_is_created_with_default_partitions_and_replicas(
    admin: AdminClient, unique: str
) -> None:
    admin.create_topics([NewTopic(unique)])[unique].result(TIMEOUT_S)
    assert len(admin.list_topics(unique, TIMEOUT_S).topics[unique].partitions) == 1


def test_partitions_can_be_added_but_not_removed(admin: AdminClient, unique: str) -> None:
    create(admin, unique, 2)
    admin.create_partitions([NewPartitions(unique, 5)])[unique].result(TIMEOUT_S)
    assert len(admin.list_topics(unique, TIMEOUT_S).topics[unique].partitions) == 5
    with pytest.raises(KafkaException) as failure:
        admin.create_partitions([NewPartitions(unique, 3)])[unique].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.INVALID_PARTITIONS


def test_deleting_an_unknown_topic_is_refused(admin: AdminClient, unique: str) -> None:
    with pytest.raises(KafkaException) as failure:
        admin.delete_topics([unique])[unique].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.UNKNOWN_TOPIC_OR_PART


def configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return entries


def test_topic_configs_are_described_with_their_sources(admin: AdminClient, unique: str) -> None:
    create(admin, unique, config={"retention.ms": "12345"})
    found = configs(admin, ResourceType.TOPIC, unique)
    assert found["retention.ms"].value == "12345"
    assert ConfigSource(found["retention.ms"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert found["cleanup.policy"].value == "delete"
    assert ConfigSource(found["cleanup.policy"].source) == ConfigSource.DEFAULT_CONFIG
    assert found["max.message.bytes"].value == "1048588"


def test_topic_configs_are_altered_one_by_one(admin: AdminClient, unique: str) -> None:
    create(admin, unique, config={"retention.ms": "12345"})
    changes = [
        ("retention.bytes", AlterConfigOpType.SET, "777"),
        ("retention.ms", AlterConfigOpType.DELETE, None),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
    ]
    entries = [
        ConfigEntry(name, value, incremental_operation=operation)
        for name, operation, value in changes
    ]
    resource = ConfigResource(ResourceType.TOPIC, unique, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    found = configs(admin, ResourceType.TOPIC, unique)
    assert found["retention.bytes"].value == "777"
    assert found["retention.ms"].value == "604800000"
    assert sorted((found["cleanup.policy"].value or "").split(",")) == ["compact", "delete"]


def test_invalid_config_value_changes_nothing(admin: AdminClient, unique: str) -> None:
    create(admin, unique)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in [("retention.bytes", "777"), ("segment.bytes", "-1")]
    ]
    resource = ConfigResource(ResourceType.TOPIC, unique, incremental_configs=entries)
    with pytest.raises(KafkaException) as failure:
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.INVALID_CONFIG
    assert configs(admin, ResourceType.TOPIC, unique)["retention.bytes"].value == "-1"


def test_broker_configs_are_described(admin: AdminClient) -> None:
    (broker, *_) = admin.list_topics(timeout=TIMEOUT_S).brokers
    found = configs(admin, ResourceType.BROKER, str(broker))
    assert found["num.network.threads"].is_read_only is False
    assert found["log.dirs"].is_read_only
    assert found["node.id"].value == str(broker)


def test_cluster_is_described(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert len(cluster.nodes) == 1
    assert cluster.controller.id == cluster.nodes[0].id
    assert cluster.cluster_id


def test_records_before_an_offset_are_deleted(
    admin: AdminClient, bootstrap: str, unique: str
) -> None:
    create(admin, unique)
    produce(bootstrap, unique, 10)
    partition = TopicPartition(unique, 0, 4)
    assert admin.delete_records([partition])[partition].result(TIMEOUT_S).low_watermark == 4
    offsets = [
        (OffsetSpec.earliest(), 4),
        (OffsetSpec.latest(), 10),
    ]
    for spec, expected in offsets:
        asked = TopicPartition(unique, 0)
        found = admin.list_offsets({asked: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        assert found[asked].result(TIMEOUT_S).offset == expected


def test_deleting_records_beyond_the_end_is_refused(
    admin: AdminClient, bootstrap: str, unique: str
) -> None:
    create(admin, unique)
    produce(bootstrap, unique, 3)
    partition = TopicPartition(unique, 0, 4)
    with pytest.raises(KafkaException) as failure:
        admin.delete_records([partition])[partition].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.OFFSET_OUT_OF_RANGE


def test_offset_of_the_highest_timestamp_is_listed(
    admin: AdminClient, bootstrap: str, unique: str
) -> None:
    create(admin, unique)
    producer = Producer({"bootstrap.servers": bootstrap})
    for timestamp_ms in (1_000_000, 3_000_000, 2_000_000):
        producer.produce(unique, b"v", timestamp=timestamp_ms)
    assert producer.flush(TIMEOUT_S) == 0
    asked = TopicPartition(unique, 0)
    found = admin.list_offsets({asked: OffsetSpec.max_timestamp()})[asked].result(TIMEOUT_S)
    assert (found.offset, found.timestamp) == (1, 3_000_000)


@pytest.fixture
def member(bootstrap: str, admin: AdminClient, unique: str) -> Iterator[Consumer]:
    """The only member of the group `unique`, which has committed offset 7."""
    create(admin, unique)
    produce(bootstrap, unique, 10)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique})
    consumer.subscribe([unique])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(unique, 0, 7)], asynchronous=False)
    yield consumer
    consumer.close()


def test_groups_are_listed_and_described(admin: AdminClient, member: Consumer, unique: str) -> None:
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert not listed.errors
    (ours,) = [group for group in listed.valid if group.group_id == unique]
    assert ours.state == ConsumerGroupState.STABLE
    described = admin.describe_consumer_groups([unique])[unique].result(TIMEOUT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (only,) = described.members
    assert only.assignment.topic_partitions == [TopicPartition(unique, 0)]
    assert only.client_id == "rdkafka"


def committed(admin: AdminClient, group: str) -> int | None:
    asked = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
    offsets = [part.offset for part in found.topic_partitions]
    return offsets[0] if offsets else None


def test_offsets_of_a_group_with_members_cannot_be_altered(
    admin: AdminClient, member: Consumer, unique: str
) -> None:
    assert committed(admin, unique) == 7
    target = ConsumerGroupTopicPartitions(unique, [TopicPartition(unique, 0, 2)])
    altered = admin.alter_consumer_group_offsets([target])[unique].result(TIMEOUT_S)
    (partition,) = altered.topic_partitions
    assert partition.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException) as failure:
        admin.delete_consumer_groups([unique])[unique].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.NON_EMPTY_GROUP
    assert committed(admin, unique) == 7


def test_offsets_of_an_empty_group_are_altered_and_the_group_is_deleted(
    admin: AdminClient, member: Consumer, unique: str
) -> None:
    member.close()
    target = ConsumerGroupTopicPartitions(unique, [TopicPartition(unique, 0, 2)])
    admin.alter_consumer_group_offsets([target])[unique].result(TIMEOUT_S)
    assert committed(admin, unique) == 2
    admin.delete_consumer_groups([unique])[unique].result(TIMEOUT_S)
    assert committed(admin, unique) is None
    with pytest.raises(KafkaException) as failure:
        admin.delete_consumer_groups([unique])[unique].result(TIMEOUT_S)
    assert error_code(failure) == KafkaError.GROUP_ID_NOT_FOUND


def test_election_of_a_current_leader_is_not_needed(admin: AdminClient, unique: str) -> None:
    create(admin, unique, 2)
    places = [TopicPartition(unique, 0), TopicPartition(unique, 1), TopicPartition(unique, 2)]
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        results = admin.elect_leaders(kind, places).result(TIMEOUT_S)
        found = {place.partition: result.code() for place, result in results.items()}
        not_needed = KafkaError.ELECTION_NOT_NEEDED
        assert found == {0: not_needed, 1: not_needed, 2: KafkaError.UNKNOWN_TOPIC_OR_PART}
    everything = admin.elect_leaders(ElectionType.PREFERRED, None).result(TIMEOUT_S)
    assert not [place for place in everything if place.topic == unique]
