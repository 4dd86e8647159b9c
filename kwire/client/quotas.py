"""Quotas of users, client ids and IP addresses (KIP-546): describe and change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import check
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_EXACT: Final = 0
_DEFAULT: Final = 1

Entity = Mapping[str, str | None]
"""Names by `user`, `client-id` or `ip`.  None stands for the default of that kind."""


class Quotas(NamedTuple):
    """The quotas of an entity: values by the names of quotas."""

    entity: Entity
    values: Mapping[str, float]


def describe_quotas(cluster: Cluster, entity: Entity) -> list[Quotas]:
    """The quotas of all entities that contain these parts, or of all entities if there are none.

    Raises BrokerRefused.
    """
    components = [
        ComponentData(kind, _DEFAULT if name is None else _EXACT, name)
        for kind, name in entity.items()
    ]

    def ask() -> DescribeClientQuotasResponse:
        """Sends the request once.  `strict=False` also selects entities with further parts."""
        reply: DescribeClientQuotasResponse = cluster.any().call(
            DescribeClientQuotasRequest(components, strict=False)
        )
        check(reply.error_code, "describe quotas", reply.error_message)
        return reply

    quotas = [
        Quotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {quota.key: quota.value for quota in entry.values},
        )
        for entry in cluster.retrying(ask).entries or []
    ]
    return sorted(quotas, key=lambda quota: sorted((k, n or "") for k, n in quota.entity.items()))


def alter_quotas(cluster: Cluster, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Set quotas of one entity; None removes a quota.  Raises BrokerRefused."""
    parts = [EntityData(*part) for part in entity.items()]
    operations = [OpData(key, value or 0.0, value is None) for key, value in values.items()]

    def ask() -> AlterClientQuotasResponse:
        """Sends the request once.  Raises BrokerRefused if the broker refuses the entity."""
        reply: AlterClientQuotasResponse = cluster.any().call(
            AlterClientQuotasRequest([RequestEntryData(parts, operations)])
        )
        for entry in reply.entries:
            check(entry.error_code, "alter quotas", entry.error_message)
        return reply

    cluster.retrying(ask)
