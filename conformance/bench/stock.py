"""Measures stock clients with default settings; the figures include the clients' own cost."""

from __future__ import annotations

import csv
import re
import subprocess
import time
from abc import ABC, abstractmethod

from confluent_kafka import Consumer, KafkaError, Message, Producer

from kwire.conformance import apache_kafka
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.rows import Figure, Figures

VALUE_BYTES = 100
CONFLUENT_RECORDS = 500_000
JAVA_RECORDS = 1_000_000
QUEUE_WAIT_S = 0.01
STALL_S = 30.0  # a client that gets no record for so long has stopped
JAVA_TIMEOUT_S = 300.0
JAVA_HEAP = ("-Xmx512m",)

RATES = (Figure("produced", "records/s"), Figure("consumed", "records/s"))


class Stock(ABC):
    """One family of clients, which produces records in a turn and then consumes them."""

    key: str
    title: str

    @abstractmethod
    def measure(self, broker: BenchBroker, topic: str) -> Figures:
        """Return the records per second, produced and consumed."""


class Confluent(Stock):
    """confluent-kafka (librdkafka) with one producer and one consumer."""

    key = "confluent"
    title = f"confluent-kafka, {CONFLUENT_RECORDS:,} records of {VALUE_BYTES} B"

    def measure(self, broker: BenchBroker, topic: str) -> Figures:
        produced = self._produce(broker.bootstrap, topic)
        return {"produced": produced, "consumed": self._consume(broker.bootstrap, topic)}

    def _produce(self, bootstrap: str, topic: str) -> float:
        """Return the records per second that a producer with default settings gets acknowledged.

        The time ends when the queue is empty. Raise RequestFailed if a record was not acknowledged.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({"bootstrap.servers": bootstrap})
        value = bytes(VALUE_BYTES)
        start = time.monotonic()
        for _ in range(CONFLUENT_RECORDS):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(QUEUE_WAIT_S)
        left = producer.flush(STALL_S)
        seconds = time.monotonic() - start
        if failed or left:
            raise RequestFailed(f"confluent-kafka: {left} records not sent, {failed[:1]}")
        return CONFLUENT_RECORDS / seconds

    def _consume(self, bootstrap: str, topic: str) -> float:
        """Return the rate after the first records, since joining a group waits for other
        members."""
        settings = {"bootstrap.servers": bootstrap, "group.id": topic}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        first = len(consumer.consume(1, STALL_S))
        start = time.monotonic()
        count = first
        while count < CONFLUENT_RECORDS:
            messages = consumer.consume(10_000, 1.0)
            count += len(messages)
            if not messages and time.monotonic() - start > STALL_S:
                raise RequestFailed(f"confluent-kafka: only {count} records arrived")
        seconds = time.monotonic() - start
        consumer.close()
        return (CONFLUENT_RECORDS - first) / seconds


class JavaPerformance(Stock):
    """Apache Kafka's own ProducerPerformance and ConsumerPerformance."""

    key = "java"
    title = f"Java performance tools, {JAVA_RECORDS:,} records of {VALUE_BYTES} B"

    def measure(self, broker: BenchBroker, topic: str) -> Figures:
        """Return the rates that Apache Kafka's performance tools print, in records per second.

        Raise RequestFailed if a tool did not finish all records.
        """
        common = ["--topic", topic, "--num-records", str(JAVA_RECORDS)]
        common += ["--bootstrap-server", broker.bootstrap]
        sizes = ["--record-size", str(VALUE_BYTES), "--throughput", "-1"]
        sent = self._run("ProducerPerformance", [*common, *sizes])
        rates = re.findall(rf"^{JAVA_RECORDS} records sent, ([\d.]+) records/sec", sent, re.M)
        if not rates:
            raise RequestFailed(f"ProducerPerformance printed:\n{sent[-1000:]}")
        read = self._run("ConsumerPerformance", common)
        table = list(csv.DictReader(read.splitlines(), skipinitialspace=True))
        if not table or int(table[-1]["data.consumed.in.nMsg"]) < JAVA_RECORDS:
            raise RequestFailed(f"ConsumerPerformance printed:\n{read[-1000:]}")
        return {"produced": float(rates[-1]), "consumed": float(table[-1]["fetch.nMsg.sec"])}

    def _run(self, tool: str, arguments: list[str]) -> str:
        """Return the output of a performance tool; raise RequestFailed if it fails."""
        command = apache_kafka.command(f"org.apache.kafka.tools.{tool}", arguments, jvm=JAVA_HEAP)
        done = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S)
        if done.returncode:
            raise RequestFailed(f"{tool} failed:\n{(done.stdout + done.stderr)[-2000:]}")
        return done.stdout


STOCK: tuple[Stock, ...] = (Confluent(), JavaPerformance())
