"""What the version of a request means: the client's transaction version, and errors it knows.

API                  knows PRODUCER_FENCED since     uses transaction version 2 since
InitProducerId       v4                              -
AddPartitionsToTxn   v2                              v4
AddOffsetsToTxn      v2                              never: v5 of TxnOffsetCommit adds them
EndTxn               v2                              v5
"""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.txn.transaction import EPOCH_BUMP

_FENCED_SINCE = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
_EPOCH_BUMP_SINCE = {ApiKey.ADD_PARTITIONS_TO_TXN: 4, ApiKey.END_TXN: 5}


def error_for_version(api: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """`error` for a client of `version`: older ones get INVALID_PRODUCER_EPOCH when fenced."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def client_transaction_version(api: ApiKey, version: int) -> int:
    """0 or 2: with 2, the producer epoch is bumped with each transaction (KIP-890)."""
    since = _EPOCH_BUMP_SINCE.get(api)
    return EPOCH_BUMP if since is not None and version >= since else 0
