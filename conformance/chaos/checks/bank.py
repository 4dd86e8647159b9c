"""Transfers between accounts: whole and once, or not at all, and the sum of all accounts is 0.

`transfer` {transfer, records: [[partition, name], ...]}: a transaction, of two records or more;
its name is its own, and a record is named `transfer:leg:amount`. `ok`: it was committed. `fail`: it
was aborted, or nobody ever asked for its commit. `info`: one of both.

With OFFSET_CHECKS: `committed` {group} -> {offsets: [[partition, offset], ...]}, asked at the end.
A teller is a group; in each transfer it commits the number behind its own name, `group:number`.

Kafka promises nothing about several partitions at one moment: a marker comes to one after the
other. A look at which every last stable offset was the end of its log, though, is a moment at which
no transaction was open anywhere: what a reader then sees must add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.transactions import Entry, committed_records
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Type


def transfers_are_whole_and_once(history: History) -> Iterator[Violation]:
    there = Counter(
        (partition, entry.name)
        for partition, log in committed_records(history).items()
        for entry in log
    )
    sent = set()
    for transfer in history.operations("transfer"):
        name = transfer.asked["transfer"]
        records = [(partition, record) for partition, record in transfer.asked["records"]]
        sent.update(records)
        counts = [there[record] for record in records]
        if max(counts) > 1:
            yield Violation("twice", f"{name}: its records are there {counts} times")
        elif min(counts) < max(counts):
            yield Violation("half", f"{name}: its records are there {counts} times")
        elif transfer.type is Type.OK and not any(counts):
            yield Violation("lost", f"{name} was committed and is not there")
        elif transfer.type is Type.FAIL and any(counts):
            yield Violation("ghost", f"{name} was aborted and is there")
    for partition, record in sorted(there.keys() - sent, key=str):
        yield Violation("never sent", f"{partition}: {record}")


def the_balance_is_constant(history: History) -> Iterator[Violation]:
    """At each moment at which nothing was open; see above."""
    logs = committed_records(history)
    for look in quiet_looks(history):
        ends = {partition: end for partition, _, end in look}
        balance = sum(_balance(log, ends[p]) for p, log in logs.items() if p in ends)
        if balance:
            yield Violation("balance", f"{balance} at {ends}")


def quiet_looks(history: History) -> list[list[tuple[str, int, int]]]:
    """The answers of looks at which no transaction was open in any partition."""
    looks = [look.answered["partitions"] for look in history.operations("look") if look.ok]
    return [look for look in looks if all(stable == end for _, stable, end in look)]


def _balance(log: list[Entry], end: int) -> int:
    return sum(_amount(entry) for entry in log if entry.offset < end)


def _amount(entry: Entry) -> int:
    assert entry.name is not None
    return int(entry.name.rpartition(":")[2])


def tellers_keep_their_order(history: History) -> Iterator[Violation]:
    """Who makes one transfer after the other finds them in that order in each partition."""
    begun = {
        transfer.asked["transfer"]: (transfer.process, transfer.invoked_ns)
        for transfer in history.operations("transfer")
    }
    for partition, log in committed_records(history).items():
        newest: dict[str, int] = defaultdict(int)
        for entry in log:
            assert entry.name is not None
            process, since = begun.get(entry.name.rsplit(":", 2)[0], ("", 0))
            if since < newest[process]:
                yield Violation("order", f"{partition}: {entry.name} is at {entry.offset}")
            newest[process] = max(newest[process], since)


def offsets_are_of_the_last_transfer(history: History) -> Iterator[Violation]:
    """Offsets and records of a transaction: both or none."""
    there = {entry.name for log in committed_records(history).values() for entry in log}
    last: dict[str, int] = {}
    for transfer in history.operations("transfer"):
        group, _, number = transfer.asked["transfer"].rpartition(":")
        if any(record in there for _, record in transfer.asked["records"]):
            last[group] = int(number)
    for look in history.operations("committed"):
        if look.ok:
            group, told = look.asked["group"], [offset for _, offset in look.answered["offsets"]]
            wanted = [last[group]] if group in last else []
            if told != wanted:
                yield Violation("offset", f"{group}: committed {told}, its last transfer {wanted}")


BANK_CHECKS = (
    transfers_are_whole_and_once,
    the_balance_is_constant,
    tellers_keep_their_order,
)
OFFSET_CHECKS = (offsets_are_of_the_last_transfer,)
