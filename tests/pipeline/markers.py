"""Waiting for the markers with which transactions end."""

from __future__ import annotations

import time

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

PATIENCE_S = 180.0


def wait_for_markers(bootstrap: str, place: TopicPartition) -> None:
    """Apache Kafka writes the markers of a transaction after it has answered EndTxn."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    deadline = time.monotonic() + PATIENCE_S

    def end(isolation: IsolationLevel) -> int:
        requested = {place: OffsetSpec.latest()}
        while True:
            [future] = admin.list_offsets(requested, isolation_level=isolation).values()
            try:
                return int(future.result(PATIENCE_S).offset)
            except KafkaException as error:  # who made the topic is not yet heard by its leader
                if time.monotonic() > deadline or not error.args[0].retriable():
                    raise

    while end(IsolationLevel.READ_COMMITTED) < end(IsolationLevel.READ_UNCOMMITTED):
        assert time.monotonic() < deadline, f"a transaction of {place} is still open"
