"""Changes of feature levels: by an administrator, and by agreement of members.

The members of a cluster may support different levels.  A level is lowered as soon as a member joins
that does not support it.  It is raised only when every broker that has replicas is a member and
supports it; a broker that is away only for a moment would lower it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import (
    CIDR_HOSTS,
    CONTROLLER_UNREGISTRATION,
    CORDONING,
    ELIGIBLE_LEADERS,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    Levels,
)
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""FeatureUpdate.UpgradeType of Kafka's Admin."""

CHANGE_RECORDS: Final = frozenset(
    {8, 11, 13, 14, 15, 17, ELIGIBLE_LEADERS, CORDONING, CIDR_HOSTS, CONTROLLER_UNREGISTRATION}
)
"""The levels of metadata.version that may change records of the metadata.

Apache Kafka's MetadataVersion.didMetadataChange; a downgrade does not cross them.
"""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """An administrator's update of one feature."""

    feature: str
    level: int
    upgrade_type: int


def update_features(
    image: ClusterImage, updates: Sequence[FeatureUpdate], node_id: int
) -> SetFeatures | None:
    """Return the change that makes all updates.  Raises Refusal if one is not possible.

    `node_id` is the broker that decides.
    """
    features = image.features
    epoch = _next_epoch(image)
    after = features
    proposed = {**features.in_force, **{each.feature: each.level for each in updates}}
    for each in updates:
        reason = _why_refused(image, each, proposed, node_id)
        if reason is not None:
            raise Refusal(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                + reason,
            )
        after = after.with_level(each.feature, each.level, epoch)
    return SetFeatures(features.epoch, after) if after != features else None


def _why_refused(
    image: ClusterImage, wanted: FeatureUpdate, proposed: Mapping[str, int], node_id: int
) -> str | None:
    """Return why an update is not possible, in Apache Kafka's words; None if it is possible.

    `proposed` are the levels after all updates of the request.
    """
    current = image.features.level(wanted.feature)
    reason = _why_invalid(wanted) or _why_unsupported(image, wanted, node_id)
    reason = reason or _why_wrong_direction(wanted, current) or _why_dependent(wanted, proposed)
    if reason is not None:
        return f"Invalid update version {wanted.level} for feature {wanted.feature}. {reason}"
    if wanted.feature == METADATA_VERSION and _changes_records(wanted.level, current):
        return _refused_downgrade(wanted, current)
    return None


def _why_invalid(wanted: FeatureUpdate) -> str | None:
    """Return why the update is not valid in itself, whatever the cluster supports, or None."""
    if wanted.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if wanted.level < 0:
        return "A feature version cannot be less than 0."
    return None


def _why_unsupported(image: ClusterImage, wanted: FeatureUpdate, node_id: int) -> str | None:
    """Return why the cluster does not support a feature's wanted level, or None.

    The controller `node_id` and each broker must support it.  Level 0 disables the feature, which
    every broker supports.
    """
    name, level = wanted.feature, wanted.level
    if name not in SUPPORTED:
        if level:
            return f"Local controller {node_id} does not support this feature."
        return f"Feature {name} not found."
    lacking = _why_lacking(SUPPORTED, name, level)
    if lacking:
        return f"Local controller {node_id} {lacking}"
    for broker in image.brokers.values():
        if level and (lacking := _why_lacking(broker.features, name, level)):
            return f"Broker {broker.id} {lacking}"
    return None


def _why_lacking(supported: Levels, name: str, level: int) -> str:
    """Why a broker does not support a level of a feature; empty if it does."""
    if name not in supported:
        return "does not support this feature."
    low, high = supported[name]
    return "" if low <= level <= high else f"only supports versions {low}-{high}"


def _why_wrong_direction(wanted: FeatureUpdate, current: int) -> str | None:
    """Return why the request's upgrade type forbids the wanted level, or None if it does not."""
    is_upgrade = wanted.upgrade_type == UPGRADE
    if wanted.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if wanted.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    if wanted.level < current and wanted.feature == KRAFT_VERSION:
        return "Can't downgrade the version of this feature."
    return None


def _why_dependent(wanted: FeatureUpdate, proposed: Mapping[str, int]) -> str | None:
    """Return which other feature needs a higher level first, or None."""
    if wanted.feature != ELR_VERSION or not wanted.level:
        return None
    if proposed.get(METADATA_VERSION, 0) >= ELIGIBLE_LEADERS:
        return None
    return (
        f"{ELR_VERSION} could not be set to {wanted.level} because it depends on "
        f"{METADATA_VERSION} level {ELIGIBLE_LEADERS}"
    )


def _changes_records(level: int, current: int) -> bool:
    """Whether the metadata may have records, at level `current`, that `level` does not have."""
    return any(level < each <= current for each in CHANGE_RECORDS)


def _refused_downgrade(wanted: FeatureUpdate, current: int) -> str:
    """Return the error message for a downgrade of metadata.version."""
    why = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
        if wanted.upgrade_type == SAFE_DOWNGRADE
        else "Unsafe metadata downgrade is not supported in this version."
    )
    return f"Unsupported metadata.version downgrade from {current} to {wanted.level}. {why}"


# -- levels that all members support


def lower_features(image: ClusterImage) -> SetFeatures | None:
    """Lower levels that not every member supports.  Any member may commit this."""
    agreed = image.features.agreed
    if not agreed:
        return None
    best = _best(image)
    kept = {name: min(level, best.get(name, 0)) for name, level in agreed.items()}
    return _agreed(image, {name: level for name, level in kept.items() if level})


def raise_or_lower_features(image: ClusterImage) -> SetFeatures | None:
    """Set the levels that all members support.

    Only the controller may commit this, because it knows all replicas.
    """
    agreed = image.features.agreed
    if agreed is None:
        return None
    best = _best(image)
    rises = any(level > agreed.get(name, 0) for name, level in best.items())
    return (
        _agreed(image, best)
        if rises and _all_replicas_are_members(image)
        else lower_features(image)
    )


def can_features_change(image: ClusterImage) -> bool:
    """Whether the members could agree on other levels if all brokers were members."""
    agreed = image.features.agreed
    return agreed is not None and agreed != _best(image)


def _best(image: ClusterImage) -> dict[str, int]:
    """Return the highest possible level of each feature.

    All members must support it, and the administrator must allow it.
    """
    best, wanted = {}, image.features.wanted
    for name in SUPPORTED:
        level = min(wanted.get(name, 0), _highest(name, image.brokers.values()))
        if level and not any(
            _why_lacking(each.features, name, level) for each in image.brokers.values()
        ):
            best[name] = level
    return best


def _highest(name: str, brokers: Iterable[BrokerImage]) -> int:
    return min((each.features.get(name, (0, 0))[1] for each in brokers), default=0)


def _all_replicas_are_members(image: ClusterImage) -> bool:
    """Whether all brokers that have replicas are members: others may support other levels."""
    return all(
        broker_id in image.brokers
        for topic in image.topics.values()
        for partition in topic.partitions
        for broker_id in partition.replicas
    )


def _agreed(image: ClusterImage, levels: Mapping[str, int]) -> SetFeatures | None:
    """Return the change to these levels; None if they are set already."""
    features = image.features
    if features.agreed == levels:
        return None
    return SetFeatures(features.epoch, features.with_agreed(levels, _next_epoch(image)))


def _next_epoch(image: ClusterImage) -> int:
    """An epoch later than any that clients have seen.

    Earlier versions of kwire reported the version of the image as the epoch.
    """
    return max(image.version, image.features.epoch) + 1
