"""The feature levels that kwire declares are those of Apache Kafka's jars."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.cluster.decisions.feature_updates import CHANGE_RECORDS
from kwire.cluster.metadata.features import (
    CIDR_HOSTS,
    CONTROLLER_UNREGISTRATION,
    CORDONING,
    DEAD_LETTER_QUEUES,
    ELIGIBLE_LEADERS,
    ELR_VERSION,
    METADATA_VERSION,
    NEWEST_LEVELS,
    NEWEST_METADATA_VERSION_NAME,
    SHARE_GROUPS,
    SHARE_VERSION,
    SUPPORTED,
    UNNAMED_LEVELS,
    FinalizedFeatures,
)
from kwire.conformance.apache_kafka import VERSION

FOLDER = Path(__file__).parent


class Level(NamedTuple):
    """A line of the table: a level of a feature, and since when new clusters have it."""

    feature: str
    number: int
    name: str
    changes_records: bool
    needs: str
    since: str
    allows: set[str]


def table() -> list[Level]:
    """The levels of the reference that are for production."""
    with (FOLDER / f"features-{VERSION}.tsv").open() as file:
        return [
            Level(
                row["feature"],
                int(row["level"]),
                row["name"],
                row["changes_records"] == "yes",
                row["needs"] or "",
                row["since"] or "",
                set((row["allows"] or "").split(", ")),
            )
            for row in csv.DictReader(file, delimiter="\t")
            if row["production"] == "yes"
        ]


def newest_at(metadata_version: str) -> dict[str, int]:
    """The levels of a cluster that is formatted at a metadata.version, static voters included."""
    metadata = [each for each in table() if each.feature == METADATA_VERSION]
    order = {each.name: each.number for each in metadata}
    top = order[metadata_version]
    found = {METADATA_VERSION: top}
    for level in table():
        if level.since and order[level.since] <= top and level.feature != "kraft.version":
            found[level.feature] = max(level.number, found.get(level.feature, 0))
    return {name: number for name, number in found.items() if number}


def test_supported_levels_are_those_of_apache_kafka() -> None:
    numbers: dict[str, list[int]] = {}
    for level in table():
        numbers.setdefault(level.feature, []).append(level.number)
    assert {name: (min(each), max(each)) for name, each in numbers.items()} == SUPPORTED


def test_new_clusters_have_the_levels_of_a_format_at_the_newest_metadata_version() -> None:
    assert newest_at(NEWEST_METADATA_VERSION_NAME) == NEWEST_LEVELS
    assert newest_at("4.3-IV0") == {**UNNAMED_LEVELS, ELR_VERSION: 1}


def test_levels_that_change_records_are_those_of_apache_kafka() -> None:
    lowest = SUPPORTED[METADATA_VERSION][0]
    assert {each.number for each in table() if each.changes_records} - {lowest} == CHANGE_RECORDS


@pytest.mark.parametrize(
    ("feature", "level", "ability"),
    [
        (METADATA_VERSION, ELIGIBLE_LEADERS, "isElrSupported=true"),
        (METADATA_VERSION, CORDONING, "isCordonedLogDirsSupported=true"),
        (METADATA_VERSION, CIDR_HOSTS, "isCidrAclSupported=true"),
        (METADATA_VERSION, CONTROLLER_UNREGISTRATION, "isControllerUnregistrationSupported=true"),
        (SHARE_VERSION, SHARE_GROUPS, "supportsShareGroups=true"),
        (SHARE_VERSION, DEAD_LETTER_QUEUES, "supportsShareGroupDLQ=true"),
    ],
)
def test_named_level_is_the_first_with_its_ability(feature: str, level: int, ability: str) -> None:
    assert [each.number for each in table() if each.feature == feature and ability in each.allows][
        :1
    ] == [level]


def test_levels_in_force_are_not_above_the_supported_ones() -> None:
    """A later version of kwire may have stored a level that this one does not support."""
    features = FinalizedFeatures({METADATA_VERSION: 99, "later.version": 1})
    assert features.level(METADATA_VERSION) == SUPPORTED[METADATA_VERSION][1]
    assert features.level("later.version") == 0
