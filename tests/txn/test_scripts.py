"""Transaction scenarios in scripts/, run on the machine alone.

The answers in the scripts are those of Apache Kafka 4.3.1 for the same lines.  If a script's head
says that Apache Kafka did not run it, they follow from its source and documents.

    limits NAME=VALUE ...   a machine with these limits
    append ERROR|ok         appends fail from now on, or succeed again
    hold, release           markers are held back, or written
    restart [N]             kills the machine and loads the log, or its first N records
    stand EPOCH             writes a record with this producer epoch, and loads it
    log, notes              prints the records appended since the last time, or the operator's log
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.conformance.txn_script import TransactionScript, TransactionTarget
from kwire.testing import BrokerProcess
from kwire.txn.limits import TransactionLimits
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import Transaction
from tests.coordinators.contract.simulation import START_MS
from tests.txn.apache import ApacheTransactions
from tests.txn.broker_target import SETTINGS, BrokerTarget
from tests.txn.simulation import FIRST_PRODUCER_ID, TransactionSimulation

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
TRANSACTIONAL_ID = "T"
FOR_BOTH = [path for path in SCRIPTS if "On the machine alone" not in path.read_text()]
NEEDS_LOADING = {"last_epochs"}
OF_THE_MACHINE = ("limits", "log", "notes")
"""Lines that Apache Kafka is not given, of scripts that it is given."""

CheckScript = Callable[[Path, Callable[[str], list[str]]], None]


class MachineScript:
    """The lines that only a machine understands, and the rest."""

    def __init__(self) -> None:
        self._start(TransactionLimits())

    def _start(self, limits: TransactionLimits) -> None:
        self.simulation = TransactionSimulation(limits)
        self.simulation.load()
        self.script = TransactionScript(self.simulation, TRANSACTIONAL_ID)
        self._shown = 0

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        simulation = self.simulation
        match command:
            case "limits":
                pairs = (word.split("=") for word in words)
                self._start(TransactionLimits(**{name: int(value) for name, value in pairs}))
            case "append":
                simulation.append_error = None if words == ["ok"] else ErrorCode[words[0]]
            case "hold":
                simulation.outbox.hold = True
            case "release":
                simulation.outbox.hold = False
                simulation.outbox.release()
            case "restart":
                simulation.restart(*map(int, words))
                self._shown = len(simulation.records)
            case "stand":
                now = simulation.machine.transactions[TRANSACTIONAL_ID]
                simulation.write(standing_at(now, TRANSACTIONAL_ID, int(words[0])))
                simulation.restart()
            case "log":
                records, self._shown = simulation.records[self._shown :], len(simulation.records)
                return [show(record) for record in records]
            case "notes":
                notes, simulation.notes = simulation.notes, []
                return notes
            case _:
                return self.script.run(line)
        return []


def standing_at(now: Transaction, transactional_id: str, epoch: int) -> TransactionRecord:
    return TransactionRecord(transactional_id, now._replace(producer_epoch=epoch))


def show(record: TransactionRecord) -> str:
    """A record in one line; times since the machine's start."""
    transaction = record.transaction
    if transaction is None:
        return f"{record.transactional_id} deleted"
    started = ""
    if transaction.start_timestamp_ms != -1:
        started = f" started={transaction.start_timestamp_ms - START_MS}"
    ids = "/".join(
        "-" if producer_id == -1 else str(producer_id - FIRST_PRODUCER_ID)
        for producer_id in (
            transaction.previous_producer_id,
            transaction.producer_id,
            transaction.next_producer_id,
        )
    )
    places = (f" {t}:{i}" for t, indexes in transaction.partitions.items() for i in sorted(indexes))
    return (
        f"{record.transactional_id} {transaction.state.label} ids={ids}"
        f" epoch={transaction.producer_epoch} version={transaction.client_transaction_version}"
        f" timeout={transaction.timeout_ms}{started}"
        f" updated={transaction.last_update_timestamp_ms - START_MS}{''.join(places)}"
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_machine_follows_the_transaction_script(path: Path, check_script: CheckScript) -> None:
    check_script(path, MachineScript().run)


@pytest.mark.long
@pytest.mark.parametrize("path", FOR_BOTH, ids=lambda path: path.stem)
def test_apache_kafka_follows_the_transaction_script(
    path: Path, apache_transactions: ApacheTransactions
) -> None:
    def stand(epoch: int) -> None:
        now = apache_transactions.target.logged(path.stem)[-1].transaction
        assert now is not None
        apache_transactions.load([standing_at(now, path.stem, epoch)])

    does_so(path, apache_transactions, stand)
    mine = timeless(apache_transactions.target.logged(path.stem))
    assert mine == timeless(records_of_machine(path))


@pytest.mark.slow
def test_broker_follows_the_transaction_script(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    """The whole of it: sockets, handlers, coordinator, markers and a real log."""
    broker = broker_factory(SETTINGS)
    target = BrokerTarget(broker.port, broker.data_dir)
    target.create("t", [1])
    for path in FOR_BOTH:
        if path.stem not in NEEDS_LOADING:
            does_so(path, target)
            assert timeless(target.logged(path.stem)) == timeless(records_of_machine(path))
    target.close()


def does_so(
    path: Path, target: TransactionTarget, stand: Callable[[int], None] | None = None
) -> None:
    """Whether a broker answers the lines of a script as written there."""
    script = TransactionScript(target, path.stem)
    expected: list[str] = []
    given: list[str] = []
    asked = False
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            expected += [line] * asked
        elif line and not line.startswith("#"):
            command, *words = line.split()
            asked = command not in OF_THE_MACHINE
            if command == "stand":
                assert stand is not None
                stand(int(words[0]))
            elif asked:
                expected.append(line)
                given += [line, *(f"  {answer}" for answer in script.run(line))]
    assert given == expected


def records_of_machine(path: Path) -> list[TransactionRecord]:
    script = MachineScript()
    for line in path.read_text().splitlines():
        if line and not line.startswith(("#", " ")):
            script.run(line)
    return script.simulation.records


def timeless(records: Iterable[TransactionRecord]) -> list[Transaction]:
    """As they are without what differs from run to run: times, and which producer ids."""
    stated = [record.transaction for record in records if record.transaction is not None]
    ids = sorted({each.producer_id for each in stated} | {each.next_producer_id for each in stated})
    return [
        each._replace(
            producer_id=ids.index(each.producer_id),
            previous_producer_id=ids.index(each.previous_producer_id),
            next_producer_id=ids.index(each.next_producer_id),
            last_producer_epoch=-1,
            last_update_timestamp_ms=0,
            start_timestamp_ms=min(each.start_timestamp_ms, 0),
        )
        for each in stated
    ]
