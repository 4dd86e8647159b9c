"""A walk at random: one data directory goes back and forth between Apache Kafka and kwire.

Both listen on the same port, so that clients live through the swaps.  What was acknowledged is
written down here, and looked for after each swap.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kwire.client.cluster import Cluster
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import BrokerProcess
from tests.conftest import finish
from tests.log.interchange.filling import GROUPS, OPEN_TIMEOUT_MS, SETTINGS
from tests.log.interchange.observed import Seen, differences, observe
from tests.log.interchange.soundness import epochs_out_of_order
from tests.polling import until

WAIT_S = 240.0
TOPICS_MAX = 6
RECORDS_MAX = 12
STEPS = 8
NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
)
ENDING = ["PrepareCommit", "PrepareAbort"]
"""States of a transaction whose end was answered, and whose markers are not all written."""


@dataclass(slots=True)
class Topic:
    """An existing topic, with the records that were acknowledged in it."""

    partitions: int
    is_anew: bool = False
    """There was another one of its name, which a living producer may remember."""
    records: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Open:
    """An open transaction; its producer survives swaps."""

    producer: Producer
    topic: str
    records: list[bytes]


class Walk:
    """One random walk, fixed by its `seed` except for timing; `root` is an Apache Kafka node's."""

    def __init__(self, root: Path, seed: int, version: str, *, directories: int = 1) -> None:
        self._rng = random.Random(seed)
        self._data = [root / "node" / name for name in ("data", "more")[:directories]]
        log_dirs = {"log.dirs": ",".join(map(str, self._data))}
        self._node = ApacheKafka(root / "node", settings=SETTINGS | log_dirs, version=version)
        port = self._node.port
        self._kwire = BrokerProcess(
            root / "kwire",
            {
                **SETTINGS,
                "node.id": "1",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "advertised.listeners": f"PLAINTEXT://localhost:{port}",
                **log_dirs,
            },
        )
        self._kwire.port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self.topics: dict[str, Topic] = {}
        self.did: list[str] = []
        self._numbers = iter(range(1_000_000))
        self._living = self._producer()
        self._open: list[Open] = []

    def _producer(self, **settings: object) -> Producer:
        config: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "broker.address.family": "v4",
            "enable.idempotence": True,
            "topic.metadata.refresh.interval.ms": 200,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        return Producer(config | settings)

    # -- stays

    def swaps(self, count: int) -> None:
        """Swap brokers `count` times, beginning with Apache Kafka; compare everything each time."""
        seen: Seen | None = None
        for number in range(count + 1):
            with self._apache() if number % 2 == 0 else self._ours():
                if seen is not None:
                    found = _comparable(observe(self.bootstrap))
                    differ = differences(seen, found)
                    assert differ == [], (differ, self.did)
                self._end_transactions()
                for _ in range(STEPS):
                    self._rng.choice(self._possible())()
                self._check_records()
                seen = _comparable(observe(self.bootstrap))
            disorder = [each for data in self._data for each in epochs_out_of_order(data)]
            assert disorder == [], (disorder, self.did)

    @contextmanager
    def _apache(self) -> Iterator[None]:
        self._say("Apache Kafka")
        self._node.start()
        try:
            yield
            if self._rng.random() < 0.25:
                self._say("kill -9")
                os.kill(self._node.pid, signal.SIGKILL)
        finally:
            self._node.stop()

    @contextmanager
    def _ours(self) -> Iterator[None]:
        self._say("kwire")
        self._kwire.start()
        try:
            yield
            if self._rng.random() < 0.25:
                self._say("kill -9")
                self._kwire.kill()
        finally:
            finish(self._kwire)

    def _say(self, what: str) -> None:
        self.did.append(what)

    # -- steps

    def _possible(self) -> list[Callable[[], object]]:
        steps: list[Callable[[], object]] = [
            self._produce_anew,
            self._produce_on,
            self._produce_anew,
            self._produce_on,
        ]
        steps += [self._transact, self._begin, self._alter, self._grow, self._commit_offset]
        steps += [self._delete, self._make_anew]
        if not self.topics:
            return [self._create]
        return [*steps, self._create] if len(self.topics) < TOPICS_MAX else steps

    @property
    def _admin(self) -> AdminClient:
        config = {"bootstrap.servers": self.bootstrap, "broker.address.family": "v4"}
        return AdminClient(config | {"log_level": 0})

    def _pick(self) -> str:
        return self._rng.choice(sorted(self.topics))

    def _create(self) -> None:
        self._create_as(f"t{next(self._numbers)}")

    def _create_as(self, name: str) -> None:
        partitions = self._rng.randint(1, 3)
        self._say(f"create {name} {partitions}")
        admin = self._admin
        (made,) = admin.create_topics([NewTopic(name, partitions, 1)]).values()
        made.result(WAIT_S)
        self.topics[name] = Topic(partitions)
        self._wait_for(name)

    def _wait_for(self, name: str) -> None:
        """Wait until all partitions have their leader."""
        admin, wanted = self._admin, self.topics[name].partitions

        def led() -> bool:
            found = admin.list_topics(name, timeout=WAIT_S).topics[name].partitions.values()
            return len(found) == wanted and all(each.error is None for each in found)

        until(led, f"{name} is not led: {self.did}")

    def _grow(self) -> None:
        name = self._pick()
        topic = self.topics[name]
        topic.partitions += 1
        self._say(f"grow {name} to {topic.partitions}")
        admin = self._admin
        (grown,) = admin.create_partitions([NewPartitions(name, topic.partitions)]).values()
        grown.result(WAIT_S)
        self._wait_for(name)

    def _delete(self) -> str | None:
        busy = {each.topic for each in self._open}
        free = sorted(self.topics.keys() - busy)
        if not free:
            return None
        name = self._rng.choice(free)
        self._say(f"delete {name}")
        admin = self._admin
        (gone,) = admin.delete_topics([name]).values()
        gone.result(WAIT_S)
        del self.topics[name]
        until(lambda: self._is_gone(name), f"{name} is still there: {self.did}")
        return name

    def _is_gone(self, name: str) -> bool:
        listed = self._admin.list_topics(timeout=WAIT_S).topics
        return name not in listed and not any((data / f"{name}-0").exists() for data in self._data)

    def _make_anew(self) -> None:
        name = self._delete()
        if name is not None:
            self._create_as(name)
            self.topics[name].is_anew = True

    def _alter(self) -> None:
        name = self._pick()
        value = str(self._rng.randrange(10**9, 10**12))
        self._say(f"alter {name} retention.ms={value}")
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        admin = self._admin
        (altered,) = admin.incremental_alter_configs([wanted]).values()
        altered.result(WAIT_S)
        resource = ConfigResource(ResourceType.TOPIC, name)

        def is_reported() -> bool:
            (answer,) = admin.describe_configs([resource]).values()
            return str(answer.result(WAIT_S)["retention.ms"].value) == value

        until(is_reported, f"retention.ms of {name} is not reported: {self.did}")

    def _values(self, what: str) -> list[bytes]:
        count = self._rng.randint(1, RECORDS_MAX)
        return [f"{what} {next(self._numbers)}".encode() for _ in range(count)]

    def _produce_anew(self) -> None:
        """By a new producer, whose producer id must be unused."""
        self._produce(self._producer(), "new", self._pick())

    def _produce_on(self) -> None:
        """By the producer that survives all swaps."""
        names = sorted(name for name, topic in self.topics.items() if not topic.is_anew)
        if names:
            self._produce(self._living, "living", self._rng.choice(names))

    def _produce(self, producer: Producer, what: str, name: str) -> None:
        values = self._values(what)
        self._say(f"{what} {name} {len(values)}")
        self.topics[name].records += self._send(producer, name, values)

    def _send(self, producer: Producer, name: str, values: list[bytes]) -> list[bytes]:
        """Send records, all of which must be acknowledged."""
        acknowledged: list[bytes] = []
        failed: list[object] = []

        def delivered(value: bytes, error: KafkaError | None, message: object) -> None:
            failed.append(error) if error else acknowledged.append(value)

        partitions = self.topics[name].partitions
        until(
            lambda: len(producer.list_topics(name, WAIT_S).topics[name].partitions) == partitions,
            f"{name} has no {partitions} partitions for a producer: {self.did}",
        )
        for value in values:
            partition = self._rng.randrange(partitions)
            producer.produce(
                name, value, partition=partition, on_delivery=partial(delivered, value)
            )
            if self._rng.random() < 0.3:
                producer.flush(WAIT_S)  # several batches
        left = producer.flush(WAIT_S)
        assert (failed, left) == ([], 0), self.did
        return acknowledged

    def _begun(self) -> Open:
        name = self._pick()
        producer = self._producer(
            **{
                "transactional.id": f"x{next(self._numbers)}",
                "transaction.timeout.ms": OPEN_TIMEOUT_MS,
            }
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        values = self._values("transaction")
        self._say(f"begin {name} {len(values)}")
        return Open(producer, name, self._send(producer, name, values))

    def _transact(self) -> None:
        self._end(self._begun())

    def _begin(self) -> None:
        """Begin a transaction that ends in a later stay."""
        self._open.append(self._begun())

    def _end(self, transaction: Open) -> None:
        if self._rng.random() < 0.7:
            self._say(f"commit {transaction.topic}")
            transaction.producer.commit_transaction(WAIT_S)
            self.topics[transaction.topic].records += transaction.records
        else:
            self._say(f"abort {transaction.topic}")
            transaction.producer.abort_transaction(WAIT_S)

    def _end_transactions(self) -> None:
        """End some of the transactions that were open when the other broker stopped."""
        staying = []
        for transaction in self._open:
            if self._rng.random() < 0.3:
                staying.append(transaction)
                continue
            more = self._values("transaction goes on")
            transaction.records += self._send(transaction.producer, transaction.topic, more)
            self._end(transaction)
        self._open = staying

    def _commit_offset(self) -> None:
        name = self._pick()
        group = self._rng.choice(GROUPS)
        offset = self._rng.randint(0, 100)
        self._say(f"offset of {group} in {name}: {offset}")
        consumer = self._consumer(group)

        def is_committed() -> bool:
            """Apache Kafka's coordinators are not available while it creates their topic."""
            try:
                consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
            except KafkaException as refusal:
                if refusal.args[0].code() not in NO_COORDINATOR_YET:
                    raise
                return False
            return True

        until(is_committed, f"no coordinator of {group}: {self.did}")
        consumer.close()

    # -- checks

    def _consumer(self, group: str) -> Consumer:
        config = {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0}
        more = {"broker.address.family": "v4", "enable.auto.commit": False}
        return Consumer(config | more | {"enable.partition.eof": True})

    def _check_records(self) -> None:
        """Exactly the acknowledged records that were not aborted are there, each once."""
        self._wait_for_markers()
        held = {each.topic for each in self._open}
        for name, topic in self.topics.items():
            found = Counter(self._read(name, topic.partitions, committed=name not in held))
            wanted = Counter(topic.records)
            for transaction in self._open:
                if transaction.topic == name:
                    wanted += Counter(transaction.records)
            missing, extra = wanted - found, found - wanted
            if name in held:  # read uncommitted: also what was aborted
                extra = Counter({value: n for value, n in extra.items() if n > 1})
            assert (missing, extra) == (Counter(), Counter()), (name, self.did)

    def _wait_for_markers(self) -> None:
        """Apache Kafka answers EndTxn before it writes the markers of the transaction."""
        with Cluster(self.bootstrap, timeout_s=WAIT_S) as cluster:

            def are_written() -> bool:
                answer = cluster.any().call(ListTransactionsRequest(state_filters=ENDING))
                return not answer.error_code and not answer.transaction_states

            until(are_written, f"transactions are ending: {self.did}")

    def _read(self, name: str, partitions: int, *, committed: bool) -> list[bytes]:
        isolation = "read_committed" if committed else "read_uncommitted"
        config = {"bootstrap.servers": self.bootstrap, "group.id": "checks", "log_level": 0}
        more = {"broker.address.family": "v4", "isolation.level": isolation}
        consumer = Consumer(config | more | {"enable.partition.eof": True})
        consumer.assign([TopicPartition(name, index, 0) for index in range(partitions)])
        values: list[bytes] = []
        ended: set[int | None] = set()
        while len(ended) < partitions:
            message = consumer.poll(WAIT_S)
            assert message is not None, (name, self.did)
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError((str(error), self.did))
        consumer.close()
        return values


def _comparable(seen: Seen) -> Seen:
    """The part that is equal in both brokers: leader epochs grow with each start."""
    return {name: value for name, value in seen.items() if not name.endswith(" epochs")}
