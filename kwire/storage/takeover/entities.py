"""SCRAM credentials and quotas of entities in a KRaft metadata log, compared with kwire's (pure).

An entity is a user, a client id or an address.  The KRaft log has credentials and quotas as
separate records; kwire has both among the configs of the entity.  Other configs of entities stay as
they are, and so do credentials if the log's `metadata.version` has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.credentials import MECHANISM_NUMBERS, MECHANISMS, user_key
from kwire.cluster.metadata.entities import (
    ENTITY_RESOURCE,
    USER,
    Entity,
    entity_key,
    entity_of,
)
from kwire.cluster.metadata.image import ClusterImage, ResourceKey
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.kraft.user_records import credential_record, credential_text
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.security.quotas.kinds import QUOTAS, java_double, text_of

SINCE: Final = 11
"""Level of `metadata.version` 3.5-IV2: credentials are in the metadata log."""


EntityRecord = UserScramCredentialRecord | RemoveUserScramCredentialRecord | ClientQuotaRecord


class Changed(NamedTuple):
    """A difference between the KRaft log and kwire, and the change that applies the log's value."""

    says: str
    change: SetConfigs


def _kept_in(kraft: KraftMetadata) -> frozenset[str]:
    """The names of the entity configs that the KRaft log can have."""
    keeps_users = kraft.features.get("metadata.version", 0) >= SINCE
    return QUOTAS | MECHANISM_NUMBERS.keys() if keeps_users else QUOTAS


def set_in(kraft: KraftMetadata) -> dict[ResourceKey, dict[str, str]]:
    """Return the configs of all entities in the KRaft log."""
    configs: dict[ResourceKey, dict[str, str]] = {}
    for (user, number), record in kraft.credentials.items():
        mechanism = MECHANISMS.get(number)
        if mechanism is not None:
            configs.setdefault(user_key(user), {})[mechanism] = credential_text(record)
    for parts, values in kraft.quotas.items():
        entity = dict(parts)
        quotas = {quota: _quota_text(entity, quota, value) for quota, value in values.items()}
        configs.setdefault(entity_key(entity), {}).update(quotas)
    return configs


def _quota_text(entity: Entity, quota: str, value: float) -> str:
    """The config value of a quota.  A value that only Apache Kafka accepts is kept, too."""
    try:
        return text_of(entity, quota, value)
    except Refusal:
        return java_double(value)


def _set_on(image: ClusterImage) -> Iterator[ResourceKey]:
    return (key for key in image.configs if key[0] == ENTITY_RESOURCE)


def from_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[Changed]:
    """Yield the changes that make the entities of `image` those of the KRaft log."""
    in_log, kept = set_in(kraft), _kept_in(kraft)
    for key in sorted({*in_log, *_set_on(image)}):
        before = image.configs_of(*key)
        others = {name: text for name, text in before.items() if name not in kept}
        after = {**others, **in_log.get(key, {})}
        if after != before:
            yield Changed(_description(key, before, after), SetConfigs(*key, before, after))


def _description(key: ResourceKey, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The names of the changed configs, for the log; it has no secrets."""
    differ = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    what = [*(["credentials"] if differ & MECHANISM_NUMBERS.keys() else [])]
    what += sorted(differ - MECHANISM_NUMBERS.keys())
    return f"{_shown(key)}: {', '.join(what)} changed"


def _shown(key: ResourceKey) -> str:
    """Return a readable name of the user, client or other resource, for messages."""
    entity = entity_of(key)
    if entity is None:
        return key[1]
    return ", ".join(
        f"{kind} {'(default)' if name is None else name}" for kind, name in entity.items()
    )


def lacking_in_log(image: ClusterImage, kraft: KraftMetadata) -> Iterator[SetConfigs]:
    """Yield the changes that make the entities of the KRaft log those of `image`."""
    in_log, kept = set_in(kraft), _kept_in(kraft)
    for key in sorted({*in_log, *_set_on(image)}):
        before = in_log.get(key, {})
        after = {name: text for name, text in image.configs_of(*key).items() if name in kept}
        if before != after:
            yield SetConfigs(*key, before, after)


def records_of_entity(change: SetConfigs, kraft: KraftMetadata) -> Iterator[EntityRecord]:
    """Yield the records that a controller writes for a change of an entity."""
    entity = entity_of((change.resource, change.name))
    if entity is None:
        return
    for name in sorted(_kept_in(kraft)):
        before, after = change.expected.get(name), change.configs.get(name)
        if before == after:
            continue
        if name in QUOTAS:
            yield _quota_record(entity, name, after)
        elif (user := entity.get(USER)) is not None and len(entity) == 1:
            yield _credential_record(user, name, after)


def _quota_record(entity: Entity, quota: str, text: str | None) -> ClientQuotaRecord:
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    return ClientQuotaRecord(parts, quota, float(text or 0), text is None)


def _credential_record(user: str, mechanism: str, text: str | None) -> EntityRecord:
    if text is None:
        return RemoveUserScramCredentialRecord(user, MECHANISM_NUMBERS[mechanism])
    return credential_record(user, mechanism, text)
