"""Cases of UpdateFeatures; nothing changes, since other cases use the broker too."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.UPDATE_FEATURES)


def access_request(version: int, topic_id: bytes) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(10_000, [FeatureUpdateKey("no.such", 1)])


TRANSACTIONS, METADATA = "transaction.version", "metadata.version"
SHARES, ELR = "share.version", "eligible.leader.replicas.version"
UNKNOWN_TYPE, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)
DOWNGRADES = (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
LATEST = {TRANSACTIONS: 2, METADATA: 33, SHARES: 2, ELR: 1}


def upgrade_request(*levels: tuple[str, int]) -> UpdateFeaturesRequest:
    """Request upgrades, in all versions; the broker has the latest level of both features."""
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level) for name, level in levels
        ]
    )


def validation_request(*updates: tuple[str, int, int]) -> UpdateFeaturesRequest:
    """Validate updates, each given as feature, level and type of upgrade."""
    entries = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    ]
    return UpdateFeaturesRequest(feature_updates=entries, validate_only=True)


@case("levels that they have")
def as_it_is(stage: Stage) -> None:
    """Features are set to the levels that they have: one by one, together, and one twice."""
    for name, level in LATEST.items():
        stage.send(upgrade_request((name, level)))
    stage.send(upgrade_request(*LATEST.items()))
    stage.send(upgrade_request((TRANSACTIONS, 2), (TRANSACTIONS, 2)))


@case("levels that are too high, too low or none")
def out_of_range(stage: Stage) -> None:
    """Upgrades to levels that are lower than the current one, or that do not exist."""
    for level in (3, 32_767, -1, -32_768):
        stage.send(upgrade_request((TRANSACTIONS, level)))
    for level in (35, 34, 6, 1, 0, -1):
        stage.send(upgrade_request((METADATA, level)))


@case("lower levels, as an upgrade")
def downwards(stage: Stage) -> None:
    for level in (1, 0):
        stage.send(upgrade_request((TRANSACTIONS, level)))
        stage.send(upgrade_request((SHARES, level)))
    for level in (32, 30, 7):
        stage.send(upgrade_request((METADATA, level)))


@case("features that there are not")
def unknown(stage: Stage) -> None:
    for name in ("nothing.version", ""):
        for level in (2, 1, 0, -1):
            stage.send(upgrade_request((name, level)))


@case("one that can be and one that cannot")
def some_of_them(stage: Stage) -> None:
    stage.send(upgrade_request((TRANSACTIONS, 2), ("nothing.version", 1)))
    stage.send(upgrade_request(("nothing.version", 1), (TRANSACTIONS, 2)))
    stage.send(upgrade_request((METADATA, 32), (TRANSACTIONS, 1)))


@case("nothing at all")
def nothing(stage: Stage) -> None:
    stage.send(upgrade_request())


@case("a downgrade is allowed, by the first version", until=0)
def allowed(stage: Stage) -> None:
    """A downgrade is allowed by the field of version 0 instead of the type of upgrade."""
    for level in (2, 1, 0, 3):
        update = FeatureUpdateKey(
            feature=TRANSACTIONS, max_version_level=level, allow_downgrade=True
        )
        stage.send(UpdateFeaturesRequest(feature_updates=[update]))


@case("downgrades, only validated", since=1)
def downgrades(stage: Stage) -> None:
    """Downgrades of each kind are validated: to levels below, at and above the current level.

    Levels outside of the range that the broker supports, and an unknown feature, are tried too.
    """
    for kind in DOWNGRADES:
        for level in (2, 1, 0, -1, 3):
            stage.send(validation_request((TRANSACTIONS, level, kind)))
        for level in (33, 32, 31, 30, 20, 7, 6, 0, 34):
            stage.send(validation_request((METADATA, level, kind)))
        for level in (2, 1, 0, 3):
            stage.send(validation_request((SHARES, level, kind)))
            stage.send(validation_request((ELR, level, kind)))
        stage.send(validation_request(("kraft.version", 0, kind)))
        for level in (0, 1):
            stage.send(validation_request(("nothing.version", level, kind)))


@case("several, only validated", since=1)
def several(stage: Stage) -> None:
    """One request has two updates; one that is refused decides the result of both."""
    stage.send(validation_request((TRANSACTIONS, 1, SAFE_DOWNGRADE), (METADATA, 33, UPGRADE)))
    stage.send(
        validation_request((TRANSACTIONS, 1, SAFE_DOWNGRADE), (METADATA, 32, SAFE_DOWNGRADE))
    )
    stage.send(validation_request((TRANSACTIONS, 1, UPGRADE), ("nothing.version", 1, UPGRADE)))


@case("types of upgrade that there are not", since=1)
def types(stage: Stage) -> None:
    """Types of upgrade that do not exist, with right and wrong levels and names."""
    for kind in (UNKNOWN_TYPE, 4, 127, -1):
        for name, level in ((TRANSACTIONS, 1), (TRANSACTIONS, 2), (TRANSACTIONS, 9), (METADATA, 9)):
            stage.send(validation_request((name, level, kind)))
        stage.send(validation_request(("nothing.version", 0, kind)))
        stage.send(validation_request((TRANSACTIONS, -1, kind)))
