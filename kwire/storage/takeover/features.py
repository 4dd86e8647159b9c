"""The levels of features (KIP-584) as the records of a KRaft metadata log have them: pure.

Only those that this broker knows: what else Apache Kafka has put in force is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.log.directory.kraft_metadata import KraftMetadata


def levels_from_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[tuple[str, SetFeatures]]:
    """What makes the levels in force the log's, and which of them change."""
    there, here = _levels_in(kraft), _in_force(image.features)
    if not there:
        return
    # Never in force here, but its setting is kept as Apache Kafka keeps it.
    there = {**there, ELR_VERSION: kraft.features.get(ELR_VERSION, 0)}
    here = {**here, ELR_VERSION: image.features.asked.get(ELR_VERSION, 0)}
    if here == there:
        return
    changed = [f"{name} to {level}" for name, level in there.items() if level != here[name]]
    epoch = max(image.version, image.features.epoch) + 1
    yield (
        ", ".join(changed),
        SetFeatures(image.features.epoch, FinalizedFeatures(there, None, epoch)),
    )


def levels_lacking_in_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetFeatures]:
    """What makes the log's levels those of `image`."""
    there = _levels_in(kraft)
    if there and _in_force(image.features) != there:
        yield SetFeatures(image.features.epoch, image.features)


def level_records(change: SetFeatures, kraft: KraftMetadata) -> Iterator[FeatureLevelRecord]:
    """What a controller writes of other levels; nothing to a log that has none yet."""
    there = _levels_in(kraft)
    if there:
        for name, level in _in_force(change.features).items():
            if level != there[name]:
                yield FeatureLevelRecord(name, level)


def _levels_in(kraft: KraftMetadata) -> Mapping[str, int]:
    """Those that the log says, as far as they are known here; none where it has no release yet.

    A release that is later than this broker's is served as what this broker knows.
    """
    if not kraft.features.get(METADATA_VERSION):
        return {}
    return {name: min(kraft.features.get(name, 0), high) for name, (_, high) in SUPPORTED.items()}


def _in_force(features: FinalizedFeatures) -> dict[str, int]:
    """As asked: only a broker that is alone has such a log, and nobody has to agree with it."""
    alone = FinalizedFeatures(features.asked)
    return {name: alone.level(name) for name in SUPPORTED}
