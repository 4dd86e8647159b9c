"""CreatePartitions (key 37): v0-3.

Behaviour
- A broker that is not the controller answers NOT_CONTROLLER for each topic and checks nothing.
- Sets the number of partitions of each topic; it can only grow (INVALID_PARTITIONS).  A new
  partition has as many replicas as the topic's first one, or those of the manual assignment, which
  has one list per new partition.
- A topic that stands twice gives INVALID_REQUEST, once; an unknown one gives
  UNKNOWN_TOPIC_OR_PARTITION without a message.
- More than 10,000 new partitions of one topic give POLICY_VIOLATION.  (Apache Kafka fails with
  UNKNOWN_SERVER_ERROR.)
- `validate_only` gives the same response without creating anything.

Version notes: flexible from v2; v3 may be throttled (KIP-599).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import DecisionOutcome, named_once
from kwire.cluster.decisions.topic_growth import Growth
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import AddPartitions, decide_all
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms

log = logging.getLogger("kwire.topics")

STRICT_SINCE = 3
"""The first version whose clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

ROUTE = Route(
    ApiKey.CREATE_PARTITIONS,
    0,
    3,
    Right(AclOperation.ALTER, ResourceType.TOPIC),
    by_controller=True,
)


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    """Add partitions to each topic, and return one result per topic.

    With `validate_only` it decides the changes and does not store them.
    """
    if not broker.membership.is_controller:
        not_controller = Refusal(ErrorCode.NOT_CONTROLLER)
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreatePartitionsResponse(results=[_result(name, not_controller) for name in names])
    growths, repeated_names = named_once(map(_growth, request.topics), lambda growth: growth.topic)
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_result(name, duplicate) for name in repeated_names]
    outcomes = [DecisionOutcome(growth.decide) for growth in growths]
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    if budget is not None:
        for outcome in outcomes:
            outcome.charge = lambda change: budget.spend(len(change.partitions))
    if request.validate_only:
        decide_all(broker.image, outcomes)
        return CreatePartitionsResponse(
            results=repeated
            + [
                _result(growth.topic, outcome.refusal)
                for growth, outcome in zip(growths, outcomes, strict=True)
            ],
            throttle_time_ms=owed_ms(budget),
        )
    return _create(broker, growths, outcomes, repeated, request.timeout_ms, budget)


async def _create(
    broker: Broker,
    growths: Sequence[Growth],
    outcomes: Sequence[DecisionOutcome[AddPartitions]],
    repeated: list[CreatePartitionsTopicResult],
    timeout_ms: int,
    budget: MutationBudget | None,
) -> CreatePartitionsResponse:
    """Store the new partitions and wait until they have leaders; return the response.

    A topic whose partitions have no leader after `timeout_ms` gets REQUEST_TIMED_OUT.
    """
    refusal = await commit_for_client(broker.membership, outcomes, log, "Cannot create partitions")
    changes = [outcome.change for outcome in outcomes if outcome.change is not None]
    if refusal is None:
        leaderless = await still_missing(
            broker.membership, lambda image: _leaderless(image, changes), timeout_ms
        )
        timed_out = {change.topic for change in leaderless}
        for growth, outcome in zip(growths, outcomes, strict=True):
            if growth.topic in timed_out:
                outcome.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return CreatePartitionsResponse(
        results=repeated
        + [
            _result(growth.topic, refusal or outcome.refusal)
            for growth, outcome in zip(growths, outcomes, strict=True)
        ],
        throttle_time_ms=owed_ms(budget),
    )


def _leaderless(image: ClusterImage, changes: Iterable[AddPartitions]) -> list[AddPartitions]:
    """Changes with partitions that Metadata would report as leaderless."""
    return [
        change
        for change in changes
        if not image.is_led(change.topic, change.topic_id, change.first + len(change.partitions))
    ]


def _growth(topic: CreatePartitionsTopic) -> Growth:
    """Return the wanted number of partitions, and the manual assignment or None."""
    assignments = topic.assignments
    return Growth(
        topic.name,
        topic.count,
        None if assignments is None else [replicas.broker_ids for replicas in assignments],
    )


def _result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    """Return the result of one topic: no error, or the refusal."""
    if refusal is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, refusal.error, refusal.message)


# -- rights


def guard(access: Access, request: CreatePartitionsRequest, proceed: Proceed) -> Response:
    """Require ALTER on each topic, and refuse the others one by one.

    A topic that stands twice goes to the handler, which refuses it whatever the sender's rights.
    """
    distinct_topics, _ = named_once(request.topics, lambda topic: topic.name)
    permitted = access.permitted(
        AclOperation.ALTER, ResourceType.TOPIC, (topic.name for topic in distinct_topics)
    )
    denied = {topic.name: None for topic in distinct_topics if topic.name not in permitted}
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def merge(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results += [
            CreatePartitionsTopicResult(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for name in denied
        ]
        return response

    return reshaped(proceed(request), merge)
