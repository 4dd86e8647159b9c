"""Tests what the history has of a producer's records."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import confluent_kafka

from kwire.conformance.chaos.checks.logs import acknowledged_records_are_there
from kwire.conformance.chaos.history import Recorder, Type
from kwire.conformance.chaos.workloads.producers import note_answer
from kwire.testing import Kafka

TIMEOUT_S = 40.0


def test_duplicate_record_acknowledged_without_offset_is_no_violation(tmp_path: Path) -> None:
    """It is acknowledged without an offset, and the check finds it anywhere in the log."""
    recorder = Recorder(tmp_path / "history.jsonl")
    begun = recorder.invoke("p", "produce", partition="t-0", number=0, idempotent=True)
    with Kafka() as kafka:
        kafka.create_topic("t")
        settings = {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True}
        producer = confluent_kafka.Producer(settings)
        with kafka.faults.add(api="Produce", error="DUPLICATE_SEQUENCE_NUMBER", carried_out=True):
            noted = partial(note_answer, recorder, begun)
            producer.produce("t", b"p:0:", partition=0, on_delivery=noted)
            assert producer.flush(TIMEOUT_S) == 0
    read = recorder.invoke("judge", "read_log", partition="t-0")
    recorder.end(read, Type.OK, records=[[0, "p", 0]])
    history = recorder.close()
    (produce,) = history.operations("produce")
    assert produce.result["offset"] == -1
    assert list(acknowledged_records_are_there(history)) == []
