"""kill -9 of Spark and of the broker while an archive is replayed: nothing is lost or doubled.

A kill here, of a replay at a slow pace; KWIRE_PIPELINE_ROUNDS for more.  The last run goes to the
end as fast as it can.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kwire.testing import BrokerProcess
from tests.pipeline.archiving.archives import TIMEOUT_S, Row, create_topic, produce, topic_rows
from tests.pipeline.killing import ROUNDS, VICTIMS, Kills, Spark, moment

TOPIC, TARGET = "kept", "back"
PARTITIONS = 4
RECORDS_A_ROUND = 20_000
ROUND_MS = 20_000
"""Of the records' time that a round has."""
SPEED = "0.2x"
"""A round would take 100 s: it is killed before it is through, also where a machine is so busy that
its tasks begin when half of the records are due."""
NOON_MS = 1_772_366_400_000
WORKING_S = 4.0
TO_THE_END_S = 600.0


def rows() -> Iterator[dict[str, Any]]:
    for number in range(RECORDS_A_ROUND * ROUNDS):
        yield {
            "key": b"%d" % (number % 10),
            "value": b"%d:" % number + b"x" * 80,
            "headers": [("number", b"%d" % number)] if number % 7 == 0 else None,
            "partition": number % PARTITIONS,
            "timestamp": NOON_MS + number * ROUND_MS // RECORDS_A_ROUND,
        }


def written(bootstrap: str) -> int:
    """The end offsets of the target's partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "log_level": 0})
    try:
        places = [TopicPartition(TARGET, partition) for partition in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(place, TIMEOUT_S)[1] for place in places)
    finally:
        consumer.close()


def archive(bootstrap: str, directory: Path, log: Path) -> None:
    Spark(["archive", TOPIC, "--to", str(directory), "-b", bootstrap], log).finish(TO_THE_END_S)


def replay(bootstrap: str, directory: Path, log: Path, *more: str) -> Spark:
    names = ("replay", TOPIC, "--from", str(directory), "--rename", f"{TOPIC}={TARGET}")
    return Spark([*names, "-b", bootstrap, *more], log)


def kill_amid(job: Spark, broker: BrokerProcess, rng: random.Random) -> str:
    """Kill the job once it has written records, and the broker before it every other time."""
    before = written(broker.bootstrap)
    job.wait_until(lambda: written(broker.bootstrap) > before)
    victims = rng.choice(VICTIMS)
    if rng.random() < 0.5:
        moment(rng, WORKING_S / 2)
        broker.kill()
        broker.start()
        victims += " and the broker"
    moment(rng, WORKING_S)
    assert job.running, "the job ended before it was killed"
    job.kill(victims.split()[0])
    return victims


def bare(found: list[Row]) -> list[tuple[object, ...]]:
    return [(row.partition, row.timestamp_ms, row.key, row.value, row.headers) for row in found]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_kills_leave_each_record_in_the_target_once(
    broker: BrokerProcess, tmp_path: Path, rng: random.Random
) -> None:
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    create_topic(broker.bootstrap, TARGET, PARTITIONS)
    produce(broker.bootstrap, TOPIC, rows())
    log, directory = tmp_path / "job.log", tmp_path / "archive"
    archive(broker.bootstrap, directory, log)
    kills = Kills()
    for number in range(ROUNDS):
        job = replay(broker.bootstrap, directory, log, "--speed", SPEED)
        try:
            killed = kill_amid(job, broker, rng)
            there = len(topic_rows(broker.bootstrap, TARGET))
            print(f"round {number + 1}: {killed} killed, {there} records committed")
        finally:
            kills.leave_behind(job)
    try:
        replay(broker.bootstrap, directory, log).finish(TO_THE_END_S)
    finally:
        kills.end_last()
    expected, found = topic_rows(broker.bootstrap, TOPIC), topic_rows(broker.bootstrap, TARGET)
    assert len(found) == len(expected) == RECORDS_A_ROUND * ROUNDS
    assert bare(found) == bare(expected)
