"""The SCRAM credentials of users as the records of a KRaft metadata log have them: pure.

What else is set on a user is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.metadata.changes import SetConfigs
from kwire.metadata.credentials import (
    MECHANISMS,
    credentials_of,
    user_key,
    users_with_credentials,
)
from kwire.metadata.entities import USER, entity_of
from kwire.metadata.image import ClusterImage
from kwire.security.sasl.scram import Credential

SINCE: Final = 11
"""Level of `metadata.version` 3.5-IV2: credentials are in the metadata log."""

_NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISMS.items()}


def _keeps_users(kraft: KraftMetadata) -> bool:
    return kraft.features.get("metadata.version", 0) >= SINCE


def users_in(kraft: KraftMetadata) -> dict[str, dict[str, str]]:
    """By user, then by mechanism, the credentials that the log says there are."""
    found: dict[str, dict[str, str]] = {}
    for (user, number), record in kraft.credentials.items():
        mechanism = MECHANISMS.get(number)
        if mechanism is not None:
            credential = Credential(
                bytes(record.salt),
                bytes(record.stored_key),
                bytes(record.server_key),
                record.iterations,
            )
            found.setdefault(user, {})[mechanism] = credential.text
    return found


def from_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[tuple[str, SetConfigs]]:
    """Whose credentials are others in the log than here, and what makes them the log's."""
    there = users_in(kraft)
    known = users_with_credentials(image) if _keeps_users(kraft) else ()
    for user in sorted({*there, *known}):
        key = user_key(user)
        before = image.configs_of(*key)
        others = {name: text for name, text in before.items() if name not in _NUMBERS}
        after = {**others, **there.get(user, {})}
        if after != before:
            yield user, SetConfigs(*key, before, after)


def lacking_in_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetConfigs]:
    """What makes the log's credentials those of `image`."""
    there = users_in(kraft)
    for user in sorted({*there, *users_with_credentials(image)}):
        before, after = there.get(user, {}), credentials_of(image, user)
        if before != after:
            yield SetConfigs(*user_key(user), before, after)


def credential_records(
    change: SetConfigs, kraft: KraftMetadata
) -> Iterator[UserScramCredentialRecord | RemoveUserScramCredentialRecord]:
    """What a controller writes of a change to a user."""
    entity = entity_of((change.resource, change.name))
    user = None if entity is None or entity.keys() != {USER} else entity[USER]
    if user is None or not _keeps_users(kraft):
        return
    for mechanism, number in _NUMBERS.items():
        before, after = change.expected.get(mechanism), change.configs.get(mechanism)
        if before == after:
            continue
        yield (
            RemoveUserScramCredentialRecord(user, number)
            if after is None
            else _record(user, number, after)
        )


def _record(user: str, number: int, text: str) -> UserScramCredentialRecord:
    salt, stored_key, server_key, iterations = Credential.parse(text)
    return UserScramCredentialRecord(user, number, salt, stored_key, server_key, iterations)
