"""Levels of features, as administrators and members change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kwire.cluster.decisions.feature_updates import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    can_features_change,
    lower_features,
    raise_or_lower_features,
    update_features,
)
from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    SUPPORTED,
    TRANSACTION_VERSION,
    UNNAMED_LEVELS,
)
from kwire.cluster.metadata.features import FinalizedFeatures as Features
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode

ALL = {METADATA_VERSION: 33, TRANSACTION_VERSION: 2}
OURS = {name: SUPPORTED[name] for name in ALL}
"""Of a broker of this make; two features are enough here."""
APACHE = dict[str, tuple[int, int]]()
OLDER = {METADATA_VERSION: (7, 30), TRANSACTION_VERSION: (0, 1)}
"""Of a broker that knows less of a feature."""


def cluster(features: Features, *makes: Mapping[str, tuple[int, int]]) -> ClusterImage:
    """Brokers from 1 on with these features, and a topic with replicas on the first three ids."""
    image = ClusterImage("c", features=features)
    for number, supported in enumerate(makes, 1):
        image = image.with_broker(BrokerImage(number, (), features=supported))
    state = PartitionImage(1, 0, 0, (1, 2, 3), (1,))
    return image.with_topics([TopicImage("t", b"t" * 16, (state,))])


def agreed(**levels: int) -> Features:
    return Features({}, {name.replace("_", "."): level for name, level in levels.items()}, 5)


FULL = Features(ALL, ALL, 5)
"""What brokers of one kind have agreed on."""
OF_4_3 = {METADATA_VERSION: 30, TRANSACTION_VERSION: 2}
"""What brokers of a kwire that stood for Apache Kafka 4.3 have agreed on."""


def levels(change: SetFeatures | None) -> Mapping[str, int] | None:
    """The agreed levels after a change; None if there is no change."""
    if change is None:
        return None
    assert change.expected_epoch == 5
    assert change.features.epoch > 5
    return change.features.agreed


def test_level_that_all_brokers_support_comes_into_force() -> None:
    assert levels(raise_or_lower_features(cluster(agreed(), OURS, OURS, OURS))) == ALL
    assert raise_or_lower_features(cluster(FULL, OURS, OURS, OURS)) is None


def test_broker_without_features_turns_them_off() -> None:
    mixed = cluster(FULL, OURS, OURS, OURS, APACHE)
    assert levels(lower_features(mixed)) == {}
    assert levels(raise_or_lower_features(mixed)) == {}
    assert raise_or_lower_features(cluster(agreed(), OURS, APACHE, OURS)) is None


def test_broker_with_lower_levels_lowers_the_features() -> None:
    both = {METADATA_VERSION: 30, TRANSACTION_VERSION: 1}
    assert levels(lower_features(cluster(FULL, OURS, OURS, OLDER))) == both
    assert levels(raise_or_lower_features(cluster(agreed(), OURS, OURS, OLDER))) == both


def test_levels_do_not_rise_while_a_broker_with_replicas_is_away() -> None:
    """Levels in force stay: they were when that broker was a member."""
    assert raise_or_lower_features(cluster(agreed(), OURS, OURS)) is None
    assert raise_or_lower_features(cluster(FULL, OURS, OURS)) is None
    # What has to go down goes, whoever is away.
    assert levels(raise_or_lower_features(cluster(FULL, OURS, APACHE))) == {}


def test_levels_rise_while_a_broker_without_replicas_is_away() -> None:
    image = cluster(agreed(), OURS).without_topics(["t"])
    assert levels(raise_or_lower_features(image)) == ALL


def test_members_that_are_alike_agree_on_nothing() -> None:
    image = cluster(Features(), OURS)
    assert (raise_or_lower_features(image), lower_features(image)) == (None, None)


def test_features_can_change_if_members_support_other_levels() -> None:
    assert not can_features_change(cluster(Features(), OURS))
    assert not can_features_change(cluster(FULL, OURS, OURS, OURS))
    assert not can_features_change(cluster(agreed(), OURS, APACHE))
    assert can_features_change(cluster(agreed(), OURS, OURS))
    assert can_features_change(cluster(FULL, OURS, APACHE))


def test_only_the_controller_raises_levels() -> None:
    assert lower_features(cluster(agreed(), OURS, OURS, OURS)) is None


def test_level_that_an_administrator_lowered_does_not_rise() -> None:
    features = replace(agreed(metadata_version=30), asked={TRANSACTION_VERSION: 0})
    assert raise_or_lower_features(cluster(features, OURS, OURS, OURS)) is None
    one = replace(agreed(metadata_version=30), asked={TRANSACTION_VERSION: 1})
    assert levels(raise_or_lower_features(cluster(one, OURS, OURS, OURS))) == {
        METADATA_VERSION: 30,
        TRANSACTION_VERSION: 1,
    }


def test_levels_of_a_cluster_of_4_3_stay_when_its_members_support_higher_ones() -> None:
    features = Features({}, OF_4_3, 5)
    image = cluster(features, OURS, OURS, OURS)
    assert not can_features_change(image)
    assert raise_or_lower_features(image) is None
    up = update_features(image, [FeatureUpdate(METADATA_VERSION, 33, UPGRADE)], 1)
    assert up is not None
    assert up.features.agreed == ALL
    assert up.features.wanted[SHARE_VERSION] == 1
    assert raise_or_lower_features(image.with_features(up.features)) is None


def test_levels_of_a_cluster_of_4_3_return_after_a_broker_without_features_leaves() -> None:
    """When the levels were lowered, the level that the cluster had before has to be known."""
    mixed = cluster(Features({}, OF_4_3, 5), OURS, OURS, APACHE)
    change = lower_features(mixed)
    assert levels(change) == {}
    assert change is not None
    again = cluster(change.features, OURS, OURS, OURS)
    back = raise_or_lower_features(again)
    assert back is not None
    assert back.features.agreed == OF_4_3


def test_updates_of_levels_that_no_one_has_named_leave_the_others_as_they_were() -> None:
    image = cluster(Features(), SUPPORTED)
    change = update_features(image, [FeatureUpdate(METADATA_VERSION, 33, UPGRADE)], 1)
    assert change is not None
    assert change.features.in_force == {**UNNAMED_LEVELS, METADATA_VERSION: 33}
    assert change.features.asked == {**UNNAMED_LEVELS, METADATA_VERSION: 33}


def test_share_version_2_needs_no_metadata_version_and_can_be_lowered() -> None:
    image = cluster(Features({METADATA_VERSION: 30, SHARE_VERSION: 1}), SUPPORTED)
    up = update_features(image, [FeatureUpdate(SHARE_VERSION, 2, UPGRADE)], 1)
    assert up is not None
    assert (up.features.level(SHARE_VERSION), up.features.level(METADATA_VERSION)) == (2, 30)
    image = image.with_features(up.features)
    down = update_features(image, [FeatureUpdate(SHARE_VERSION, 1, SAFE_DOWNGRADE)], 1)
    assert down is not None
    assert down.features.level(SHARE_VERSION) == 1


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize(
    ("current", "level", "is_possible"),
    [
        (33, 32, False),
        (33, 31, False),
        (32, 31, False),
        (31, 30, True),
        (30, 29, False),
        (29, 23, True),
        (29, 22, False),
        (22, 17, True),
        (17, 16, False),
        (7, 7, True),
    ],
)
def test_metadata_version_is_lowered_unless_that_could_lose_records(
    current: int, level: int, is_possible: bool, kind: int
) -> None:
    image = cluster(Features({METADATA_VERSION: current}), SUPPORTED)
    wanted = FeatureUpdate(METADATA_VERSION, level, kind)
    if is_possible:
        change = update_features(image, [wanted], 1)
        after = image.features if change is None else change.features
        assert after.level(METADATA_VERSION) == level
        return
    why = {
        SAFE_DOWNGRADE: (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        ),
        UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
    }
    assert refusal(image, wanted).endswith(
        f"Unsupported metadata.version downgrade from {current} to {level}. {why[kind]}"
    )


def test_kraft_version_rises_and_is_never_lowered() -> None:
    image = cluster(Features(ALL), SUPPORTED)
    change = update_features(image, [FeatureUpdate(KRAFT_VERSION, 1, UPGRADE)], 1)
    assert change is not None
    assert change.features.level(KRAFT_VERSION) == 1
    down = refusal(
        image.with_features(change.features), FeatureUpdate(KRAFT_VERSION, 0, SAFE_DOWNGRADE)
    )
    assert down.endswith(
        "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this "
        "feature."
    )


def test_eligible_leader_replicas_need_metadata_version_4_0() -> None:
    """The levels after all updates of the request count."""
    image = cluster(Features({METADATA_VERSION: 21}), SUPPORTED)
    wanted = FeatureUpdate(ELR_VERSION, 1, UPGRADE)
    assert refusal(image, wanted).endswith(
        "Invalid update version 1 for feature eligible.leader.replicas.version. "
        "eligible.leader.replicas.version could not be set to 1 because it depends on "
        "metadata.version level 23"
    )
    change = update_features(image, [wanted, FeatureUpdate(METADATA_VERSION, 23, UPGRADE)], 1)
    assert change is not None
    assert change.features.level(ELR_VERSION) == 1


def test_metadata_version_rises_to_any_later_level_at_once() -> None:
    image = cluster(Features({METADATA_VERSION: 7}), SUPPORTED)
    change = update_features(image, [FeatureUpdate(METADATA_VERSION, 33, UPGRADE)], 1)
    assert change is not None
    assert change.features.level(METADATA_VERSION) == 33
    assert refusal(image, FeatureUpdate(METADATA_VERSION, 34, UPGRADE)).endswith(
        "Local controller 1 only supports versions 7-33"
    )


def set_to(image: ClusterImage, level: int, kind: int = UPGRADE) -> Features:
    change = update_features(image, [FeatureUpdate(TRANSACTION_VERSION, level, kind)], 1)
    assert change is not None
    return change.features


@pytest.mark.parametrize("before", [Features(ALL), FULL])
def test_administrator_lowers_and_raises_a_level(before: Features) -> None:
    image = cluster(before, OURS, OURS, OURS)
    down = set_to(image, 0, SAFE_DOWNGRADE)
    assert down.level(TRANSACTION_VERSION) == 0
    assert down.level(METADATA_VERSION) == 33
    assert down.epoch > before.epoch
    image = image.with_features(down)
    assert raise_or_lower_features(image) is None
    up = set_to(image, 1)
    assert up.level(TRANSACTION_VERSION) == 1
    assert up.epoch > down.epoch


def test_feature_epoch_is_larger_than_any_reported_epoch() -> None:
    """Earlier versions reported the version of the metadata as the epoch."""
    image = cluster(Features(), OURS).with_version(700)
    assert set_to(image, 0, SAFE_DOWNGRADE).epoch > 700


def refusal(image: ClusterImage, *updates: FeatureUpdate) -> str:
    with pytest.raises(Refusal) as caught:
        update_features(image, updates, 1)
    assert caught.value.error is ErrorCode.INVALID_UPDATE_VERSION
    return caught.value.message or ""


def test_level_that_a_member_does_not_support_is_refused() -> None:
    mixed = cluster(agreed(), OURS, OURS, APACHE)
    wanted = FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)
    assert refusal(mixed, wanted).endswith("Broker 3 does not support this feature.")
    older = cluster(agreed(), OURS, OLDER, OURS)
    assert refusal(older, wanted).endswith("Broker 2 only supports versions 0-1")


def test_one_invalid_update_refuses_all_updates() -> None:
    image = cluster(Features(), OURS)
    down = FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)
    assert "nothing.version" in refusal(image, down, FeatureUpdate("nothing.version", 1, UPGRADE))
    change = update_features(image, [down, FeatureUpdate(METADATA_VERSION, 33, UPGRADE)], 1)
    assert change is not None
    in_force = change.features.in_force
    assert {name: in_force[name] for name in ALL} == {METADATA_VERSION: 33, TRANSACTION_VERSION: 1}


def test_administrator_turns_a_feature_off_beside_a_broker_without_it() -> None:
    mixed = cluster(agreed(), OURS, OURS, APACHE)
    image = mixed.with_features(set_to(mixed, 0, SAFE_DOWNGRADE)).without_broker(3)
    image = image.with_broker(BrokerImage(3, (), features=OURS))
    assert levels_after(image) == {METADATA_VERSION: 33}


def levels_after(image: ClusterImage) -> Mapping[str, int] | None:
    change = raise_or_lower_features(image)
    assert change is not None
    return change.features.agreed
