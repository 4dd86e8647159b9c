"""Guards of requests about transactions and their producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kwire.codecs.messages.describe_transactions import TransactionState
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.requests.guards.base import Access, Proceed, Request, Response, then
from kwire.requests.guards.whole import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from kwire.codecs.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
    )
    from kwire.codecs.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
    )
    from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
    from kwire.codecs.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )
    from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
    from kwire.codecs.messages.write_txn_markers import WriteTxnMarkersRequest

TRANSACTION = ResourceType.TRANSACTIONAL_ID
TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_ADDED_BY_BROKERS_SINCE = 4


def init_producer_id(access: Access, request: InitProducerIdRequest, proceed: Proceed) -> Response:
    """Needs WRITE on the transactional id.

    Without one it needs IDEMPOTENT_WRITE on the cluster or WRITE on any topic (KIP-679).
    """
    if request.transactional_id is not None:
        if access.may(AclOperation.WRITE, TRANSACTION, request.transactional_id):
            return proceed(request)
        return refused(access, request, DENIED, AclOperation.WRITE)
    if access.on_cluster(AclOperation.IDEMPOTENT_WRITE, quiet=True) or access.authority.allows_any(
        access.context, AclOperation.WRITE, TOPIC
    ):
        return proceed(request)
    return refused(access, request, CLUSTER_DENIED, AclOperation.IDEMPOTENT_WRITE)


def add_partitions_to_txn(
    access: Access, request: AddPartitionsToTxnRequest, proceed: Proceed
) -> Response:
    """Before version 4 clients send it, from version 4 on brokers do."""
    if access.version >= _ADDED_BY_BROKERS_SINCE:
        if access.on_cluster(AclOperation.CLUSTER_ACTION):
            return proceed(request)
        return AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED)
    topics = request.v3_and_below_topics
    if not access.may(AclOperation.WRITE, TRANSACTION, request.v3_and_below_transactional_id):
        return _nothing_added(topics, lambda topic, index: DENIED)
    permitted = access.permitted(AclOperation.WRITE, TOPIC, [topic.name for topic in topics])
    if all(topic.name in permitted for topic in topics):
        return proceed(request)

    def error_of(topic: AddPartitionsToTxnTopic, index: int) -> ErrorCode:
        if topic.name not in permitted or topic.name in INTERNAL_TOPICS:
            return TOPIC_DENIED
        topic_image = access.broker.image.topics.get(topic.name)
        if topic_image is None or not 0 <= index < len(topic_image.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return _nothing_added(topics, error_of)


def _nothing_added(
    topics: Iterable[AddPartitionsToTxnTopic],
    error_of: Callable[[AddPartitionsToTxnTopic, int], ErrorCode],
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(index, error_of(topic, index))
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def add_offsets_to_txn(
    access: Access, request: AddOffsetsToTxnRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.WRITE, TRANSACTION, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=DENIED)
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_DENIED)
    return proceed(request)


def txn_offset_commit(
    access: Access, request: TxnOffsetCommitRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.WRITE, TRANSACTION, request.transactional_id):
        return TxnOffsetCommitResponse(topics=_uncommitted(request.topics, DENIED))
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return TxnOffsetCommitResponse(topics=_uncommitted(request.topics, GROUP_DENIED))
    allowed, denied = access.split(
        AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name
    )
    request.topics = allowed
    refused_topics = _uncommitted(denied, TOPIC_DENIED)

    def merge(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics = [*refused_topics, *response.topics]
        return response

    return then(proceed(request), merge)


def _uncommitted(topics: Iterable[Request], error: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    return [
        TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(partition.partition_index, error)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def write_txn_markers(
    access: Access, request: WriteTxnMarkersRequest, proceed: Proceed
) -> Response:
    """For brokers, and for administrators who end a transaction that hangs (KIP-664)."""
    if access.on_cluster(AclOperation.ALTER, quiet=True) or access.on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        return proceed(request)
    return refused(access, request, CLUSTER_DENIED, AclOperation.CLUSTER_ACTION)


def describe_transactions(
    access: Access, request: DescribeTransactionsRequest, proceed: Proceed
) -> Response:
    """The response has only topics that the sender may describe."""
    requested_ids = request.transactional_ids
    permitted = access.permitted(AclOperation.DESCRIBE, TRANSACTION, requested_ids)
    request.transactional_ids = [id_ for id_ in requested_ids if id_ in permitted]

    def merge(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        allowed_states = iter(response.transaction_states)
        states = []
        for transactional_id in requested_ids:
            if transactional_id in permitted:
                states.append(_with_visible_topics(access, next(allowed_states)))
            else:
                states.append(
                    TransactionState(error_code=DENIED, transactional_id=transactional_id)
                )
        response.transaction_states = states
        return response

    return then(proceed(request), merge)


def _with_visible_topics(access: Access, state: TransactionState) -> TransactionState:
    state.topics = [
        topic
        for topic in state.topics
        if access.on_topic(AclOperation.DESCRIBE, topic.topic, quiet=True)
    ]
    return state


def list_transactions(
    access: Access, request: ListTransactionsRequest, proceed: Proceed
) -> Response:
    def merge(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if access.may(AclOperation.DESCRIBE, TRANSACTION, state.transactional_id, quiet=True)
        ]
        return response

    return then(proceed(request), merge)
