"""Writes records to topics exactly once, even if Spark runs a task again; for replay and mirror.

Spark's own sink has no transactions: a batch that it writes again after a failure is duplicated.
Here a task writes each partition with its own transactional producer, and each transaction also
commits the position in the source:

- The transactional id consists of the job's name and the target partition.  A task begins with
  InitProducerId, which fences the partition's previous writer: a task that Spark gave up but that
  still runs cannot commit any more.
- The position is the source offset of the next record to write.  It is committed as the target
  partition's offset of the group `kwire-JOB-NAME`, in the same transaction as the records before
  it; the offset's metadata names the source.  A new task reads the committed position (KIP-447:
  without open transactions) and skips the records before it.
- So a batch that runs again writes no record twice, and an interrupted batch continues.

With `map_topic`, each transaction also writes one record to a compacted topic: which offsets of the
source became which offsets of the target (kwire.pipeline.positions).

Spark's executors need confluent-kafka and pyarrow, but not kwire: the modules in SHIPPED are sent
to them by value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from kwire.pipeline.positions import MapRecord, Position, position_of
from kwire.pipeline.rows import Columns, Reports, Size, by_partition, slices
from kwire.pipeline.transactional import TransactionalClient

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka import KafkaError, TopicPartition

SHIPPED = tuple(
    f"kwire.pipeline.{name}" for name in ("exactly_once", "positions", "rows", "transactional")
)
BACKOFF_S = 0.2
RELEASE_S = 5.0
BATCH_SIZE_BYTES = 1_000_000
"""Size of a batch, below every broker's default of max.message.bytes.  If a topic allows less, the
first refusal shows it, and the next producer makes smaller batches."""
BATCH_SHARE = 0.9
"""Size of those smaller batches relative to the topic's max.message.bytes: the rest is for the
batch header and for records that do not compress."""

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
NEVER = (
    "TOPIC_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
    "INVALID_RECORD",
    "POLICY_VIOLATION",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
)
"""Errors of a record that a retry does not solve."""
OF_ONE_RECORD = ("INVALID_TIMESTAMP", "INVALID_RECORD")
"""The ones of `NEVER` that one record causes for its whole batch.  librdkafka does not say which
record it is."""


class WriteError(RuntimeError):
    """Records cannot be written; the message says why."""


class TaskFenced(WriteError):
    """Another task writes the partition now and has fenced this one."""


class RecordTooLarge(WriteError):
    """A record is larger than the target topic's max.message.bytes."""


class OtherSource(WriteError):
    """The target's committed position belongs to another source than the one of this job."""


@dataclass(frozen=True)
class Bounds:
    """Limits of one transaction, and how long a target may be unavailable.

    records        Maximum number of records.
    size_bytes     Maximum size; a task needs about three times as much memory.
    duration_s     Maximum time from a transaction's first row to its commit.
    timeout_s      transaction.timeout.ms of the producer: how long the coordinator waits.
    patience_s     How long a transaction is retried before the task fails.
    """

    records: int = 100_000
    size_bytes: int = 32 << 20
    duration_s: float = 10.0
    timeout_s: float = 60.0
    patience_s: float = 300.0


@dataclass(frozen=True)
class PartitionResult:
    """The result of writing the rows of one partition.

    topic, partition     The target partition.
    records              Number of records written.
    skipped              Number of records left out because an earlier task wrote them.
    size_bytes           Size of the written records in Arrow's format.
    transactions         Number of committed transactions.
    position             Source offset of the next record to write.
    first, last          Target offsets of the first and last record; -1 if none was written.
    """

    topic: str
    partition: int
    records: int = 0
    skipped: int = 0
    size_bytes: int = 0
    transactions: int = 0
    position: int = 0
    first: int = -1
    last: int = -1


WRITTEN_DDL = (
    "topic string, partition int, records long, skipped long, size_bytes long, transactions long, "
    "position long, first long, last long"
)
"""Spark schema of `PartitionResult`."""


@dataclass(frozen=True)
class WritePlan:
    """Sources and targets of one Spark batch.

    targets   Target topic by source topic; a missing one has the same name.
    ids       Topic id by target topic: no position is valid for a topic that was created again.
    origins   Identity of each source topic, for example cluster id and topic id.
    via       The clusters that the records of each source topic came through.
    known     Position by (target topic, partition), used if the group's offset has expired.
    batch     Number of Spark's batch, stored with the group's offsets for information.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    via: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: Mapping[tuple[str, int], int] = field(default_factory=dict)
    batch: int = -1

    def position(self, topic: str) -> Position:
        """The metadata for positions in a source topic."""
        target = self.targets.get(topic, topic)
        return Position(
            self.origins.get(topic, topic),
            self.ids.get(target, ""),
            self.via.get(topic, ()),
            self.batch,
        )


@dataclass(frozen=True)
class ExactlyOnceWriter:
    """Writes rows exactly once.  It is plain data, which Spark sends to its executors.

    client       Settings of the target cluster by librdkafka's names.
    name         Name of the job, `mirror-NAME`; two jobs of one name fence each other.
    compression  compression.type of the producer.
    map_topic    The compacted topic for the map of offsets; None for no map.
    """

    client: Mapping[str, str]
    name: str
    compression: str = "lz4"
    map_topic: str | None = None
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def group(self) -> str:
        """The group whose committed offsets are the positions."""
        return f"kwire-{self.name}"

    def write(
        self, batches: Iterable[pyarrow.RecordBatch], plan: WritePlan
    ) -> Iterator[PartitionResult]:
        """Write rows (see `rows.COLUMNS`) to the partitions that they name, in their order.

        The rows of a partition must come in the order of their offsets; duplicates, and rows that
        were written before, are skipped.  A partition's producer is closed when rows of another
        partition come, so rows should be grouped by partition.
        Raises WriteError; committed transactions stay, and the next task skips their records.
        """
        now: PartitionWriter | None = None
        try:
            for topic, partition, rows in by_partition(batches):
                target = plan.targets.get(topic, topic)
                if now is None or (target, partition) != (now.topic, now.partition):
                    if now is not None:
                        yield now.finish()
                    known = plan.known.get((target, partition), 0)
                    now = PartitionWriter(self, target, partition, plan.position(topic), known)
                now.add(rows)
            if now is not None:
                yield now.finish()
        finally:
            if now is not None:
                now.close()

    def release(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Abort the open transactions that stopped tasks left in these target partitions.

        Otherwise read_committed consumers wait until the transactions time out.
        """
        from confluent_kafka import KafkaException

        for topic, partition in partitions:
            client = TransactionalClient(
                self.client,
                group=self.group,
                topic=topic,
                partition=partition,
                patience_s=RELEASE_S,
            )
            try:
                client.open({})
            except KafkaException:
                return  # the target is unavailable: its coordinator aborts after the timeout
            finally:
                client.close()

    def task(
        self, plan: WritePlan
    ) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
        """`write` as a function for DataFrame.mapInArrow, whose result has schema WRITTEN_DDL."""
        _ship_by_value()

        def run(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            """Writes the rows of one Spark task, and yields one row for each partition that it
            wrote."""
            import pyarrow

            for written in self.write(batches, plan):
                columns = {
                    name: pyarrow.array([value], pyarrow.int32() if name == "partition" else None)
                    for name, value in vars(written).items()
                }
                yield pyarrow.RecordBatch.from_pydict(columns)

        return run


def _ship_by_value() -> None:
    """Pickle the modules in SHIPPED by value: executors need not have kwire installed."""
    cloudpickle = import_module("pyspark.cloudpickle")
    for name in SHIPPED:
        cloudpickle.register_pickle_by_value(import_module(name))


class _Repeat(Exception):
    """The transaction must be aborted and started again."""


class PartitionWriter:
    """Writes the rows of one source partition to one target partition."""

    def __init__(
        self, writer: ExactlyOnceWriter, topic: str, partition: int, position: Position, known: int
    ) -> None:
        """`position` names the source of the rows.  `known` is the offset before which all rows are
        known to be written.  The producer is opened by the first `add`."""
        self.writer = writer
        self.topic = topic
        self.partition = partition
        self._position = position
        self._known = known
        self._limit = Size(writer.bounds.records, writer.bounds.size_bytes)
        self._written = PartitionResult(topic, partition)
        self._rows: list[pyarrow.RecordBatch] = []  # rows of the next transaction
        self._size = Size()
        self._since = 0.0
        self._alone = True  # no other producer has written between this one's records
        self._batch_size_bytes = BATCH_SIZE_BYTES
        self._batch_records = writer.bounds.records
        self._client = TransactionalClient(
            writer.client,
            group=writer.group,
            topic=topic,
            partition=partition,
            patience_s=writer.bounds.patience_s,
        )

    def add(self, rows: pyarrow.RecordBatch) -> None:
        """Add rows; writes a transaction whenever they reach a limit."""
        if not self._client.is_open:
            self._open()
        for part in slices(self._new(rows), self._limit):
            if self._rows and self._size.plus(part).exceeds(self._limit):
                self._write()
            if not self._rows:
                self._since = time.monotonic()
            self._hold(part)
        if self._rows and time.monotonic() - self._since >= self.writer.bounds.duration_s:
            self._write()

    def flush(self) -> None:
        """Write the added rows now, in one transaction."""
        self._write()

    def finish(self) -> PartitionResult:
        """Write the remaining rows and close the producer; returns the result."""
        self._write()
        self.close()
        return self._written

    def close(self) -> None:
        """Drop the producer; the next one aborts its open transaction.

        A producer that is still referenced keeps connecting to its cluster until the process ends:
        confluent-kafka 2.x may keep an exception for ever, and with it the frames' variables.
        """
        self._client.close()

    def _hold(self, rows: pyarrow.RecordBatch) -> None:
        self._rows.append(rows)
        self._size = self._size.plus(rows)

    def _new(self, rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The rows that are neither in the target nor added already."""
        import numpy

        offsets = rows.column("offset").to_numpy(zero_copy_only=False)
        held = self._rows[-1].column("offset")[-1].as_py() + 1 if self._rows else 0
        seen = int(numpy.searchsorted(offsets, max(self._written.position, held)))
        self._written = replace(self._written, skipped=self._written.skipped + seen)
        return rows.slice(seen)

    def _open(self) -> None:
        """Fence the partition's last writer, then drop the rows that it wrote."""
        from confluent_kafka import KafkaException

        bounds = self.writer.bounds
        settings: dict[str, str | int] = {
            "transaction.timeout.ms": int(bounds.timeout_s * 1000),
            "compression.type": self.writer.compression,
            "batch.size": self._batch_size_bytes,
            "batch.num.messages": self._batch_records,
        }
        try:
            committed = self._client.open(settings)
        except KafkaException as failed:
            raise self._failure(failed.args[0]) from failed
        position = max(self._known, self._agreed(committed))
        self._written = replace(self._written, position=position)
        held, self._rows, self._size = self._rows, [], Size()
        for rows in held:  # a transaction whose commit failed may have been committed
            if (new := self._new(rows)).num_rows:
                self._hold(new)

    def _agreed(self, committed: TopicPartition) -> int:
        """The committed position in this source; 0 if there is none.

        Raises OtherSource if the position belongs to another source.
        """
        if committed.offset < 0:
            return 0
        known, now = position_of(committed.metadata), self._position
        if known.target != now.target:
            return 0
        if known.origin != now.origin:
            raise OtherSource(
                f"{self._client.where} was written from another source ({known.origin}, now "
                f"{now.origin}): give the job another name, or delete the group "
                f"{self.writer.group}"
            )
        return int(committed.offset)

    def _write(self) -> None:
        """Write the added rows in one transaction; starts it again after retriable errors."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.writer.bounds.patience_s
        every = not self._alone
        while self._rows:
            begun = time.monotonic()
            try:
                self._count(self._transaction(Reports(every)))
            except _Repeat as again:
                if time.monotonic() > deadline:
                    raise WriteError(f"{self._client.where} cannot be written: {again}") from again
                self._begin_again(time.monotonic() - begun)
            except KafkaException as failed:
                raise self._failure(failed.args[0]) from failed
            every = True  # ask for a report on each row, to know which row is refused

    def _count(self, reports: Reports) -> None:
        """Add a committed transaction to the result."""
        done = self._written
        self._written = replace(
            done,
            records=done.records + self._size.records,
            size_bytes=done.size_bytes + self._size.size_bytes,
            transactions=done.transactions + 1,
            position=reports.sources[-1] + 1,
            first=reports.first if done.first < 0 else done.first,
            last=reports.last,
        )
        self._rows, self._size = [], Size()

    def _begin_again(self, duration_s: float) -> None:
        """Abort, and continue with a new producer: one whose batches were refused may stay stuck.

        The coordinator aborts a transaction after its timeout and fences the producer.  A producer
        that is fenced before the timeout was fenced by another task.
        """
        fatal = self._client.abort()
        if fatal is not None and duration_s < self.writer.bounds.timeout_s:
            raise self._failure(fatal)
        time.sleep(BACKOFF_S)
        self._open()

    def _transaction(self, reports: Reports) -> Reports:
        """Write the added rows in one attempt.  Raises _Repeat if it must be started again."""
        from confluent_kafka import KafkaError, KafkaException

        client = self._client
        try:
            client.producer.begin_transaction()
            for number, rows in enumerate(self._rows, 1):
                columns = self._columns(rows)
                ends = {"first": number == 1, "last": number == len(self._rows)}
                client.produce(columns, reports.watched(columns.offsets, **ends))
            client.flush(reports.sources[-1] + 1, self._position.metadata())
            if reports.refused:
                self._see_refused(reports)
            if not reports.complete:
                self._alone = False
                raise _Repeat("another producer writes to the partition, too")
            if self.writer.map_topic is not None:
                key, value = self._map_record(reports).encode()
                client.producer.produce(self.writer.map_topic, value, key)
            client.commit()
        except KafkaException as failed:
            error = failed.args[0]
            if reports.refused:
                self._see_refused(reports)
            has_failed = error.code() == KafkaError._STATE  # an earlier call failed
            if has_failed or error.fatal() or error.txn_requires_abort():
                raise _Repeat(error.str()) from failed
            raise
        return reports

    def _map_record(self, reports: Reports) -> MapRecord:
        origin, target = self._position.origin, self._position.target
        return MapRecord(self.topic, self.partition, origin, target, tuple(reports.runs()))

    def _columns(self, rows: pyarrow.RecordBatch) -> Columns:
        """The columns of the rows.  Raises WriteError if librdkafka would change a record."""
        columns = Columns.of(rows)
        if 0 in columns.timestamps_ms:
            offset = columns.offsets[columns.timestamps_ms.index(0)]
            raise WriteError(
                f"the record at offset {offset} for {self._client.where} has the timestamp 0 "
                "(1970-01-01), which librdkafka would write as that of now"
            )
        return columns

    def _see_refused(self, reports: Reports) -> NoReturn:
        """Raise WriteError for a refused row, or _Repeat if another attempt may succeed.

        The broker refuses whole batches.  After MSG_SIZE_TOO_LARGE, the next producer makes batches
        that the topic allows; if one is refused again, a single record is too large.  After an
        error of one record, the next producer makes batches of one record, to find out which.
        """
        for offset, error in sorted(reports.refused.items()):
            if self._batch_records > 1 and _is_one_of(error, OF_ONE_RECORD):
                self._batch_records = 1
                break
            if _is_one_of(error, NEVER):
                raise WriteError(
                    f"the record at offset {offset} for {self._client.where} is refused: "
                    f"{error.str()}"
                )
            if _is_one_of(error, ["MSG_SIZE_TOO_LARGE"]) and reports.every:
                self._see_size(offset)
                break
        raise _Repeat(error.str())

    def _see_size(self, offset: int) -> None:
        """Choose smaller batches, or raise RecordTooLarge if they were small enough already."""
        allowed = self._client.record_size_max()
        if self._batch_size_bytes < allowed:
            raise RecordTooLarge(
                f"the record at offset {offset} is too large for {self.topic}, which takes "
                f"{allowed:,} bytes: raise its max.message.bytes"
            )
        self._batch_size_bytes = int(allowed * BATCH_SHARE)

    def _failure(self, error: KafkaError) -> WriteError:
        """The error that ends the task."""
        if _is_one_of(error, FENCED):
            return TaskFenced(f"another task writes {self._client.where} now ({error.str()})")
        return WriteError(f"{self._client.where} cannot be written: {error.str()}")


def _is_one_of(error: KafkaError, names: Iterable[str]) -> bool:
    from confluent_kafka import KafkaError

    return error.code() in {getattr(KafkaError, name) for name in names}
