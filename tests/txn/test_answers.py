"""What each request is told in each state, at each version that differs: as Apache Kafka says.

`answers.txt` holds its answers, one line a case.  The machine is asked always; Apache Kafka is
asked again where Java is, and with `--rewrite` its answers are written down.
"""

from __future__ import annotations

from pathlib import Path

from kwire.conformance.txn_script import Target
from kwire.txn.simulation import START_MS, TransactionMachine
from tests.txn.apache import ApacheTransactions, now_ms
from tests.txn.cases import CASES, records

ANSWERS = Path(__file__).parent / "answers.txt"


def answers(target: Target, prefix: str) -> list[str]:
    return [
        f"{case} -> {case.answer(number, f'{prefix}{number}', target)}"
        for number, case in enumerate(CASES)
    ]


def told_instead(line: str) -> str:
    """What the machine says where Apache Kafka fails.

    A producer whose epoch is not the current one is fenced; Apache Kafka finds that out only as
    long as the epochs are not used up, and then has UNKNOWN_SERVER_ERROR for it.
    """
    fenced = "INVALID_PRODUCER_EPOCH" if " v=3 " in line else "PRODUCER_FENCED"
    return line.replace("UNKNOWN_SERVER_ERROR", fenced)


def test_the_machine_answers_as_apache_kafka() -> None:
    machine = TransactionMachine()
    for record in records("c", START_MS):
        machine.append(record)
    machine.load()
    expected = [told_instead(line) for line in ANSWERS.read_text().splitlines()]
    assert answers(machine, "c") == expected


def test_differences_are_few() -> None:
    different = [line for line in ANSWERS.read_text().splitlines() if told_instead(line) != line]
    assert len(different) == 12
    assert all("-last: init a v=" in line for line in different)


def test_apache_kafka_answers_so(apache_transactions: ApacheTransactions, rewrite: bool) -> None:
    apache_transactions.load(records("c", now_ms()))
    given = answers(apache_transactions, "c")
    if rewrite:
        ANSWERS.write_text("\n".join(given) + "\n")
    assert given == ANSWERS.read_text().splitlines()
