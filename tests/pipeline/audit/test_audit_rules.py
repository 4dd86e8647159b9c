"""The parts of an audit without Spark: batches of the log, rules, texts, hostile keys."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kwire.client.cluster import Cluster
from kwire.codecs.batches import (
    Compression,
    ControlType,
    Record,
    build,
    control_batch,
    iter_batches,
)
from kwire.pipeline import PipelineError
from kwire.pipeline.audit import Audit, Compare, Field, Gap, Side, Thresholds, page
from kwire.pipeline.audit.batches import (
    ABORTED,
    COMPACTED,
    DELETED,
    HOLE,
    MARKERS,
    UNKNOWN,
    FetchedBatch,
    Missing,
    Tally,
    explain,
    spread,
    walked,
)
from kwire.pipeline.audit.cluster import AuditedRange, AuditedTopic
from kwire.pipeline.audit.judging import judge
from kwire.pipeline.audit.plots import plots
from kwire.pipeline.audit.report import (
    AuditDifference,
    Batches,
    Comparison,
    Duplicates,
    Example,
    Finding,
    Keys,
    PartitionDifferences,
    PartitionFigures,
    Report,
    TopicReport,
    worst,
)
from kwire.pipeline.audit.scan import HOLD_MS, oldest_ms
from kwire.pipeline.audit.words import duration_name, share_name, shown, size_name, time_name
from kwire.pipeline.source import Kafka, Topics
from tests.conftest import BrokerFactory
from tests.pipeline.audit.planted import RECORDS, Planter, in_transactions, records

OPTIONS = Audit(Topics(("t",)))
POLL_S = 0.1
CLEANED_S = 300.0
"""The cleaner works in a process of its own, which a busy machine is slow to start."""


def piece(base_offset: int, count: int, *, covers: int = 0, aborted: bool = False) -> FetchedBatch:
    """A batch of `count` records; `covers` offsets where compaction has removed some."""
    made = [Record(base_offset + i, 1000, b"k", b"v") for i in range(count)]
    data = bytearray(build(made, compression=Compression.NONE))
    [(position, header)] = list(iter_batches(data))
    header = header._replace(
        base_offset=base_offset, last_offset_delta=(covers or count) - 1, records_count=count
    )
    return FetchedBatch(header, memoryview(data), position, aborted)


def marker(offset: int) -> FetchedBatch:
    data = control_batch(
        ControlType.COMMIT, 0, producer_id=1, producer_epoch=0, timestamp=1000, base_offset=offset
    )
    [(position, header)] = list(iter_batches(data))
    return FetchedBatch(header, memoryview(data), position, False)


class TestGaps:
    """Gaps are explained by the batches that cover them."""

    def test_cause_of_an_offset_is_that_of_the_batch_that_covers_it(self) -> None:
        pieces = [piece(0, 5), marker(5), piece(6, 4, aborted=True), piece(12, 1, covers=3)]
        tally = Tally()
        explain(iter(pieces), Gap(0, 3, 20), tally)
        assert tally.kinds == {
            COMPACTED: 2 + 3,  # 3, 4 are in a batch that is there, and Spark had no such record
            MARKERS: 1,
            ABORTED: 4,
            HOLE: 2 + 5,
        }
        assert tally.holes == [Gap(0, 10, 12), Gap(0, 15, 20)]

    def test_offsets_that_were_not_fetched_are_unknown(self) -> None:
        tally = Tally()
        explain(iter([marker(7)]), Gap(0, 7, 100), tally, is_cut=True)
        assert tally.kinds == {MARKERS: 1, UNKNOWN: 92}

    def test_sampled_ranges_are_spread_over_partitions(self) -> None:
        ranges = [
            AuditedRange(0, 0, 100, 0, 100, 100),
            AuditedRange(1, 5, 5, 5, 5, 5),
            AuditedRange(2, 4, 6, 0, 6, 6),
        ]
        assert spread(ranges, 4) == [(0, 0, 50), (0, 50, 100), (2, 4, 5), (2, 5, 6)]

    def test_damaged_batch_is_counted_as_corrupt_only(self) -> None:
        sound, broken = piece(0, 5), piece(5, 5)
        broken.data[-1] ^= 1
        tally = Tally()
        for each in (sound, broken):
            tally.add(each)
        found = tally.figures("all")
        assert (found.corrupt, found.batches, found.records) == (1, 1, 5)


@pytest.mark.slow
def test_walk_of_a_log_explains_every_offset(bootstrap: str) -> None:
    """Every offset is a record or has a cause."""
    to = Planter(bootstrap)
    name = to.create("transactions")
    in_transactions(to, "transactions", ["commit", "abort", "commit", "abort"])
    ends = [to.end("transactions", partition) for partition in (0, 1)]
    ranges = [AuditedRange(p, 0, end, 0, end, end) for p, end in enumerate(ends)]
    with Cluster(bootstrap) as cluster:
        cluster.topic(name)
        found = walked(cluster, name, ranges, Missing(0))
    assert found.gap_kinds == {ABORTED: RECORDS // 2, MARKERS: 2 * 6}
    assert found.records == RECORDS + RECORDS // 2
    assert found.transactional == found.idempotent == found.batches
    assert sum(ends) == found.records + found.gap_kinds[MARKERS]


@pytest.mark.slow
def test_compacted_offsets_are_distinguished_from_lost_ones(broker_factory: BrokerFactory) -> None:
    """The cleaner has compacted the log.  Then its policy changes, and the gaps become findings."""
    to = Planter(broker_factory({"log.cleaner.backoff.ms": "50"}).bootstrap)
    configs = {
        "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": "0",
    }  # fmt: skip
    name = to.create("table", 1, configs)
    made = records(to.now_ms, count=200, partitions=1)
    for start in range(0, len(made), 20):  # a segment each: they are 20 s apart
        part = made[start : start + 20]
        to.put("table", [replace(r, key=f"key-{i % 7}") for i, r in enumerate(part)])
    end = to.end("table", 0)
    deadline = time.monotonic() + CLEANED_S
    with Cluster(to.bootstrap) as cluster:
        cluster.topic(name)
        while True:
            found = walked(cluster, name, [AuditedRange(0, 0, end, 0, end, end)], Missing(0))
            if found.records < end:
                break
            assert time.monotonic() < deadline, "the cleaner took nothing"
            time.sleep(POLL_S)
    kinds = found.gap_kinds
    assert found.records + sum(kinds.values()) == end
    assert set(kinds) <= {COMPACTED, HOLE}
    assert kinds_of(batches=found, configs=configs) == []
    assert {kind for kind, _ in kinds_of(batches=found)} == {
        {COMPACTED: "compacted", HOLE: "gap"}[kind] for kind in kinds
    }


def topic_of(**changes: object) -> TopicReport:
    """A correct topic, except for the given fields."""
    partition = PartitionFigures(0, 0, 10, 0, 10, 10, records=10)
    plain = TopicReport(
        name="t", configs={"cleanup.policy": "delete"}, partitions=[partition],
        size_percentiles={}, size_histogram=[], over_time=[], bucket_ms=0, headers=[],
        keys=Keys(), duplicates=Duplicates(), identities=Duplicates(), largest_gaps=[],
        batches=Batches("all"),
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]  # the caller names its fields


@pytest.mark.parametrize(
    ("counts", "keys", "hot"),
    [
        ([500, 500, 500, 500], 4, None),  # a quarter each, as four keys have
        ([560, 480, 480, 480], 4, None),
        ([1100, 300, 300, 300], 4, "has 55% of the records: with 4 keys, an even share is 25%"),
        ([1000, 1000], 2, None),
        ([1800, 200], 2, "has 90% of the records: with 2 keys, an even share is 50%"),
        ([2000], 1, None),  # all in one partition: that is skew
        ([501, 2], 1000, None),
        ([520, 2], 1000, "has 26% of the records: with 1,000 keys, an even share is less than 1%"),
    ],
)
def test_hot_key_is_compared_with_an_even_spread_over_the_keys(
    counts: list[int], keys: int, hot: str | None
) -> None:
    partitions = [PartitionFigures(p, 0, 1000, 0, 1000, 1000, records=1000) for p in range(2)]
    top = [(f"k{number}", count) for number, count in enumerate(counts)]
    made = Keys(distinct=keys, records=2000, top=top)
    found = [
        finding.says
        for finding in judge(topic_of(partitions=partitions, keys=made), OPTIONS)
        if finding.kind == "hot-key"
    ]
    assert found == ([f"one key, k0, {hot}"] if hot else [])


def test_hot_key_leaves_records_without_a_key_out_of_the_even_spread() -> None:
    partitions = [PartitionFigures(p, 0, 1000, 0, 1000, 1000, records=1000) for p in range(2)]
    made = Keys(distinct=2, records=1600, top=[("k0", 1400), ("k1", 200)])
    [says] = [
        finding.says
        for finding in judge(topic_of(partitions=partitions, keys=made), OPTIONS)
        if finding.kind == "hot-key"
    ]
    assert says == "one key, k0, has 70% of the records: with 2 keys, an even share is 40%"


def kinds_of(**changes: object) -> list[tuple[str, str]]:
    return [(f.kind, f.severity) for f in judge(topic_of(**changes), OPTIONS)]


class TestFindings:
    """Findings that cannot be planted through a broker."""

    @pytest.mark.parametrize(
        ("kinds", "found"),
        [
            ({}, []),
            ({MARKERS: 5, ABORTED: 9}, []),
            ({MARKERS: 5, UNKNOWN: 9}, []),  # all that were looked into are markers
            ({HOLE: 2}, [("gap", "error")]),
            ({COMPACTED: 2}, [("compacted", "warning")]),
            ({UNKNOWN: 2}, [("gap-unknown", "info")]),
            ({HOLE: 2, MARKERS: 1, UNKNOWN: 9}, [("gap", "error"), ("gap-unknown", "info")]),
            ({DELETED: 2}, [("deleted", "info")]),
        ],
    )
    def test_gaps_become_findings_by_their_causes(
        self, kinds: dict[str, int], found: list[tuple[str, str]]
    ) -> None:
        assert kinds_of(batches=Batches("all", gap_kinds=kinds)) == found

    def test_gaps_of_a_compacted_topic_are_no_finding(self) -> None:
        gaps = Batches("sample", gap_kinds={HOLE: 5, COMPACTED: 6, UNKNOWN: 7})
        assert kinds_of(batches=gaps, configs={"cleanup.policy": "compact,delete"}) == []

    def test_damaged_and_old_batches_are_findings(self) -> None:
        batches = Batches("all", corrupt=1, old_formats=2)
        assert kinds_of(batches=batches) == [("corrupt", "error"), ("old-format", "info")]

    def test_repeated_keys_are_a_finding_with_unique_keys(self) -> None:
        keys = Keys(distinct=8, repeated=1, records=10, top=[("a", 3), ("b", 1)])
        options = replace(OPTIONS, unique_keys=True)
        [finding] = judge(topic_of(keys=keys), options)
        assert (finding.kind, finding.count) == ("duplicate-key", 2)
        assert [example.key for example in finding.examples] == ["a"]
        assert judge(topic_of(keys=keys), OPTIONS) == []

    def test_figure_above_its_threshold_is_a_finding(self) -> None:
        partition = PartitionFigures(0, 0, 10, 0, 10, 10, records=10, record_bytes_max=950)
        configs = {"cleanup.policy": "delete", "max.message.bytes": "1000"}
        topic = topic_of(partitions=[partition], configs=configs)
        assert [f.kind for f in judge(topic, OPTIONS)] == ["large"]
        loose = replace(OPTIONS, thresholds=Thresholds(size_share=0.95))
        assert judge(topic, loose) == []

    def test_worst_is_the_highest_severity(self) -> None:
        found = [Finding("a", severity, "t", 1, "") for severity in ("info", "error", "warning")]
        assert worst(found) == "error"
        assert worst([]) is None


def test_oldest_allowed_timestamp_follows_retention_ms() -> None:
    configs = {"cleanup.policy": "delete", "retention.ms": "1000", "segment.ms": "500"}
    now_ms = 10_000_000
    assert oldest_ms(AuditedTopic("t", (), configs), now_ms) == now_ms - 1500 - HOLD_MS
    assert oldest_ms(AuditedTopic("t", (), configs | {"retention.ms": "-1"}), now_ms) is None
    assert oldest_ms(AuditedTopic("t", (), configs | {"cleanup.policy": "compact"}), now_ms) is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("header:id", Field("header", "id")),
        ("json:id", Field("json", "$.id")),
        ("json:$.a.b[0]", Field("json", "$.a.b[0]")),
        ("json:order id", Field("json", "$['order id']")),
    ],
)
def test_field_names_are_parsed(text: str, field: Field) -> None:
    assert Field.parse(text) == field


@pytest.mark.parametrize("text", ["", "id", "header:", "value:id"])
def test_invalid_field_name_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="is not like"):
        Field.parse(text)


def test_comparison_without_meaning_is_refused() -> None:
    left, right = Side(Kafka(), "a"), Side(Kafka(), "b")
    with pytest.raises(PipelineError, match="with itself"):
        Compare(left, left)
    with pytest.raises(PipelineError, match="'size' is none of"):
        Compare(left, right, ignore=["size"])
    with pytest.raises(PipelineError, match="nothing is left"):
        Compare(left, right, ignore=["key", "value", "headers", "timestamp"])
    assert Compare(left, right, ignore=["key"]).parts == ("value", "headers", "timestamp")


def test_numbers_sizes_and_times_are_formatted() -> None:
    assert [size_name(n) for n in (0, 1023, 1536, 3 << 20)] == ["0 B", "1023 B", "1.5 kB", "3 MB"]
    assert [duration_name(n) for n in (9, 1500, 120_000)] == ["9 ms", "1.5 s", "2 min"]
    assert duration_name(10**17) == "1157407407.4 d"
    assert time_name(1_362_139_200_000) == "2013-03-01 12:00:00"
    assert [time_name(n) for n in (None, -5, 10**17)] == ["-", "-5 ms", f"{10**17} ms"]
    assert [share_name(n, 1000) for n in (0, 1, 500)] == ["0 %", "< 1 %", "50 %"]
    assert shown(None) is None
    assert shown("grüße".encode()) == "grüße"
    assert shown(b"a\nb") == r"a\nb"
    assert shown(b"\xff\x00") == "0xff00"
    assert shown(b"x" * 100) == "x" * 59 + "…"


HOSTILE = "<script>alert(1)</script>"


def hostile_pages() -> Iterator[str]:
    example = Example(0, 1, HOSTILE, HOSTILE)
    finding = Finding("gap", "error", "t", 1, HOSTILE, [example])
    topic = topic_of(
        keys=Keys(1, 1, 10, top=[(HOSTILE, 10)]), headers=[(HOSTILE, 1)],
        over_time=[(0, 5), (1000, 5)], bucket_ms=1000, size_histogram=[(64, 10)],
        configs={"x": HOSTILE},
    )  # fmt: skip
    yield page(Report("c", 0, 1.0, [topic], [finding]))
    difference = AuditDifference("changed", (0, 1), (0, 1), HOSTILE, ("value",), HOSTILE)
    partition = PartitionDifferences(0, 1, 1, changed=1)
    yield page(Comparison("a", "b", 0, 1.0, ("key",), True, [partition], [difference], [finding]))


@pytest.mark.slow
def test_pages_show_what_is_in_records_and_run_none_of_it() -> None:
    for text in hostile_pages():
        assert HOSTILE not in text
        assert html.escape(HOSTILE) in text


def test_page_of_an_empty_topic_has_no_plots() -> None:
    partition = PartitionFigures(0, 0, 0, 0, 0, 0)
    text = page(Report("c", 0, 1.0, [topic_of(partitions=[partition])], []))
    assert "nothing was found" in text
    assert "<svg" not in text


@pytest.mark.slow
@pytest.mark.parametrize("span_s", [1, 240, 4 * 3600, 100 * 86_400, 10**9])
def test_plot_over_time_works_for_any_span(span_s: int) -> None:
    width_ms = span_s * 10
    times = [(1_362_139_200_000 + width_ms * i, 1 + i % 7) for i in range(100)]
    text, *_ = plots(topic_of(over_time=times, bucket_ms=width_ms))
    assert f"Records over time ({duration_name(width_ms)} a bar, UTC)" in text
