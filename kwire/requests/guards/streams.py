"""Requests about streams groups."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import DescribedGroup
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.groups.streams.validation import refused_topics, topics_of
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.requests.guards.describing import may_know, tell_operations

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
    """Topics that no application may have are told of before those that the sender may not know."""
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
    refused = [DescribedGroup(error_code=DENIED, group_id=each) for each in denied]

    def shape(response: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        if request.include_authorized_operations:
            tell_operations(access, response.groups)
        told = (_without_unknown_topics(access, group) for group in response.groups)
        response.groups = [*refused, *told]
        return response

    return then(proceed(request), shape)


def _without_unknown_topics(access: Access, group: DescribedGroup) -> DescribedGroup:
    """Nothing of a group with topics that the sender may not know."""
    if may_know(access, _topic_names(group)):
        return group
    return DescribedGroup(
        error_code=TOPIC_DENIED, error_message=TOPICS_HIDDEN, group_id=group.group_id
    )


def _topic_names(group: DescribedGroup) -> list[str]:
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    names = {
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }
    return sorted(names)
