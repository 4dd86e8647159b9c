"""Guards of requests about the start offsets of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup as DescribedOffsets,
)
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.requests.guards.base import Access, Proceed, Response, then

if TYPE_CHECKING:
    from kwire.codecs.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from kwire.codecs.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsResponse,
    )

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
DENIED_MESSAGE = "Group authorization failed."
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC_DENIED_MESSAGE = "Topic authorization failed."


def describe_share_group_offsets(
    access: Access, request: DescribeShareGroupOffsetsRequest, proceed: Proceed
) -> Response:
    """Refuses named topics that the sender may not describe; if none is named, leaves them out."""
    requested = list(request.groups)
    allowed, denied = access.split(
        AclOperation.DESCRIBE, GROUP, requested, lambda group: group.group_id
    )
    hidden = {id(group): _hide_topics(access, group) for group in allowed}
    request.groups = allowed

    def merge(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for requested_group, group in zip(allowed, response.groups, strict=True):
            if requested_group.topics is None:
                group.topics = _visible_topics(access, group.topics)
            group.topics += hidden[id(requested_group)]
        answers = iter(response.groups)
        response.groups = [
            DescribedOffsets(group.group_id, error_code=DENIED)
            if group in denied
            else next(answers)
            for group in requested
        ]
        return response

    return then(proceed(request), merge)


def _hide_topics(
    access: Access, group: DescribeShareGroupOffsetsRequestGroup
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """Remove topics that the sender may not describe from the request; return their answers."""
    topics, hidden = access.split(
        AclOperation.DESCRIBE, TOPIC, group.topics or (), lambda topic: topic.topic_name
    )
    if hidden:
        group.topics = topics
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                DescribeShareGroupOffsetsResponsePartition(
                    index, -1, error_code=TOPIC_DENIED, error_message=TOPIC_DENIED_MESSAGE
                )
                for index in topic.partitions
            ],
        )
        for topic in hidden
    ]


def _visible_topics(
    access: Access, topics: list[DescribeShareGroupOffsetsResponseTopic]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    visible, _ = access.split(AclOperation.DESCRIBE, TOPIC, topics, lambda topic: topic.topic_name)
    return visible


def alter_share_group_offsets(
    access: Access, request: AlterShareGroupOffsetsRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return AlterShareGroupOffsetsResponse(0, DENIED, DENIED_MESSAGE)
    request.topics, hidden = access.split(
        AclOperation.READ, TOPIC, request.topics, lambda topic: topic.topic_name
    )

    def merge(response: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
        if response.error_code == ErrorCode.NONE:
            response.responses += [_unaltered(topic) for topic in hidden]
        return response

    return then(proceed(request), merge)


def _unaltered(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition.partition_index, TOPIC_DENIED, TOPIC_DENIED_MESSAGE
            )
            for partition in topic.partitions
        ],
    )


def delete_share_group_offsets(
    access: Access, request: DeleteShareGroupOffsetsRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.DELETE, GROUP, request.group_id):
        return DeleteShareGroupOffsetsResponse(0, DENIED, DENIED_MESSAGE)
    request.topics, hidden = access.split(
        AclOperation.READ, TOPIC, request.topics, lambda topic: topic.topic_name
    )

    def merge(response: DeleteShareGroupOffsetsResponse) -> DeleteShareGroupOffsetsResponse:
        if response.error_code == ErrorCode.NONE:
            response.responses += [
                DeleteShareGroupOffsetsResponseTopic(
                    topic.topic_name, error_code=TOPIC_DENIED, error_message=TOPIC_DENIED_MESSAGE
                )
                for topic in hidden
            ]
        return response

    return then(proceed(request), merge)
