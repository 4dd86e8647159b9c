"""CreateTopics (key 19): v2-7.

Behaviour
- A broker that is not the controller answers NOT_CONTROLLER for each topic and checks nothing.
- Each topic is created or refused by itself.  A topic is durable and usable when the response is
  sent.
- If a name stands twice, the topic is not created: INVALID_REQUEST, once, after all other topics.
- For -1 partitions or replicas the broker takes `num.partitions` and `default.replication.factor`.
  With a manual assignment both must be -1.
- Order of the checks: the name (INVALID_TOPIC_EXCEPTION), whether the topic exists, whether another
  topic's name differs only in `.` and `_`, the configs (INVALID_CONFIG), the replication factor,
  the number of partitions.
- More than 10,000 new partitions in a request give POLICY_VIOLATION for the whole request.
- In a cluster the response waits until the topics have leaders.  A topic without one when the
  client's timeout passes gives REQUEST_TIMED_OUT, but it is created.
- `validate_only` gives the same response without creating anything.
- A client above its `controller_mutation_rate` gets THROTTLING_QUOTA_EXCEEDED for topics that would
  have been created, also with `validate_only`.  Before v6 it gets a throttle time only (KIP-599).

Version notes: -1 for both counts from v4 (this broker and Kafka accept it at any version); flexible
from v5; the response has the topic's partitions, replicas and configs from v5 (KIP-525) and its id
from v7 (KIP-516).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import DecisionOutcome, named_once
from kwire.cluster.decisions.topic_creation import NewTopic, check_size, creations
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import CreateTopic, decide_all
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms
from kwire.settings.entries import BrokerLayers, new_topic_entries

log = logging.getLogger("kwire.topics")

STRICT_SINCE = 6
"""The first version whose clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

ROUTE = Route(
    ApiKey.CREATE_TOPICS, 2, 7, Right(AclOperation.CREATE, ResourceType.TOPIC), by_controller=True
)


def handle(
    broker: Broker, request: CreateTopicsRequest, context: Context
) -> CreateTopicsResponse | Awaitable[CreateTopicsResponse]:
    """Create each topic, and return one result per topic.

    With `validate_only` it decides the changes and does not store them.
    """
    if not broker.membership.is_controller:
        not_controller = Refusal(ErrorCode.NOT_CONTROLLER, "")
        return CreateTopicsResponse(
            topics=[_refused(topic.name, not_controller) for topic in request.topics]
        )
    topics = [_new_topic(topic) for topic in request.topics]
    try:
        check_size(broker.config, topics)
    except Refusal as refusal:
        return CreateTopicsResponse(topics=[_refused(topic.name, refusal) for topic in topics])
    new_topics, repeated_names = named_once(topics, lambda topic: topic.name)
    duplicates = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_refused(name, duplicates) for name in repeated_names]
    outcomes = creations(broker.settings, new_topics)
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    if budget is not None:
        for outcome in outcomes:
            outcome.charge = lambda change: budget.spend(len(change.topic.partitions))
    if request.validate_only:
        decide_all(broker.image, outcomes)
        return CreateTopicsResponse(
            topics=_results(broker, new_topics, outcomes) + repeated,
            throttle_time_ms=owed_ms(budget),
        )
    return _create(broker, new_topics, outcomes, repeated, request.timeout_ms, budget)


async def _create(
    broker: Broker,
    new_topics: Sequence[NewTopic],
    outcomes: Sequence[DecisionOutcome[CreateTopic]],
    repeated: list[CreatableTopicResult],
    timeout_ms: int,
    budget: MutationBudget | None,
) -> CreateTopicsResponse:
    """Store the new topics and wait until they have leaders; return the response.

    A topic with a partition without leader after `timeout_ms` gets REQUEST_TIMED_OUT.
    """
    refusal = await commit_for_client(broker.membership, outcomes, log, "Cannot create topics")
    if refusal is not None:
        return CreateTopicsResponse(
            topics=[_refused(topic.name, refusal) for topic in new_topics] + repeated
        )
    created = [outcome.change.topic for outcome in outcomes if outcome.change is not None]
    leaderless = await still_missing(
        broker.membership, lambda image: _leaderless(image, created), timeout_ms
    )
    timed_out = {topic.name for topic in leaderless}
    for outcome in outcomes:
        if outcome.change is not None and outcome.change.topic.name in timed_out:
            outcome.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return CreateTopicsResponse(
        topics=_results(broker, new_topics, outcomes) + repeated, throttle_time_ms=owed_ms(budget)
    )


def _leaderless(image: ClusterImage, topics: Iterable[TopicImage]) -> list[TopicImage]:
    """Return the topics that Metadata would report as unknown or with a leaderless partition."""
    return [
        topic for topic in topics if not image.is_led(topic.name, topic.id, len(topic.partitions))
    ]


def _new_topic(topic: CreatableTopic) -> NewTopic:
    """Return the requested topic as the metadata's decisions expect it."""
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(replicas.partition_index, replicas.broker_ids) for replicas in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _results(
    broker: Broker, new_topics: Sequence[NewTopic], outcomes: Sequence[DecisionOutcome[CreateTopic]]
) -> list[CreatableTopicResult]:
    """Return one result per topic: its refusal, or the created topic."""
    return [
        _refused(topic.name, outcome.refusal)
        if outcome.refusal is not None
        else _created(broker, topic, outcome)
        for topic, outcome in zip(new_topics, outcomes, strict=True)
    ]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _created(
    broker: Broker, new_topic: NewTopic, outcome: DecisionOutcome[CreateTopic]
) -> CreatableTopicResult:
    """The result of a created topic, with the values of its own configs as the client sent them."""
    assert outcome.change is not None, "a topic without a refusal has a change"
    assert outcome.image is not None
    topic = outcome.change.topic
    layers = BrokerLayers(broker.config, outcome.image, broker.node_id)
    overrides = {name: value for name, value in new_topic.configs.items() if value is not None}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                entry.name,
                entry.value,
                entry.read_only,
                entry.source,
                entry.is_sensitive,
            )
            for entry in new_topic_entries(layers, overrides)
        ],
    )


# -- rights

CREATION_DENIED = "Authorization failed."
_CONFIGS_SINCE = 5


def guard(access: Access, request: CreateTopicsRequest, proceed: Proceed) -> Response:
    """Require CREATE on the cluster, or on each topic; refuse the other topics one by one.

    The response has a new topic's configs only if the sender may describe them.
    """
    names = [topic.name for topic in request.topics]
    _, repeated = named_once(names, str)
    if access.on_cluster(AclOperation.CREATE, quiet=True):
        denied = set[str]()
    else:
        permitted = access.permitted(AclOperation.CREATE, ResourceType.TOPIC, names)
        denied = set(names).difference(permitted, repeated)
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def merge(response: CreateTopicsResponse) -> CreateTopicsResponse:
        """Hide configs that the sender may not see, and add the topics that it may not create."""
        if access.version >= _CONFIGS_SINCE:
            for topic in response.topics:
                _hide_configs(access, topic)
        response.topics += [
            CreatableTopicResult(
                name=name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=CREATION_DENIED,
            )
            for name in dict.fromkeys(names)
            if name in denied
        ]
        return response

    return reshaped(proceed(request), merge)


def _hide_configs(access: Access, topic: CreatableTopicResult) -> None:
    """Remove number of partitions, replicas and configs if the sender may not describe configs."""
    if topic.error_code == ErrorCode.NONE and not access.on_topic(
        AclOperation.DESCRIBE_CONFIGS, topic.name, quiet=True
    ):
        topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic.num_partitions = topic.replication_factor = -1
        topic.configs = []
