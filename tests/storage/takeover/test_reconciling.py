"""Changes that another broker made are found, as metadata changes with sentences."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import apply_all
from kwire.cluster.metadata.image import (
    NOTHING_SET,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.storage.takeover import reconciling

OURS, THEIRS = b"o" * 16, b"t" * 16
ME = 1


def image_of(count: int = 2, configs: Mapping[str, str] = NOTHING_SET) -> ClusterImage:
    states = tuple(PartitionImage(ME, 3, 5, (ME,), (ME,)) for _ in range(count))
    image = ClusterImage("c").with_topics([TopicImage("t", OURS, states)])
    return image.with_configs(TOPIC_RESOURCE, "t", configs)


def kraft_of(
    topic_id: bytes = OURS, count: int = 2, epoch: int = 3, replicas: tuple[int, ...] = (ME,)
) -> KraftMetadata:
    kraft = KraftMetadata(topics={"t": topic_id})
    kraft.partitions[topic_id] = {
        index: KraftPartition(-1, epoch, 9, replicas, (ME,)) for index in range(count)
    }
    return kraft


def known(kind: int, name: str, configs: Mapping[str, str]) -> Mapping[str, str] | None:
    return configs if kind in (TOPIC_RESOURCE, 4) else None


def follow(
    image: ClusterImage, kraft: KraftMetadata, on_disk: reconciling.OnDisk | None = None
) -> tuple[ClusterImage, list[str]]:
    findings = list(reconciling.from_kraft(image, kraft, ME, on_disk or {}, known))
    changes = [finding.change for finding in findings if finding.change is not None]
    return apply_all(image, changes), [finding.says for finding in findings]


def test_equal_metadata_has_no_finding() -> None:
    image = image_of()
    assert follow(image, kraft_of()) == (image, [])


def test_later_epoch_of_the_kraft_metadata_is_a_finding() -> None:
    after, says = follow(image_of(), kraft_of(epoch=7))
    assert [(p.leader_epoch, p.partition_epoch) for p in after.topics["t"].partitions] == [
        (7, 9)
    ] * 2
    assert says[0] == "t-0 was led in epoch 7, after 3 here"


def test_partition_epoch_never_decreases() -> None:
    """A client that has seen a state of the partition must not get an older partition epoch."""
    kraft = kraft_of(epoch=7)
    kraft.partitions[OURS][0] = KraftPartition(-1, 7, 2, (ME,), (ME,))
    after, _ = follow(image_of(), kraft)
    first, second = after.topics["t"].partitions
    assert (first.leader_epoch, first.partition_epoch) == (7, 6)
    assert (second.leader_epoch, second.partition_epoch) == (7, 9)
    assert (first.leader, first.isr) == (ME, (ME,))


def test_earlier_epoch_is_no_finding() -> None:
    image = image_of()
    assert follow(image, kraft_of(epoch=2)) == (image, [])


def test_added_partitions_are_a_finding() -> None:
    after, says = follow(image_of(count=1), kraft_of(count=3))
    assert [p.leader_epoch for p in after.topics["t"].partitions] == [3, 3, 3]
    assert says == ["topic t grew from 1 to 3 partitions"]


def test_new_topic_is_a_finding_with_its_configs() -> None:
    kraft = kraft_of()
    kraft.configs[TOPIC_RESOURCE, "t"] = {"retention.ms": "5"}
    after, says = follow(ClusterImage("c"), kraft)
    assert after.topics["t"].id == OURS
    assert after.configs_of(TOPIC_RESOURCE, "t") == {"retention.ms": "5"}
    assert says == ["topic t was created, with 2 partitions"]


def test_topic_with_missing_partitions_is_left_alone() -> None:
    after, says = follow(ClusterImage("c"), kraft_of(replicas=(2, 3)))
    assert not after.topics
    assert says == ["t is left alone: this node lacks some of its partitions"]


def test_recreated_topic_is_deleted_and_created() -> None:
    after, says = follow(image_of(configs={"retention.ms": "5"}), kraft_of(THEIRS))
    assert after.topics["t"].id == THEIRS
    assert after.configs_of(TOPIC_RESOURCE, "t") == {}
    assert len(says) == 2


@pytest.mark.parametrize(
    ("on_disk", "is_removed", "stays"),
    [
        ({}, False, False),
        ({"t": {0: OURS}}, False, True),  # Apache Kafka never heard of it
        ({"t": {0: THEIRS}}, False, False),
        ({"t": {0: OURS}}, True, False),  # it was killed before the folder went
    ],
)
def test_deleted_topic_is_a_finding(
    on_disk: reconciling.OnDisk, is_removed: bool, stays: bool
) -> None:
    kraft = KraftMetadata(removed={OURS} if is_removed else set())
    after, says = follow(image_of(), kraft, on_disk)
    assert ("t" in after.topics) == stays
    assert says == ([] if stays else ["topic t was deleted"])


def test_changed_configs_are_a_finding() -> None:
    kraft = kraft_of()
    kraft.configs[TOPIC_RESOURCE, "t"] = {"retention.ms": "6", "segment.ms": "1"}
    kraft.configs[4, ""] = {"log.cleaner.threads": "2"}
    kraft.configs[32, "g"] = {"x": "y"}
    after, says = follow(image_of(configs={"retention.ms": "5"}), kraft)
    assert after.configs_of(TOPIC_RESOURCE, "t") == {"retention.ms": "6", "segment.ms": "1"}
    assert after.configs_of(4, "") == {"log.cleaner.threads": "2"}
    assert says == [
        "topic t: retention.ms, segment.ms changed",
        "broker (all): log.cleaner.threads changed",
    ]


def test_changed_acls_are_a_finding() -> None:
    kraft = kraft_of()
    record = AccessControlEntryRecord(b"i" * 16, 2, "t", 3, "User:a", "*", 3, 3)
    kraft.apply(record)
    stale = ResourcePattern(3, 3, "g")
    image = image_of().with_acls(stale, frozenset({AccessControlEntry("User:b", "*", 3, 3)}))
    after, says = follow(image, kraft)
    entry = AccessControlEntry("User:a", "*", 3, 3)
    assert dict(after.acls) == {ResourcePattern(2, 3, "t"): frozenset({entry})}
    assert says == ["the ACLs of TOPIC t changed", "the ACLs of GROUP g changed"]
    kraft.apply(RemoveAccessControlEntryRecord(record.id))
    assert not follow(after, kraft)[0].acls
