"""The answer to each request in each state and version, compared with Apache Kafka.

A whole broker is compared too, except in states in which a transaction is being ended: the broker
writes the markers at once.

`answers.txt` has Apache Kafka's answers, one line per case.  The machine always runs the cases.
Apache Kafka runs them again if Java is available, and `--rewrite` records its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kwire.codecs import batches
from kwire.conformance.txn_script import TransactionTarget
from kwire.testing import BrokerProcess
from kwire.txn.transaction import PREPARED
from tests.coordinators.contract.simulation import START_MS
from tests.txn.apache import ApacheTransactions, now_ms
from tests.txn.broker_target import SETTINGS, BrokerTarget
from tests.txn.cases import CASES, records
from tests.txn.simulation import TransactionSimulation

PREFIX = "c"
ANSWERS = Path(__file__).parent / "answers.txt"


def answers(target: TransactionTarget, asked: Sequence[int] = range(len(CASES))) -> list[str]:
    return [
        f"{CASES[number]} -> {CASES[number].answer(number, f'{PREFIX}{number}', target)}"
        for number in asked
    ]


def told_instead(line: str) -> str:
    """What the machine says where Apache Kafka fails.

    A producer whose epoch is not the current one is fenced; Apache Kafka finds that out only as
    long as the epochs are not used up, and then has UNKNOWN_SERVER_ERROR for it.
    """
    fenced = "INVALID_PRODUCER_EPOCH" if " v=3 " in line else "PRODUCER_FENCED"
    return line.replace("UNKNOWN_SERVER_ERROR", fenced)


def test_machine_answers_match_recorded_kafka_answers() -> None:
    simulation = TransactionSimulation()
    for record in records(PREFIX, START_MS):
        simulation.write(record)
    simulation.load()
    expected = [told_instead(line) for line in ANSWERS.read_text().splitlines()]
    assert answers(simulation) == expected


def test_answers_differ_from_apache_kafka_in_twelve_recorded_lines() -> None:
    different = [line for line in ANSWERS.read_text().splitlines() if told_instead(line) != line]
    assert len(different) == 12
    assert all("-last: init a v=" in line for line in different)


@pytest.mark.long
def test_recorded_answers_match_apache_kafka(
    apache_transactions: ApacheTransactions, rewrite: bool
) -> None:
    apache_transactions.load(records(PREFIX, now_ms()))
    given = answers(apache_transactions)
    if rewrite:
        ANSWERS.write_text("\n".join(given) + "\n")
    assert given == ANSWERS.read_text().splitlines()


@pytest.mark.slow
def test_broker_answers_match_the_recorded_ones(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = broker_factory(SETTINGS)
    target = BrokerTarget(broker.port, broker.data_dir)
    target.create("t", [1])
    target.close()
    broker.kill()
    add_to_log(broker.data_dir / "__transaction_state-0" / f"{0:020}.log")
    broker.start()
    target = BrokerTarget(broker.port, broker.data_dir)
    asked = [n for n, case in enumerate(CASES) if case.standing.state not in PREPARED]
    expected = ANSWERS.read_text().splitlines()
    assert answers(target, asked) == [told_instead(expected[number]) for number in asked]
    target.close()


def add_to_log(segment: Path) -> None:
    """As if the broker had written the cases' records before it was killed."""
    headers = [header for _, header in batches.iter_batches(segment.read_bytes())]
    stated = [record.encode() for record in records(PREFIX, now_ms())]
    batch = batches.build(
        [batches.Record(0, now_ms(), *record) for record in stated],
        base_offset=headers[-1].last_offset + 1,
        partition_leader_epoch=headers[-1].partition_leader_epoch,
    )
    with segment.open("ab") as file:
        file.write(batch)
