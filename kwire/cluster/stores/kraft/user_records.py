"""SCRAM credentials and delegation tokens as values of the image and as metadata records (pure)."""

from __future__ import annotations

from kwire.cluster.metadata.credentials import MECHANISM_NUMBERS
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.security.sasl.scram import Credential


def credential_text(record: UserScramCredentialRecord) -> str:
    """Return the credential in a record, as it stands among the configs of its user."""
    salt, stored_key, server_key = map(bytes, (record.salt, record.stored_key, record.server_key))
    return Credential(salt, stored_key, server_key, record.iterations).text


def credential_record(user: str, mechanism: str, text: str) -> UserScramCredentialRecord:
    """Return the record of a credential, which is `text` among the configs of its user."""
    salt, stored_key, server_key, iterations = Credential.parse(text)
    number = MECHANISM_NUMBERS[mechanism]
    return UserScramCredentialRecord(user, number, salt, stored_key, server_key, iterations)


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """Return the delegation token in a record."""
    return DelegationToken(
        record.token_id,
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    """Return the record of a delegation token."""
    return DelegationTokenRecord(
        token.owner,
        token.requester,
        list(token.renewers),
        token.issue_ms,
        token.max_ms,
        token.expiry_ms,
        token.id,
    )
