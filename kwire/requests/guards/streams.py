"""Guards of requests about streams groups."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import DescribedGroup
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.groups.streams.validation import refused_topics, topics_of
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.requests.guards.describing import add_operations, may_know

if TYPE_CHECKING:
    from kwire.codecs.messages.streams_group_describe import (
        StreamsGroupDescribeRequest,
        StreamsGroupDescribeResponse,
    )
    from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPICS_HIDDEN: Final = (
    "The described group uses topics that the client is not authorized to describe."
)


def streams_group_heartbeat(
    access: Access, request: StreamsGroupHeartbeatRequest, proceed: Proceed
) -> Response:
    """The handler refuses topics with invalid names; that error comes before missing rights."""
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=DENIED)
    topology = request.topology
    if refused_topics(topology) is None and not may_know(access, topics_of(topology)):
        return StreamsGroupHeartbeatResponse(error_code=TOPIC_DENIED)
    authority, sender = access.authority, copy(access.context)
    access.context.may_create = lambda name: (
        authority.on_cluster(sender, AclOperation.CREATE, quiet=True)
        or authority.allows(sender, AclOperation.CREATE, TOPIC, name)
    )
    return proceed(request)


def streams_group_describe(
    access: Access, request: StreamsGroupDescribeRequest, proceed: Proceed
) -> Response:
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, request.group_ids, str)
    request.group_ids = allowed
    refused = [DescribedGroup(error_code=DENIED, group_id=group_id) for group_id in denied]

    def shape(response: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        if request.include_authorized_operations:
            add_operations(access, response.groups)
        visible = (_hidden_if_denied(access, group) for group in response.groups)
        response.groups = [*refused, *visible]
        return response

    return then(proceed(request), shape)


def _hidden_if_denied(access: Access, group: DescribedGroup) -> DescribedGroup:
    """`group`, or only an error if it has topics that the sender may not describe."""
    if may_know(access, _topic_names(group)):
        return group
    return DescribedGroup(
        error_code=TOPIC_DENIED, error_message=TOPICS_HIDDEN, group_id=group.group_id
    )


def _topic_names(group: DescribedGroup) -> list[str]:
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
