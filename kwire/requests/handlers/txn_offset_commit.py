"""TxnOffsetCommit (key 28): v0-6.

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
  member may commit to any group, also during a rebalance.  A request with a generation or epoch
  gets GROUP_ID_NOT_FOUND if the group does not exist, ILLEGAL_GENERATION before v6.
- The response waits until the offsets are committed in `__consumer_offsets`.

Version notes: leader epochs from v2; flexible, and the member with its generation (KIP-447) from
v3; TRANSACTION_ABORTABLE from v4; the group's partition is added implicitly from v5; topics by id
from v6, UNKNOWN_TOPIC_ID for an unknown one, and STALE_MEMBER_EPOCH, which was ILLEGAL_GENERATION
before (KIP-1319).
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
TOPIC_IDS_SINCE = 6
NO_SEQUENCE = -1

Reply = TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]

ROUTE = Route(
    ApiKey.TXN_OFFSET_COMMIT, 0, 6, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, context: Context
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commit the offsets of existing partitions in the transaction; refuse unknown ones."""
    version = context.api_version
    known, refused = _known_and_refused(broker, request, version)
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = known
    reply = _commit(broker, request, version)
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
    broker: Broker, request: TxnOffsetCommitRequest, version: int
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
    support = VerificationSupport.of(version, ABORTABLE_SINCE)
    verdict = verify(broker.node, broker.coordinators, producer, {partition: NO_SEQUENCE}, support)
    if isinstance(verdict, VerificationResult):
        return _commit_verified(broker, request, version, verdict)
    return _commit_once_verified(broker, request, version, verdict)


async def _commit_once_verified(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    version: int,
    verdict: Awaitable[VerificationResult],
) -> TxnOffsetCommitResponse:
    """Commit the offsets when the transaction coordinator has verified the producer."""
    return await answered(_commit_verified(broker, request, version, await verdict))


def _commit_verified(
    broker: Broker, request: TxnOffsetCommitRequest, version: int, verdict: VerificationResult
) -> Reply:
    """Commit the offsets if the verdict, which is about one partition, allows it."""
    for error in verdict.refused.values():
        if error is ErrorCode.NETWORK_EXCEPTION:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return commit_error(request, error)
    proof = next(iter(verdict.proofs.values()), None)
    return broker.coordinators.groups.commit_transactional_offsets(request, version, proof)


def _known_and_refused(
    broker: Broker, request: TxnOffsetCommitRequest, version: int
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """The existing partitions, with names and ids filled in, and the answers for unknown ones."""
    if version >= TOPIC_IDS_SINCE:
        _fill_in_names(broker, request)
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: dict[tuple[str, bytes], TxnOffsetCommitResponseTopic] = {}
    for topic in request.topics:
        topic_image = broker.image.topics.get(topic.name)
        count = 0
        if topic_image is not None:
            topic.topic_id, count = topic_image.id, len(topic_image.partitions)
        existing = [p for p in topic.partitions if 0 <= p.partition_index < count]
        others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
        if topic_image is None or others:  # the response has an unknown topic without partitions
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic_image is None and version >= TOPIC_IDS_SINCE:
                error = ErrorCode.UNKNOWN_TOPIC_ID
            refused.setdefault(_key(topic), _answer(topic, [])).partitions.extend(
                TxnOffsetCommitResponsePartition(p.partition_index, error) for p in others
            )
        if existing:
            known.append(TxnOffsetCommitRequestTopic(topic.name, topic.topic_id, existing))
    return known, list(refused.values())


def _fill_in_names(broker: Broker, request: TxnOffsetCommitRequest) -> None:
    """Give each topic its name; a topic with an unknown id has an empty one."""
    for topic in request.topics:
        topic.name = broker.image.names_by_id.get(topic.topic_id, "")


def _key(topic: TxnOffsetCommitRequestTopic | TxnOffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


def _answer(
    topic: Request, partitions: list[TxnOffsetCommitResponsePartition]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)


def _merge(
    response: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    """One answer per topic; refused partitions come first, as in Apache Kafka."""
    topics = {_key(topic): topic for topic in refused}
    for topic in response.topics:
        topics.setdefault(_key(topic), _answer(topic, [])).partitions.extend(topic.partitions)
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
    if access.version >= TOPIC_IDS_SINCE:
        _fill_in_names(access.broker, request)
    allowed, denied = access.split(
        AclOperation.READ,
        ResourceType.TOPIC,
        request.topics,
        lambda topic: topic.name,
        nameless=access.version >= TOPIC_IDS_SINCE,
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
        _answer(
            topic,
            [
                TxnOffsetCommitResponsePartition(partition.partition_index, error)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
