"""StreamsGroupTopologyDescriptionUpdate (key 93): v0.

Behaviour
- A member of a streams group sends the description of its topology, which a heartbeat has asked it
  for.  A plug-in of the broker stores it (KIP-1331).
- UNSUPPORTED_VERSION, before anything else is checked, if the broker has no plug-in.
- GROUP_ID_NOT_FOUND and UNKNOWN_MEMBER_ID if the sender is no member; INVALID_REQUEST if the epoch
  is not that of the group's topology, or if the description is not valid.
- STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED with the plug-in's message if the plug-in fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kwire.requests.context import Context
from kwire.requests.handlers.streams_group_heartbeat import is_served
from kwire.requests.route import Right, Route

if TYPE_CHECKING:
    from kwire.coordinators.runtime.descriptions import TopologyDescriptions

NO_PLUGIN = "The broker has no streams group topology description plugin configured."

ROUTE = Route(
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    0,
    0,
    Right(AclOperation.READ, ResourceType.GROUP),
)


def handle(
    broker: Broker, request: StreamsGroupTopologyDescriptionUpdateRequest, context: Context
) -> (
    StreamsGroupTopologyDescriptionUpdateResponse
    | Awaitable[StreamsGroupTopologyDescriptionUpdateResponse]
):
    """Store the description of a member's topology."""
    if not is_served(broker):
        return _response(Refusal(ErrorCode.UNSUPPORTED_VERSION))
    descriptions = broker.coordinators.groups.descriptions
    if descriptions is None:
        return _response(Refusal(ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN))
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value.strip():
            return _response(Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty."))
    return _update(descriptions, request)


async def _update(
    descriptions: TopologyDescriptions, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Let the plug-in store the description, and return the response."""
    try:
        await descriptions.update(request)
    except Refusal as refusal:
        return _response(refusal)
    return StreamsGroupTopologyDescriptionUpdateResponse()


def _response(refusal: Refusal) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=refusal.error, error_message=refusal.message
    )
