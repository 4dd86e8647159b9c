"""Produces the flights to a topic with confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.pipeline.demo.flights import encode

TIMEOUT_S = 60.0
QUEUE_WAIT_S = 0.05
REPORT_EVERY = 1_000  # rows between two updates of the progress bar


class ProduceError(RuntimeError):
    """Records were not acknowledged."""


def create_topics(bootstrap: str, partitions: dict[str, int]) -> None:
    """Create new topics, with the given numbers of partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, count, replication_factor=1) for name, count in partitions.items()]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)


def produce(
    bootstrap: str, topic: str, rows: Iterable[dict[str, str]], progress: Callable[[int], None]
) -> int:
    """Send every row with its carrier as key.  Returns the number of acknowledged records.

    Raises ProduceError unless all are acknowledged.
    """
    acknowledged = 0
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        """Counts an acknowledged record, or keeps its error."""
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    sent = 0
    for row in rows:
        key, value = encode(row)
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:  # librdkafka's queue is full: let it deliver
                producer.poll(QUEUE_WAIT_S)
        sent += 1
        if sent % REPORT_EVERY == 0:
            producer.poll(0)
            progress(sent)
    left = producer.flush(TIMEOUT_S)
    if failed or left:
        raise ProduceError(
            f"{left + len(failed)} of {sent} records were not acknowledged: {failed[:1]}"
        )
    return acknowledged
