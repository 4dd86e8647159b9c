"""DescribeClientQuotas (key 48): v0-1 (KIP-546).

Behaviour
- The response has the quotas of the entities that the filter matches.  Each component of the filter
  matches a part of an entity: one name, the default, or any name.  `strict` leaves out entities
  that also have other parts.
- An invalid filter gives an error and no list.

Version notes: v1 is flexible.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.quotas.asking import QuotaFilter, found

ROUTE = Route(
    ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that the filter matches, sorted by quota name."""
    components = ((each.entity_type, each.match_type, each.match) for each in request.components)
    try:
        quota_filter = QuotaFilter(components, request.strict)
    except Refusal as refusal:
        return DescribeClientQuotasResponse(
            error_code=refusal.error, error_message=refusal.message, entries=None
        )
    entries = [
        EntryData(
            [EntityData(*part) for part in entity.items()],
            [ValueData(*each) for each in sorted(values.items())],
        )
        for entity, values in found(broker.image, quota_filter)
    ]
    return DescribeClientQuotasResponse(entries=entries)


# -- rights


def refuse(
    request: DescribeClientQuotasRequest, error: ErrorCode, version: int, message: str
) -> DescribeClientQuotasResponse:
    """Return the response with `error` and without a message.

    Apache Kafka has no message here either, because the broker and not the controller answers.
    """
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)
