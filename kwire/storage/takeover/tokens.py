"""Delegation tokens in a KRaft metadata log, compared with kwire's (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.kraft.user_records import token_of, token_record
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.log.directory.kraft_metadata import KraftMetadata

SINCE: Final = 14
"""Level of `metadata.version` 3.6-IV2: delegation tokens are in the metadata log."""


def _keeps_tokens(kraft: KraftMetadata) -> bool:
    return kraft.features.get("metadata.version", 0) >= SINCE


def tokens_in(kraft: KraftMetadata) -> dict[str, DelegationToken]:
    """Return all tokens in the log by id."""
    return {record.token_id: token_of(record) for record in kraft.tokens.values()}


def from_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetToken]:
    """The changes that make the tokens of `image` those of the log, if its version has tokens."""
    if _keeps_tokens(kraft):
        yield from _between(dict(image.tokens.items()), tokens_in(kraft))


def lacking_in_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetToken]:
    """The changes that make the log's tokens those of `image`."""
    yield from _between(tokens_in(kraft), dict(image.tokens.items()))


def _between(
    before: dict[str, DelegationToken], after: dict[str, DelegationToken]
) -> Iterator[SetToken]:
    """Yield the changes that turn the tokens `before` into those `after`."""
    for token_id in sorted(before.keys() | after.keys()):
        if before.get(token_id) != after.get(token_id):
            yield SetToken(token_id, before.get(token_id), after.get(token_id))


def token_records(
    change: SetToken, kraft: KraftMetadata
) -> Iterator[DelegationTokenRecord | RemoveDelegationTokenRecord]:
    """Yield the records that a controller writes for a change of a token."""
    token = change.token
    if not _keeps_tokens(kraft):
        return
    if token is None:
        yield RemoveDelegationTokenRecord(change.token_id)
        return
    yield token_record(token)
