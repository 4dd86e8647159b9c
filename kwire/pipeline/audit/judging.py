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
"""The size of fewer batches says nothing of how a producer works."""
SHOWN_SHARE_MIN = 0.01
"""Smaller shares are not told apart: they are rounded to whole per cent."""
BATCH_RECORDS_MIN = 2.0
"""On average; with less, the 61 bytes of a batch's header are paid for every record."""


def judge(topic: TopicReport, asked: Audit) -> list[Finding]:
    """All findings about a topic, the worst first."""
    found = [finding for rule in RULES for finding in rule(topic, asked)]
    return sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))


def _gaps(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    kinds = topic.batches.gap_kinds
    compacts = "compact" in topic.configs.get("cleanup.policy", "")
    policy = topic.configs.get("cleanup.policy", "delete")
    holes = kinds.get(log.HOLE, 0)
    if holes and not compacts:
        places = [
            Example(gap.partition, gap.start, None, f"{gap.size:,} offsets, up to {gap.end - 1}")
            for gap in topic.batches.hole_examples[: asked.examples]
        ]
        says = f"{many(holes, 'offset')} in no batch of the log, and cleanup.policy is {policy}"
        yield Finding("gap", ERROR, topic.name, holes, says, places)
    removed = kinds.get(log.COMPACTED, 0)
    if removed and not compacts:
        says = f"{many(removed)} compacted away, though cleanup.policy is {policy} now"
        yield Finding("compacted", WARNING, topic.name, removed, says)
    unknown = kinds.get(log.UNKNOWN, 0)
    transactions = kinds.get(log.MARKERS, 0) + kinds.get(log.ABORTED, 0)
    are_likely_markers = transactions and not holes and not removed
    if unknown and not compacts and not are_likely_markers:
        says = (
            f"{many(unknown, 'offset')} without a record, not looked into: perhaps markers of "
            "transactions (--batches all tells)"
        )
        yield Finding("gap-unknown", INFO, topic.name, unknown, says)
    if deleted := kinds.get(log.DELETED, 0):
        says = f"{many(deleted, 'offset')} deleted by retention while the topic was read"
        yield Finding("deleted", INFO, topic.name, deleted, says)


def _open_transactions(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    held = sum(p.high_watermark - p.last_stable for p in topic.partitions)
    if held:
        says = f"{many(held, 'offset')} behind a transaction that is still open: not read"
        yield Finding("open-transaction", INFO, topic.name, held, says)


def _corrupt(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    if count := topic.batches.corrupt:
        says = f"{count:,} damaged: the CRC is not the one that the header says"
        yield Finding("corrupt", ERROR, topic.name, count, says)


def _duplicates(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    d = topic.duplicates
    if d.extra:
        says = f"{many(d.extra)} saying exactly what another one says, timestamp and all"
        yield Finding("duplicate", WARNING, topic.name, d.extra, says, d.examples)
    d = topic.identities
    if d.extra:
        says = f"{many(d.extra)} with a {asked.identity} that an earlier one has"
        yield Finding("duplicate-identity", ERROR, topic.name, d.extra, says, d.examples)
    if asked.unique_keys and (extra := topic.keys.records - topic.keys.distinct):
        says = f"{many(extra)} with a key that an earlier one has"
        most = [Example(-1, -1, key, f"{count:,} records") for key, count in topic.keys.top]
        shown = [example for example in most if not example.detail.startswith("1 ")]
        yield Finding("duplicate-key", ERROR, topic.name, extra, says, shown[: asked.examples])


def _fields(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    for kind, name in (("no-identity", asked.identity), ("no-sequence", asked.sequence)):
        if count := topic.sum(kind.replace("-", "_")):
            says = f"{many(count)} without {name}"
            yield Finding(kind, WARNING, topic.name, count, says, topic.examples.get(kind, ()))


def _sequence(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    within = "key" if asked.sequence_by_key else "partition"
    words = {
        "stepped": f"going back in {asked.sequence} within a {within}",
        "repeated": f"repeating the {asked.sequence} before within a {within}",
        "skipped": f"of {asked.sequence} left out within a {within}",
    }
    examples = topic.examples.get("sequence", ())
    for name, text in words.items():
        if count := topic.sum(name):
            noun = "number" if name == "skipped" else "record"
            kind = f"sequence-{name}"
            yield Finding(kind, ERROR, topic.name, count, f"{many(count, noun)} {text}", examples)


def _disorder(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    if count := topic.sum("back_far"):
        most = max(p.back_ms_max for p in topic.partitions)
        limit = duration_name(asked.thresholds.back_ms)
        says = (
            f"{many(count)} more than {limit} earlier than the one before, "
            f"{duration_name(most)} at most"
        )
        yield Finding("disorder", WARNING, topic.name, count, says, topic.examples.get("back", ()))


def _timestamps(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    limits = asked.thresholds
    retention = duration_name(int(topic.configs.get("retention.ms", 0)))
    ahead, apart = duration_name(limits.future_ms), duration_name(limits.apart_ms)
    words = {
        "negative": "with a negative timestamp: without time, for retention too",
        "future": f"more than {ahead} in the future: retention keeps all of the segment",
        "apart": f"more than {apart} away from the ones before and behind",
        "old": f"that should be gone: retention.ms is {retention}, and segment.ms is over too",
    }
    for name, text in words.items():
        if count := topic.sum(name):
            examples = topic.examples.get(name, ())
            says = f"{many(count)} {text}"
            yield Finding(f"timestamp-{name}", WARNING, topic.name, count, says, examples)


def _timestamp_types(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    appended = topic.sum("append_times")
    if 0 < appended < topic.records:
        says = f"{many(appended)} with the broker's time, the others with their producer's"
        yield Finding("timestamp-types", INFO, topic.name, appended, says)


def _skew(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    limits = asked.thresholds
    if topic.records < limits.few or len(topic.partitions) < 2:
        return
    mean = topic.records / len(topic.partitions)
    large = [p for p in topic.partitions if p.records > limits.partition_share * mean]
    if large:
        most = max(large, key=lambda p: p.records)
        says = (
            f"partition {most.partition} has {most.records / topic.records:.0%} of the records, "
            f"{most.records / mean:.1f} times the mean of {len(topic.partitions)} partitions"
        )
        yield Finding("skew", WARNING, topic.name, len(large), says)
    yield from _hot_key(topic, limits.key_share)


def _hot_key(topic: TopicReport, excess: float) -> Iterator[Finding]:
    """A key with more of the records than an even spread over the keys would give it.

    The even share is 1 / the number of keys: 25 % where there are four.  Of many keys it is close
    to nothing, so that `excess` alone decides.
    """
    if not topic.keys.top:
        return
    key, count = topic.keys.top[0]
    share = count / topic.records
    even_share = topic.keys.records / topic.records / topic.keys.distinct
    if share > even_share + excess:
        keys = many(topic.keys.distinct, "key")
        says = f"one key, {key}, has {share:.0%} of the records: of {keys} each would have "
        says += f"{even_share:.0%}" if even_share >= SHOWN_SHARE_MIN else "less than 1%"
        yield Finding("hot-key", WARNING, topic.name, count, says)


def _keys(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    keys = topic.keys
    if keys.scattered:
        says = f"{many(keys.scattered, 'key')} in more than one partition: the order is lost"
        yield Finding(
            "key-scattered", WARNING, topic.name, keys.scattered, says, keys.scattered_examples
        )
    if keys.misplaced and not keys.scattered:
        says = f"{many(keys.misplaced)} elsewhere than {keys.partitioner} puts the key"
        yield Finding(
            "key-misplaced", INFO, topic.name, keys.misplaced, says, keys.misplaced_examples
        )
    nulls = topic.sum("null_keys")
    if 0 < nulls < topic.records:
        says = f"{many(nulls)} without a key, among others that have one"
        yield Finding("null-keys", INFO, topic.name, nulls, says)


def _sizes(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    largest_allowed = int(topic.configs.get("max.message.bytes", 0))
    limit = asked.thresholds.size_share * largest_allowed
    large = [p for p in topic.partitions if limit and p.record_bytes_max > limit]
    if large:
        most = max(p.record_bytes_max for p in large)
        says = f"a record of {most:,} bytes, and max.message.bytes is {largest_allowed:,}"
        places = [
            Example(
                p.partition, p.record_bytes_max_offset or 0, None, f"{p.record_bytes_max:,} bytes"
            )
            for p in large[: asked.examples]
        ]
        yield Finding("large", WARNING, topic.name, len(large), says, places)


def _tombstones(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    count = topic.sum("tombstones")
    if count and "compact" not in topic.configs.get("cleanup.policy", ""):
        says = f"{many(count)} with a null value, which deletes nothing without compaction"
        examples = topic.examples.get("tombstone", ())
        yield Finding("tombstone", INFO, topic.name, count, says, examples)


def _codecs(topic: TopicReport, asked: Audit) -> Iterator[Finding]:
    found = topic.batches
    if len(found.codecs) > 1:
        names = ", ".join(codec.name for codec in found.codecs)
        says = f"its batches have {len(found.codecs)} codecs: {names}"
        yield Finding("codecs", INFO, topic.name, len(found.codecs), says)
    if found.batches >= BATCHES_FEW and found.records < BATCH_RECORDS_MIN * found.batches:
        each = found.records / found.batches
        says = f"a batch has {each:.1f} records on average: its producers hardly batch (linger.ms)"
        yield Finding("small-batches", INFO, topic.name, found.batches, says)
    if found.old_formats:
        says = f"{found.old_formats:,} of its batches in the format of before Kafka 0.11"
        yield Finding("old-format", INFO, topic.name, found.old_formats, says)


RULES: tuple[Rule, ...] = (
    _gaps, _open_transactions, _corrupt, _duplicates, _fields, _sequence, _disorder, _timestamps,
    _timestamp_types, _skew, _keys, _sizes, _tombstones, _codecs,
)  # fmt: skip
