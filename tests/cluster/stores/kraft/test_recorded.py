"""Replays of logs of Apache Kafka 4.4.0, compared with what its broker made of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kwire.cluster.metadata.credentials import MECHANISMS, credentials_of, users_with_credentials
from kwire.cluster.metadata.entities import ENTITY_RESOURCE, entity_of
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.views import MetadataView
from kwire.cluster.stores.kraft import checkpoint, records
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.batches import iter_batches
from kwire.codecs.batches import records as records_in
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.register_controller_record import RegisterControllerRecord
from kwire.security.quotas.kinds import QUOTAS, value_of
from kwire.security.sasl.scram import Credential
from tests.cluster.stores.kraft.recorded import CLUSTER, NAMES, Recording, recording

LISTENER = "PLAINTEXT"
TOPIC_CONFIG, BROKER_CONFIG, DEFAULT_BROKER_CONFIG, METRICS_CONFIG, GROUP_CONFIG = 1, 2, 3, 7, 8
"""The sources of configs that are set on a resource (ConfigSource)."""


@pytest.fixture(params=NAMES)
def recorded(request: pytest.FixtureRequest) -> Recording:
    return recording(request.param)


def replayed_to(recorded: Recording, end_offset: int) -> MetadataReplay:
    """The log replayed up to that offset."""
    replay = MetadataReplay(CLUSTER)
    for batch in records.decode_batches(recorded.log):
        if batch.base_offset >= end_offset:
            break
        before = replay.image
        published = replay.add(batch)
        assert published is None or published.delta.applied_to(before) == published.image
    assert replay.end_offset == end_offset
    return replay


def answered(recorded: Recording) -> ClusterImage:
    return replayed_to(recorded, recorded.answered_at).image


def comparable(image: ClusterImage) -> ClusterImage:
    """The image without the epoch of its features, which a snapshot does not have."""
    return replace(image, features=replace(image.features, epoch=0))


def values(snapshot: bytes) -> Counter[tuple[bytes | None, bytes | None]]:
    """The keys and values of all records of a snapshot, with the features of a node sorted.

    Apache Kafka writes them in the order of a HashMap.
    """
    view = memoryview(snapshot)
    return Counter(
        (record.key, record.value if header.is_control else with_features_sorted(record.value))
        for position, header in iter_batches(view)
        for record in records_in(view, position)
    )


def with_features_sorted(value: bytes | None) -> bytes:
    assert value is not None
    decoded = records.decode(value)
    if isinstance(decoded, RegisterBrokerRecord | RegisterControllerRecord):
        decoded.features.sort(key=lambda feature: feature.name)
    return records.encode(decoded, value[2])


def test_log_and_each_snapshot_of_apache_kafka_give_the_same_image(recorded: Recording) -> None:
    assert len(recorded.snapshots) >= 4
    for (end_offset, epoch), content in recorded.snapshots.items():
        of_log, of_snapshot = replayed_to(recorded, end_offset), MetadataReplay(CLUSTER)
        of_snapshot.load(end_offset, epoch, list(records.decode_batches(content)))
        assert comparable(of_snapshot.image) == comparable(of_log.image)
        assert of_snapshot.acl_ids == of_log.acl_ids
        assert (of_snapshot.epoch, of_snapshot.time_ms) == (of_log.epoch, of_log.time_ms)


def test_snapshots_have_the_records_that_apache_kafka_writes(recorded: Recording) -> None:
    for (end_offset, _), content in recorded.snapshots.items():
        made = checkpoint.snapshot_of(replayed_to(recorded, end_offset), now_ms=0)
        assert values(b"".join(made)) == values(content)


def test_each_metadata_record_is_encoded_as_apache_kafka_does(recorded: Recording) -> None:
    seen = set()
    view = memoryview(recorded.log)
    for position, header in iter_batches(view):
        for record in records_in(view, position):
            if not header.is_control and record.value is not None:
                decoded = records.decode(record.value)
                assert records.encode(decoded, record.value[2]) == record.value
                seen.add(type(decoded))
    assert len(seen) >= 9


def test_metadata_of_the_image_is_what_apache_kafka_answers(recorded: Recording) -> None:
    image, said = answered(recorded), recorded.answer("metadata")
    view = MetadataView(image, LISTENER, True, next(iter(image.brokers.values())))
    assert sorted(map(_broker, view.brokers)) == sorted(map(_broker, said.brokers))
    assert view.names() == sorted(topic.name for topic in said.topics)
    for topic in said.topics:
        shown = view.topic(topic.name)
        assert shown is not None
        assert (shown.topic_id, shown.error_code) == (topic.topic_id, topic.error_code)
        assert sorted(map(_partition, shown.partitions)) == sorted(
            map(_partition, topic.partitions)
        )


def _broker(broker: Any) -> tuple[object, ...]:  # noqa: ANN401 - a part of a response
    return broker.node_id, broker.host, broker.port, broker.rack


def _partition(partition: Any) -> tuple[object, ...]:  # noqa: ANN401 - a part of a response
    return (
        partition.partition_index,
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        partition.replica_nodes,
        sorted(partition.isr_nodes),
        sorted(partition.offline_replicas),
    )


def test_eligible_replicas_are_what_apache_kafka_answers(recorded: Recording) -> None:
    image = answered(recorded)
    said = recorded.answer("partitions")
    assert len(said.topics) == len(image.topics)
    for topic in said.topics:
        for partition in topic.partitions:
            state = image.topics[topic.name].partitions[partition.partition_index]
            assert state.eligible == tuple(partition.eligible_leader_replicas or ())
            assert state.last_eligible == tuple(partition.last_known_elr or ())


def test_brokers_and_features_are_what_apache_kafka_answers(recorded: Recording) -> None:
    image = answered(recorded)
    brokers = {each.broker_id: each for each in recorded.answer("cluster").brokers}
    fenced = {number for number, each in brokers.items() if each.is_fenced}
    assert (brokers.keys() - fenced, fenced) == ({*image.brokers}, {*image.fenced})
    versions = recorded.answer("versions")
    levels = {each.name: each.max_version_level for each in versions.finalized_features}
    assert image.features.in_force == levels


def test_configs_are_what_apache_kafka_answers() -> None:
    recorded = recording("from-4.4")
    image = answered(recorded)
    for key, source in (
        ((2, "one"), TOPIC_CONFIG),
        ((2, "two"), TOPIC_CONFIG),
        ((4, "1"), BROKER_CONFIG),
        ((4, ""), DEFAULT_BROKER_CONFIG),
        ((16, "sub"), METRICS_CONFIG),
        ((32, "g1"), GROUP_CONFIG),
    ):
        said = recorded.answer(f"configs {key[0]} {key[1]}").results[0]
        own = {each.name: each.value for each in said.configs if each.config_source == source}
        assert image.configs_of(*key) == own


def test_access_rules_are_what_apache_kafka_answers() -> None:
    recorded = recording("from-4.4")
    said = {
        (
            (resource.resource_type, resource.pattern_type, resource.resource_name),
            (acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for resource in recorded.answer("acls").resources
        for acl in resource.acls
    }
    image = answered(recorded)
    assert said == {(key, entry) for key, entries in image.acls.items() for entry in entries}
    assert any("/" in entry[1] for _, entry in said), "a range of addresses"


def test_users_quotas_and_tokens_are_what_apache_kafka_answers() -> None:
    recorded = recording("from-4.4")
    image = answered(recorded)
    numbers = {name: number for number, name in MECHANISMS.items()}
    assert {
        (user, numbers[mechanism], Credential.parse(text).iterations)
        for user in users_with_credentials(image)
        for mechanism, text in credentials_of(image, user).items()
    } == {
        (result.user, info.mechanism, info.iterations)
        for result in recorded.answer("scram").results
        for info in result.credential_infos
    }
    assert {
        (frozenset((entity_of(key) or {}).items()), quota, value_of(text))
        for key, configs in image.configs.items()
        if key[0] == ENTITY_RESOURCE
        for quota, text in configs.items()
        if quota in QUOTAS
    } == {
        (
            frozenset((part.entity_type, part.entity_name) for part in entry.entity),
            value.key,
            value.value,
        )
        for entry in recorded.answer("quotas").entries
        for value in entry.values
    }
    assert {(token.id, token.owner, token.expiry_ms) for token in image.tokens.values()} == {
        (
            token.token_id,
            f"{token.principal_type}:{token.principal_name}",
            token.expiry_timestamp,
        )
        for token in recorded.answer("tokens").tokens
    }


def test_registration_keeps_the_order_of_endpoints_and_the_ids_of_directories() -> None:
    image = answered(recording("from-4.4"))
    broker = image.brokers[1]
    assert [each.listener for each in broker.endpoints] == ["PLAINTEXT", "SASL_PLAINTEXT"]
    assert broker.endpoints[1].security_protocol == "SASL_PLAINTEXT"
    assert len(broker.directories) == 2
    assert broker.cordoned_directories == ()
    cordoned = image.fenced[2].cordoned_directories
    assert cordoned is not None
    assert len(cordoned) == 1
    assert broker.features["metadata.version"] == (7, 33)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x01\x63\x00", "metadata record type 99 is not known"),
        (b"\x01\x05\x09", "version 9 of PartitionChangeRecord is not known"),
        (b"\x02\x05\x00", "frame version 2 of a metadata record is not known"),
    ],
)
def test_unknown_record_is_refused_by_name_with_what_to_do(value: bytes, why: str) -> None:
    with pytest.raises(records.UnknownRecord, match=f"{why}.*use a newer kwire"):
        records.decode(value)


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x05", b"\x01\x05\x00\x00"])
def test_record_that_is_cut_short_is_refused(value: bytes) -> None:
    with pytest.raises(records.BadMetadata, match=r"cut short|damaged"):
        records.decode(value)
