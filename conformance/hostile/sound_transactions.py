"""One valid request of each API key of transactions, with an unknown producer id."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.stage import Stage

PRODUCER_ID, EPOCH = 4000, 0


def _add_partitions(stage: Stage, topic: CaseTopic, version: int) -> Message:
    """Return an addition to a transaction; from version 4 on it has a list of transactions."""
    topics, name = [AddPartitionsToTxnTopic(topic.name, [0])], stage.name("x")
    if version < 4:
        return AddPartitionsToTxnRequest([], name, PRODUCER_ID, EPOCH, topics)
    transaction = AddPartitionsToTxnTransaction(name, PRODUCER_ID, EPOCH, False, topics)
    return AddPartitionsToTxnRequest([transaction])


def _add_offsets(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return AddOffsetsToTxnRequest(stage.name("x"), PRODUCER_ID, EPOCH, stage.name("g"))


def _end(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return EndTxnRequest(stage.name("x"), PRODUCER_ID, EPOCH, True)


def _write_markers(stage: Stage, topic: CaseTopic, version: int) -> Message:
    topics = [WritableTxnMarkerTopic(topic.name, [0])]
    return WriteTxnMarkersRequest([WritableTxnMarker(PRODUCER_ID, EPOCH, True, topics)])


def _commit_offsets(stage: Stage, topic: CaseTopic, version: int) -> Message:
    """Return a TxnOffsetCommit of one partition."""
    partitions = [TxnOffsetCommitRequestPartition(0, 5, -1, "note")]
    topics = [TxnOffsetCommitRequestTopic(topic.name, topic.id, partitions)]
    return TxnOffsetCommitRequest(
        stage.name("x"), stage.name("g"), PRODUCER_ID, EPOCH, topics=topics
    )


def _describe(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return DescribeTransactionsRequest([stage.name("x")])


def _list(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return ListTransactionsRequest(["Ongoing"], [PRODUCER_ID])


TRANSACTION_REQUESTS = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.TXN_OFFSET_COMMIT: _commit_offsets,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe,
    ApiKey.LIST_TRANSACTIONS: _list,
}
"""Functions of stage, topic and version that return the request."""
