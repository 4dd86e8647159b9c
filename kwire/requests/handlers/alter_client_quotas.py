"""AlterClientQuotas (key 49): v0-1 (KIP-546).

Behaviour
- Sets and removes the quotas of users, client ids, pairs of both, addresses, and of the default of
  each.  An entity is changed as a whole or not at all; a refused one does not affect the others.
- An entity that stands twice in the request, or has a quota twice, gives INVALID_REQUEST, once.
- Removing a quota that is not set, or that does not exist, changes nothing and is no error.
- An address may be a host name.  The handler resolves it without blocking other requests, and only
  then can refuse it.
- `validate_only` checks and changes nothing.

Version notes: v1 is flexible.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

import trio

from kwire.broker.broker import Broker
from kwire.cluster.decisions.quota_changes import QuotaChange, quota_outcomes, repeated
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import decide_all
from kwire.cluster.metadata.entities import IP, Entity
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.quotas.kinds import invalid

log = logging.getLogger("kwire.quotas")

ROUTE = Route(
    ApiKey.ALTER_CLIENT_QUOTAS,
    0,
    1,
    Right(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),
    by_controller=True,
)


def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: Context
) -> Awaitable[AlterClientQuotasResponse]:
    return _alter(broker, request)


async def _alter(broker: Broker, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the quotas of each valid entity, and return one result per entity.

    With `validate_only` it decides the changes and does not store them.
    """
    once, refused = _sorted_by_validity(request.entries)
    changes = [await _change(entity, entry) for entity, entry in once]
    outcomes = quota_outcomes(changes)
    if request.validate_only:
        decide_all(broker.image, outcomes)
        failed = None
    else:
        failed = await commit_for_client(broker.membership, outcomes, log, "Cannot change quotas")
    answers = [_entry(entity, refusal) for entity, refusal in refused]
    for change, outcome in zip(changes, outcomes, strict=True):
        answers.append(_entry(change.entity, outcome.refusal or failed))
    return AlterClientQuotasResponse(entries=answers)


def _sorted_by_validity(
    entries: Sequence[RequestEntryData],
) -> tuple[list[tuple[Entity, RequestEntryData]], list[tuple[Entity, Refusal]]]:
    """The valid entities with their entry, and the refused ones with the refusal."""
    by_entity: dict[tuple[tuple[str, str | None], ...], tuple[Entity, list[RequestEntryData]]] = {}
    for entry in entries:
        entity: Entity = {part.entity_type: part.entity_name for part in entry.entity}
        _, same_entity = by_entity.setdefault(tuple(sorted(entity.items())), (entity, []))
        same_entity.append(entry)
    valid: list[tuple[Entity, RequestEntryData]] = []
    refused: list[tuple[Entity, Refusal]] = []
    for entity, same_entity in by_entity.values():
        operations = same_entity[0].ops
        if len(same_entity) > 1 or len({op.key for op in operations}) < len(operations):
            refused.append((entity, repeated(entity)))
        else:
            valid.append((entity, same_entity[0]))
    return valid, refused


async def _change(entity: Entity, entry: RequestEntryData) -> QuotaChange:
    """Return the change of one entity's quotas; an address that does not resolve is refused."""
    values = [(op.key, None if op.remove else op.value) for op in entry.ops]
    address = entity.get(IP)
    if address and not await _is_address(address):
        refusal = invalid(f"{address} is not a valid IP or resolvable host.")
        return QuotaChange(entity, values, refusal)
    return QuotaChange(entity, values)


async def _is_address(name: str) -> bool:
    """Whether `name` is an IP address or a host name that resolves to one."""
    try:
        await trio.socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _entry(entity: Entity, refusal: Refusal | None) -> ResponseEntryData:
    """Return the result of one entity: no error, or the refusal."""
    parts = [EntityData(*part) for part in entity.items()]
    if refusal is None:
        return ResponseEntryData(ErrorCode.NONE, None, parts)
    return ResponseEntryData(refusal.error, refusal.message, parts)


# -- rights


def refuse(
    request: AlterClientQuotasRequest, error: ErrorCode, version: int, message: str
) -> AlterClientQuotasResponse:
    """Return the response that refuses every entity with `error`.

    `message` is not used: Apache Kafka has this fixed text here.
    """
    denied = "Cluster authorization failed."
    return AlterClientQuotasResponse(
        entries=[ResponseEntryData(error, denied, entry.entity) for entry in request.entries]
    )
