"""Delegation tokens in ZooKeeper: paths and bytes, both ways, as Apache Kafka 3.9.2 writes them.

/delegation_token/tokens/ID                      a token, without its HMAC
/delegation_token/token_changes/token_change_N   the id of one that came, changed or went
"""

from __future__ import annotations

from typing import Final

from kwire.cluster.metadata.entities import sanitized, unsanitized
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.zookeeper.java_json import parsed, text_of

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
CHANGE: Final = CHANGES + "/token_change_"
PERSISTENT_PATHS: Final = (TOKENS, CHANGES)
"""What each broker with a secret makes at its start where it is not there yet."""
_VERSION: Final = 3
_OWNERS_ONLY: Final = (1, 2)
"""Versions of which nobody says who asked for the token: its owner did."""


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    return text_of(
        {
            "owner": sanitized(token.owner),
            "tokenRequester": sanitized(token.requester),
            "renewers": [sanitized(each) for each in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.id,
            "version": _VERSION,
        }
    )


def decode_token(content: bytes) -> DelegationToken:
    """Raises ValueError, TypeError, LookupError for what cannot be understood."""
    said = parsed(content)
    if not isinstance(said, dict) or said["version"] not in (*_OWNERS_ONLY, _VERSION):
        raise ValueError(f"{said!r} is no delegation token of version {_VERSION}")
    owner = unsanitized(said["owner"])
    return DelegationToken(
        str(said["tokenId"]),
        owner,
        unsanitized(said.get("tokenRequester") or said["owner"]),
        tuple(unsanitized(each) for each in said["renewers"]),
        int(said["issueTimestamp"]),
        int(said["maxTimestamp"]),
        int(said["expiryTimestamp"]),
    )
