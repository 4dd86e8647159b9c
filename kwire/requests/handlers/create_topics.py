"""CreateTopics (key 19): v2-7.

Behaviour
- Another broker than the controller says NOT_CONTROLLER, of each topic, before it looks at any.
- Topics are made one by one: a mistake in one does not keep the others from being made.  What is
  made is durable and served when the answer goes out.
- A name given twice is not made at all: INVALID_REQUEST, once, after all others.
- -1 partitions or replicas take the broker's `num.partitions` and `default.replication.factor`;
  with a manual assignment both must be -1.
- Checked in this order: the name (INVALID_TOPIC_EXCEPTION), whether it exists, whether it collides
  with another that differs only in `.` and `_`, its configs (INVALID_CONFIG), replication factor,
  number of partitions.
- More than 10,000 new partitions in a request: POLICY_VIOLATION for all of it.
- In a cluster the answer waits until the topics have leaders; those that have none when the
  client's time is up are REQUEST_TIMED_OUT, and come into being all the same.
- `validate_only` answers as if they had been made, TOPIC_ALREADY_EXISTS included.
- A client that has overdrawn its `controller_mutation_rate` is told THROTTLING_QUOTA_EXCEEDED of
  what would else be made, also with `validate_only`, before v6 only to rest (KIP-599).

Version notes: v4 allows -1 for both counts (taken at any version here, as by Kafka); flexible from
v5, which tells the topic's partitions, replicas and configs (KIP-525); v7 its id (KIP-516).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import Outcome, named_once
from kwire.cluster.decisions.topic_creation import NewTopic, check_size, creations
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.changes import CreateTopic, decide_all
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.requests.context import Context
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms
from kwire.settings.entries import BrokerLayers, new_topic_entries

log = logging.getLogger("kwire.topics")

STRICT_SINCE = 6
"""The first version that can be told THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def handle(
    broker: Broker, request: CreateTopicsRequest, context: Context
) -> CreateTopicsResponse | Awaitable[CreateTopicsResponse]:
    if not broker.membership.is_controller:
        elsewhere = Refusal(ErrorCode.NOT_CONTROLLER, "")
        return CreateTopicsResponse(
            topics=[_refused(each.name, elsewhere) for each in request.topics]
        )
    topics = [_wanted(topic) for topic in request.topics]
    try:
        check_size(broker.config, topics)
    except Refusal as refusal:
        return CreateTopicsResponse(topics=[_refused(topic.name, refusal) for topic in topics])
    wanted, repeated_names = named_once(topics, lambda topic: topic.name)
    duplicates = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_refused(name, duplicates) for name in repeated_names]
    outcomes = creations(broker.settings, wanted)
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    if budget is not None:
        for outcome in outcomes:
            outcome.charge = lambda change: budget.spend(len(change.topic.partitions))
    if request.validate_only:
        decide_all(broker.image, outcomes)
        return CreateTopicsResponse(
            topics=_results(broker, wanted, outcomes) + repeated, throttle_time_ms=owed_ms(budget)
        )
    return _create(broker, wanted, outcomes, repeated, request.timeout_ms, budget)


async def _create(
    broker: Broker,
    wanted: Sequence[NewTopic],
    outcomes: Sequence[Outcome[CreateTopic]],
    repeated: list[CreatableTopicResult],
    timeout_ms: int,
    budget: MutationBudget | None,
) -> CreateTopicsResponse:
    refusal = await commit_for_client(broker.membership, outcomes, log, "topics are not created")
    if refusal is not None:
        return CreateTopicsResponse(
            topics=[_refused(topic.name, refusal) for topic in wanted] + repeated
        )
    made = [each.change.topic for each in outcomes if each.change is not None]
    missing = await still_missing(
        broker.membership, lambda image: _missing(image, made), timeout_ms
    )
    late = {topic.name for topic in missing}
    for outcome in outcomes:
        if outcome.change is not None and outcome.change.topic.name in late:
            outcome.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return CreateTopicsResponse(
        topics=_results(broker, wanted, outcomes) + repeated, throttle_time_ms=owed_ms(budget)
    )


def _missing(image: ClusterImage, topics: Iterable[TopicImage]) -> list[TopicImage]:
    """Those of which a client would hear that they, or their leaders, are not there."""
    return [each for each in topics if not image.is_led(each.name, each.id, len(each.partitions))]


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, each.broker_ids) for each in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _results(
    broker: Broker, wanted: Sequence[NewTopic], outcomes: Sequence[Outcome[CreateTopic]]
) -> list[CreatableTopicResult]:
    return [
        _refused(topic.name, outcome.refusal)
        if outcome.refusal is not None
        else _made(broker, topic, outcome)
        for topic, outcome in zip(wanted, outcomes, strict=True)
    ]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _made(broker: Broker, wanted: NewTopic, outcome: Outcome[CreateTopic]) -> CreatableTopicResult:
    """The new topic as the client is told of it; its own configs as it wrote them."""
    assert outcome.change is not None, "it is made or refused"
    assert outcome.image is not None
    made = outcome.change.topic
    layers = BrokerLayers(broker.config, outcome.image, broker.node_id)
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
