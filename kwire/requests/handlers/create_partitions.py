"""CreatePartitions (key 37): v0-3.

Behaviour
- Another broker than the controller says NOT_CONTROLLER, of each topic, before it looks at any.
- Sets the number of partitions of each topic; it can only grow (INVALID_PARTITIONS).  New
  partitions have as many replicas as the topic's first one, or those assigned by hand, one list a
  new partition.
- A topic named twice: INVALID_REQUEST, once.  An unknown one: UNKNOWN_TOPIC_OR_PARTITION without a
  message.
- More than 10,000 new partitions of one topic: POLICY_VIOLATION.  (Apache Kafka fails there with
  UNKNOWN_SERVER_ERROR.)
- `validate_only` answers as if it had been done.

Version notes: flexible from v2; v3 may be throttled (KIP-599).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import Outcome, named_once
from kwire.cluster.decisions.topic_growth import Growth
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.changes import AddPartitions, decide_all
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.requests.context import Context
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms

log = logging.getLogger("kwire.topics")

STRICT_SINCE = 3
"""The first version that can be told THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    if not broker.membership.is_controller:
        elsewhere = Refusal(ErrorCode.NOT_CONTROLLER)
        names = dict.fromkeys(each.name for each in request.topics)
        return CreatePartitionsResponse(results=[_result(name, elsewhere) for name in names])
    wanted, repeated_names = named_once(map(_wanted, request.topics), lambda growth: growth.topic)
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_result(name, duplicate) for name in repeated_names]
    outcomes = [Outcome(growth.decide) for growth in wanted]
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    if budget is not None:
        for outcome in outcomes:
            outcome.charge = lambda change: budget.spend(len(change.partitions))
    if request.validate_only:
        decide_all(broker.image, outcomes)
        return CreatePartitionsResponse(
            results=repeated
            + [
                _result(each.topic, its.refusal) for each, its in zip(wanted, outcomes, strict=True)
            ],
            throttle_time_ms=owed_ms(budget),
        )
    return _create(broker, wanted, outcomes, repeated, request.timeout_ms, budget)


async def _create(
    broker: Broker,
    wanted: Sequence[Growth],
    outcomes: Sequence[Outcome[AddPartitions]],
    repeated: list[CreatePartitionsTopicResult],
    timeout_ms: int,
    budget: MutationBudget | None,
) -> CreatePartitionsResponse:
    refusal = await commit_for_client(
        broker.membership, outcomes, log, "partitions are not created"
    )
    made = [each.change for each in outcomes if each.change is not None]
    if refusal is None:
        missing = await still_missing(
            broker.membership, lambda image: _missing(image, made), timeout_ms
        )
        late = {change.topic for change in missing}
        for growth, outcome in zip(wanted, outcomes, strict=True):
            if growth.topic in late:
                outcome.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return CreatePartitionsResponse(
        results=repeated
        + [
            _result(each.topic, refusal or its.refusal)
            for each, its in zip(wanted, outcomes, strict=True)
        ],
        throttle_time_ms=owed_ms(budget),
    )


def _missing(image: ClusterImage, grown: Iterable[AddPartitions]) -> list[AddPartitions]:
    """Those of whose partitions a client would hear that they have no leader."""
    return [
        each
        for each in grown
        if not image.is_led(each.topic, each.topic_id, each.first + len(each.partitions))
    ]


def _wanted(topic: CreatePartitionsTopic) -> Growth:
    assigned = topic.assignments
    return Growth(
        topic.name,
        topic.count,
        None if assigned is None else [each.broker_ids for each in assigned],
    )


def _result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, refusal.error, refusal.message)
