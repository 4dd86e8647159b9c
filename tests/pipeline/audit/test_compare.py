"""A comparison of two topics finds each kind of difference at its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kwire import pipeline
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.pipeline import audit
from kwire.pipeline.audit import Compare, Comparison, Side
from tests.pipeline.audit.planted import (
    PARTITIONS,
    Made,
    Planter,
    in_transactions,
    numbered,
    records,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]

COUNT = 400
PLACE = 100
"""Of the record that is spoiled."""


def same(made: list[Made]) -> list[Made]:
    return made


def changed(made: list[Made]) -> list[Made]:
    """The record with one byte of its value changed."""
    value = (made[PLACE].value or "").replace("text", "test")
    return [*made[:PLACE], replace(made[PLACE], value=value), *made[PLACE + 1 :]]


def missing(made: list[Made]) -> list[Made]:
    return [*made[:PLACE], *made[PLACE + 1 :]]


def doubled(made: list[Made]) -> list[Made]:
    return [*made[: PLACE + 1], *made[PLACE:]]


def swapped(made: list[Made], place: int = PLACE) -> list[Made]:
    """The records with one of them and the next of its partition swapped."""
    partition = made[place].partition
    after = next(i for i in range(place + 1, COUNT) if made[i].partition == partition)
    turned = list(made)
    turned[place], turned[after] = turned[after], turned[place]
    return turned


def all_of_them(made: list[Made]) -> list[Made]:
    """The records with each kind of difference once, at different places."""
    spoiled = changed(swapped(made, 50))
    for place, changes in {
        10: {"key": "other"}, 20: {"timestamp_ms": 7}, 30: {"headers": ()}, 40: {"value": None},
    }.items():  # fmt: skip
        spoiled[place] = replace(spoiled[place], **changes)  # type: ignore[arg-type]  # of Made
    new = replace(spoiled[350], key="new", value="new")
    spoiled = [*spoiled[:300], spoiled[299], *spoiled[300:350], new, *spoiled[350:]]
    return [*spoiled[:200], *spoiled[201:]]


Spoil = Callable[[list[Made]], list[Made]]
SPOILT: dict[Spoil, dict[str, int]] = {
    same: {},
    changed: {"changed": 1},
    missing: {"missing": 1},
    doubled: {"doubled": 1},
    swapped: {"order": 1},
}


@pytest.fixture(scope="module")
def left(bootstrap: str) -> Planter:
    """A correct topic, written in transactions: its offsets have gaps."""
    to = Planter(bootstrap)
    to.create("left")
    in_transactions(to, "left", ["commit", "abort", "commit", "commit"], COUNT)
    return to


def compared(
    spark: SparkSession, left: Planter, right: Planter, topic: str, *, by_partition: bool = True
) -> Comparison:
    sides = (
        Side(pipeline.Kafka(left.bootstrap), left.name("left")),
        Side(pipeline.Kafka(right.bootstrap), right.name(topic)),
    )
    return audit.compare(spark, Compare(*sides, by_partition=by_partition))


def counts(comparison: Comparison) -> dict[str, int]:
    return {finding.kind: finding.count for finding in comparison.findings}


@pytest.mark.parametrize(
    "spoil",
    [
        same,
        *(pytest.param(each, marks=pytest.mark.long) for each in SPOILT if SPOILT[each]),
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_comparison_counts_each_kind_of_difference(
    spark: SparkSession, left: Planter, spoil: Spoil
) -> None:
    made = records(left.now_ms, COUNT)
    name = left.create(spoil.__name__)
    left.put(spoil.__name__, spoil(made))
    found = compared(spark, left, left, spoil.__name__)
    assert counts(found) == SPOILT[spoil]
    assert found.is_same == (not SPOILT[spoil])
    assert sum(p.left_records for p in found.partitions) == COUNT
    assert sum(p.right_records for p in found.partitions) == len(spoil(made))
    assert found.right.startswith(name)
    if SPOILT[spoil] and spoil is not swapped:
        [difference] = found.differences
        assert difference.key == made[PLACE].key


@pytest.mark.long
def test_comparison_distinguishes_kinds_and_names_places(
    spark: SparkSession, left: Planter
) -> None:
    left.create("parts")
    made = records(left.now_ms, COUNT)
    left.put("parts", all_of_them(made))
    found = compared(spark, left, left, "parts")
    assert counts(found) == {"changed": 5, "missing": 1, "extra": 1, "doubled": 1, "order": 1}
    places = {d.kind: d.key for d in found.differences if d.kind != "changed"}
    assert places.pop("order") != "key-50"
    assert places == {"missing": "key-200", "doubled": "key-299", "extra": "new"}
    parts = {d.key: (d.parts, d.detail) for d in found.differences if d.kind == "changed"}
    value = made[PLACE].value or ""
    byte = value.index("text") + 2
    assert parts.pop("key-100") == (
        ("value",), f"value differs from byte {byte} on: {value[byte:byte + 12]!r} became "
        f"{value.replace('text', 'test')[byte:byte + 12]!r}",
    )  # fmt: skip
    assert parts.pop("key-10")[0] == ("key",)
    assert parts.pop("key-20") == (("timestamp",), f"timestamp {made[20].timestamp_ms} became 7")
    assert parts.pop("key-30") == (
        ("headers",),
        f"headers id=30, seq={_seq(made[30])} became (none)",
    )
    assert parts.pop("key-40")[1].endswith("became null")
    assert not parts


def _seq(record: Made) -> str:
    return dict(record.headers)["seq"]


@pytest.mark.long
def test_comparison_may_ignore_partitions_and_order(spark: SparkSession, left: Planter) -> None:
    made = records(left.now_ms, COUNT)
    left.create("bag", PARTITIONS + 1)
    moved = [replace(r, partition=PARTITIONS) for r in reversed(made)]
    left.put("bag", moved)
    found = compared(spark, left, left, "bag", by_partition=False)
    assert counts(found) == {}
    left.put("bag", [moved[5], replace(moved[6], key="new", value="new")])
    assert counts(compared(spark, left, left, "bag", by_partition=False)) == {
        "doubled": 1, "extra": 1,
    }  # fmt: skip
    strict = compared(spark, left, left, "bag")
    assert counts(strict)["partitions"] == 1
    assert counts(strict)["missing"] == COUNT


@pytest.mark.long
def test_comparison_may_ignore_parts_of_records(spark: SparkSession, left: Planter) -> None:
    made = [replace(r, timestamp_ms=r.timestamp_ms + 1) for r in records(left.now_ms, COUNT)]
    left.create("later")
    left.put("later", made)
    kafka = pipeline.Kafka(left.bootstrap)
    sides = Side(kafka, left.name("left")), Side(kafka, left.name("later"))
    assert audit.compare(spark, Compare(*sides, ignore=["timestamp"])).is_same
    rows = audit.differences(spark, Compare(*sides))
    assert {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()} == {
        "changed": COUNT
    }


def test_comparison_of_two_clusters_finds_a_repeated_record(
    spark: SparkSession, left: Planter, apache_kafka: ApacheKafkaNode
) -> None:
    """Both topics are equal, except that one record is repeated."""
    other = Planter(apache_kafka.bootstrap, left.now_ms)
    other.create("copy")
    made = records(left.now_ms, COUNT)
    other.put("copy", made)
    other.put("copy", numbered([made[0]]))
    found = compared(spark, left, other, "copy")
    assert counts(found) == {"doubled": 1}
    assert "all records are the same" not in audit.page(found)
