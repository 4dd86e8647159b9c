"""Records into topics exactly once, whoever runs a task again: the writer of replay and mirror.

Spark's own sink knows no transactions, so what it writes again after a failure is there twice.
Here a task writes each partition with a transactional producer of its own, and the transaction
carries how far the source has come:

- The transactional id is of the job and the target partition.  A task begins with
  InitProducerId, which fences whoever wrote the partition before it: a task that Spark gave up,
  but that is still running, can commit nothing any more.
- The position in the source, that is the offset of the next record to come, is committed as the
  offset of the target partition to the group `kwire-JOB-NAME`, in the transaction of the records
  before it; the offset's metadata says which source that is.  A task then reads the position
  (KIP-447: of no open transaction) and leaves out the records before it.
- So a batch that is written again writes nothing twice, and one that was cut short goes on.

Where a map is asked for, the transaction also holds one record to a compacted topic: which
offsets of the source became which of the target (see kwire/pipeline/positions.py).

Spark's executors need confluent-kafka and pyarrow, and not kwire: what runs there is sent to them
by value, all of SHIPPED.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from kwire.pipeline.positions import MapRecord, Position, position_of
from kwire.pipeline.rows import Columns, Reports, Size, by_partition, slices
from kwire.pipeline.transactional import Client

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka import KafkaError, TopicPartition

SHIPPED = tuple(
    f"kwire.pipeline.{name}" for name in ("exactly_once", "positions", "rows", "transactional")
)
BACKOFF_S = 0.2
RELEASE_S = 5.0
BATCH_SIZE_BYTES = 1_000_000
"""Under every broker's default of max.message.bytes: a topic that allows less is found out."""
BATCH_SHARE = 0.9
"""Of what a topic takes: room for the batch's own header, and for what does not compress."""

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
NEVER = (
    "TOPIC_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
    "INVALID_RECORD",
    "POLICY_VIOLATION",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
)
"""Why a record is refused however often it is sent."""
OF_ONE_RECORD = ("INVALID_TIMESTAMP", "INVALID_RECORD")
"""Of those, why its whole batch is refused with it, and librdkafka does not say for which one."""


class WriteError(RuntimeError):
    """Records cannot be written; the message is one for people."""


class Fenced(WriteError):
    """Another task has taken the partition over."""


class RecordTooLarge(WriteError):
    """The target's topic does not take a record of this size."""


class OtherSource(WriteError):
    """The target's position is one in another source than the one that is written from."""


@dataclass(frozen=True)
class Bounds:
    """What one transaction may hold, and how long a target may be away.

    records        Of one transaction.
    size_bytes     Of one transaction; a task holds about three times as much in memory.
    duration_s     From a transaction's first row to its commit, while rows come.
    timeout_s      transaction.timeout.ms of the producer: how long the coordinator waits.
    patience_s     How long a transaction is tried again before the task gives up.
    """

    records: int = 100_000
    size_bytes: int = 32 << 20
    duration_s: float = 10.0
    timeout_s: float = 60.0
    patience_s: float = 300.0


@dataclass(frozen=True)
class Written:
    """What became of the rows of one partition.

    topic, partition     Of the target.
    records              Written here.
    skipped              There already: they were written before.
    size_bytes           Of what was written, as Arrow holds it.
    transactions         Committed here.
    position             In the source, of the next record to come.
    first, last          Offsets in the target of what was written here; -1 where nothing was.
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
"""`Written` as a schema of Spark."""


@dataclass(frozen=True)
class Plan:
    """From where to where one batch's rows go.

    targets   The target's topic of a source's topic; the same where none is named.
    ids       Of the target's topics, so that one that is made anew is taken for new.
    origins   Of the source's topics, what their positions count in: cluster and topic id, say.
    via       Of the source's topics, the clusters that their records came through.
    known     Positions by (target's topic, partition), for where the group has none any more.
    batch     The number of Spark's batch, for whoever looks at the group's offsets.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    via: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: Mapping[tuple[str, int], int] = field(default_factory=dict)
    batch: int = -1

    def position(self, topic: str) -> Position:
        """What goes with the positions of a topic of the source."""
        target = self.targets.get(topic, topic)
        return Position(
            self.origins.get(topic, topic),
            self.ids.get(target, ""),
            self.via.get(topic, ()),
            self.batch,
        )


@dataclass(frozen=True)
class Writer:
    """Writes rows exactly once.  It is plain data, and goes to Spark's executors as it is.

    client       The target's address and security, by librdkafka's names.
    name         Of the job and its run, `mirror-NAME`: two of one name fence each other.
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

    def write(self, batches: Iterable[pyarrow.RecordBatch], plan: Plan) -> Iterator[Written]:
        """Write rows (see `rows.COLUMNS`) to the partitions that they name, in their order.

        A partition's rows must come in the order of their offsets; one that comes twice, or that
        was written before, is left out.  A partition's producer is closed when rows of another
        partition come: rows that lie partition by partition cost least.
        Raises WriteError; what was committed until then stays, and is left out the next time.
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
        """Abort what tasks that were stopped have left open in these partitions of the target.

        Whoever reads there waits for it otherwise, until the coordinator gives it up.
        """
        from confluent_kafka import KafkaException

        for topic, partition in partitions:
            client = Client(
                self.client,
                group=self.group,
                topic=topic,
                partition=partition,
                patience_s=RELEASE_S,
            )
            try:
                client.open({})
            except KafkaException:
                return  # the target is away: its coordinator will do it
            finally:
                client.close()

    def task(
        self, plan: Plan
    ) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]]:
        """`write` as DataFrame.mapInArrow wants it; its result is of the schema WRITTEN_DDL."""
        _ship_by_value()

        def run(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            import pyarrow

            for written in self.write(batches, plan):
                columns = {
                    name: pyarrow.array([value], pyarrow.int32() if name == "partition" else None)
                    for name, value in vars(written).items()
                }
                yield pyarrow.RecordBatch.from_pydict(columns)

        return run


def _ship_by_value() -> None:
    """Have what runs on executors pickled whole, not by its name: kwire need not be there."""
    cloudpickle = import_module("pyspark.cloudpickle")
    for name in SHIPPED:
        cloudpickle.register_pickle_by_value(import_module(name))


class _Repeat(Exception):
    """The transaction has to be aborted and begun again."""


class PartitionWriter:
    """One partition of the target, from the rows of one partition of the source."""

    def __init__(
        self, writer: Writer, topic: str, partition: int, position: Position, known: int
    ) -> None:
        self.writer = writer
        self.topic = topic
        self.partition = partition
        self._position = position
        self._known = known
        self._limit = Size(writer.bounds.records, writer.bounds.size_bytes)
        self._written = Written(topic, partition)
        self._rows: list[pyarrow.RecordBatch] = []  # of the transaction that is next
        self._size = Size()
        self._since = 0.0
        self._alone = True  # nobody else writes between our records
        self._batch_size_bytes = BATCH_SIZE_BYTES
        self._batch_records = writer.bounds.records
        self._client = Client(
            writer.client,
            group=writer.group,
            topic=topic,
            partition=partition,
            patience_s=writer.bounds.patience_s,
        )

    def add(self, rows: pyarrow.RecordBatch) -> None:
        """Take rows; a transaction is written whenever there are enough of them."""
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
        """Write what is held, in a transaction of its own."""
        self._write()

    def finish(self) -> Written:
        """Write what is left, and close the producer."""
        self._write()
        self.close()
        return self._written

    def close(self) -> None:
        """Let the producer go; what it has not committed is the next one's to abort.

        One that is not let go asks for its cluster as long as the process runs: confluent-kafka
        2.x may keep an exception for good, and with it all that its frames know.
        """
        self._client.close()

    def _hold(self, rows: pyarrow.RecordBatch) -> None:
        self._rows.append(rows)
        self._size = self._size.plus(rows)

    def _new(self, rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The rows that are neither in the target nor held already."""
        import numpy

        offsets = rows.column("offset").to_numpy(zero_copy_only=False)
        held = self._rows[-1].column("offset")[-1].as_py() + 1 if self._rows else 0
        seen = int(numpy.searchsorted(offsets, max(self._written.position, held)))
        self._written = replace(self._written, skipped=self._written.skipped + seen)
        return rows.slice(seen)

    def _open(self) -> None:
        """Fence the partition's last writer, then leave out what it has written."""
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
        for rows in held:  # their transaction may have been committed after all
            if (new := self._new(rows)).num_rows:
                self._hold(new)

    def _agreed(self, committed: TopicPartition) -> int:
        """The position that the target holds, if it is one in this source; 0 for none."""
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
        """Write the rows that are held, in one transaction, however often it has to be begun."""
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
            every = True  # so that it is known which row was refused

    def _count(self, reports: Reports) -> None:
        """A transaction is committed."""
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
        """Abort, and go on with a new producer: one whose batches were refused may stay stuck.

        The coordinator aborts what takes longer than the transaction's timeout, and fences its
        producer.  Whoever is fenced before that has a successor.
        """
        fatal = self._client.abort()
        if fatal is not None and duration_s < self.writer.bounds.timeout_s:
            raise self._failure(fatal)
        time.sleep(BACKOFF_S)
        self._open()

    def _transaction(self, reports: Reports) -> Reports:
        """Write what is held; raises _Repeat where that has to be done again."""
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
                raise _Repeat("somebody else writes there too")
            if self.writer.map_topic is not None:
                key, value = self._map_record(reports).encode()
                client.producer.produce(self.writer.map_topic, value, key)
            client.commit()
        except KafkaException as failed:
            error = failed.args[0]
            if reports.refused:
                self._see_refused(reports)
            has_failed = error.code() == KafkaError._STATE  # before this call
            if has_failed or error.fatal() or error.txn_requires_abort():
                raise _Repeat(error.str()) from failed
            raise
        return reports

    def _map_record(self, reports: Reports) -> MapRecord:
        origin, target = self._position.origin, self._position.target
        return MapRecord(self.topic, self.partition, origin, target, tuple(reports.runs()))

    def _columns(self, rows: pyarrow.RecordBatch) -> Columns:
        """The rows, if the producer can write them as they are."""
        columns = Columns.of(rows)
        if 0 in columns.timestamps_ms:
            offset = columns.offsets[columns.timestamps_ms.index(0)]
            raise WriteError(
                f"the record at offset {offset} for {self._client.where} has the timestamp 0 "
                "(1970-01-01), which librdkafka would write as that of now"
            )
        return columns

    def _see_refused(self, reports: Reports) -> NoReturn:
        """Say why rows cannot be written; raises _Repeat where they may be another time.

        A batch is refused whole, though its records may be small: the next producer makes batches
        that the topic takes, and then it is a record that is too large.  Or each of them may be
        valid but one: then every record is a batch of its own.
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
        """Have smaller batches, or raise RecordTooLarge where they were small enough."""
        allowed = self._client.record_size_max()
        if self._batch_size_bytes < allowed:
            raise RecordTooLarge(
                f"the record at offset {offset} is too large for {self.topic}, which takes "
                f"{allowed:,} bytes: raise its max.message.bytes"
            )
        self._batch_size_bytes = int(allowed * BATCH_SHARE)

    def _failure(self, error: KafkaError) -> WriteError:
        """What ends the task, in a sentence."""
        if _is_one_of(error, FENCED):
            return Fenced(f"another task writes {self._client.where} now ({error.str()})")
        return WriteError(f"{self._client.where} cannot be written: {error.str()}")


def _is_one_of(error: KafkaError, names: Iterable[str]) -> bool:
    from confluent_kafka import KafkaError

    return error.code() in {getattr(KafkaError, name) for name in names}
