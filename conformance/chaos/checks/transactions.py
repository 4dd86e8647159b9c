"""Logs with transactions in them, and what readers of committed records made of them.

`read_txn_log` {partition} -> {start, end, stable, records: [[offset, kind, producer_id, name],
...]}: all of a partition at the end, aborted records and markers too, as nobody's isolation level
has filtered it; `kind` is plain, transactional, commit, abort or control, `name` is null for
control records.
`read` {topic} -> {records: [[partition, offset, name], ...]}: what a reader of committed records
was given, in that order, from each partition's start on.
`look` {} -> {partitions: [[partition, stable, end], ...]}: last stable offsets, asked for in one
request, and after the answer the high watermarks, in another.
`settle` {bound_s, ends}: from when the faults are over and nothing new is begun until each last
stable offset has come to where the log ended then.
`init` {transactional_id}: a producer takes its id and fences those who had it.
`end_txn` {transactional_id, commit}: it commits, or aborts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Operation

Read = tuple[int, str]
"""Offset and name."""


class Entry(NamedTuple):
    offset: int
    kind: str
    producer_id: int
    name: str | None


class Resolved(NamedTuple):
    """What a log's markers make of its records; the last two are of no use to readers."""

    committed: list[Entry]
    aborted: list[Entry]
    open: list[Entry]


def resolved(entries: list[Entry]) -> Resolved:
    """Each record counts as its producer's next marker says; plain ones count at once."""
    committed, aborted = [entry for entry in entries if entry.kind == "plain"], []
    open_: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind == "transactional":
            open_[entry.producer_id].append(entry)
        elif entry.kind == "commit":
            committed += open_.pop(entry.producer_id, [])
        elif entry.kind == "abort":
            aborted += open_.pop(entry.producer_id, [])
    left = [entry for entries in open_.values() for entry in entries]
    return Resolved(sorted(committed), sorted(aborted), sorted(left))


def transaction_logs(history: History) -> dict[str, list[Entry]]:
    """What `read_txn_log` found last, by partition."""
    return {
        read.asked["partition"]: [Entry(*record) for record in read.answered["records"]]
        for read in history.operations("read_txn_log")
        if read.ok
    }


def committed_records(history: History) -> dict[str, list[Entry]]:
    """What counts in each log, in the order of offsets."""
    return {p: resolved(log).committed for p, log in transaction_logs(history).items()}


def transactions_end(history: History) -> Iterator[Violation]:
    """In time, in all partitions, and their last stable offsets show it."""
    for settle in history.operations("settle"):
        if settle.ended_ns is not None:
            took_s = (settle.ended_ns - settle.invoked_ns) / 1e9
            if took_s > settle.asked["bound_s"]:
                yield Violation("late", f"the last stable offsets took {took_s:.1f} s")
    for read in history.operations("read_txn_log"):
        if read.ok and read.answered["stable"] != read.answered["end"]:
            yield Violation(
                "unstable",
                f"{read.asked['partition']}: stable to {read.answered['stable']}, the high"
                f" watermark is {read.answered['end']}",
            )
    for partition, log in transaction_logs(history).items():
        for entry in resolved(log).open[:1]:
            yield Violation("open", f"{partition}: {entry.name} at {entry.offset} has no marker")


def logs_are_whole(history: History) -> Iterator[Violation]:
    reads = history.operations("read_txn_log")
    # All are read again where one could not be, as while its leader moves.
    asked = {read.asked["partition"] for read in reads}
    for partition in sorted(asked - {read.asked["partition"] for read in reads if read.ok}):
        yield Violation("no end", f"{partition} could not be read")
    for read in (each for each in reads if each.ok):
        start, end = read.answered["start"], read.answered["end"]
        offsets = [offset for offset, *_ in read.answered["records"]]
        missing = sorted(set(range(start, end)) - set(offsets))
        if missing or len(offsets) != end - start:
            yield Violation("hole", f"{read.asked['partition']}: {start} to {end}, not {missing}")


def readers_see_what_is_committed(history: History) -> Iterator[Violation]:
    """All of it, in order, each record once, and nothing else."""
    logs = transaction_logs(history)
    seen: dict[tuple[str, str], list[Read]] = defaultdict(list)
    topics: dict[str, str] = {}
    for read in history.operations("read"):
        topics[read.process] = read.asked["topic"]
        for partition, offset, name in read.answered.get("records", ()):
            seen[read.process, partition].append((offset, name))
    for reader, topic in topics.items():
        for partition, log in logs.items():
            if partition.rpartition("-")[0] == topic:
                for kind, text in _reading(seen[reader, partition], log):
                    yield Violation(kind, f"{reader}: {partition} {text}")


def _reading(found: list[Read], log: list[Entry]) -> Iterator[tuple[str, str]]:
    """What is wrong with what somebody read of a log: a kind and a text each."""
    there = {(entry.offset, entry.name) for entry in log}
    wanted = {(entry.offset, entry.name) for entry in resolved(log).committed}
    for record in found:
        if record not in wanted:
            yield ("dirty read" if record in there else "read differs"), f"{record}"
    missing = sorted(wanted - set(found), key=str)
    if missing:
        yield "unread", f"{missing[:3]}, {len(missing)} in all"
    if found != sorted(set(found)):
        yield "read order", "not each once, or not in order"


def stable_offsets_never_go_back(history: History) -> Iterator[Violation]:
    """And are never past the high watermark. One asks after the other."""
    floors: dict[tuple[str, str], int] = {}
    for look in history.operations("look"):
        for partition, stable, end in look.answered.get("partitions", ()):
            floor = floors.get((look.process, partition), 0)
            if not floor <= stable <= end:
                yield Violation(
                    "stable offset", f"{partition}: {stable} after {floor}, the end is {end}"
                )
            floors[look.process, partition] = stable


def fenced_producers_commit_nothing(history: History) -> Iterator[Violation]:
    """Once a newer producer has their id; who came later is known if one came after the other."""
    inits = [each for each in history.operations("init") if each.ok]
    since = {init.process: init for init in inits}
    for end in history.operations("end_txn"):
        own = since.get(end.process)
        if not end.ok or not end.asked["commit"] or own is None:  # an abort may be local
            continue
        fencing = next((init for init in inits if _fences(init, own, end)), None)
        if fencing is not None:
            yield Violation(
                "not fenced",
                f"{end.process} committed a transaction of {own.asked['transactional_id']} after"
                f" {fencing.process} took it over",
            )


def _fences(init: Operation, own: Operation, end: Operation) -> bool:
    if init.asked != own.asked or init.ended_ns is None or own.ended_ns is None:
        return False
    return own.ended_ns < init.invoked_ns and init.ended_ns < end.invoked_ns


TRANSACTION_CHECKS = (
    transactions_end,
    logs_are_whole,
    readers_see_what_is_committed,
    stable_offsets_never_go_back,
    fenced_producers_commit_nothing,
)
