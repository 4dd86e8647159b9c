"""CreateTopics (key 19): v2-7.

Behaviour
- Topics are made one by one: a mistake in one does not keep the others from being made.  What is
  made is durable and served when the answer goes out.
- A name given twice is not made at all: INVALID_REQUEST, once, after all others.
- -1 partitions or replicas take the broker's `num.partitions` and `default.replication.factor`;
  with a manual assignment both must be -1.
- Checked in this order: the name (INVALID_TOPIC_EXCEPTION), whether it exists, whether it collides
  with another that differs only in `.` and `_`, its configs (INVALID_CONFIG), replication factor,
  number of partitions.
- More than 10,000 new partitions in a request: POLICY_VIOLATION for all of it.
- `validate_only` answers as if they had been made, TOPIC_ALREADY_EXISTS included.

Version notes: v4 allows -1 for both counts (taken at any version here, as by Kafka); flexible from
v5, which tells the topic's partitions, replicas and configs (KIP-525); v7 its id (KIP-516).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable

from kwire.broker import Broker
from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.context import Context
from kwire.controller.topic_creation import PARTITIONS_MAX, NewTopic, creation
from kwire.metadata.changes import CreateTopic, decide_all
from kwire.metadata.image import ClusterImage, TopicImage
from kwire.metadata.refusal import Refusal
from kwire.settings.entries import BrokerLayers, new_topic_entries

log = logging.getLogger("kwire.topics")


def handle(
    broker: Broker, request: CreateTopicsRequest, context: Context
) -> CreateTopicsResponse | Awaitable[CreateTopicsResponse]:
    topics = [_wanted(topic) for topic in request.topics]
    if sum(topic.partition_count(broker.config) for topic in topics) > PARTITIONS_MAX:
        refusal = Refusal(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
        return CreateTopicsResponse(topics=[_refused(topic.name, refusal) for topic in topics])
    times = Counter(topic.name for topic in topics)
    wanted = [topic for topic in topics if times[topic.name] == 1]
    duplicates = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_refused(name, duplicates) for name in times if times[name] > 1]
    if request.validate_only:
        creations = _creations(broker, wanted)
        decide_all(broker.image, creations)
        return CreateTopicsResponse(topics=[each.result for each in creations] + repeated)
    return _create(broker, wanted, repeated)


async def _create(
    broker: Broker, wanted: list[NewTopic], repeated: list[CreatableTopicResult]
) -> CreateTopicsResponse:
    creations = _creations(broker, wanted)
    try:
        await broker.commit(creations)
    except StoreError as problem:
        log.error("topics are not created: %s", problem)
        refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
        return CreateTopicsResponse(
            topics=[_refused(topic.name, refusal) for topic in wanted] + repeated
        )
    return CreateTopicsResponse(topics=[each.result for each in creations] + repeated)


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, each.broker_ids) for each in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


class _Creation:
    """The decision on one topic; `result` is what is answered of it.

    `made` are the topics of this request: as in Kafka, a name may be like those of its neighbours.
    """

    def __init__(self, broker: Broker, wanted: NewTopic, made: set[str]) -> None:
        self._broker = broker
        self._wanted = wanted
        self._made = made
        self.result = CreatableTopicResult(name=wanted.name)

    def __call__(self, image: ClusterImage) -> CreateTopic | None:
        name = self._wanted.name
        self._made.discard(name)
        like = [other for other in image.names_like(name) if other not in self._made]
        try:
            change = creation(image, self._broker.config, self._wanted, like)
        except Refusal as refusal:
            self.result = _refused(name, refusal)
            return None
        self._made.add(name)
        layers = BrokerLayers(self._broker.config, image, self._broker.node_id)
        self.result = _made(layers, self._wanted, change.topic)
        return change


def _creations(broker: Broker, wanted: list[NewTopic]) -> list[_Creation]:
    made: set[str] = set()
    return [_Creation(broker, topic, made) for topic in wanted]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _made(layers: BrokerLayers, wanted: NewTopic, made: TopicImage) -> CreatableTopicResult:
    """The new topic as the client is told of it; its own configs as it wrote them."""
    given = {name: value for name, value in wanted.configs.items() if value is not None}
    return CreatableTopicResult(
        name=made.name,
        topic_id=made.id,
        error_message=None,
        num_partitions=len(made.partitions),
        replication_factor=len(made.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                entry.name,
                entry.value,
                entry.read_only,
                entry.source,
                entry.is_sensitive,
            )
            for entry in new_topic_entries(layers, given)
        ],
    )
