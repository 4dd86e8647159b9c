"""Consume, process, produce: what goes in comes out once, in order, and offsets say the same.

`chain` {stages: [[source topic, target topic, group], ...]}: who reads what and writes where.
A record is named `key:number`; it keeps its name all along, and a key's numbers ascend.
`committed`, as elsewhere: the groups' offsets; those of the judge are of the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.transactions import Entry, committed_records
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import JUDGE, History

Stage = tuple[str, str, str]
"""Source, target, group."""


def output_is_the_input_once(history: History) -> Iterator[Violation]:
    records = _by_topic(history)
    for source, target, _ in _stages(history):
        sent = Counter(entry.name for entry in records[source])
        came = Counter(entry.name for entry in records[target])
        for name in sorted(sent.keys() | came.keys(), key=str):
            if name not in sent:
                yield Violation("never sent", f"{target}: {name}")
            elif came[name] != 1:
                kind = "twice" if came[name] else "lost"
                yield Violation(kind, f"{target}: {name} is there {came[name]} times")


def keys_keep_their_order(history: History) -> Iterator[Violation]:
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
    """At the end everything that was sent on is committed as read, and nothing else."""
    looks = [each for each in history.operations("committed") if each.ok and each.process == JUDGE]
    told = {look.asked["group"]: dict(look.answered["offsets"]) for look in looks}
    ends = {
        read.asked["partition"]: read.answered["end"]
        for read in history.operations("read_txn_log")
        if read.ok
    }
    for source, _, group in _stages(history):
        for partition, log in committed_records(history).items():
            if partition.rpartition("-")[0] != source or not log:
                continue
            offset, needed = told.get(group, {}).get(partition, 0), log[-1].offset + 1
            if not needed <= offset <= ends[partition]:
                yield Violation(
                    "offsets",
                    f"{group} {partition}: committed {offset}, the last record is at"
                    f" {needed - 1}, the end at {ends[partition]}",
                )


def _stages(history: History) -> list[Stage]:
    chains = history.operations("chain")
    return [
        (source, target, group) for each in chains for source, target, group in each.asked["stages"]
    ]


def _by_topic(history: History) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for partition, log in committed_records(history).items():
        found[partition.rpartition("-")[0]] += log
    return found


CHAIN_CHECKS = (
    output_is_the_input_once,
    keys_keep_their_order,
    offsets_agree_with_the_output,
)
