"""Checks of logs with transactions, and of what readers of committed records got.

`read_txn_log` {partition} -> {start, end, stable, records: [[offset, kind, producer_id, name],
...]}: the whole partition at the end, with aborted records and markers, read without isolation.
`kind` is plain, transactional, commit, abort or control; `name` is null for control records. `read`
{topic} -> {records: [[partition, offset, name], ...]}: the records that a reader of committed
records got, in that order, from the start of each partition. `look` {} -> {partitions: [[partition,
stable, end], ...]}: the last stable offsets from one request, and the high watermarks from a second
request after it. `settle` {bound_s, ends}: the time from the end of the load, without faults, until
each last stable offset has reached the log end offset of its begin. `init` {transactional_id}: a
producer takes its transactional id and fences earlier ones. `end_txn` {transactional_id, commit}:
it commits, or aborts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, HistoryOperation

Read = tuple[int, str]
"""Offset and name."""


class TransactionLogEntry(NamedTuple):
    offset: int
    kind: str
    producer_id: int
    name: str | None


class Resolved(NamedTuple):
    """The records of a log by the outcome of their transaction; readers see only committed ones."""

    committed: list[TransactionLogEntry]
    aborted: list[TransactionLogEntry]
    open: list[TransactionLogEntry]


def resolve_transactions(entries: list[TransactionLogEntry]) -> Resolved:
    """Sort a log's records by the next marker of their producer; plain records are committed."""
    committed, aborted = [entry for entry in entries if entry.kind == "plain"], []
    open_: dict[int, list[TransactionLogEntry]] = defaultdict(list)
    for entry in entries:
        if entry.kind == "transactional":
            open_[entry.producer_id].append(entry)
        elif entry.kind == "commit":
            committed += open_.pop(entry.producer_id, [])
        elif entry.kind == "abort":
            aborted += open_.pop(entry.producer_id, [])
    left = [entry for entries in open_.values() for entry in entries]
    return Resolved(sorted(committed), sorted(aborted), sorted(left))


def transaction_logs(history: History) -> dict[str, list[TransactionLogEntry]]:
    """Return the last result of `read_txn_log`, by partition."""
    return {
        read.arguments["partition"]: [
            TransactionLogEntry(*record) for record in read.result["records"]
        ]
        for read in history.operations("read_txn_log")
        if read.ok
    }


def committed_records(history: History) -> dict[str, list[TransactionLogEntry]]:
    """Return the committed records of each log, in the order of offsets."""
    return {p: resolve_transactions(log).committed for p, log in transaction_logs(history).items()}


def transactions_end(history: History) -> Iterator[Violation]:
    """Check that transactions end in time, in all partitions, and the last stable offsets reach the
    end."""
    for settle in history.operations("settle"):
        if settle.ended_ns is not None:
            took_s = (settle.ended_ns - settle.invoked_ns) / 1e9
            if took_s > settle.arguments["bound_s"]:
                yield Violation("late", f"the last stable offsets took {took_s:.1f} s")
    for read in history.operations("read_txn_log"):
        if read.ok and read.result["stable"] != read.result["end"]:
            yield Violation(
                "unstable",
                f"{read.arguments['partition']}: stable to {read.result['stable']}, the high"
                f" watermark is {read.result['end']}",
            )
    for partition, log in transaction_logs(history).items():
        for entry in resolve_transactions(log).open[:1]:
            yield Violation("open", f"{partition}: {entry.name} at {entry.offset} has no marker")


def logs_are_whole(history: History) -> Iterator[Violation]:
    """Yield the partitions that could not be read, and the logs that lack an offset."""
    reads = history.operations("read_txn_log")
    # If one partition cannot be read, as while its leader changes, all are read again.
    partitions = {read.arguments["partition"] for read in reads}
    for partition in sorted(
        partitions - {read.arguments["partition"] for read in reads if read.ok}
    ):
        yield Violation("no end", f"{partition} could not be read")
    for read in (read for read in reads if read.ok):
        start, end = read.result["start"], read.result["end"]
        offsets = [offset for offset, *_ in read.result["records"]]
        missing = sorted(set(range(start, end)) - set(offsets))
        if missing or len(offsets) != end - start:
            yield Violation(
                "hole", f"{read.arguments['partition']}: {start} to {end}, not {missing}"
            )


def readers_see_what_is_committed(history: History) -> Iterator[Violation]:
    """Check that a reader gets all committed records in order, each one once, and no others."""
    logs = transaction_logs(history)
    seen: dict[tuple[str, str], list[Read]] = defaultdict(list)
    topics: dict[str, str] = {}
    for read in history.operations("read"):
        topics[read.process] = read.arguments["topic"]
        for partition, offset, name in read.result.get("records", ()):
            seen[read.process, partition].append((offset, name))
    for reader, topic in topics.items():
        for partition, log in logs.items():
            if partition.rpartition("-")[0] == topic:
                for kind, text in _reading(seen[reader, partition], log):
                    yield Violation(kind, f"{reader}: {partition} {text}")


def _reading(records: list[Read], log: list[TransactionLogEntry]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the records that a reader got: (kind, text) of each violation."""
    present = {(entry.offset, entry.name) for entry in log}
    committed = {(entry.offset, entry.name) for entry in resolve_transactions(log).committed}
    for record in records:
        if record not in committed:
            yield ("dirty read" if record in present else "read differs"), f"{record}"
    missing = sorted(committed - set(records), key=str)
    if missing:
        yield "unread", f"{missing[:3]}, {len(missing)} in all"
    if records != sorted(set(records)):
        yield "read order", "not each once, or not in order"


def stable_offsets_never_go_back(history: History) -> Iterator[Violation]:
    """Check that a last stable offset never decreases and never exceeds the high watermark.

    A process sends the next request after the last response.
    """
    floors: dict[tuple[str, str], int] = {}
    for look in history.operations("look"):
        for partition, stable, end in look.result.get("partitions", ()):
            floor = floors.get((look.process, partition), 0)
            if not floor <= stable <= end:
                yield Violation(
                    "stable offset", f"{partition}: {stable} after {floor}, the end is {end}"
                )
            floors[look.process, partition] = stable


def fenced_producers_commit_nothing(history: History) -> Iterator[Violation]:
    """Check that a producer cannot commit after a newer one has taken its transactional id.

    The newer one is known only if its init began after the end of the other one's.
    """
    inits = [init for init in history.operations("init") if init.ok]
    since = {init.process: init for init in inits}
    for end in history.operations("end_txn"):
        own = since.get(end.process)
        if not end.ok or not end.arguments["commit"] or own is None:  # an abort may be local
            continue
        fencing = next((init for init in inits if _fences(init, own, end)), None)
        if fencing is not None:
            yield Violation(
                "not fenced",
                f"{end.process} committed a transaction of"
                f" {own.arguments['transactional_id']} after {fencing.process} took it over",
            )


def _fences(init: HistoryOperation, own: HistoryOperation, end: HistoryOperation) -> bool:
    if init.arguments != own.arguments or init.ended_ns is None or own.ended_ns is None:
        return False
    return own.ended_ns < init.invoked_ns and init.ended_ns < end.invoked_ns


TRANSACTION_CHECKS = (
    transactions_end,
    logs_are_whole,
    readers_see_what_is_committed,
    stable_offsets_never_go_back,
    fenced_producers_commit_nothing,
)
