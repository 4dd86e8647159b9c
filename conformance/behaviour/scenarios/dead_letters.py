"""Scenarios of share groups with a dead-letter topic (KIP-1191)."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.codecs.batches import Compression, Record, build, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import describe_configs, share_acknowledge, share_fetch
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.codecs.primitives import Message, Records
from kwire.conformance.behaviour.asking import BROKER, DELETE, GROUP, SET, TOPIC, alter, read
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import batch, fill
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    fetch,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.cases.share_offsets import describe
from kwire.conformance.wire.cases.txn import begin_transaction, end_transaction
from kwire.conformance.wire.cases.txn_data import txn_batch, txn_produce
from kwire.conformance.wire.cases.update_features import SAFE_DOWNGRADE, UPGRADE
from kwire.conformance.wire.peer import ClientConnection
from kwire.testing.comparing.normal import Tree

scenario = Scenarios("dead_letters")

TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPIES = {"errors.deadletterqueue.copy.record.enable": "true"}
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
LIMIT = "share.delivery.count.limit"
DEFAULT_OF_ALL = ""
"""The name of the resource with the settings of all brokers."""


class Play:
    """A share group with one member that reads one partition, and its dead-letter topic."""

    def __init__(
        self,
        stage: ScenarioStage,
        source: CaseTopic,
        settings: Mapping[str, str] | None = None,
        partition: int = 0,
    ) -> None:
        self.stage = stage
        self.source = source
        self.partition = partition
        self.group = new_group(stage, **(settings or {}))
        join_until_assigned(stage, self.group, "a", source)
        self._epoch = 0

    def fetch(self) -> list[tuple[int, int, int]]:
        """Fetch, and return the acquired runs: first and last offset, and delivery count."""
        request = fetch(self.group, "a", self._next_epoch(), self.source)
        for topic in request.topics:
            topic.partitions = [share_fetch.FetchPartition(self.partition)]
        response: ShareFetchResponse = self.stage.ask(request)
        assert response.error_code == ErrorCode.NONE
        return [
            (run.first_offset, run.last_offset, run.delivery_count)
            for topic in response.responses
            for partition in topic.partitions
            for run in partition.acquired_records
        ]

    def acknowledge(self, first: int, last: int, *kinds: int) -> None:
        """Acknowledge offsets; the response is compared."""
        batches = [share_acknowledge.AcknowledgementBatch(first, last, list(kinds))]
        place = share_acknowledge.AcknowledgePartition(self.partition, batches)
        topic = share_acknowledge.AcknowledgeTopic(self.source.id, [place])
        request: Message = share_acknowledge.ShareAcknowledgeRequest(
            self.group, "a", self._next_epoch(), False, [topic]
        )
        self.stage.send(request)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch - 1

    def until_lag(self, lag: int) -> None:
        """Wait until only `lag` records of the partition are not in a terminal state."""

        def is_so() -> bool:
            request = describe(self.group, (self.source.name, [self.partition]))
            [group] = self.stage.ask(request).groups
            return [each.lag for topic in group.topics for each in topic.partitions] == [lag]

        self.stage.until(f"the lag is {lag}", is_so)


def dead_letter_topic(
    stage: ScenarioStage, partitions: int = 1, prefix: str = "dlq.", **configs: str
) -> CaseTopic:
    """Create a topic that may be the dead-letter topic of a group."""
    name = f"{prefix}{stage.name('dead')}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    peer = ClientConnection(stage.broker.address)
    topic = stage.broker.create_topic(peer, name, partitions, {**ENABLED, **settings})
    peer.close()
    stage.delete_later(name)
    stage.topics[topic.id] = name
    return topic


def note_letters(stage: ScenarioStage, topic: CaseTopic, count: int, partition: int = 0) -> None:
    """Wait for `count` records in the dead-letter topic, and note what they are."""
    found: list[Record] = []

    def is_so() -> bool:
        data = read(stage, topic, partition=partition)
        found[:] = [record for pos, _ in iter_batches(data) for record in records(data, pos)]
        return len(found) >= count

    stage.until(f"{count} dead letters", is_so)
    for record in found:
        stage.note("offset", record.offset)
        stage.note("key and value", [_hex(record.key), _hex(record.value)])
        stage.note("written in this run", abs(record.timestamp - stage.now_ms) < 600_000)
        for name, value in record.headers:
            stage.note(name, (value or b"").decode().replace(stage.prefix, "~"))
    # How many records share a batch depends on how fast the broker is.
    batches = {
        (header.attributes, header.producer_id, header.producer_epoch, header.base_sequence)
        for _, header in iter_batches(read(stage, topic, partition=partition))
    }
    stage.note("attributes and producers of the batches", str(sorted(batches)))


def _hex(data: bytes | None) -> Tree:
    return None if data is None else data.hex()


@scenario()
def rejected(stage: ScenarioStage) -> None:
    """Records that a member rejects, one by one and several at once, among others."""
    topic, dead = stage.topic(), dead_letter_topic(stage)
    fill(stage, topic, batch(stage, *[b"v%d" % each for each in range(9)], keyed=True))
    play = Play(stage, topic, {TOPIC_NAME: dead.name})
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 0, REJECT)
    note_letters(stage, dead, 1)
    play.acknowledge(1, 1, GAP)
    play.acknowledge(2, 4, REJECT, ACCEPT, REJECT)
    play.acknowledge(5, 7, REJECT)
    play.until_lag(1)
    play.acknowledge(5, 7, REJECT)
    play.acknowledge(8, 8, ACCEPT)
    play.until_lag(0)
    note_letters(stage, dead, 6)


@scenario()
def delivered_too_often(stage: ScenarioStage) -> None:
    """Records that a member releases until they reach the delivery limit, beside a rejected one."""
    topic, dead = stage.topic(), dead_letter_topic(stage)
    fill(stage, topic, batch(stage, *[b"v"] * 20))
    play = Play(stage, topic, {TOPIC_NAME: dead.name, LIMIT: "5"})
    for _ in range(400):
        acquired = play.fetch()
        stage.note("acquired", str(acquired))
        if not acquired:
            break
        for first, last, count in acquired:
            if first <= 7 <= last and count == 5:
                play.acknowledge(first, last, REJECT)
            else:
                play.acknowledge(first, last, RELEASE)
    play.until_lag(0)
    note_letters(stage, dead, 20)


def _source(
    stage: ScenarioStage, topic: CaseTopic, compression: Compression = Compression.NONE
) -> None:
    """Append records with and without key, value and headers."""
    made = [
        Record(0, stage.now_ms, b"k", b"v", [("h", b"1"), ("__dlq.errors.topic", b"own")]),
        Record(1, stage.now_ms, b"k", None),
        Record(2, stage.now_ms, None, b"v"),
        Record(3, stage.now_ms, None, None),
        Record(4, stage.now_ms, b"", b""),
    ]
    fill(stage, topic, build(made, compression=compression))


@scenario()
def copied(stage: ScenarioStage) -> None:
    """Keys and values of plain and compressed batches, of records with headers and tombstones."""
    topic = stage.topic(configs={"message.timestamp.type": "LogAppendTime"})
    dead = dead_letter_topic(stage)
    _source(stage, topic)
    _source(stage, topic, compression=Compression.GZIP)
    play = Play(stage, topic, {TOPIC_NAME: dead.name, **COPIES})
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 4, REJECT)
    play.until_lag(5)
    play.acknowledge(5, 9, REJECT)
    play.until_lag(0)
    note_letters(stage, dead, 10)


def _fill_after_abort(stage: ScenarioStage, topic: CaseTopic) -> None:
    """Fill the topic with two records of an aborted transaction, its marker, and one record."""
    producer = begin_transaction(stage, "txn", topic)
    data: dict[int, Records | None] = {0: txn_batch(stage, producer, 0, b"a", b"b")}
    stage.ask(txn_produce(producer.transactional_id, topic, data))
    end_transaction(stage, producer, commit=False)
    fill(stage, topic, batch(stage, b"c"))


@scenario()
def copied_from_aborted_transactions(stage: ScenarioStage) -> None:
    """A group that reads uncommitted records rejects aborted ones and a marker's offset."""
    topic, dead = stage.topic(), dead_letter_topic(stage)
    _fill_after_abort(stage, topic)
    play = Play(stage, topic, {TOPIC_NAME: dead.name, **COPIES})
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 3, REJECT)
    play.until_lag(0)
    note_letters(stage, dead, 4)


@scenario()
def committed_only(stage: ScenarioStage) -> None:
    """A group that reads committed records has no dead letters of aborted ones."""
    topic, dead = stage.topic(), dead_letter_topic(stage)
    _fill_after_abort(stage, topic)
    play = Play(stage, topic, {TOPIC_NAME: dead.name, "share.isolation.level": "read_committed"})
    acquired = play.fetch()
    stage.note("acquired", str(acquired))
    for first, last, _ in acquired:
        play.acknowledge(first, last, REJECT)
    play.until_lag(0)
    note_letters(stage, dead, 1)


@scenario()
def too_large(stage: ScenarioStage) -> None:
    """Dead letters that fill several batches, and copies that are larger than a batch may be."""
    topic, dead = stage.topic(), dead_letter_topic(stage, max_message_bytes="1000")
    fill(stage, topic, batch(stage, *[b"v" * 100] * 12))
    fill(stage, topic, batch(stage, b"w" * 2000, b"x"))
    fill(stage, topic, batch(stage, b"y" * 2000, b"z", compression=Compression.GZIP))
    play = Play(stage, topic, {TOPIC_NAME: dead.name, **COPIES})
    stage.note("acquired", str(play.fetch()))
    for first, last in ((0, 11), (12, 13), (14, 15)):
        play.acknowledge(first, last, REJECT)
        play.until_lag(15 - last)
    note_letters(stage, dead, 16)


@scenario()
def same_partition(stage: ScenarioStage) -> None:
    """Dead letters of partition 2 go to partition 2 of a topic with three partitions."""
    topic, dead = stage.topic(partitions=3), dead_letter_topic(stage, 3)
    fill(stage, topic, batch(stage, b"v"), partition=2)
    play = Play(stage, topic, {TOPIC_NAME: dead.name}, 2)
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 0, REJECT)
    play.until_lag(0)
    note_letters(stage, dead, 1, partition=2)


@scenario()
def fewer_partitions(stage: ScenarioStage) -> None:
    """Dead letters of partition 2 go to partition 0 of a topic with two partitions."""
    topic, dead = stage.topic(partitions=3), dead_letter_topic(stage, 2)
    fill(stage, topic, batch(stage, b"v"), partition=2)
    play = Play(stage, topic, {TOPIC_NAME: dead.name}, 2)
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 0, REJECT)
    play.until_lag(0)
    note_letters(stage, dead, 1)


@scenario()
def refused(stage: ScenarioStage) -> None:
    """Records are archived without a dead letter if the topic may not have any.

    It is missing, has another prefix, lacks its own setting, or is too small for one record.
    """
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b", b"c", b"d"))
    wrong = dead_letter_topic(stage, prefix="other.")
    closed = dead_letter_topic(stage, errors_deadletterqueue_group_enable="false")
    small = dead_letter_topic(stage, prefix="dlq.small", max_message_bytes="100")
    play = Play(stage, topic)
    stage.note("acquired", str(play.fetch()))
    names = (wrong.name, closed.name, small.name, f"dlq.{stage.name('missing')}")
    for offset, name in enumerate(names):
        stage.ask(alter(play.group, (TOPIC_NAME, SET, name), kind=GROUP))
        stage.await_controller()
        play.acknowledge(offset, offset, REJECT)
        play.until_lag(3 - offset)
    for dead in (wrong, closed, small):
        stage.note("dead letters", len(read(stage, dead)))


@scenario()
def internal_topic(stage: ScenarioStage) -> None:
    """A group may not name an internal topic; any other name is accepted."""
    for name in ("__dead", "_dead", "dlq./bad", ""):
        stage.send(alter(stage.name("g"), (TOPIC_NAME, SET, name), kind=GROUP))


@scenario(alone=True)
def created(stage: ScenarioStage) -> None:
    """The broker creates a missing topic, with its own configs, if its setting allows it."""
    setting = "errors.deadletterqueue.auto.create.topics.enable"
    stage.send(alter(DEFAULT_OF_ALL, (setting, SET, "true"), kind=BROKER))
    topic, name = stage.topic(), f"dlq.{stage.name('made')}"
    fill(stage, topic, batch(stage, b"a", b"b"))
    play = Play(stage, topic, {TOPIC_NAME: name})
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 0, REJECT)
    play.until_lag(1)
    stage.ask(alter(play.group, (TOPIC_NAME, SET, "dlq./bad"), kind=GROUP))
    stage.await_controller()
    play.acknowledge(1, 1, REJECT)
    play.until_lag(0)
    stage.delete_later(name)
    [found] = stage.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics
    stage.topics[found.topic_id] = name
    note_letters(stage, CaseTopic(name, found.topic_id, len(found.partitions)), 1)
    stage.note("partitions", len(found.partitions))
    resource = describe_configs.DescribeConfigsResource(TOPIC, name, None)
    [result] = stage.ask(DescribeConfigsRequest([resource])).results
    own = {each.name: each.value for each in result.configs if each.config_source == 1}
    stage.note("configs", str(sorted(own.items())))
    stage.send(alter(DEFAULT_OF_ALL, (setting, DELETE, None), kind=BROKER))


@scenario(alone=True)
def prefix(stage: ScenarioStage) -> None:
    """The prefix can be changed while the broker runs."""
    setting = "errors.deadletterqueue.topic.name.prefix"
    stage.send(alter(DEFAULT_OF_ALL, (setting, SET, "dead."), kind=BROKER))
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b"))
    dead = dead_letter_topic(stage, prefix="dead.")
    play = Play(stage, topic, {TOPIC_NAME: dead.name})
    stage.note("acquired", str(play.fetch()))
    play.acknowledge(0, 0, REJECT)
    play.until_lag(1)
    note_letters(stage, dead, 1)
    stage.send(alter(DEFAULT_OF_ALL, (setting, DELETE, None), kind=BROKER))


@scenario(alone=True)
def older_share_version(stage: ScenarioStage) -> None:
    """With share.version 1, rejected records are archived without a dead letter."""
    topic, dead = stage.topic(), dead_letter_topic(stage)
    fill(stage, topic, batch(stage, b"a", b"b"))
    play = Play(stage, topic, {TOPIC_NAME: dead.name})
    stage.note("acquired", str(play.fetch()))
    for offset, level in enumerate((1, 2)):
        kind = UPGRADE if level == 2 else SAFE_DOWNGRADE
        update = FeatureUpdateKey("share.version", level, upgrade_type=kind)
        stage.send(UpdateFeaturesRequest(feature_updates=[update]))
        stage.await_controller()
        play.acknowledge(offset, offset, REJECT)
        play.until_lag(1 - offset)
    note_letters(stage, dead, 1)
