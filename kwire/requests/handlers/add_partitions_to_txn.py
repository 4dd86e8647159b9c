"""AddPartitionsToTxn (key 24): v0-5.

Behaviour
- Adds partitions to the producer's transaction; the first one begins it.  Either all partitions are
  added or none.  If one does not exist, it has UNKNOWN_TOPIC_OR_PARTITION and the others have
  OPERATION_NOT_ATTEMPTED.  An error of the transaction is the error of every partition.
- INVALID_PRODUCER_ID_MAPPING if the transactional id has another producer or none, PRODUCER_FENCED
  for another epoch, CONCURRENT_TRANSACTIONS while the previous transaction is still ending.
- Clients (v0-3) may not add partitions of internal topics: TOPIC_AUTHORIZATION_FAILED.
- Brokers (v4-5) send several transactions at once.  They may also only verify that partitions are
  part of a transaction (KIP-890, part 1): TRANSACTION_ABORTABLE for those that are not.  A request
  without transactions gets an empty response; Apache Kafka never answers it.

Version notes: a fenced producer gets INVALID_PRODUCER_EPOCH before v2; flexible from v3; several
transactions, and verification, from v4; v5 allows more error codes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.coordinators.runtime.promise import Promise, then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.route import Right, Route
from kwire.txn.api_versions import client_transaction_version, error_for_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BROKERS_SINCE = 4

Verdict: TypeAlias = ErrorCode | dict[tuple[str, int], ErrorCode]
"""The error of all partitions of a transaction, or one for each topic and partition index."""
Answer: TypeAlias = Verdict | Promise[ErrorCode] | Promise[dict[tuple[str, int], ErrorCode]]

ROUTE = Route(
    ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Add or verify the partitions of each transaction in the request, and return the results.

    Before version 4 the request has exactly one transaction, in fields of its own.
    """
    version = context.api_version
    transactions = request.transactions
    if version < BROKERS_SINCE:
        only = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        transactions = [only]
    verdicts: list[Any] = [_decide(broker, transaction, version) for transaction in transactions]

    def respond(verdicts: list[Verdict]) -> AddPartitionsToTxnResponse:
        return _response(transactions, verdicts, version)

    return then_all(verdicts, respond)


def _decide(broker: Broker, transaction: AddPartitionsToTxnTransaction, version: int) -> Answer:
    """Return the errors of one transaction, or the coordinator's answer, which may come later.

    Broker requests may set `verify_only`: the coordinator then checks the partitions, and adds
    none.
    """
    refused = _refused(broker, transaction.topics, version)
    if refused:
        return refused
    coordinator = broker.coordinators.transactions
    partitions: dict[str, frozenset[int]] = {}
    for topic in transaction.topics:
        if topic.partitions:
            partitions[topic.name] = partitions.get(topic.name, frozenset()).union(topic.partitions)
    producer = (
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
    )
    if transaction.verify_only:
        return coordinator.verify(*producer, partitions)
    transaction_version = client_transaction_version(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    return coordinator.add_partitions(*producer, partitions, transaction_version)


def _refused(
    broker: Broker, topics: Sequence[AddPartitionsToTxnTopic], version: int
) -> dict[tuple[str, int], ErrorCode]:
    """The errors of a transaction with a partition that cannot be added; empty if all can."""
    answers = {
        (topic.name, index): _check(broker, topic.name, index, version)
        for topic in topics
        for index in topic.partitions
    }
    if not any(answers.values()):
        return {}
    return {place: error or ErrorCode.OPERATION_NOT_ATTEMPTED for place, error in answers.items()}


def _check(broker: Broker, topic: str, index: int, version: int) -> ErrorCode:
    """Return the error of one partition: NONE if a transaction may have it.

    Before version 4 clients send the request, and they may not write to internal topics.
    """
    if version < BROKERS_SINCE and topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic_image = broker.image.topics.get(topic)
    if topic_image is None or not 0 <= index < len(topic_image.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _response(
    transactions: Sequence[AddPartitionsToTxnTransaction],
    verdicts: Sequence[Verdict],
    version: int,
) -> AddPartitionsToTxnResponse:
    """Return the response with the results of each transaction, in the fields of `version`."""
    results = [
        AddPartitionsToTxnResult(
            transaction.transactional_id, _topics(transaction, verdict, version)
        )
        for transaction, verdict in zip(transactions, verdicts, strict=True)
    ]
    if version < BROKERS_SINCE:
        (only,) = results
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _topics(
    transaction: AddPartitionsToTxnTransaction, verdict: Verdict, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    """The results of one transaction.

    With one error for all partitions the topics are those of the request; else each topic that has
    partitions stands once.
    """
    if not isinstance(verdict, dict):
        client_error = error_for_version(ApiKey.ADD_PARTITIONS_TO_TXN, version, verdict)
        return [
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(index, client_error)
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ]
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in verdict.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name))
        client_error = error_for_version(ApiKey.ADD_PARTITIONS_TO_TXN, version, error)
        topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, client_error))
    return list(topics.values())


# -- rights


def guard(access: Access, request: AddPartitionsToTxnRequest, proceed: Proceed) -> Response:
    """Before version 4 require the rights of a producer, from version 4 on those of a broker.

    A producer needs WRITE on the transactional id and on each topic.  If it lacks one, no partition
    is added.
    """
    if access.version >= BROKERS_SINCE:
        if access.on_cluster(AclOperation.CLUSTER_ACTION):
            return proceed(request)
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not access.may(
        AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id
    ):
        return _nothing_added(
            topics, lambda topic, index: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    permitted = access.permitted(
        AclOperation.WRITE, ResourceType.TOPIC, [topic.name for topic in topics]
    )
    if all(topic.name in permitted for topic in topics):
        return proceed(request)

    def error_of(topic: AddPartitionsToTxnTopic, index: int) -> ErrorCode:
        """Return the error of one partition when none is added.

        A partition that is valid by itself gets OPERATION_NOT_ATTEMPTED.
        """
        if topic.name not in permitted or topic.name in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic_image = access.broker.image.topics.get(topic.name)
        if topic_image is None or not 0 <= index < len(topic_image.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return _nothing_added(topics, error_of)


def _nothing_added(
    topics: Iterable[AddPartitionsToTxnTopic],
    error_of: Callable[[AddPartitionsToTxnTopic, int], ErrorCode],
) -> AddPartitionsToTxnResponse:
    """Return the response of a version before 4 that adds none of the partitions."""
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
