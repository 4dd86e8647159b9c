"""DeleteTopics (key 20): v1-6.

Behaviour
- Another broker than the controller says NOT_CONTROLLER, of each topic, before it looks at any.
- In a cluster the answer waits until they are: those that are not when the client's time is up
  are REQUEST_TIMED_OUT, and go all the same.
- The topics are gone from the metadata, and their partitions from this broker, when the answer
  goes out; the files follow after `file.delete.delay.ms`.
- Unknown names are UNKNOWN_TOPIC_OR_PARTITION, whatever they look like; unknown ids are
  UNKNOWN_TOPIC_ID.  A topic named twice, by name, by id or by both, is not deleted:
  INVALID_REQUEST, once.  Naming it by name and id at once, or by neither, is INVALID_REQUEST too.
- Internal topics can be deleted, as in Kafka.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED from v3, INVALID_REQUEST before.

Version notes: flexible from v4; error messages from v5; v6 takes ids besides names (KIP-516).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.topic_deletion import Deletion, deletions
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kwire.requests.context import Context
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms

log = logging.getLogger("kwire.topics")

_FIRST_WITH_DELETION_DISABLED = 3
STRICT_SINCE = 5
"""The first version that can be told THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def handle(
    broker: Broker, request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    if context.api_version < 6:
        asked = [Deletion(name) for name in request.topic_names]
    else:
        asked = [Deletion(topic.name, topic.topic_id) for topic in request.topics]
    if not broker.membership.is_controller:
        elsewhere = Refusal(ErrorCode.NOT_CONTROLLER)
        return DeleteTopicsResponse(responses=[_result(topic, elsewhere) for topic in asked])
    if not broker.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if context.api_version < _FIRST_WITH_DELETION_DISABLED:
            error = ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[_result(topic, Refusal(error)) for topic in asked],
        )
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    return _delete(broker, asked, request.timeout_ms, budget)


async def _delete(
    broker: Broker, asked: list[Deletion], timeout_ms: int, budget: MutationBudget | None
) -> DeleteTopicsResponse:
    results = deletions(broker.image, asked)
    if budget is not None:
        _charge(broker.image, results, budget)
    wanted = [each for each in results if each.refusal is None]
    refusal = await commit_for_client(broker.membership, wanted, log, "topics are not deleted")
    if refusal is not None:
        return DeleteTopicsResponse(responses=[_result(topic, refusal) for topic in asked])
    gone = [each for each in wanted if each.refusal is None]
    for each in await still_missing(
        broker.membership, lambda image: _left(image, gone), timeout_ms
    ):
        each.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return DeleteTopicsResponse(
        responses=[_result(topic, topic.refusal) for topic in results],
        throttle_time_ms=owed_ms(budget),
    )


def _charge(image: ClusterImage, results: Iterable[Deletion], budget: MutationBudget) -> None:
    """Have the client pay for each partition that is to go."""
    for each in results:
        topic = image.topic_by_id(each.topic_id)
        if each.refusal is None and topic is not None:
            try:
                budget.spend(len(topic.partitions))
            except Refusal as refusal:
                each.refusal = refusal


def _left(image: ClusterImage, topics: Iterable[Deletion]) -> list[Deletion]:
    """Those of which a client would hear that they are there."""
    return [each for each in topics if each.topic_id in image.names_by_id]


def _result(topic: Deletion, refusal: Refusal | None) -> DeletableTopicResult:
    if refusal is None:
        return DeletableTopicResult(topic.name, topic.topic_id)
    return DeletableTopicResult(topic.name, topic.topic_id, refusal.error, refusal.message)
