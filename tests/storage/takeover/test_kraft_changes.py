"""Changes that are written as KRaft records are read as written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.changes import (
    Change,
    Conflict,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
)
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    SUPPORTED,
    UNNAMED_LEVELS,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.log.directory import kraft_records
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.storage.takeover import reconciling
from kwire.storage.takeover.features import levels_from_log, levels_lacking_in_log
from kwire.storage.takeover.kraft_changes import (
    DIRECTORIES_SINCE,
    METADATA_VERSION,
    Replica,
    acls_in,
    lacking,
    producer_ids,
    records_of,
)
from tests.cluster.metadata.histories import change_of

ME = Replica(1, b"d" * 16)
TOPIC = TopicImage("t", b"t" * 16, (PartitionImage(1, 4, 2, (1,), (1,)),))
LEVELS = (
    {METADATA_VERSION: DIRECTORIES_SINCE - 1},
    {METADATA_VERSION: DIRECTORIES_SINCE},
    {METADATA_VERSION: 30, ELR_VERSION: 1},
)


def write(kraft: KraftMetadata, change: Change) -> None:
    """Write through bytes, as in the log."""
    for record, version in list(records_of(change, ME, kraft)):
        kraft.note(*kraft_records.decode(kraft_records.encode(record, version)))


def findings_in(image: ClusterImage, kraft: KraftMetadata) -> list[str]:
    def known(kind: int, name: str, configs: Mapping[str, str]) -> Mapping[str, str] | None:
        return configs if kind == TOPIC_RESOURCE else None

    findings = reconciling.from_kraft(image, kraft, 1, {}, known)
    return [finding.says for finding in findings]


def test_elr_level_of_the_log_is_taken_over() -> None:
    kraft = KraftMetadata(features={**UNNAMED_LEVELS, ELR_VERSION: 1})
    [(says, change)] = levels_from_log(ClusterImage("c"), kraft)
    assert says == f"{ELR_VERSION} to 1"
    image = change.apply_to(ClusterImage("c"))
    assert image.features.level(ELR_VERSION) == 1
    assert list(levels_from_log(image, kraft)) == []
    assert list(levels_lacking_in_log(image, kraft)) == []


@given(st.data())
@pytest.mark.parametrize("features", LEVELS)
def test_written_changes_are_read_as_the_same_metadata(
    features: dict[str, int], data: st.DataObject
) -> None:
    kraft = KraftMetadata(features=dict(features))
    levels = {**dict.fromkeys(SUPPORTED, 0), **features}
    image = ClusterImage("c").with_features(FinalizedFeatures(levels))
    for _ in range(data.draw(st.integers(0, 12))):
        change = data.draw(change_of(image))
        with suppress(Conflict):
            image = change.apply_to(image)
            write(kraft, change)
    assert kraft.topics == {name: topic.id for name, topic in image.topics.items()}
    for name, topic in image.topics.items():
        states = kraft.partitions[topic.id]
        epochs = [states[index].leader_epoch for index in range(len(states))]
        assert epochs == [state.leader_epoch for state in topic.partitions]
        assert kraft.configs.get((TOPIC_RESOURCE, name), {}) == image.configs_of(2, name)
    assert acls_in(kraft) == dict(image.acls)
    assert findings_in(image, kraft) == []
    assert list(lacking(kraft, image, ME)) == []


@given(st.data())
def test_lacking_changes_make_the_log_equal_to_the_image(data: st.DataObject) -> None:
    """The log of one random history is brought to the state of another one."""
    images, kraft = [ClusterImage("c"), ClusterImage("c")], KraftMetadata()
    for at in range(2):
        for _ in range(data.draw(st.integers(0, 6))):
            change = data.draw(change_of(images[at]))
            with suppress(Conflict):
                images[at] = change.apply_to(images[at])
                if at == 0:
                    write(kraft, change)
    for change in list(lacking(kraft, images[1], ME)):
        write(kraft, change)
    wanted = {name: topic.id for name, topic in images[1].topics.items()}
    assert kraft.topics == wanted
    for name, topic in images[1].topics.items():
        assert len(kraft.partitions[topic.id]) >= len(topic.partitions)
        configs = kraft.configs.get((TOPIC_RESOURCE, name), {})
        assert configs.items() >= images[1].configs_of(2, name).items()


@pytest.mark.parametrize(
    ("features", "version", "isr", "eligible"),
    [
        (LEVELS[0], 0, [1], None),
        (LEVELS[1], 1, [1], None),
        (LEVELS[2], 2, [], [1]),
    ],
)
def test_partition_is_written_as_after_a_controlled_shutdown(
    features: dict[str, int], version: int, isr: list[int], eligible: list[int] | None
) -> None:
    kraft = KraftMetadata(features=features)
    _, (record, written) = records_of(CreateTopic(TOPIC), ME, kraft)
    assert written == version
    assert isinstance(record, PartitionRecord)
    assert (record.leader, record.leader_epoch, record.isr) == (-1, 4, isr)
    assert record.eligible_leader_replicas == eligible
    assert record.last_known_elr == eligible


def test_configs_of_a_deleted_topic_are_removed_one_by_one() -> None:
    """Otherwise Apache Kafka 4.3.1 may give them to the next topic of that name."""
    kraft = KraftMetadata()
    write(kraft, CreateTopic(TOPIC, {"retention.ms": "1"}))
    kinds = [
        type(record).__name__ for record, _ in records_of(DeleteTopic("t", TOPIC.id), ME, kraft)
    ]
    assert kinds == ["ConfigRecord", "RemoveTopicRecord"]


def test_leftover_configs_of_a_deleted_topic_are_removed() -> None:
    kraft = KraftMetadata()
    write(kraft, CreateTopic(TOPIC, {"retention.ms": "1", "segment.ms": "2"}))
    kraft.note(*kraft_records.decode(removal()))
    again = TopicImage("t", b"u" * 16, TOPIC.partitions)
    write(kraft, CreateTopic(again, {"segment.ms": "3"}))
    image = ClusterImage("c").with_topics([again]).with_configs(2, "t", {"segment.ms": "3"})
    (change,) = lacking(kraft, image, ME)
    assert isinstance(change, SetConfigs)
    ((record, _),) = records_of(change, ME, kraft)
    assert isinstance(record, ConfigRecord)
    assert (record.name, record.value) == ("retention.ms", None)
    write(kraft, change)
    assert list(lacking(kraft, image, ME)) == []


def removal() -> bytes:
    """The removal of a topic as Apache Kafka writes it: one record, of the topic."""
    *_, (record, version) = records_of(DeleteTopic("t", TOPIC.id), ME, KraftMetadata())
    return kraft_records.encode(record, version)


def test_producer_ids_record_has_no_broker_epoch() -> None:
    """The record has no broker epoch, because the log may have no registration of the broker."""
    record, version = producer_ids(ME, 7000)
    assert isinstance(record, ProducerIdsRecord)
    assert (record.broker_id, record.broker_epoch, record.next_producer_id) == (1, -1, 7000)
    assert version == 0


def test_lacking_changes_have_only_configs_that_the_log_keeps() -> None:
    kraft = KraftMetadata()
    write(kraft, CreateTopic(TOPIC))
    image = CreateTopic(TOPIC).apply_to(ClusterImage("c"))
    image = CreateTopic(replace(TOPIC, name="u", id=b"u" * 16)).apply_to(image)
    for kind, name in ((3, "a kind it does not keep"), (2, "t"), (2, "u"), (4, "1")):
        image = SetConfigs(kind, name, {}, {"a.setting": name}).apply_to(image)
    changes = list(lacking(kraft, image, ME))
    made = [each for each in changes if isinstance(each, CreateTopic)]
    assert [(each.topic.name, each.configs) for each in made] == [("u", {"a.setting": "u"})]
    set_ones = [each for each in changes if isinstance(each, SetConfigs)]
    assert {(each.resource, each.name) for each in set_ones} == {(2, "t"), (4, "1")}
    assert len(set_ones) == 2


def test_partition_is_written_with_its_epochs() -> None:
    state = PartitionImage(1, 6, 9, (1,), (1,))
    topic = TopicImage("t", b"t" * 16, (state,))
    _, (record, _) = records_of(CreateTopic(topic), ME, KraftMetadata())
    assert isinstance(record, PartitionRecord)
    assert (record.leader_epoch, record.partition_epoch) == (6, 9)


def test_lacking_topics_and_lacking_configs_are_both_written() -> None:
    """Some topics are missing and others lack a config, in any order of names."""
    names = [f"t{number}" for number in range(16)]
    kraft, image = KraftMetadata(), ClusterImage("c")
    for number, name in enumerate(names):
        made = CreateTopic(replace(TOPIC, name=name, id=bytes([number + 1]) * 16))
        image = made.apply_to(image).with_configs(TOPIC_RESOURCE, name, {"a.setting": name})
        if number % 2:
            write(kraft, made)
    changes = list(lacking(kraft, image, ME))
    made_ones = {each.topic.name for each in changes if isinstance(each, CreateTopic)}
    set_ones = {each.name for each in changes if isinstance(each, SetConfigs)}
    assert (made_ones, set_ones) == (set(names[::2]), set(names[1::2]))
