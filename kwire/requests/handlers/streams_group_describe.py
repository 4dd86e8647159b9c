"""StreamsGroupDescribe (key 89): v0-1.

Behaviour
- The response has the epochs, topology and members of streams groups, with each member's current
  and target assignment.
- GROUP_ID_NOT_FOUND for a group that does not exist or is of another type.

Version notes: v1 has the name of the assignor, and on request the description of the topology that
a plug-in of the broker stores, with a status (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kwire.coordinators.runtime.promise import Promise, answered, then_all
from kwire.groups.streams.configuring import DescriptionStatus
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.describing import add_operations, may_know, split_groups
from kwire.requests.handlers.streams_group_heartbeat import is_served
from kwire.requests.route import Right, Route
from kwire.security.operations import GROUP_OPERATIONS

if TYPE_CHECKING:
    from kwire.coordinators.runtime.descriptions import TopologyDescriptions

ROUTE = Route(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 1, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: Context
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    """Return the state and members of each streams group, as its coordinator describes it."""
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [DescribedGroup(error_code=error, group_id=each) for each in request.group_ids]
        return StreamsGroupDescribeResponse(groups=groups)
    with_operations = request.include_authorized_operations
    replies = [
        broker.coordinators.groups.describe_streams_group(group_id)
        for group_id in request.group_ids
    ]
    descriptions = broker.coordinators.groups.descriptions
    if not request.include_topology_description:
        return then_all(replies, lambda groups: _response(groups, with_operations))
    if descriptions is None:
        return then_all(replies, lambda groups: _response(_undescribed(groups), with_operations))
    return _describe_fully(descriptions, replies, with_operations)


def _undescribed(groups: list[DescribedGroup]) -> list[DescribedGroup]:
    """Return the groups of a broker without a plug-in, which has no topology descriptions."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.topology_description_status = DescriptionStatus.NOT_STORED
    return groups


async def _describe_fully(
    descriptions: TopologyDescriptions,
    replies: Sequence[DescribedGroup | Promise[DescribedGroup]],
    with_operations: bool,
) -> StreamsGroupDescribeResponse:
    """Wait for the descriptions of the groups, and add those of their topologies."""
    groups = [await answered(reply) for reply in replies]
    await descriptions.attach(groups)
    return _response(groups, with_operations)


def _response(groups: list[DescribedGroup], with_operations: bool) -> StreamsGroupDescribeResponse:
    """Return the response; with all operations on the groups if the request asks for them."""
    for group in groups if with_operations else ():
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return StreamsGroupDescribeResponse(groups=groups)


# -- rights

TOPICS_HIDDEN: Final = (
    "The described group uses topics that the client is not authorized to describe."
)


def guard(access: Access, request: StreamsGroupDescribeRequest, proceed: Proceed) -> Response:
    """Describe only groups that the sender may describe; the refused ones come first."""
    request.group_ids, refused = split_groups(access, request.group_ids, DescribedGroup)

    def shape(response: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        if request.include_authorized_operations:
            add_operations(access, response.groups)
        visible = (_hidden_if_denied(access, group) for group in response.groups)
        response.groups = [*refused, *visible]
        return response

    return reshaped(proceed(request), shape)


def _hidden_if_denied(access: Access, group: DescribedGroup) -> DescribedGroup:
    """`group`, or only an error if it has topics that the sender may not describe."""
    if may_know(access, _topic_names(group)):
        return group
    return DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=TOPICS_HIDDEN,
        group_id=group.group_id,
    )


def _topic_names(group: DescribedGroup) -> list[str]:
    """Return the names of all topics in the group's topology, sorted."""
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    names = {
        name
        for subtopology in subtopologies
        for name in (
            *subtopology.source_topics,
            *subtopology.repartition_sink_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
            *(topic.name for topic in subtopology.state_changelog_topics),
        )
    }
    return sorted(names)
