"""Who may have which level of a feature: what an administrator asks, and who is a member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kwire.cluster.decisions.feature_updates import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    can_features_change,
    lower_features,
    raise_or_lower_features,
    update_features,
)
from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import METADATA_VERSION, SUPPORTED, TRANSACTION_VERSION
from kwire.cluster.metadata.features import FinalizedFeatures as Features
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode

ALL = {METADATA_VERSION: 30, TRANSACTION_VERSION: 2}
OURS = {name: SUPPORTED[name] for name in ALL}
"""Of a broker of this make; two features are enough here."""
APACHE = dict[str, tuple[int, int]]()
OLDER = {METADATA_VERSION: (7, 30), TRANSACTION_VERSION: (0, 1)}
"""Of a broker that knows less of a feature."""


def cluster(features: Features, *makes: Mapping[str, tuple[int, int]]) -> ClusterImage:
    """Brokers 1 and up, of these makes, and a topic with replicas on the first three ids."""
    image = ClusterImage("c", features=features)
    for number, supported in enumerate(makes, 1):
        image = image.with_broker(BrokerImage(number, (), features=supported))
    state = PartitionImage(1, 0, 0, (1, 2, 3), (1,))
    return image.with_topics([TopicImage("t", b"t" * 16, (state,))])


def agreed(**levels: int) -> Features:
    return Features({}, {name.replace("_", "."): level for name, level in levels.items()}, 5)


FULL = replace(agreed(), agreed=ALL)
"""What brokers of one kind have agreed on."""


def levels(change: SetFeatures | None) -> Mapping[str, int] | None:
    """What becomes of what was agreed on; None where it stays."""
    if change is None:
        return None
    assert change.expected_epoch == 5
    assert change.features.epoch > 5
    return change.features.agreed


def test_what_all_brokers_know_comes_into_force() -> None:
    assert levels(raise_or_lower_features(cluster(agreed(), OURS, OURS, OURS))) == ALL
    assert raise_or_lower_features(cluster(FULL, OURS, OURS, OURS)) is None


def test_a_broker_that_knows_no_features_takes_them_out_of_force() -> None:
    mixed = cluster(FULL, OURS, OURS, OURS, APACHE)
    assert levels(lower_features(mixed)) == {}
    assert levels(raise_or_lower_features(mixed)) == {}
    assert raise_or_lower_features(cluster(agreed(), OURS, APACHE, OURS)) is None


def test_a_broker_that_knows_less_takes_them_down_to_its_level() -> None:
    both = {METADATA_VERSION: 30, TRANSACTION_VERSION: 1}
    assert levels(lower_features(cluster(FULL, OURS, OURS, OLDER))) == both
    assert levels(raise_or_lower_features(cluster(agreed(), OURS, OURS, OLDER))) == both


def test_a_broker_that_is_away_and_has_replicas_may_be_of_another_kind() -> None:
    """Nothing rises meanwhile, but what is in force stays so: it was when that broker was there."""
    assert raise_or_lower_features(cluster(agreed(), OURS, OURS)) is None
    assert raise_or_lower_features(cluster(FULL, OURS, OURS)) is None
    # What has to go down goes, whoever is away.
    assert levels(raise_or_lower_features(cluster(FULL, OURS, APACHE))) == {}


def test_who_has_no_replicas_is_not_waited_for() -> None:
    image = cluster(agreed(), OURS).without_topics(["t"])
    assert levels(raise_or_lower_features(image)) == ALL


def test_without_members_of_several_kinds_there_is_nothing_to_agree_on() -> None:
    image = cluster(Features(), OURS)
    assert (raise_or_lower_features(image), lower_features(image)) == (None, None)


def test_whether_there_is_anything_to_agree_on() -> None:
    assert not can_features_change(cluster(Features(), OURS))
    assert not can_features_change(cluster(FULL, OURS, OURS, OURS))
    assert not can_features_change(cluster(agreed(), OURS, APACHE))
    assert can_features_change(cluster(agreed(), OURS, OURS))
    assert can_features_change(cluster(FULL, OURS, APACHE))


def test_nobody_but_the_controller_has_anything_rise() -> None:
    assert lower_features(cluster(agreed(), OURS, OURS, OURS)) is None


def test_what_an_administrator_took_down_stays_down() -> None:
    features = replace(agreed(metadata_version=30), asked={TRANSACTION_VERSION: 0})
    assert raise_or_lower_features(cluster(features, OURS, OURS, OURS)) is None
    one = replace(agreed(metadata_version=30), asked={TRANSACTION_VERSION: 1})
    assert levels(raise_or_lower_features(cluster(one, OURS, OURS, OURS))) == ALL | {
        TRANSACTION_VERSION: 1
    }


def set_to(image: ClusterImage, level: int, kind: int = UPGRADE) -> Features:
    change = update_features(image, [FeatureUpdate(TRANSACTION_VERSION, level, kind)], 1)
    assert change is not None
    return change.features


@pytest.mark.parametrize("before", [Features(), FULL])
def test_a_level_is_set_down_and_up(before: Features) -> None:
    image = cluster(before, OURS, OURS, OURS)
    down = set_to(image, 0, SAFE_DOWNGRADE)
    assert down.level(TRANSACTION_VERSION) == 0
    assert down.level(METADATA_VERSION) == 30
    assert down.epoch > before.epoch
    image = image.with_features(down)
    assert raise_or_lower_features(image) is None
    up = set_to(image, 1)
    assert up.level(TRANSACTION_VERSION) == 1
    assert up.epoch > down.epoch


def test_the_epoch_is_later_than_any_that_a_client_was_told() -> None:
    """Before features had an epoch it was the version of the metadata."""
    image = cluster(Features(), OURS).with_version(700)
    assert set_to(image, 0, SAFE_DOWNGRADE).epoch > 700


def refusal(image: ClusterImage, *updates: FeatureUpdate) -> str:
    with pytest.raises(Refusal) as caught:
        update_features(image, updates, 1)
    assert caught.value.error is ErrorCode.INVALID_UPDATE_VERSION
    return caught.value.message or ""


def test_a_level_that_a_member_does_not_know_is_refused() -> None:
    mixed = cluster(agreed(), OURS, OURS, APACHE)
    wanted = FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)
    assert refusal(mixed, wanted).endswith("Broker 3 does not support this feature.")
    older = cluster(agreed(), OURS, OLDER, OURS)
    assert refusal(older, wanted).endswith("Broker 2 only supports versions 0-1")


def test_of_several_updates_all_are_made_or_none() -> None:
    image = cluster(Features(), OURS)
    down = FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)
    assert "nothing.version" in refusal(image, down, FeatureUpdate("nothing.version", 1, UPGRADE))
    change = update_features(image, [down, FeatureUpdate(METADATA_VERSION, 30, UPGRADE)], 1)
    assert change is not None
    in_force = change.features.in_force
    assert {name: in_force[name] for name in ALL} == {METADATA_VERSION: 30, TRANSACTION_VERSION: 1}


def test_beside_a_broker_that_knows_none_an_administrator_can_have_it_stay_off() -> None:
    mixed = cluster(agreed(), OURS, OURS, APACHE)
    image = mixed.with_features(set_to(mixed, 0, SAFE_DOWNGRADE)).without_broker(3)
    image = image.with_broker(BrokerImage(3, (), features=OURS))
    assert levels_after(image) == {METADATA_VERSION: 30}


def levels_after(image: ClusterImage) -> Mapping[str, int] | None:
    change = raise_or_lower_features(image)
    assert change is not None
    return change.features.agreed
