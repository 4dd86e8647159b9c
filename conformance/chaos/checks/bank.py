"""Checks of transfers: each is complete or absent, and the sum of all accounts is 0.

`transfer` {transfer, records: [[partition, name], ...]}: a transaction of two records or more. The
name of a transfer is unique, and its records are named `transfer:leg:amount`. `ok`: it was
committed. `fail`: it was aborted, or its commit was never requested. `info`: one of both.

With OFFSET_CHECKS: `committed` {group} -> {offsets: [[partition, offset], ...]} at the end. A
teller is a group; each transfer commits the number in its own name, `group:number`.

Kafka guarantees nothing about several partitions at one moment, since the markers are written to
one partition after the other. But if every last stable offset is the end of its log, no transaction
is open anywhere, and what a reader sees then must add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.transactions import TransactionLogEntry, committed_records
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Type


def transfers_are_whole_and_once(history: History) -> Iterator[Violation]:
    """Check that the records of a transfer are all present once, or all absent, according to its
    outcome."""
    counted = Counter(
        (partition, entry.name)
        for partition, log in committed_records(history).items()
        for entry in log
    )
    sent = set()
    for transfer in history.operations("transfer"):
        name = transfer.arguments["transfer"]
        records = [(partition, record) for partition, record in transfer.arguments["records"]]
        sent.update(records)
        counts = [counted[record] for record in records]
        if max(counts) > 1:
            yield Violation("twice", f"{name}: its records occur {counts} times")
        elif min(counts) < max(counts):
            yield Violation("half", f"{name}: its records occur {counts} times")
        elif transfer.type is Type.OK and not any(counts):
            yield Violation("lost", f"{name} was committed and is missing")
        elif transfer.type is Type.FAIL and any(counts):
            yield Violation("ghost", f"{name} was aborted and is present")
    for partition, record in sorted(counted.keys() - sent, key=str):
        yield Violation("never sent", f"{partition}: {record}")


def the_balance_is_constant(history: History) -> Iterator[Violation]:
    """Check that the sum of all accounts is 0 whenever no transaction is open; see the module."""
    logs = committed_records(history)
    for look in quiet_looks(history):
        ends = {partition: end for partition, _, end in look}
        balance = sum(_balance(log, ends[p]) for p, log in logs.items() if p in ends)
        if balance:
            yield Violation("balance", f"{balance} at {ends}")


def quiet_looks(history: History) -> list[list[tuple[str, int, int]]]:
    """Return the results of looks at which no transaction was open in any partition."""
    looks = [look.result["partitions"] for look in history.operations("look") if look.ok]
    return [look for look in looks if all(stable == end for _, stable, end in look)]


def _balance(log: list[TransactionLogEntry], end: int) -> int:
    return sum(_amount(entry) for entry in log if entry.offset < end)


def _amount(entry: TransactionLogEntry) -> int:
    assert entry.name is not None
    return int(entry.name.rpartition(":")[2])


def tellers_keep_their_order(history: History) -> Iterator[Violation]:
    """Check that the transfers of one teller are in the order of their begin in each partition."""
    begun = {
        transfer.arguments["transfer"]: (transfer.process, transfer.invoked_ns)
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
    """Check that a teller's committed offset is that of its last committed transfer."""
    present = {entry.name for log in committed_records(history).values() for entry in log}
    last: dict[str, int] = {}
    for transfer in history.operations("transfer"):
        group, _, number = transfer.arguments["transfer"].rpartition(":")
        if any(record in present for _, record in transfer.arguments["records"]):
            last[group] = int(number)
    for look in history.operations("committed"):
        if look.ok:
            group = look.arguments["group"]
            committed = [offset for _, offset in look.result["offsets"]]
            expected = [last[group]] if group in last else []
            if committed != expected:
                yield Violation(
                    "offset", f"{group}: committed {committed}, its last transfer {expected}"
                )


BANK_CHECKS = (
    transfers_are_whole_and_once,
    the_balance_is_constant,
    tellers_keep_their_order,
)
OFFSET_CHECKS = (offsets_are_of_the_last_transfer,)
