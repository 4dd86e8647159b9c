"""Feature levels are written to and read from Apache Kafka's metadata log."""

from __future__ import annotations

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import METADATA_VERSION, TRANSACTION_VERSION, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.storage.takeover.kraft_changes import lacking, records_of
from tests.storage.takeover.test_entities import ME, follow, write


def kraft_at(**levels: int) -> KraftMetadata:
    """KRaft metadata with these levels of the metadata and transaction versions."""
    return KraftMetadata(features={f"{name}.version": level for name, level in levels.items()})


def image_at(**levels: int) -> ClusterImage:
    requested = {f"{name}.version": level for name, level in levels.items()}
    return ClusterImage("c", version=7).with_features(FinalizedFeatures(requested, None, 5))


def test_feature_levels_of_the_kraft_log_are_applied() -> None:
    image, says = follow(ClusterImage("c", version=7), kraft_at(metadata=21))
    assert image.features.in_force == {METADATA_VERSION: 21}  # 3.9 has no others
    assert image.features.epoch == 8, "later than any epoch that a client has seen"
    changed = (
        "metadata.version to 21, transaction.version to 0, group.version to 0, share.version to 0, "
        "streams.version to 0"
    )
    assert says == [f"feature levels changed: {changed}"]
    assert follow(image, kraft_at(metadata=21)) == (image, [])


def test_equal_feature_levels_change_nothing() -> None:
    fresh = ClusterImage("c")
    assert follow(fresh, kraft_at(metadata=30, transaction=2, group=1, share=1, streams=1)) == (
        fresh,
        [],
    )


def test_kraft_log_without_metadata_version_changes_no_feature() -> None:
    image = image_at(transaction=1)
    assert follow(image, KraftMetadata()) == (image, [])
    assert list(lacking(KraftMetadata(), image, ME)) == []
    assert list(records_of(SetFeatures(5, image.features), ME, KraftMetadata())) == []


def test_feature_level_above_the_highest_supported_counts_as_that() -> None:
    image, _ = follow(image_at(transaction=0), kraft_at(metadata=34, transaction=3))
    assert image.features.in_force == {METADATA_VERSION: 33, TRANSACTION_VERSION: 2}
    assert list(lacking(kraft_at(metadata=34, transaction=3), image, ME)) == []


def test_changed_feature_levels_become_the_records_of_a_controller() -> None:
    kraft = kraft_at(metadata=30, transaction=2, group=1, share=1, streams=1)
    features = image_at(transaction=0).features
    change = SetFeatures(4, features)
    assert all(
        isinstance(record, FeatureLevelRecord) for record, _ in records_of(change, ME, kraft)
    )
    write(kraft, change)
    assert {name: level for name, level in kraft.features.items() if level} == {
        METADATA_VERSION: 30,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    assert list(records_of(change, ME, kraft)) == []


def test_missing_feature_levels_are_written_to_the_kraft_log() -> None:
    kraft, image = (
        kraft_at(metadata=30, transaction=2, group=1, share=1, streams=1),
        image_at(transaction=1),
    )
    (change,) = lacking(kraft, image, ME)
    ((record, _),) = records_of(change, ME, kraft)
    assert record == FeatureLevelRecord(TRANSACTION_VERSION, 1)
