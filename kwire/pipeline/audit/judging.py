"""Derives findings from the figures of a topic: what is or may be wrong with it.

These are pure functions of figures and thresholds, one for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire.pipeline.audit import batches as log
from kwire.pipeline.audit.audit_settings import Audit
from kwire.pipeline.audit.report import SEVERITIES, Example, Finding, TopicReport
from kwire.pipeline.audit.words import duration_name, many

INFO, WARNING, ERROR = SEVERITIES

Rule = Callable[[TopicReport, Audit], Iterator[Finding]]
BATCHES_FEW = 100
"""Topics with fewer batches are not checked for small batches."""
SHOWN_SHARE_MIN = 0.01
"""Smaller shares are shown as "less than 1%", because shares are rounded to whole per cent."""
BATCH_RECORDS_MIN = 2.0
"""The least mean number of records in a batch.  A batch has a header of 61 bytes."""


def judge(topic: TopicReport, options: Audit) -> list[Finding]:
    """All findings about a topic, the worst first."""
    findings = [finding for rule in RULES for finding in rule(topic, options)]
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def _gaps(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about offsets without a record, by cause.  In a compacted topic, gaps are
    normal; so are transaction markers."""
    kinds = topic.batches.gap_kinds
    is_compacted = "compact" in topic.configs.get("cleanup.policy", "")
    policy = topic.configs.get("cleanup.policy", "delete")
    holes = kinds.get(log.HOLE, 0)
    if holes and not is_compacted:
        places = [
            Example(gap.partition, gap.start, None, f"{gap.size:,} offsets, up to {gap.end - 1}")
            for gap in topic.batches.hole_examples[: options.examples]
        ]
        sentence = f"{many(holes, 'offset')} in no batch of the log, and cleanup.policy is {policy}"
        yield Finding("gap", ERROR, topic.name, holes, sentence, places)
    removed = kinds.get(log.COMPACTED, 0)
    if removed and not is_compacted:
        sentence = f"{many(removed)} compacted away, though cleanup.policy is {policy} now"
        yield Finding("compacted", WARNING, topic.name, removed, sentence)
    unknown = kinds.get(log.UNKNOWN, 0)
    transactions = kinds.get(log.MARKERS, 0) + kinds.get(log.ABORTED, 0)
    are_likely_markers = transactions and not holes and not removed
    if unknown and not is_compacted and not are_likely_markers:
        sentence = (
            f"{many(unknown, 'offset')} without a record, of unknown cause: perhaps transaction "
            "markers (--batches all shows the cause)"
        )
        yield Finding("gap-unknown", INFO, topic.name, unknown, sentence)
    if deleted := kinds.get(log.DELETED, 0):
        sentence = f"{many(deleted, 'offset')} deleted by retention while the topic was read"
        yield Finding("deleted", INFO, topic.name, deleted, sentence)


def _open_transactions(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield a finding if a transaction is open: the records after its start were not read."""
    open_offsets = sum(p.high_watermark - p.last_stable for p in topic.partitions)
    if open_offsets:
        sentence = (
            f"{many(open_offsets, 'offset')} after the start of an open transaction: not read"
        )
        yield Finding("open-transaction", INFO, topic.name, open_offsets, sentence)


def _corrupt(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    if count := topic.batches.corrupt:
        sentence = f"{count:,} damaged: the CRC does not match the header"
        yield Finding("corrupt", ERROR, topic.name, count, sentence)


def _duplicates(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about records that are equal, that have the same identity field, or, if keys
    must be unique, the same key."""
    d = topic.duplicates
    if d.extra:
        sentence = f"{many(d.extra)} equal to another one, including the timestamp"
        yield Finding("duplicate", WARNING, topic.name, d.extra, sentence, d.examples)
    d = topic.identities
    if d.extra:
        sentence = f"{many(d.extra)} with a {options.identity} that an earlier one has"
        yield Finding("duplicate-identity", ERROR, topic.name, d.extra, sentence, d.examples)
    if options.unique_keys and (extra := topic.keys.records - topic.keys.distinct):
        sentence = f"{many(extra)} with a key that an earlier one has"
        most = [Example(-1, -1, key, f"{count:,} records") for key, count in topic.keys.top]
        shown = [example for example in most if not example.detail.startswith("1 ")]
        yield Finding(
            "duplicate-key", ERROR, topic.name, extra, sentence, shown[: options.examples]
        )


def _fields(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about records without the identity or the sequence field."""
    for kind, name in (("no-identity", options.identity), ("no-sequence", options.sequence)):
        if count := topic.sum(kind.replace("-", "_")):
            sentence = f"{many(count)} without {name}"
            yield Finding(kind, WARNING, topic.name, count, sentence, topic.examples.get(kind, ()))


def _sequence(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about the sequence field: it goes back, repeats, or skips numbers."""
    within = "key" if options.sequence_by_key else "partition"
    words = {
        "stepped": f"going back in {options.sequence} within a {within}",
        "repeated": f"repeating the previous {options.sequence} within a {within}",
        "skipped": f"of {options.sequence} missing within a {within}",
    }
    examples = topic.examples.get("sequence", ())
    for name, text in words.items():
        if count := topic.sum(name):
            noun = "number" if name == "skipped" else "record"
            kind = f"sequence-{name}"
            yield Finding(kind, ERROR, topic.name, count, f"{many(count, noun)} {text}", examples)


def _disorder(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield a finding if timestamps go back by more than the threshold within a partition."""
    if count := topic.sum("back_far"):
        most = max(p.back_ms_max for p in topic.partitions)
        limit = duration_name(options.thresholds.back_ms)
        sentence = (
            f"{many(count)} more than {limit} earlier than the record before, "
            f"at most by {duration_name(most)}"
        )
        yield Finding(
            "disorder", WARNING, topic.name, count, sentence, topic.examples.get("back", ())
        )


def _timestamps(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about timestamps that are negative, in the future, far from their neighbours,
    or so old that retention should have deleted the record."""
    limits = options.thresholds
    retention = duration_name(int(topic.configs.get("retention.ms", 0)))
    ahead, apart = duration_name(limits.future_ms), duration_name(limits.apart_ms)
    words = {
        "negative": "with a negative timestamp, which retention ignores",
        "future": f"more than {ahead} in the future: retention keeps the whole segment",
        "apart": f"more than {apart} away from the records before and after",
        "old": f"that should be deleted: retention.ms is {retention}, and segment.ms is over too",
    }
    for name, text in words.items():
        if count := topic.sum(name):
            examples = topic.examples.get(name, ())
            sentence = f"{many(count)} {text}"
            yield Finding(f"timestamp-{name}", WARNING, topic.name, count, sentence, examples)


def _timestamp_types(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield a finding if the topic has both types of timestamps."""
    appended = topic.sum("append_times")
    if 0 < appended < topic.records:
        sentence = f"{many(appended)} with the broker's timestamp, the others with the producer's"
        yield Finding("timestamp-types", INFO, topic.name, appended, sentence)


def _skew(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about partitions and keys with far more records than others.  A topic with
    few records or one partition yields none."""
    limits = options.thresholds
    if topic.records < limits.few or len(topic.partitions) < 2:
        return
    mean = topic.records / len(topic.partitions)
    large = [p for p in topic.partitions if p.records > limits.partition_share * mean]
    if large:
        most = max(large, key=lambda p: p.records)
        sentence = (
            f"partition {most.partition} has {most.records / topic.records:.0%} of the records, "
            f"{most.records / mean:.1f} times the mean of {len(topic.partitions)} partitions"
        )
        yield Finding("skew", WARNING, topic.name, len(large), sentence)
    yield from _hot_key(topic, limits.key_share)


def _hot_key(topic: TopicReport, excess: float) -> Iterator[Finding]:
    """A key with more records than its even share by `excess` of all records.

    The even share is 1 / the number of keys: 25 % for four keys.  With many keys it is close to 0,
    so that `excess` alone decides.
    """
    if not topic.keys.top:
        return
    key, count = topic.keys.top[0]
    share = count / topic.records
    even_share = topic.keys.records / topic.records / topic.keys.distinct
    if share > even_share + excess:
        keys = many(topic.keys.distinct, "key")
        sentence = f"one key, {key}, has {share:.0%} of the records: with {keys}, an even share is "
        sentence += f"{even_share:.0%}" if even_share >= SHOWN_SHARE_MIN else "less than 1%"
        yield Finding("hot-key", WARNING, topic.name, count, sentence)


def _keys(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yields findings about keys in several partitions, keys in another partition than the
    partitioner chooses, and records without a key among others with one."""
    keys = topic.keys
    if keys.scattered:
        sentence = f"{many(keys.scattered, 'key')} in more than one partition: the order is lost"
        yield Finding(
            "key-scattered", WARNING, topic.name, keys.scattered, sentence, keys.scattered_examples
        )
    if keys.misplaced and not keys.scattered:
        sentence = f"{many(keys.misplaced)} in another partition than {keys.partitioner} chooses"
        yield Finding(
            "key-misplaced", INFO, topic.name, keys.misplaced, sentence, keys.misplaced_examples
        )
    nulls = topic.sum("null_keys")
    if 0 < nulls < topic.records:
        sentence = f"{many(nulls)} without a key, while others have one"
        yield Finding("null-keys", INFO, topic.name, nulls, sentence)


def _sizes(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield a finding if a record is nearly as large as max.message.bytes allows."""
    largest_allowed = int(topic.configs.get("max.message.bytes", 0))
    limit = options.thresholds.size_share * largest_allowed
    large = [p for p in topic.partitions if limit and p.record_bytes_max > limit]
    if large:
        most = max(p.record_bytes_max for p in large)
        sentence = f"a record of {most:,} bytes, and max.message.bytes is {largest_allowed:,}"
        places = [
            Example(
                p.partition, p.record_bytes_max_offset or 0, None, f"{p.record_bytes_max:,} bytes"
            )
            for p in large[: options.examples]
        ]
        yield Finding("large", WARNING, topic.name, len(large), sentence, places)


def _tombstones(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield a finding about tombstones in a topic that is not compacted."""
    count = topic.sum("tombstones")
    if count and "compact" not in topic.configs.get("cleanup.policy", ""):
        sentence = f"{many(count)} with a null value, which deletes nothing without compaction"
        examples = topic.examples.get("tombstone", ())
        yield Finding("tombstone", INFO, topic.name, count, sentence, examples)


def _codecs(topic: TopicReport, options: Audit) -> Iterator[Finding]:
    """Yield findings about batches: several codecs, few records per batch, or old formats."""
    figures = topic.batches
    if len(figures.codecs) > 1:
        names = ", ".join(codec.name for codec in figures.codecs)
        sentence = f"its batches have {len(figures.codecs)} codecs: {names}"
        yield Finding("codecs", INFO, topic.name, len(figures.codecs), sentence)
    if figures.batches >= BATCHES_FEW and figures.records < BATCH_RECORDS_MIN * figures.batches:
        mean = figures.records / figures.batches
        sentence = (
            f"a batch has {mean:.1f} records on average: its producers hardly batch (linger.ms)"
        )
        yield Finding("small-batches", INFO, topic.name, figures.batches, sentence)
    if figures.old_formats:
        sentence = f"{figures.old_formats:,} of its batches in a format from before Kafka 0.11"
        yield Finding("old-format", INFO, topic.name, figures.old_formats, sentence)


RULES: tuple[Rule, ...] = (
    _gaps, _open_transactions, _corrupt, _duplicates, _fields, _sequence, _disorder, _timestamps,
    _timestamp_types, _skew, _keys, _sizes, _tombstones, _codecs,
)  # fmt: skip
