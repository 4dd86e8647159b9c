"""The records of each change, and the changes that a log lacks to equal an image, in order."""

from __future__ import annotations

from dataclasses import replace
from hashlib import md5
from typing import Any

import pytest

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    SetConfigs,
)
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.storage.takeover.kraft_changes import (
    DIRECTORIES_SINCE,
    METADATA_VERSION,
    UNASSIGNED,
    Replica,
    acl_changes,
    acls_in,
    lacking,
    producer_ids,
    records_of,
)

ME = Replica(7, b"d" * 16)
T = b"t" * 16


def state(leader_epoch: int = 4, partition_epoch: int = 2) -> PartitionImage:
    return PartitionImage(7, leader_epoch, partition_epoch, (7,), (7,))


def topic(name: str, *states: PartitionImage) -> TopicImage:
    return TopicImage(name, name.encode() * 16, states or (state(),))


def partition(index: int, known: PartitionImage, topic_id: bytes = T) -> PartitionRecord:
    """A partition's record as in a log of Apache Kafka 3.6."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[7],
        isr=[7],
        leader=-1,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
    )


def written(change: Change, kraft: KraftMetadata | None = None) -> list[tuple[object, int]]:
    return list(records_of(change, ME, kraft or KraftMetadata()))


def kraft_of(*topics: TopicImage, replicas: tuple[int, ...] = (7,)) -> KraftMetadata:
    """The metadata of a log with these topics."""
    kraft = KraftMetadata()
    for each in topics:
        kraft.topics[each.name] = each.id
        kraft.partitions[each.id] = {
            index: KraftPartition(-1, known.leader_epoch, known.partition_epoch, replicas, (7,))
            for index, known in enumerate(each.partitions)
        }
    return kraft


# -- topics and partitions


def test_new_topic_is_written_with_configs_before_partitions() -> None:
    first, second = state(3, 5), state(4, 6)
    change = CreateTopic(topic("t", first, second), {"b": "2", "a": "1"})
    assert written(change) == [
        (TopicRecord("t", T), 0),
        (ConfigRecord(2, "t", "a", "1"), 0),
        (ConfigRecord(2, "t", "b", "2"), 0),
        (partition(0, first), 0),
        (partition(1, second), 0),
    ]


def test_new_partitions_are_numbered_after_the_existing_ones() -> None:
    first, second = state(3, 5), state(4, 6)
    assert written(AddPartitions("t", T, 3, (first, second))) == [
        (partition(3, first), 0),
        (partition(4, second), 0),
    ]


def test_changed_partition_is_written_in_its_new_state() -> None:
    assert written(AlterPartition("t", T, 5, 1, state(8, 9))) == [(partition(5, state(8, 9)), 0)]


def test_deleted_topic_is_written_after_removing_its_configs() -> None:
    kraft = KraftMetadata(configs={(2, "t"): {"b": "2", "a": "1"}, (2, "u"): {"c": "3"}})
    assert written(DeleteTopic("t", T), kraft) == [
        (ConfigRecord(2, "t", "a", None), 0),
        (ConfigRecord(2, "t", "b", None), 0),
        (RemoveTopicRecord(T), 0),
    ]
    assert written(DeleteTopic("v", T), kraft) == [(RemoveTopicRecord(T), 0)]


@pytest.mark.parametrize(
    ("levels", "version", "fields"),
    [
        ({METADATA_VERSION: DIRECTORIES_SINCE - 1, ELR_VERSION: 1}, 0, {}),
        ({METADATA_VERSION: DIRECTORIES_SINCE}, 1, {"directories": [b"d" * 16]}),
        ({METADATA_VERSION: 30, ELR_VERSION: 0}, 1, {"directories": [b"d" * 16]}),
        (
            {METADATA_VERSION: 30, ELR_VERSION: 1},
            2,
            {
                "directories": [b"d" * 16],
                "isr": [],
                "eligible_leader_replicas": [7],
                "last_known_elr": [7],
            },
        ),
    ],
)
def test_partition_is_written_with_the_fields_of_the_metadata_version(
    levels: dict[str, int], version: int, fields: dict[str, Any]
) -> None:
    change = AlterPartition("t", T, 0, 1, state())
    expected = replace(partition(0, state()), **fields)
    assert written(change, KraftMetadata(features=levels)) == [(expected, version)]


def test_replica_without_a_directory_of_its_own_is_not_assigned_to_one() -> None:
    assert Replica(1).directory_id == UNASSIGNED == bytes(15) + b"\1"


def test_producer_ids_are_written_with_the_nodes_id() -> None:
    assert producer_ids(ME, 5) == (ProducerIdsRecord(7, -1, 5), 0)


# -- settings


@pytest.mark.parametrize("kind", [2, 4, 16, 32])
def test_changed_configs_get_a_record_and_removed_configs_a_record_without_value(kind: int) -> None:
    before, after = {"c": "1", "b": "1", "a": "1"}, {"a": "1", "b": "2", "d": "3"}
    assert written(SetConfigs(kind, "x", before, after)) == [
        (ConfigRecord(kind, "x", "b", "2"), 0),
        (ConfigRecord(kind, "x", "c", None), 0),
        (ConfigRecord(kind, "x", "d", "3"), 0),
    ]


def test_changes_that_apache_kafka_does_not_store_are_not_written() -> None:
    assert written(SetConfigs(8, "x", {}, {"a": "1"})) == []
    assert written(RegisterBroker(BrokerImage(1, ()))) == []


# -- who may do what

PATTERN = ResourcePattern(2, 3, "t")
READS = AccessControlEntry("User:a", "*", 3, 3)
WRITES = AccessControlEntry("User:a", "*", 4, 3)


def record(
    acl_id: bytes, pattern: ResourcePattern, entry: AccessControlEntry
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id,
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


def test_new_acl_is_written_with_an_id_that_hashes_its_content() -> None:
    pattern = ResourcePattern(3, 4, "g\udc80")
    entry = AccessControlEntry("User:b", "10.0.0.1", 2, 2)
    text = "\0".join(("3", "4", "g\udc80", "User:b", "10.0.0.1", "2", "2"))
    acl_id = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    change = ChangeAcls(pattern, (entry,))
    assert written(change) == [(record(acl_id, pattern, entry), 0)]


def test_removed_acl_is_written_with_the_id_in_the_log() -> None:
    others = [PATTERN._replace(name="u"), PATTERN._replace(pattern_type=4)]
    acls = {
        b"1": record(b"1", PATTERN, READS),
        b"2": record(b"2", PATTERN, WRITES),
        b"3": record(b"3", others[0], READS),
        b"4": record(b"4", others[1], READS),
        b"5": record(b"5", PATTERN, READS),
    }
    kraft = KraftMetadata(acls=acls)
    assert written(ChangeAcls(PATTERN, (), (READS,)), kraft) == [
        (RemoveAccessControlEntryRecord(b"1"), 0),
        (RemoveAccessControlEntryRecord(b"5"), 0),
    ]
    assert written(ChangeAcls(PATTERN), kraft) == []
    assert acls_in(kraft) == {
        PATTERN: frozenset({READS, WRITES}),
        others[0]: frozenset({READS}),
        others[1]: frozenset({READS}),
    }


def test_acl_changes_are_sorted_and_one_per_pattern() -> None:
    one, two, three = (PATTERN._replace(name=name) for name in "abc")
    before = {one: frozenset({READS}), two: frozenset({READS, WRITES}), three: frozenset({READS})}
    after = {
        two: frozenset({READS}),
        three: frozenset({READS}),
        PATTERN: frozenset({WRITES, READS}),
    }
    assert list(acl_changes(before, after)) == [
        ChangeAcls(one, (), (READS,)),
        ChangeAcls(two, (), (WRITES,)),
        ChangeAcls(PATTERN, (READS, WRITES), ()),
    ]


# -- what a log lacks


def image_of(*topics: TopicImage) -> ClusterImage:
    return ClusterImage("c").with_topics(topics)


def lacks(kraft: KraftMetadata, image: ClusterImage) -> list[Change]:
    """The lacking changes; the order of topics is arbitrary."""
    return sorted(lacking(kraft, image, ME), key=repr)


def test_log_that_equals_the_image_lacks_nothing() -> None:
    known = topic("t", state(), state())
    assert lacks(kraft_of(known), image_of(known)) == []


def test_lacking_changes_create_and_delete_topics() -> None:
    old, new, gone = topic("t"), TopicImage("t", b"n" * 16, (state(),)), topic("g")
    expected: list[Change] = [
        DeleteTopic("t", old.id),
        DeleteTopic("g", gone.id),
        CreateTopic(new, {}),
        CreateTopic(topic("u"), {}),
    ]
    assert lacks(kraft_of(old, gone), image_of(new, topic("u"))) == sorted(expected, key=repr)


def test_topic_with_replicas_on_other_brokers_stays_in_the_log() -> None:
    assert lacks(kraft_of(topic("t"), replicas=(7, 8)), image_of()) == []
    kraft = kraft_of(topic("t", state(), state()))
    kraft.partitions[T][1].replicas = (8,)
    assert lacks(kraft, image_of()) == []


def test_lacking_changes_have_later_leader_epochs_and_new_partitions() -> None:
    there = topic("t", state(4, 2), state(4, 3), state(4, 9))
    here = (state(4, 8), state(5, 8), state(3, 8), state(1, 1), state(2, 2))
    other = topic("u", state(1, 1))
    image = image_of(topic("t", *here), topic("u", state(2, 2)))
    expected: list[Change] = [
        AlterPartition("t", T, 1, 3, here[1]),
        AddPartitions("t", T, 3, here[3:]),
        AlterPartition("u", b"u" * 16, 0, 1, state(2, 2)),
    ]
    assert lacks(kraft_of(there, other), image) == sorted(expected, key=repr)


def test_additional_partitions_of_the_log_are_kept() -> None:
    there = topic("t", state(4, 2), state(4, 3))
    assert lacks(kraft_of(there), image_of(topic("t", state(5, 3)))) == [
        AlterPartition("t", T, 0, 2, state(5, 3))
    ]


def test_lacking_configs_are_written_and_unknown_ones_are_kept() -> None:
    known = topic("t")
    kraft = kraft_of(known)
    kraft.configs = {(2, "t"): {"theirs": "1", "a": "1"}, (4, ""): {"b": "2"}}
    image = image_of(known, topic("u"))
    for kind, name, configs in (
        (8, "not kept there", {"a": "1"}),
        (2, "u", {"a": "3"}),
        (4, "", {"b": "2"}),
        (2, "t", {"a": "2"}),
        (32, "g", {"c": "3"}),
    ):
        image = image.with_configs(kind, name, configs)
    assert lacks(kraft, image) == [
        CreateTopic(topic("u"), {"a": "3"}),
        SetConfigs(2, "t", {"theirs": "1", "a": "1"}, {"theirs": "1", "a": "2"}),
        SetConfigs(32, "g", {}, {"c": "3"}),
    ]


def test_leftover_configs_are_removed_if_a_topic_has_that_name() -> None:
    known = topic("t")
    kraft = kraft_of(known)
    kraft.leftovers = {"gone": {"a": "1"}, "t": {"b": "2", "c": "3"}, "u": {}}
    kraft.configs[2, "t"] = {"c": "4"}
    image = image_of(known).with_configs(2, "t", {"c": "4"})
    assert lacks(kraft, image) == [SetConfigs(2, "t", {"b": "2", "c": "4"}, {"c": "4"})]
