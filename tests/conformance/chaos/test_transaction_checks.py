"""Tests the checks of the bank and chain workloads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.conformance.chaos.checks import Check, violations
from kwire.conformance.chaos.checks.bank import OFFSET_CHECKS, quiet_looks
from kwire.conformance.chaos.checks.transactions import TransactionLogEntry, resolve_transactions
from kwire.conformance.chaos.history import Type, Value
from kwire.conformance.chaos.workloads.bank import Bank
from kwire.conformance.chaos.workloads.chain import Chain
from tests.conformance.chaos.script import Script

OK, FAIL, INFO = Type.OK, Type.FAIL, Type.INFO
P, Q = "bank-0", "bank-1"
Log = list[tuple[int, str, int, str | None]]


def kinds(script: Script, checks: tuple[Check, ...]) -> set[str]:
    return {violation.kind for violation in violations(script.history, checks)}


def data(offset: int, name: str, producer_id: int = 7) -> tuple[int, str, int, str]:
    return offset, "transactional", producer_id, name


def marker(offset: int, kind: str, producer_id: int = 7) -> tuple[int, str, int, None]:
    return offset, kind, producer_id, None


class BankHistory(Script):
    """A bank of two partitions; transfer a moves 5, and transfer b moves 9 and is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = OK
        self.tellers = ("t", "u")
        self.logs: dict[str, Log] = {
            P: [data(0, "a:0:5"), marker(1, "commit"), data(2, "b:0:9"), marker(3, "abort")],
            Q: [data(0, "a:1:-5"), marker(1, "commit"), data(2, "b:1:-9"), marker(3, "abort")],
        }
        self.reads: list[tuple[str, int, str]] = [(P, 0, "a:0:5"), (Q, 0, "a:1:-5")]
        self.stable: dict[str, int] = {}
        self.settle_bound_s = 1.0

    def violation_kinds(self) -> set[str]:
        records = [[P, "a:0:5"], [Q, "a:1:-5"]]
        self.do(self.tellers[0], "transfer", {"transfer": "a", "records": records}, self.outcome)
        self.do(
            self.tellers[1],
            "transfer",
            {"transfer": "b", "records": [[P, "b:0:9"], [Q, "b:1:-9"]]},
            FAIL,
        )
        self.do("r", "read", {"topic": "bank"}, records=self.reads)
        self.do("j", "settle", {"bound_s": self.settle_bound_s})
        for partition, log in self.logs.items():
            end = len(log)
            stable = self.stable.get(partition, end)
            result: Value = {"start": 0, "end": end, "stable": stable, "records": log}
            self.do("j", "read_txn_log", {"partition": partition}, **result)
        return kinds(self, tuple(Bank.checks))

    def look(self, *partitions: tuple[str, int, int]) -> None:
        self.do("auditor", "look", {}, partitions=list(partitions))

    def init(self, process: str) -> None:
        self.do(process, "init", {"transactional_id": "x"})

    def end_txn(self, process: str, type_: Type = OK) -> None:
        self.do(process, "end_txn", {"transactional_id": "x", "commit": True}, type_)


def test_bank_checks_find_nothing_in_a_correct_history() -> None:
    books = BankHistory()
    books.init("t.1")
    books.end_txn("t.1")
    books.look((P, 0, 1), (Q, 0, 0))
    books.look((P, 2, 2), (Q, 2, 2))
    books.look((P, 4, 4), (Q, 2, 3))
    books.init("t.2")
    books.end_txn("t.1", INFO)
    books.end_txn("t.2")
    assert books.violation_kinds() == set()
    assert len(quiet_looks(books.history)) == 1


def test_transfer_of_unknown_outcome_may_be_committed_or_not() -> None:
    books = BankHistory()
    books.outcome = INFO
    assert books.violation_kinds() == set()


def a_lost_transfer(books: BankHistory) -> None:
    books.logs = {P: [], Q: []}
    books.reads = []


def half_a_transfer(books: BankHistory) -> None:
    books.logs[Q][1] = marker(1, "abort")
    books.reads.pop()


def half_of_an_unknown_one(books: BankHistory) -> None:
    books.outcome = INFO
    half_a_transfer(books)


def a_transfer_twice(books: BankHistory) -> None:
    for partition, name in ((P, "a:0:5"), (Q, "a:1:-5")):
        books.logs[partition] += [data(4, name), marker(5, "commit")]
        books.reads.append((partition, 4, name))


def an_aborted_one_that_is_there(books: BankHistory) -> None:
    books.outcome = FAIL


def money_from_nowhere(books: BankHistory) -> None:
    books.logs[P] += [data(4, "c:0:1"), marker(5, "commit")]
    books.reads.append((P, 4, "c:0:1"))


def a_quiet_moment_that_does_not_add_up(books: BankHistory) -> None:
    books.look((P, 2, 2), (Q, 0, 0))


def a_dirty_read(books: BankHistory) -> None:
    books.reads.append((P, 2, "b:0:9"))


def a_read_of_nothing(books: BankHistory) -> None:
    books.reads.append((P, 2, "z:0:9"))


def a_record_that_was_not_read(books: BankHistory) -> None:
    books.reads.pop()


def a_record_read_twice(books: BankHistory) -> None:
    books.reads.append(books.reads[0])


def a_transaction_without_end(books: BankHistory) -> None:
    books.logs[P].append(data(4, "b:0:9", 8))
    books.stable[P] = 4


def a_stable_offset_that_stays_behind(books: BankHistory) -> None:
    books.stable[Q] = 2


def a_stable_offset_that_goes_back(books: BankHistory) -> None:
    books.look((P, 2, 4))
    books.look((P, 1, 4))


def a_stable_offset_past_the_end(books: BankHistory) -> None:
    books.look((P, 3, 2))


def a_hole(books: BankHistory) -> None:
    del books.logs[P][2]


def an_end_too_late(books: BankHistory) -> None:
    books.settle_bound_s = 0.0


def a_zombie_that_commits(books: BankHistory) -> None:
    books.init("t.1")
    books.init("t.2")
    books.end_txn("t.1")


def another_order(books: BankHistory) -> None:
    books.logs = {P: [data(0, "b:0:9"), marker(1, "commit"), data(2, "a:0:5"), marker(3, "commit")]}
    books.logs[Q] = [data(0, "b:1:-9"), marker(1, "commit"), data(2, "a:1:-5"), marker(3, "commit")]
    books.reads = [(P, 0, "b:0:9"), (P, 2, "a:0:5"), (Q, 0, "b:1:-9"), (Q, 2, "a:1:-5")]
    books.tellers = ("one", "one")


PLANTED: list[tuple[Callable[[BankHistory], None], set[str]]] = [
    (a_lost_transfer, {"lost"}),
    (half_a_transfer, {"half"}),
    (half_of_an_unknown_one, {"half"}),
    (a_transfer_twice, {"twice"}),
    (an_aborted_one_that_is_there, {"ghost"}),
    (money_from_nowhere, {"never sent"}),
    (a_quiet_moment_that_does_not_add_up, {"balance"}),
    (a_dirty_read, {"dirty read"}),
    (a_read_of_nothing, {"read differs"}),
    (a_record_that_was_not_read, {"unread"}),
    (a_record_read_twice, {"read order"}),
    (a_transaction_without_end, {"open", "unstable"}),
    (a_stable_offset_that_stays_behind, {"unstable"}),
    (a_stable_offset_that_goes_back, {"stable offset"}),
    (a_stable_offset_past_the_end, {"stable offset"}),
    (a_hole, {"hole"}),
    (an_end_too_late, {"late"}),
    (a_zombie_that_commits, {"not fenced"}),
]


@pytest.mark.parametrize(
    ("plant", "expected"), PLANTED, ids=lambda value: getattr(value, "__name__", "")
)
def test_bank_checks_find_the_planted_violation(
    plant: Callable[[BankHistory], None], expected: set[str]
) -> None:
    books = BankHistory()
    plant(books)
    assert books.violation_kinds() == expected


@pytest.mark.parametrize(
    ("offset", "expected"), [(5, set()), (4, {"offset"}), (6, {"offset"}), (None, {"offset"})]
)
def test_committed_offset_must_be_that_of_the_last_committed_transfer(
    offset: int | None, expected: set[str]
) -> None:
    """The teller's transfer 5 was committed, and its transfer 6 was not."""
    books = BankHistory()
    log: Log = [data(0, "x"), marker(1, "commit"), data(2, "y"), marker(3, "abort")]
    for number, name in ((5, "x"), (6, "y")):
        books.do("t", "transfer", {"transfer": f"t:{number}", "records": [[P, name]]})
    books.do("j", "read_txn_log", {"partition": P}, start=0, end=4, stable=4, records=log)
    offsets = [] if offset is None else [(P, offset)]
    books.do("j", "committed", {"group": "t"}, offsets=offsets)
    assert kinds(books, OFFSET_CHECKS) == expected


@pytest.mark.parametrize(("partition", "expected"), [(P, set()), ("away-0", {"no end"})])
def test_partition_that_is_read_at_last_is_no_violation(partition: str, expected: set[str]) -> None:
    books = BankHistory()
    books.do("j", "read_txn_log", {"partition": partition}, INFO, error="TWO_LEADERS")
    assert books.violation_kinds() == expected


def test_transfers_in_another_order_than_the_tellers_are_a_violation() -> None:
    books = BankHistory()
    another_order(books)
    assert "order" in books.violation_kinds()


def test_marker_ends_only_the_transaction_of_its_producer() -> None:
    log = [data(0, "a", 1), data(1, "b", 2), marker(2, "abort", 1), marker(3, "commit", 2)]
    records = resolve_transactions(
        [TransactionLogEntry(*entry) for entry in [*log, data(4, "c", 1)]]
    )
    names = [[entry.name for entry in entries] for entries in records]
    assert names == [["b"], ["a"], ["c"]]


class ChainHistory(Script):
    """One stage of a chain, with one key that has two records."""

    def __init__(self) -> None:
        super().__init__()
        self.came = ["k:0", "k:1"]
        self.offset = 2

    def violation_kinds(self) -> set[str]:
        self.do("judge", "chain", {"stages": [["in", "out", "g"]]})
        source: Log = [(0, "plain", 1, "k:0"), (1, "plain", 1, "k:1")]
        target: Log = [data(n, name) for n, name in enumerate(self.came)]
        target.append(marker(len(target), "commit"))
        for partition, log in (("in-0", source), ("out-0", target)):
            result: Value = {"start": 0, "end": len(log), "stable": len(log), "records": log}
            self.do("judge", "read_txn_log", {"partition": partition}, **result)
        self.do("m", "poll", {"group": "g"}, records=[("in-0", n, "k", n) for n in range(9)])
        self.do("m", "commit", {"group": "g", "offsets": [("in-0", self.offset)]})
        self.do("judge", "committed", {"group": "g"}, offsets=[("in-0", self.offset)])
        return kinds(self, tuple(Chain.checks))


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (["k:0", "k:1"], set()),
        (["k:0"], {"lost"}),
        (["k:0", "k:1", "k:1"], {"twice"}),
        (["k:1", "k:0"], {"order"}),
        (["k:0", "k:1", "l:0"], {"never sent"}),
    ],
)
def test_chain_output_must_be_the_input_once(came: list[str], expected: set[str]) -> None:
    line = ChainHistory()
    line.came = came
    assert line.violation_kinds() == expected


@pytest.mark.parametrize("offset", [1, 3])
def test_chain_offsets_that_differ_from_the_output_are_a_violation(offset: int) -> None:
    line = ChainHistory()
    line.offset = offset
    assert line.violation_kinds() == {"offsets"}
