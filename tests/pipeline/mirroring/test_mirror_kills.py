"""SIGKILL of Spark, the source and the target during a mirror loses and repeats no record.

A round here; KWIRE_PIPELINE_ROUNDS=50 KWIRE_PIPELINE_RECORDS=5000000 for the long form.  What is
killed when follows from the run's seed (`--seed`).  Both sides are read by librdkafka, and compared
record by record; neither Spark nor the mirror has a say.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kwire.testing import BrokerProcess
from tests.pipeline.killing import RECORDS, ROUNDS, VICTIMS, Kills, Spark, feeding, moment
from tests.pipeline.mirroring import mirrors
from tests.pipeline.mirroring.mirrors import Record

TOPIC = "killed"
GROUPS = 20
PARTITIONS = 4
BATCHES = (5_000, 50_000, 500_000)
"""Records of a micro-batch: a run has few or many of them, and kills come in all of their parts."""

STARTING_S = 20.0
WORKING_S = 4.0
"""How long a job goes on at most, from its start or from its first records, before it is killed."""
SLOW_S = 200.0
"""A job that has written nothing after this time is killed as it starts: machines may be busy."""
AWAY_S = 3.0
WITH_BROKER = 0.7
"""How often a broker is killed too."""
TO_THE_END_S = 1200.0


class Trial:
    """Two clusters and the job between them, with the kills and checks of one trial."""

    def __init__(
        self, source: BrokerProcess, target: BrokerProcess, directory: Path, rng: random.Random
    ) -> None:
        self.source = source
        self.target = target
        self.log = directory / "job.log"
        self.rng = rng
        self.kills = Kills()

    def job(self, batch: int, *more: str) -> Spark:
        sides = ("-b", self.source.bootstrap, "--to", self.target.bootstrap)
        return Spark(["mirror", TOPIC, *sides, "--batch", str(batch), *more], self.log)

    def round(self) -> None:
        """Run the job and kill it; kill one of the brokers too, most times."""
        continuous = ("--continuous", "--every", "500ms", "--sync", "1s")
        more = continuous if self.rng.random() < 0.7 else ()
        before = ends(self.target)
        job = self.job(self.rng.choice(BATCHES), *more)
        try:
            if self.rng.random() < 0.8:
                begun = time.monotonic()
                job.wait_until(
                    lambda: ends(self.target) > before or time.monotonic() - begun > SLOW_S
                )
            else:
                moment(self.rng, STARTING_S)
            if self.rng.random() < WITH_BROKER:
                self.kill_broker()
            moment(self.rng, WORKING_S)
            self.kills.kill(job, self.rng.choice(VICTIMS))
        finally:
            self.kills.leave_behind(job)

    def kill_broker(self) -> None:
        name = self.rng.choice(["source", "target"])
        broker = self.source if name == "source" else self.target
        moment(self.rng, WORKING_S / 2)
        broker.kill()
        moment(self.rng, AWAY_S)
        broker.start()
        self.kills.count(name)

    def finish(self) -> None:
        """Run the job to its end."""
        self.kills.end_last()
        self.job(1_000_000).finish(TO_THE_END_S)

    def check(self) -> int:
        """Check that both sides are equal, record by record; the number of records."""
        total = 0
        for partition in range(PARTITIONS):
            source, target = (in_order(side, partition) for side in (self.source, self.target))
            for number, (sent, found) in enumerate(zip_longest(source, target)):
                assert sent == found, f"record {number} of partition {partition}"
                total += 1
        return total

    def commit_groups(self) -> dict[str, tuple[int, int]]:
        """Commit groups at random offsets of the source; the partition and offset of each."""
        groups = {}
        for number in range(GROUPS):
            group, partition = f"group-{number}", self.rng.randrange(PARTITIONS)
            offset = self.rng.randrange(RECORDS // PARTITIONS + 1)
            mirrors.commit(self.source.bootstrap, group, TOPIC, offset, partition)
            groups[group] = partition, offset
        return groups

    def check_groups(self, groups: dict[str, tuple[int, int]]) -> None:
        """Check that each group continues in the target with its next record."""
        for group, (partition, offset) in groups.items():
            there = mirrors.committed(self.target.bootstrap, group, TOPIC, partition)
            sent = next(in_order(self.source, partition, offset), None)
            assert next(in_order(self.target, partition, there), None) == sent, group


def in_order(side: BrokerProcess, partition: int, start: int = 0) -> Iterator[Record]:
    found = mirrors.messages(side.bootstrap, TOPIC, partition, start)
    return (mirrors.record_of(message) for message in found)


def ends(broker: BrokerProcess) -> int:
    """The sum of the end offsets; -1 if the topic does not exist."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 0})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 30.0)[1]
            for partition in range(PARTITIONS)
        )
    except KafkaException:
        return -1
    finally:
        consumer.close()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800 + 600 * ROUNDS + RECORDS // 1000)
def test_mirror_has_each_record_once_after_kills(tmp_path: Path, rng: random.Random) -> None:
    with (
        BrokerProcess(tmp_path / "source") as source,
        BrokerProcess(tmp_path / "target") as target,
    ):
        trial = Trial(source, target, tmp_path, rng)
        mirrors.create(source.bootstrap, TOPIC, PARTITIONS)
        try:
            for number in range(ROUNDS):
                with feeding(source.bootstrap, TOPIC, PARTITIONS, number):
                    trial.round()
                print(f"round {number + 1}: {ends(target)} offsets, {trial.kills}", flush=True)
            groups = trial.commit_groups()
            trial.finish()
            assert trial.check() == RECORDS
            trial.check_groups(groups)
        finally:
            trial.kills.end_last()
    print(f"{ROUNDS} rounds, killed: {trial.kills}")
