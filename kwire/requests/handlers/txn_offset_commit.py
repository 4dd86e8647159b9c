"""TxnOffsetCommit (key 28): v0-5.

Behaviour
- Commits offsets as part of a transaction: they take effect when it is committed, and are dropped
  if it is aborted.
- Unknown partitions are refused one by one, before anything else is checked; if no other is left,
  nothing else is.  An error of the transaction or of the group is the error of every remaining
  partition.
- The group's partition of `__consumer_offsets` must be part of the producer's transaction
  (kwire.coordinators.runtime.verification); AddOffsetsToTxn adds it, from v5 on this request does.
  If the transaction coordinator is on another broker and cannot be reached, the response is
  COORDINATOR_LOAD_IN_PROGRESS, on which clients retry at this broker.
- Then the group checks the request like OffsetCommit, with two differences.  A request without a
  member may commit to any group, also during a rebalance.  A request with a generation gets
  ILLEGAL_GENERATION if the group does not exist.
- The response waits until the offsets are committed in `__consumer_offsets`.

Version notes: leader epochs from v2; flexible, and the member with its generation (KIP-447) from
v3; TRANSACTION_ABORTABLE from v4; the group's partition is added implicitly from v5.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.coordinators.runtime.promise import Promise, answered
from kwire.coordinators.runtime.verification import (
    ProducerIdentity,
    VerificationResult,
    VerificationSupport,
    verify,
)
from kwire.groups.txn_offsets import commit_error
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Request, Response, reshaped
from kwire.requests.route import Right, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

ABORTABLE_SINCE = 4
NO_SEQUENCE = -1

Reply = TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]

ROUTE = Route(
    ApiKey.TXN_OFFSET_COMMIT, 0, 5, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, context: Context
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commit the offsets of existing partitions in the transaction; refuse unknown ones."""
    known, refused = _known_and_refused(broker, request)
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = known
    reply = _commit(broker, request, VerificationSupport.of(context.api_version, ABORTABLE_SINCE))
    if isinstance(reply, TxnOffsetCommitResponse):
        return _merge(reply, refused)
    return _wait(reply, refused)


async def _wait(
    reply: Awaitable[TxnOffsetCommitResponse] | Promise[TxnOffsetCommitResponse],
    refused: list[TxnOffsetCommitResponseTopic],
) -> TxnOffsetCommitResponse:
    """Wait for the coordinator's reply, and add the refused partitions to it."""
    done = await reply.wait() if isinstance(reply, Promise) else await reply
    return _merge(done, refused)


def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, support: VerificationSupport
) -> Reply | Awaitable[TxnOffsetCommitResponse]:
    """Verify the producer at the transaction coordinator, then commit the offsets.

    The group's partition of `__consumer_offsets` must be part of the transaction.
    """
    if not request.group_id:
        return commit_error(request, ErrorCode.INVALID_GROUP_ID)
    index = broker.coordinators.groups.partition_for(request.group_id)
    if index < 0:
        return commit_error(request, ErrorCode.NOT_COORDINATOR)
    partition = GROUP_METADATA_TOPIC, index
    producer = ProducerIdentity(
        request.transactional_id, request.producer_id, request.producer_epoch
    )
    verdict = verify(broker.node, broker.coordinators, producer, {partition: NO_SEQUENCE}, support)
    if isinstance(verdict, VerificationResult):
        return _commit_verified(broker, request, verdict)
    return _commit_once_verified(broker, request, verdict)


async def _commit_once_verified(
    broker: Broker, request: TxnOffsetCommitRequest, verdict: Awaitable[VerificationResult]
) -> TxnOffsetCommitResponse:
    """Commit the offsets when the transaction coordinator has verified the producer."""
    return await answered(_commit_verified(broker, request, await verdict))


def _commit_verified(
    broker: Broker, request: TxnOffsetCommitRequest, verdict: VerificationResult
) -> Reply:
    """Commit the offsets if the verdict, which is about one partition, allows it."""
    for error in verdict.refused.values():
        if error is ErrorCode.NETWORK_EXCEPTION:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return commit_error(request, error)
    proof = next(iter(verdict.proofs.values()), None)
    return broker.coordinators.groups.commit_transactional_offsets(request, proof)


def _known_and_refused(
    broker: Broker, request: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """The existing partitions, and the answers for unknown ones."""
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in request.topics:
        topic_image = broker.image.topics.get(topic.name)
        count = 0 if topic_image is None else len(topic_image.partitions)
        if topic_image is None:  # the response has it even without partitions
            refused.setdefault(topic.name, TxnOffsetCommitResponseTopic(topic.name))
        existing = [p for p in topic.partitions if 0 <= p.partition_index < count]
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                answer = TxnOffsetCommitResponsePartition(
                    partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                refused.setdefault(
                    topic.name, TxnOffsetCommitResponseTopic(topic.name)
                ).partitions.append(answer)
        if existing:
            known.append(TxnOffsetCommitRequestTopic(topic.name, partitions=existing))
    return known, list(refused.values())


def _merge(
    response: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    """One answer per topic; refused partitions come first, as in Apache Kafka."""
    topics = {topic.name: topic for topic in refused}
    for topic in response.topics:
        topics.setdefault(topic.name, TxnOffsetCommitResponseTopic(topic.name)).partitions.extend(
            topic.partitions
        )
    response.topics = list(topics.values())
    return response


# -- rights


def guard(access: Access, request: TxnOffsetCommitRequest, proceed: Proceed) -> Response:
    """Require WRITE on the transactional id, READ on the group, and READ on each topic.

    Without one of the first two the whole request is refused; topics are refused one by one.
    """
    if not access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return TxnOffsetCommitResponse(
            topics=_uncommitted(request.topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        )
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return TxnOffsetCommitResponse(
            topics=_uncommitted(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        )
    allowed, denied = access.split(
        AclOperation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    request.topics = allowed
    refused_topics = _uncommitted(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def merge(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics = [*refused_topics, *response.topics]
        return response

    return reshaped(proceed(request), merge)


def _uncommitted(topics: Iterable[Request], error: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    """Return the answer of each topic, in which each partition has `error`."""
    return [
        TxnOffsetCommitResponseTopic(
            topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition.partition_index, error)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
