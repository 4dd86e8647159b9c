"""AlterClientQuotas (key 49): v0-1 (KIP-546).

Behaviour
- Sets and removes the quotas of users, client ids, both together, addresses, and of the default of
  each.  Each entity is changed whole or not at all; one that is refused does not keep the others
  from being changed.
- An entity that is named twice, or that has a quota named twice, is refused (INVALID_REQUEST), and
  told of once.
- Removing what is not set, and even what is no quota, changes nothing and is no error.
- Who names an address that is no address is told so after the name service was asked, which does
  not hold up others.
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
from kwire.cluster.metadata.changes import decide_all
from kwire.cluster.metadata.entities import IP, Entity
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from kwire.requests.context import Context
from kwire.security.quotas.kinds import invalid

log = logging.getLogger("kwire.quotas")


def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: Context
) -> Awaitable[AlterClientQuotasResponse]:
    return _alter(broker, request)


async def _alter(broker: Broker, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    once, refused = _told_apart(request.entries)
    changes = [await _change(entity, entry) for entity, entry in once]
    outcomes = quota_outcomes(changes)
    if request.validate_only:
        decide_all(broker.image, outcomes)
        failed = None
    else:
        failed = await commit_for_client(broker.membership, outcomes, log, "quotas are not changed")
    answers = [_entry(entity, refusal) for entity, refusal in refused]
    for change, outcome in zip(changes, outcomes, strict=True):
        answers.append(_entry(change.entity, outcome.refusal or failed))
    return AlterClientQuotasResponse(entries=answers)


def _told_apart(
    entries: Sequence[RequestEntryData],
) -> tuple[list[tuple[Entity, RequestEntryData]], list[tuple[Entity, Refusal]]]:
    """The entities that are named once and clearly, and those that are not."""
    by_entity: dict[tuple[tuple[str, str | None], ...], tuple[Entity, list[RequestEntryData]]] = {}
    for entry in entries:
        entity: Entity = {part.entity_type: part.entity_name for part in entry.entity}
        known = by_entity.setdefault(tuple(sorted(entity.items())), (entity, []))
        known[1].append(entry)
    once: list[tuple[Entity, RequestEntryData]] = []
    refused: list[tuple[Entity, Refusal]] = []
    for entity, named in by_entity.values():
        if len(named) > 1 or len({each.key for each in named[0].ops}) < len(named[0].ops):
            refused.append((entity, repeated(entity)))
        else:
            once.append((entity, named[0]))
    return once, refused


async def _change(entity: Entity, entry: RequestEntryData) -> QuotaChange:
    values = [(each.key, None if each.remove else each.value) for each in entry.ops]
    address = entity.get(IP)
    if address and not await _is_address(address):
        refusal = invalid(f"{address} is not a valid IP or resolvable host.")
        return QuotaChange(entity, values, refusal)
    return QuotaChange(entity, values)


async def _is_address(name: str) -> bool:
    """Or a host that has one: the name service is asked where it is none."""
    try:
        await trio.socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _entry(entity: Entity, refusal: Refusal | None) -> ResponseEntryData:
    told = [EntityData(*part) for part in entity.items()]
    if refusal is None:
        return ResponseEntryData(ErrorCode.NONE, None, told)
    return ResponseEntryData(refusal.error, refusal.message, told)
