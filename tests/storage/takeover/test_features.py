"""The levels of features go to Apache Kafka's metadata log and come from there."""

from __future__ import annotations

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import METADATA_VERSION, TRANSACTION_VERSION, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.storage.takeover.kraft_changes import lacking, records_of
from tests.storage.takeover.test_entities import ME, follow, write


def kraft_at(**levels: int) -> KraftMetadata:
    """With levels of `metadata` and `transaction`."""
    return KraftMetadata(features={f"{name}.version": level for name, level in levels.items()})


def image_at(**levels: int) -> ClusterImage:
    asked = {f"{name}.version": level for name, level in levels.items()}
    return ClusterImage("c", version=7).with_features(FinalizedFeatures(asked, None, 5))


def test_levels_of_the_log_are_in_force() -> None:
    image, says = follow(ClusterImage("c", version=7), kraft_at(metadata=21))
    assert image.features.in_force == {METADATA_VERSION: 21}  # 3.9 has no others
    assert image.features.epoch == 8, "later than any that a client was told"
    told = (
        "metadata.version to 21, transaction.version to 0, group.version to 0, share.version to 0, "
        "streams.version to 0"
    )
    assert says == [f"features are at other levels: {told}"]
    assert follow(image, kraft_at(metadata=21)) == (image, [])


def test_a_log_that_says_what_is_in_force_changes_nothing() -> None:
    fresh = ClusterImage("c")
    assert follow(fresh, kraft_at(metadata=30, transaction=2, group=1, share=1, streams=1)) == (
        fresh,
        [],
    )


def test_a_log_without_a_release_says_nothing_of_features() -> None:
    image = image_at(transaction=1)
    assert follow(image, KraftMetadata()) == (image, [])
    assert list(lacking(KraftMetadata(), image, ME)) == []
    assert list(records_of(SetFeatures(5, image.features), ME, KraftMetadata())) == []


def test_levels_later_than_any_known_here_are_the_highest_known() -> None:
    image, _ = follow(image_at(transaction=0), kraft_at(metadata=31, transaction=3))
    assert image.features.in_force == {METADATA_VERSION: 30, TRANSACTION_VERSION: 2}
    assert list(lacking(kraft_at(metadata=31, transaction=3), image, ME)) == []


def test_what_an_administrator_changes_is_written_as_a_controller_would() -> None:
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


def test_the_log_is_brought_what_it_lacks() -> None:
    kraft, image = (
        kraft_at(metadata=30, transaction=2, group=1, share=1, streams=1),
        image_at(transaction=1),
    )
    (change,) = lacking(kraft, image, ME)
    ((record, _),) = records_of(change, ME, kraft)
    assert record == FeatureLevelRecord(TRANSACTION_VERSION, 1)
