"""Encodes and decodes the znodes of delegation tokens, as Apache Kafka 3.9.2 does.

/delegation_token/tokens/ID                      a token, without its HMAC
/delegation_token/token_changes/token_change_N   notification: the id of a changed token
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
"""Paths that each broker with a secret key for tokens creates at its start."""
_VERSION: Final = 3
_OWNERS_ONLY: Final = (1, 2)
"""Versions that have no requester field: the owner is the requester."""


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Return the content of the znode of a delegation token, without its HMAC."""
    return text_of(
        {
            "owner": sanitized(token.owner),
            "tokenRequester": sanitized(token.requester),
            "renewers": [sanitized(renewer) for renewer in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.id,
            "version": _VERSION,
        }
    )


def decode_token(content: bytes) -> DelegationToken:
    """The token in `content`.  Raises ValueError, TypeError, LookupError."""
    fields = parsed(content)
    if not isinstance(fields, dict) or fields["version"] not in (*_OWNERS_ONLY, _VERSION):
        raise ValueError(f"{fields!r} is not a delegation token of version {_VERSION}")
    owner = unsanitized(fields["owner"])
    return DelegationToken(
        str(fields["tokenId"]),
        owner,
        unsanitized(fields.get("tokenRequester") or fields["owner"]),
        tuple(unsanitized(renewer) for renewer in fields["renewers"]),
        int(fields["issueTimestamp"]),
        int(fields["maxTimestamp"]),
        int(fields["expiryTimestamp"]),
    )
