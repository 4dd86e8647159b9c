"""Checks of consume-process-produce: each input record has one output, in order.

`chain` {stages: [[source topic, target topic, group], ...]}: which group reads and writes which
topic. A record is named `key:number`; it keeps its name, and the numbers of a key ascend.
`committed`: the groups' committed offsets; those that the judge reads are of the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.transactions import TransactionLogEntry, committed_records
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import JUDGE, History

ChainLink = tuple[str, str, str]
"""Source topic, target topic, group."""


# Each record of a source topic is in its target topic exactly once.
def output_is_the_input_once(history: History) -> Iterator[Violation]:
    """Yield the records of each stage's target that were lost, duplicated or never sent."""
    records = _by_topic(history)
    for source, target, _ in _stages(history):
        sent = Counter(entry.name for entry in records[source])
        output = Counter(entry.name for entry in records[target])
        for name in sorted(sent.keys() | output.keys(), key=str):
            if name not in sent:
                yield Violation("never sent", f"{target}: {name}")
            elif output[name] != 1:
                kind = "twice" if output[name] else "lost"
                yield Violation(kind, f"{target}: {name} occurs {output[name]} times")


def keys_keep_their_order(history: History) -> Iterator[Violation]:
    """Yield the committed records that come after a later record of the same key."""
    for partition, log in committed_records(history).items():
        newest: dict[str, int] = {}
        for entry in log:
            assert entry.name is not None
            key, _, number = entry.name.rpartition(":")
            if int(number) < newest.get(key, -1):
                yield Violation(
                    "order", f"{partition}: {entry.name} at {entry.offset} after {newest[key]}"
                )
            newest[key] = max(newest.get(key, -1), int(number))


def offsets_agree_with_the_output(history: History) -> Iterator[Violation]:
    """Check that at the end each group has committed an offset behind its last sent record."""
    looks = [look for look in history.operations("committed") if look.ok and look.process == JUDGE]
    committed = {look.arguments["group"]: dict(look.result["offsets"]) for look in looks}
    ends = {
        read.arguments["partition"]: read.result["end"]
        for read in history.operations("read_txn_log")
        if read.ok
    }
    for source, _, group in _stages(history):
        for partition, log in committed_records(history).items():
            if partition.rpartition("-")[0] != source or not log:
                continue
            offset, needed = committed.get(group, {}).get(partition, 0), log[-1].offset + 1
            if not needed <= offset <= ends[partition]:
                yield Violation(
                    "offsets",
                    f"{group} {partition}: committed {offset}, the last record is at"
                    f" {needed - 1}, the end at {ends[partition]}",
                )


def _stages(history: History) -> list[ChainLink]:
    """Return the source topic, target topic and group of each stage."""
    chains = history.operations("chain")
    return [
        (source, target, group)
        for chain in chains
        for source, target, group in chain.arguments["stages"]
    ]


def _by_topic(history: History) -> dict[str, list[TransactionLogEntry]]:
    """Return the committed records of each topic, partition after partition."""
    entries: dict[str, list[TransactionLogEntry]] = defaultdict(list)
    for partition, log in committed_records(history).items():
        entries[partition.rpartition("-")[0]] += log
    return entries


CHAIN_CHECKS = (
    output_is_the_input_once,
    keys_keep_their_order,
    offsets_agree_with_the_output,
)
