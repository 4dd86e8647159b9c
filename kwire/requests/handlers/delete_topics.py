"""DeleteTopics (key 20): v1-6.

Behaviour
- A broker that is not the controller answers NOT_CONTROLLER for each topic and checks nothing.
- When the response is sent, the topics are no longer in the metadata and this broker no longer
  hosts their partitions.  The files are deleted after `file.delete.delay.ms`.
- In a cluster the response waits until the topics are deleted.  A topic that is not when the
  client's timeout passes gives REQUEST_TIMED_OUT, but it will be deleted.
- Unknown names give UNKNOWN_TOPIC_OR_PARTITION, also invalid ones; unknown ids give
  UNKNOWN_TOPIC_ID.  A topic that stands twice, by name, by id or by both, is not deleted:
  INVALID_REQUEST, once.  An entry with both name and id, or with neither, gives INVALID_REQUEST.
- Internal topics can be deleted, as in Kafka.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED from v3, INVALID_REQUEST before.

Version notes: flexible from v4; error messages from v5; names or ids from v6 (KIP-516).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.topic_deletion import TopicDeletion, deletions
from kwire.cluster.membership.committing import commit_for_client, still_missing
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.security.quotas.mutations import MutationBudget, budget_of, owed_ms

log = logging.getLogger("kwire.topics")

_FIRST_WITH_DELETION_DISABLED = 3
STRICT_SINCE = 5
"""The first version whose clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

ROUTE = Route(
    ApiKey.DELETE_TOPICS, 1, 6, Right(AclOperation.DELETE, ResourceType.TOPIC), by_controller=True
)


def handle(
    broker: Broker, request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    """Delete topics by name, or from version 6 by name or id; return one result per topic."""
    # Version 6 brought topic ids: a topic is requested by its name or its id.
    if context.api_version < 6:
        requested = [TopicDeletion(name) for name in request.topic_names]
    else:
        requested = [TopicDeletion(topic.name, topic.topic_id) for topic in request.topics]
    if not broker.membership.is_controller:
        not_controller = Refusal(ErrorCode.NOT_CONTROLLER)
        return DeleteTopicsResponse(
            responses=[_result(topic, not_controller) for topic in requested]
        )
    if not broker.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if context.api_version < _FIRST_WITH_DELETION_DISABLED:
            error = ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[_result(topic, Refusal(error)) for topic in requested],
        )
    budget = budget_of(broker.configs.quotas, context, strict=context.api_version >= STRICT_SINCE)
    return _delete(broker, requested, request.timeout_ms, budget)


async def _delete(
    broker: Broker, requested: list[TopicDeletion], timeout_ms: int, budget: MutationBudget | None
) -> DeleteTopicsResponse:
    """Store the deletions and wait until the topics are gone; return the response.

    A topic that exists after `timeout_ms` gets REQUEST_TIMED_OUT.
    """
    results = deletions(broker.image, requested)
    if budget is not None:
        _charge(broker.image, results, budget)
    accepted = [deletion for deletion in results if deletion.refusal is None]
    refusal = await commit_for_client(broker.membership, accepted, log, "Cannot delete topics")
    if refusal is not None:
        return DeleteTopicsResponse(responses=[_result(topic, refusal) for topic in requested])
    committed = [deletion for deletion in accepted if deletion.refusal is None]
    for deletion in await still_missing(
        broker.membership, lambda image: _remaining(image, committed), timeout_ms
    ):
        deletion.refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT)
    return DeleteTopicsResponse(
        responses=[_result(topic, topic.refusal) for topic in results],
        throttle_time_ms=owed_ms(budget),
    )


def _charge(image: ClusterImage, results: Iterable[TopicDeletion], budget: MutationBudget) -> None:
    """Charge the partitions to the client's mutation quota, and refuse topics that exceed it."""
    for deletion in results:
        topic = image.topic_by_id(deletion.topic_id)
        if deletion.refusal is None and topic is not None:
            try:
                budget.spend(len(topic.partitions))
            except Refusal as refusal:
                deletion.refusal = refusal


def _remaining(image: ClusterImage, topics: Iterable[TopicDeletion]) -> list[TopicDeletion]:
    """Topics that Metadata would still report as existing."""
    return [topic for topic in topics if topic.topic_id in image.names_by_id]


def _result(topic: TopicDeletion, refusal: Refusal | None) -> DeletableTopicResult:
    """Return the result of one topic: no error, or the refusal."""
    if refusal is None:
        return DeletableTopicResult(topic.name, topic.topic_id)
    return DeletableTopicResult(topic.name, topic.topic_id, refusal.error, refusal.message)


# -- rights

DELETION_DENIED = "Topic authorization failed."
_IDS_SINCE = 6


def guard(access: Access, request: DeleteTopicsRequest, proceed: Proceed) -> Response:
    """Require DELETE on the cluster, or on each topic; refuse the other topics one by one.

    The refusal of a topic id has the topic's name only if the sender may describe the topic.
    """
    if access.on_cluster(AclOperation.DELETE, quiet=True):
        return proceed(request)
    denied: list[DeletableTopicResult] = []
    if access.version < _IDS_SINCE:
        refused = {name for name in request.topic_names if _is_denied(access, name)}
        denied = [
            DeletableTopicResult(
                name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, DELETION_DENIED
            )
            for name in dict.fromkeys(request.topic_names)
            if name in refused
        ]
        request.topic_names = [name for name in request.topic_names if name not in refused]
    else:
        allowed = []
        for topic in request.topics:
            denial = _denial(access, topic.name, topic.topic_id)
            if denial is None:
                allowed.append(topic)
            else:
                denied.append(denial)
        request.topics = allowed

    def merge(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses = [*denied, *response.responses]
        return response

    return reshaped(proceed(request), merge)


def _is_denied(access: Access, name: str) -> bool:
    """Return whether to refuse the topic for missing rights.

    For a topic that does not exist, a sender with DESCRIBE learns that from the handler instead.
    """
    if access.on_topic(AclOperation.DELETE, name):
        return False
    exists = name in access.broker.image.topics
    return exists or not access.on_topic(AclOperation.DESCRIBE, name, quiet=True)


def _denial(access: Access, name: str | None, topic_id: bytes) -> DeletableTopicResult | None:
    """Return the refusal of a topic that the sender may not delete, else None.

    It has the name of a topic that is requested by id only if the sender may describe the topic.
    """
    if name is not None and topic_id != ZERO_UUID:
        return None  # the handler refuses a topic with both name and id
    topic_name = access.broker.image.names_by_id.get(topic_id) if name is None else name
    if topic_name is None or not _is_denied(access, topic_name):
        return None
    if name is None and not access.on_topic(AclOperation.DESCRIBE, topic_name, quiet=True):
        topic_name = None
    return DeletableTopicResult(
        topic_name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, DELETION_DENIED
    )
