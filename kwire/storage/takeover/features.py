"""Feature levels (KIP-584) in a KRaft metadata log, compared with kwire's (pure).

Features that this broker does not know stay as Apache Kafka has set them.  So does kraft.version:
it is a control record beside the endpoints of the voters, which kwire does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.log.directory.kraft_metadata import KraftMetadata


def levels_from_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[tuple[str, SetFeatures]]:
    """Yield the change that makes the finalized levels those of the log, with a description; or
    none.
    """
    in_log, finalized = _levels_in(kraft), _finalized(image.features)
    if not in_log:
        return
    if finalized == in_log:
        return
    changed = [f"{name} to {level}" for name, level in in_log.items() if level != finalized[name]]
    epoch = max(image.version, image.features.epoch) + 1
    yield (
        ", ".join(changed),
        SetFeatures(image.features.epoch, FinalizedFeatures(in_log, None, epoch)),
    )


def is_behind(image: ClusterImage, kraft: KraftMetadata) -> bool:
    """Whether the log has a later `metadata.version` than kwire's metadata.

    A version of kwire that did not support the level in the log stored its own highest level.
    """
    return _levels_in(kraft).get(METADATA_VERSION, 0) > image.features.level(METADATA_VERSION)


def levels_lacking_in_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetFeatures]:
    """The change that makes the log's levels those of `image`, or nothing."""
    in_log = _levels_in(kraft)
    if in_log and _written(_finalized(image.features)) != _written(in_log):
        yield SetFeatures(image.features.epoch, image.features)


def level_records(change: SetFeatures, kraft: KraftMetadata) -> Iterator[FeatureLevelRecord]:
    """Yield the records that a controller writes for changed levels; none if the log has no
    levels.
    """
    in_log = _levels_in(kraft)
    if in_log:
        for name, level in _written(_finalized(change.features)).items():
            if level != in_log[name]:
                yield FeatureLevelRecord(name, level)


def _levels_in(kraft: KraftMetadata) -> Mapping[str, int]:
    """Return the log's levels of features that this broker knows; empty without a
    `metadata.version`.

    A level above this broker's highest counts as that one.
    """
    if not kraft.features.get(METADATA_VERSION):
        return {}
    return {name: min(kraft.features.get(name, 0), high) for name, (_, high) in SUPPORTED.items()}


def _written(levels: Mapping[str, int]) -> Mapping[str, int]:
    """The levels that FeatureLevelRecords have."""
    return {name: level for name, level in levels.items() if name != KRAFT_VERSION}


def _finalized(features: FinalizedFeatures) -> dict[str, int]:
    """The requested levels.  A broker with such a log is alone, so no other broker has to agree."""
    alone = FinalizedFeatures(features.asked)
    return {name: alone.level(name) for name in SUPPORTED}
