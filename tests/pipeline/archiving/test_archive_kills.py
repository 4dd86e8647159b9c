"""kill -9 of Spark and of the broker while topics are archived: nothing is lost, nothing doubled.

A kill here; KWIRE_PIPELINE_ROUNDS=50 KWIRE_PIPELINE_RECORDS=5000000 for the long form.  What is
killed when follows from the run's seed (`--seed`).  The files are read by pyarrow, and compared
with what librdkafka reads from the topic; neither Spark nor kwire has a say.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from kwire.testing import BrokerProcess
from tests.pipeline.archiving.archives import create_topic
from tests.pipeline.killing import RECORDS, ROUNDS, VICTIMS, Kills, Spark, feeding, moment

TOPIC = "killed"
PARTITIONS = 8
BATCHES = (20_000, 200_000)
"""Records of a micro-batch: a run has few or many of them, and kills come in all of their parts."""
FILE_SIZE = "2MB"

STARTING_S = 15.0
WORKING_S = 4.0
"""How long a job goes on at most, from its start or from its first batch, before it is killed."""
AWAY_S = 2.0
TO_THE_END_S = 1200.0


class Trial:
    """An archive and its topic, with the kills and checks of one trial."""

    def __init__(self, broker: BrokerProcess, directory: Path, rng: random.Random) -> None:
        self.broker = broker
        self.directory = directory
        self.archive = directory / "archive"
        self.rng = rng
        self.kills = Kills()

    def job(self, batch: int, *more: str) -> Spark:
        arguments = ("archive", TOPIC, "--to", str(self.archive), "-b", self.broker.bootstrap)
        sizes = ("--batch", str(batch), "--file-size", FILE_SIZE)
        return Spark([*arguments, *sizes, *more], self.directory / "job.log")

    def batch(self) -> int:
        """The number of the last committed batch."""
        state = self.archive / "_kwire" / "state.json"
        return int(json.loads(state.read_text())["batch"]) if state.exists() else -1

    def round(self) -> None:
        """Run the job and kill it; kill the broker too, every other time."""
        continuous = ("--continuous", "--every", "500ms", "--publish-after", "2s")
        more = continuous if self.rng.random() < 0.7 else ()
        job = self.job(self.rng.choice(BATCHES), *more)
        try:
            before = self.batch()
            if self.rng.random() < 0.8:
                job.wait_until(lambda: self.batch() > before)
                if self.rng.random() < 0.5:
                    self.kill_broker()
                moment(self.rng, WORKING_S)
            else:
                moment(self.rng, STARTING_S)
            self.kills.kill(job, self.rng.choice(VICTIMS))
            self.check_what_readers_see()
        finally:
            self.kills.leave_behind(job)

    def kill_broker(self) -> None:
        moment(self.rng, WORKING_S / 2)
        self.broker.kill()
        moment(self.rng, AWAY_S)
        self.broker.start()
        self.kills.count("broker")

    def check_what_readers_see(self) -> int:
        """Check that each reader sees the first records of each partition once; their number."""
        files = sorted(self.archive.glob("topic=*/date=*/*.parquet"))
        tables = [pq.read_table(path, columns=["partition", "offset"]) for path in files]
        if not tables:
            return 0
        table = pa.concat_tables(tables)
        partitions, offsets = table["partition"].to_numpy(), table["offset"].to_numpy()
        for partition in np.unique(partitions):
            found = offsets[partitions == partition]
            in_order = np.array_equal(found, np.arange(len(found)))
            assert in_order, f"partition {partition}: {len(found)} records, not 0 to {len(found)}"
        return len(table)

    def finish(self) -> None:
        """Run the job to its end."""
        self.kills.end_last()
        self.job(1_000_000).finish(TO_THE_END_S)


def in_topic(bootstrap: str, partition: int) -> pa.Table:
    """All records of a partition, read by librdkafka."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        place = TopicPartition(TOPIC, partition, 0)
        end = consumer.get_watermark_offsets(place, 30)[1]
        consumer.assign([place])
        rows: list[tuple[int | None, int, bytes | None, bytes | None]] = []
        while len(rows) < end:
            for message in consumer.consume(10_000, 0.5):
                assert message.error() is None
                rows.append(
                    (message.offset(), message.timestamp()[1], message.key(), message.value())
                )
    finally:
        consumer.close()
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return pa.table(dict(zip(SHAPE.names, columns, strict=True)), schema=SHAPE)


SHAPE = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def in_archive(directory: Path, partition: int) -> pa.Table:
    """All archived records of a partition, read by pyarrow, sorted by offset."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds  # and with it pandas, which takes half a second

    files = [str(path) for path in directory.glob("topic=*/date=*/*.parquet")]
    found = ds.dataset(files).to_table(
        columns=SHAPE.names, filter=pc.field("partition") == partition
    )
    place = found.schema.get_field_index("timestamp")
    found = found.set_column(place, "timestamp", found["timestamp"].cast(pa.int64()))
    return found.sort_by("offset").cast(SHAPE)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_kills_leave_each_record_in_the_archive_once(
    broker: BrokerProcess, tmp_path: Path, rng: random.Random
) -> None:
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    trial = Trial(broker, tmp_path, rng)
    for number in range(ROUNDS):
        with feeding(broker.bootstrap, TOPIC, PARTITIONS, number):
            trial.round()
        seen = trial.check_what_readers_see()
        print(f"round {number + 1}: batch {trial.batch()}, {seen} records seen, {trial.kills}")
    trial.finish()
    assert trial.check_what_readers_see() == RECORDS
    for partition in range(PARTITIONS):
        expected, found = (
            in_topic(broker.bootstrap, partition),
            in_archive(trial.archive, partition),
        )
        assert expected.num_rows == found.num_rows
        assert expected.equals(found), f"partition {partition} differs"
    files = list(trial.archive.glob("topic=*/date=*/*.parquet"))
    litter = list((trial.archive / "_kwire" / "pieces").iterdir())
    print(
        f"{RECORDS} records in {len(files)} files; {trial.kills}; {len(litter)} hidden files left"
    )
    assert litter == []
