"""Guards of requests about groups and their committed offsets."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.codecs.messages.delete_groups import DeletableGroupResult
from kwire.codecs.messages.describe_groups import DescribedGroup
from kwire.codecs.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kwire.codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.requests.guards.base import Access, Proceed, Request, Response, then
from kwire.requests.guards.describing import add_operations, completing_response, may_know

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kwire.codecs.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kwire.codecs.messages.describe_groups import (
        DescribeGroupsRequest,
        DescribeGroupsResponse,
    )
    from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
    from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
    from kwire.codecs.messages.offset_commit import OffsetCommitRequest
    from kwire.codecs.messages.offset_delete import OffsetDeleteRequest
    from kwire.codecs.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
    )

GROUP = ResourceType.GROUP
TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_COMMITS_BY_ID_SINCE = 10
FETCHES_BY_ID_SINCE = 10
SEVERAL_GROUPS_SINCE = 8
ERROR_AT_THE_TOP_SINCE = 2
SEVERAL_KEYS_SINCE = 4


def describe_groups(access: Access, request: DescribeGroupsRequest, proceed: Proceed) -> Response:
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, request.groups, str)
    request.groups = allowed
    refused = [DescribedGroup(error_code=DENIED, group_id=group_id) for group_id in denied]

    def merge(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            add_operations(access, response.groups)
        response.groups = [*refused, *response.groups]
        return response

    return then(proceed(request), merge)


def consumer_group_heartbeat(
    access: Access, request: ConsumerGroupHeartbeatRequest, proceed: Proceed
) -> Response:
    """A subscription by a regular expression matches only topics that the sender may describe."""
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=DENIED)
    if not may_know(access, request.subscribed_topic_names or ()):
        return ConsumerGroupHeartbeatResponse(error_code=TOPIC_DENIED)
    authority, sender = access.authority, copy(access.context)
    access.context.may_describe = lambda name: authority.allows(
        sender, AclOperation.DESCRIBE, TOPIC, name, quiet=True
    )
    return proceed(request)


def consumer_group_describe(
    access: Access, request: ConsumerGroupDescribeRequest, proceed: Proceed
) -> Response:
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, request.group_ids, str)
    request.group_ids = allowed
    refused = [DescribedConsumerGroup(error_code=DENIED, group_id=group_id) for group_id in denied]
    return then(proceed(request), completing_response(access, request, refused, _topic_names))


def _topic_names(group: DescribedConsumerGroup) -> set[str]:
    """The topics of all current and target assignments."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def list_groups(access: Access, request: ListGroupsRequest, proceed: Proceed) -> Response:
    """All groups if the sender may describe the cluster, else those that it may describe."""
    if access.on_cluster(AclOperation.DESCRIBE, quiet=True):
        return proceed(request)

    def merge(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [
            group
            for group in response.groups
            if access.may(AclOperation.DESCRIBE, GROUP, group.group_id, quiet=True)
        ]
        return response

    return then(proceed(request), merge)


def delete_groups(access: Access, request: DeleteGroupsRequest, proceed: Proceed) -> Response:
    names = list(dict.fromkeys(request.groups_names))
    allowed, denied = access.split(AclOperation.DELETE, GROUP, names, str)
    request.groups_names = allowed

    def merge(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results += [DeletableGroupResult(group_id, DENIED) for group_id in denied]
        return response

    return then(proceed(request), merge)


def offset_commit(access: Access, request: OffsetCommitRequest, proceed: Proceed) -> Response:
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return OffsetCommitResponse(
            topics=[_uncommitted(topic, DENIED) for topic in request.topics]
        )
    if access.version >= _COMMITS_BY_ID_SINCE:
        for topic in request.topics:
            topic.name = access.broker.image.names_by_id.get(topic.topic_id, "")
    request.topics, denied = access.split(
        AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name, nameless=True
    )
    refused = [_uncommitted(topic, TOPIC_DENIED) for topic in denied]

    def merge(response: OffsetCommitResponse) -> OffsetCommitResponse:
        response.topics = [*refused, *response.topics]
        return response

    return then(proceed(request), merge)


def _uncommitted(topic: Request, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition.partition_index, error)
            for partition in topic.partitions
        ],
    )


def offset_delete(access: Access, request: OffsetDeleteRequest, proceed: Proceed) -> Response:
    if not access.may(AclOperation.DELETE, GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=DENIED)
    allowed, denied = access.split(
        AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name
    )
    request.topics = allowed
    refused = [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(partition.partition_index, TOPIC_DENIED)
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]

    def merge(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            response.topics = [*refused, *response.topics]
        return response

    return then(proceed(request), merge)


def offset_fetch(access: Access, request: OffsetFetchRequest, proceed: Proceed) -> Response:
    if access.version < SEVERAL_GROUPS_SINCE:
        return _fetch_of_one(access, request, proceed)
    requested = request.groups
    allowed = [access.may(AclOperation.DESCRIBE, GROUP, group.group_id) for group in requested]
    request.groups = [group for group, may in zip(requested, allowed, strict=True) if may]
    refused = [_hide(access, group) for group in request.groups]

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        answers = iter(zip(response.groups, refused, request.groups, strict=True))
        groups = []
        for group, may in zip(requested, allowed, strict=True):
            if not may:
                groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=DENIED))
                continue
            answer, refused_topics, allowed_group = next(answers)
            groups.append(answer)
            _show(access, answer, refused_topics, everything=allowed_group.topics is None)
        response.groups = groups
        return response

    return then(proceed(request), merge)


def _hide(access: Access, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Remove topics that the sender may not describe from the request; return their answers."""
    if group.topics is None:
        return []
    names = access.broker.image.names_by_id
    if access.version >= FETCHES_BY_ID_SINCE:
        for topic in group.topics:
            topic.name = names.get(topic.topic_id, "")
    group.topics, denied = access.split(
        AclOperation.DESCRIBE, TOPIC, group.topics, lambda topic: topic.name, nameless=True
    )
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(index, -1, -1, "", TOPIC_DENIED)
                for index in topic.partition_indexes
            ],
        )
        for topic in denied
    ]


def _show(
    access: Access, answer: Response, refused: Sequence[Response], *, everything: bool
) -> None:
    """Hide or refuse topics in `answer`, which is a group or a response about one.

    If the request names no topics, those that the sender may not describe are left out.  If it
    names some, the `refused` answers are added.
    """
    if everything:
        seen = access.permitted(
            AclOperation.DESCRIBE, TOPIC, [topic.name for topic in answer.topics], quiet=True
        )
        answer.topics = [topic for topic in answer.topics if topic.name in seen]
    elif answer.error_code == ErrorCode.NONE:
        answer.topics = [*answer.topics, *refused]


def _fetch_of_one(access: Access, request: OffsetFetchRequest, proceed: Proceed) -> Response:
    if not access.may(AclOperation.DESCRIBE, GROUP, request.group_id):
        return _refused_fetch(request, access.version)
    everything = request.topics is None
    allowed, denied = access.split(
        AclOperation.DESCRIBE, TOPIC, request.topics or (), lambda topic: topic.name
    )
    if not everything:
        request.topics = allowed

    refused = [_unfetched(topic, TOPIC_DENIED) for topic in denied]

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        _show(access, response, refused, everything=everything)
        return response

    return then(proceed(request), merge)


def _refused_fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    if version >= ERROR_AT_THE_TOP_SINCE:
        return OffsetFetchResponse(error_code=DENIED)
    return OffsetFetchResponse(topics=[_unfetched(topic, DENIED) for topic in request.topics or ()])


def _unfetched(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(index, -1, -1, "", error)
            for index in topic.partition_indexes
        ],
    )


def find_coordinator(access: Access, request: FindCoordinatorRequest, proceed: Proceed) -> Response:
    """The keys are groups, transactional ids or share partitions; the last are for brokers only."""
    kind = RIGHTS_BY_KEY_TYPE.get(request.key_type)
    if kind is None:
        return proceed(request)
    if access.version < SEVERAL_KEYS_SINCE:
        if access.may(kind.operation, kind.resource_type, kind.name or request.key):
            return proceed(request)
        return FindCoordinatorResponse(
            error_code=kind.error, error_message=kind.message, node_id=-1, port=-1
        )
    requested = request.coordinator_keys
    allowed = [
        access.may(kind.operation, kind.resource_type, kind.name or key) for key in requested
    ]
    request.coordinator_keys = [key for key, may in zip(requested, allowed, strict=True) if may]
    if not request.coordinator_keys:
        return FindCoordinatorResponse(coordinators=[_denied(key, kind) for key in requested])

    def merge(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        coordinators = iter(response.coordinators)
        response.coordinators = [
            next(coordinators) if may else _denied(key, kind)
            for key, may in zip(requested, allowed, strict=True)
        ]
        return response

    return then(proceed(request), merge)


class CoordinatorKeyRight(NamedTuple):
    """The right that a type of coordinator key needs, and the error and message without it.

    `name` is the resource of the right; empty stands for the key itself.
    """

    operation: AclOperation
    resource_type: ResourceType
    name: str
    error: ErrorCode
    message: str


RIGHTS_BY_KEY_TYPE: Final = {
    0: CoordinatorKeyRight(AclOperation.DESCRIBE, GROUP, "", DENIED, "Group authorization failed."),
    1: CoordinatorKeyRight(
        AclOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        "",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    2: CoordinatorKeyRight(
        AclOperation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    ),
}


def _denied(key: str, kind: CoordinatorKeyRight) -> Coordinator:
    return Coordinator(key, -1, "", -1, kind.error, "")
