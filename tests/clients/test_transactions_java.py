"""Tests Apache Kafka's tools for transactions: a transactional producer, and an admin command."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from subprocess import CompletedProcess

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.client.connection import BrokerConnection
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.testing import BrokerProcess
from tests.clients.waiting import eventually

TOOLS = "org.apache.kafka.tools"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
TIMEOUT_S = 120.0

Tool = Callable[..., str]
JavaClass = Callable[..., CompletedProcess[str]]
BrokerFactory = Callable[..., BrokerProcess]


def tool_on(bootstrap: str, java_class: JavaClass) -> Tool:
    """Runs a tool on the broker and returns its output; it must succeed without warnings."""

    def run(name: str, *arguments: object) -> str:
        given = ["--bootstrap-server", bootstrap, *map(str, arguments)]
        done = java_class(name, given)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " ERROR " not in done.stderr, done.stderr
        return done.stdout

    return run


@pytest.fixture
def tool(bootstrap: str, java_class: JavaClass) -> Tool:
    return tool_on(bootstrap, java_class)


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table that the command prints with tabs between columns."""
    head, *others = [line for line in text.splitlines() if line.strip()]
    names = [name.strip() for name in head.split("\t")]
    return [
        dict(zip(names, [cell.strip() for cell in line.split("\t")], strict=True))
        for line in others
    ]


def open_transaction(bootstrap: str, topic: str) -> Producer:
    """An open transaction with 4 records in each of 2 partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    long = {"transaction.timeout.ms": 600_000}  # which several tools together may not take
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, **long})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(8):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


@pytest.mark.long
def test_performance_tool_produces_in_transactions(tool: Tool, unique: str) -> None:
    sending = ["--record-size", 100, "--throughput", -1, "--num-records", 20_000]
    transactions = ["--transactional-id", unique, "--transaction-duration-ms", 50]
    sent = tool(f"{TOOLS}.ProducerPerformance", "--topic", unique, *sending, *transactions)
    assert "20000 records sent" in sent
    committed = ["--isolation-level", "read_committed", "--from-beginning"]
    count = ["--max-messages", 20_000, "--timeout-ms", 10_000]
    shown = tool(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", unique, *committed, *count)
    assert len(shown.splitlines()) == 20_000
    (row,) = rows(tool(TRANSACTIONS, "describe", "--transactional-id", unique))
    assert row["TransactionState"] == "CompleteCommit"


@pytest.mark.parametrize(
    "mode",
    [pytest.param([], marks=pytest.mark.long), ["--group-mode", "--use-group-metadata"]],
)
def test_copier_with_random_aborts_copies_everything_once(
    bootstrap: str, java_class: JavaClass, unique: str, mode: list[str]
) -> None:
    """Apache Kafka's copier consumes, and produces with the offsets in its transactions."""
    source, target, count = f"{unique}-in", f"{unique}-out", 1_000
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(t, 1, 1) for t in (source, target)]).values():
        created.result(TIMEOUT_S)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        plain.produce(source, str(number).encode(), key=str(number).encode())
    assert plain.flush(TIMEOUT_S) == 0
    copying = ["--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0"]
    copying += ["--output-topic", target, "--transactional-id", unique, "--consumer-group", unique]
    copying += ["--transaction-size", "50", "--enable-random-aborts", *mode]
    done = java_class(f"{TOOLS}.TransactionalMessageCopier", copying)
    assert done.returncode == 0, done.stdout + done.stderr
    eventually(lambda: values(bootstrap, target, unique), [str(n) for n in range(count)])
    offset = Consumer({"bootstrap.servers": bootstrap, "group.id": unique})
    (committed,) = offset.committed([TopicPartition(source, 0)], TIMEOUT_S)
    offset.close()
    assert committed.offset == count


def values(bootstrap: str, topic: str, group: str) -> list[str]:
    """The values that a reader of committed records gets from the only partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def test_transactions_are_listed_described_and_searched(
    bootstrap: str, tool: Tool, unique: str
) -> None:
    producer = open_transaction(bootstrap, unique)
    (described,) = rows(tool(TRANSACTIONS, "describe", "--transactional-id", unique))
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == "600000"
    partitions = re.findall(r"[\w.-]+", described["TopicPartitions"])
    assert sorted(partitions) == [f"{unique}-0", f"{unique}-1"]
    listed = {row["TransactionalId"]: row for row in rows(tool(TRANSACTIONS, "list"))}
    assert listed[unique]["TransactionState"] == "Ongoing"
    assert listed[unique]["ProducerId"] == described["ProducerId"]
    arguments = ["--topic", unique, "--partition", 1]
    (writer,) = rows(tool(TRANSACTIONS, "describe-producers", *arguments))
    assert writer["ProducerId"] == described["ProducerId"]
    assert writer["ProducerEpoch"] == described["ProducerEpoch"]
    assert writer["CurrentTransactionStartOffset"] == "0"
    # An open transaction that its coordinator knows does not hang.
    assert rows(tool(TRANSACTIONS, "find-hanging", "--topic", unique)) == []
    producer.commit_transaction(TIMEOUT_S)

    def state() -> str:
        return rows(tool(TRANSACTIONS, "describe", "--transactional-id", unique))[0][
            "TransactionState"
        ]

    eventually(state, "CompleteCommit")
    (writer,) = rows(tool(TRANSACTIONS, "describe-producers", *arguments))
    assert writer["CurrentTransactionStartOffset"] == "None"


def test_admin_aborts_a_transaction_in_one_partition(
    bootstrap: str, tool: Tool, unique: str
) -> None:
    """`abort` sends WriteTxnMarkers from an admin client, as for a hanging transaction."""
    producer = open_transaction(bootstrap, unique)
    arguments = ["--topic", unique, "--partition", 0]
    tool(TRANSACTIONS, "abort", *arguments, "--start-offset", 0)
    (writer,) = rows(tool(TRANSACTIONS, "describe-producers", *arguments))
    assert writer["CurrentTransactionStartOffset"] == "None"
    producer.abort_transaction(TIMEOUT_S)


def test_admin_terminates_a_whole_transaction(bootstrap: str, tool: Tool, unique: str) -> None:
    open_transaction(bootstrap, unique)
    tool(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", unique)

    def open_offsets() -> list[str]:
        tables = [
            rows(tool(TRANSACTIONS, "describe-producers", "--topic", unique, "--partition", index))
            for index in (0, 1)
        ]
        return [row["CurrentTransactionStartOffset"] for table in tables for row in table]

    eventually(open_offsets, ["None", "None"])


def leave_hanging(broker: BrokerProcess, topic: str) -> None:
    """Write a batch, half an hour old, of a transaction that no coordinator knows."""
    half_an_hour_ago_ms = time.time_ns() // 1_000_000 - 30 * 60_000
    record = Record(0, half_an_hour_ago_ms, None, b"value")
    batch = build([record], producer_id=1234, producer_epoch=5, base_sequence=0, transactional=True)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest("nobody", -1, 5_000, data)
    with closing(
        BrokerConnection("127.0.0.1", broker.port, client_id="hang", timeout_s=TIMEOUT_S)
    ) as connection:
        (answered,) = connection.call(request, version_max=9).responses
    assert answered.partition_responses[0].error_code == ErrorCode.NONE


def test_hanging_transaction_is_found_and_aborted(
    broker_factory: BrokerFactory, java_class: JavaClass, unique: str
) -> None:
    """Without verification (KIP-890), a late batch may begin a transaction that never ends."""
    broker = broker_factory({"transaction.partition.verification.enable": "false"})
    tool = tool_on(broker.bootstrap, java_class)
    open_transaction(broker.bootstrap, f"{unique}-sound")  # makes the topic of transactions, too
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(unique, 1, 1)])[unique].result(TIMEOUT_S)
    leave_hanging(broker, unique)
    search = [TRANSACTIONS, "find-hanging", "--broker-id", 1]
    (hanging,) = rows(tool(*search))
    assert (hanging["Topic"], hanging["Partition"]) == (unique, "0")
    assert (hanging["ProducerId"], hanging["ProducerEpoch"]) == ("1234", "5")
    assert hanging["StartOffset"] == "0"
    tool(TRANSACTIONS, "abort", "--topic", unique, "--partition", 0, "--start-offset", 0)
    assert rows(tool(*search)) == []
