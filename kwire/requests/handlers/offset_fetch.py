"""OffsetFetch (key 9): v1-10.

Behaviour
- A partition without a committed offset, and any partition of a group that does not exist, has
  offset -1, leader epoch -1 and empty metadata, and no error.
- A null list of topics (from v2) requests all committed offsets.  Only responses with topic ids
  leave out deleted topics then.
- With `require_stable` (from v7) an offset that an open transaction is about to change gives
  UNSTABLE_OFFSET_COMMIT.
- The response waits until the offsets in it are committed in `__consumer_offsets`.

Version notes: an error of the group is in every partition in v1, in the response from v2; leader
epochs from v5; flexible from v6; several groups from v8 (KIP-709); member id and epoch from v9, for
consumer groups (KIP-848) only; topics by id from v10, UNKNOWN_TOPIC_ID if the id is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.coordinators.runtime.promise import Promise, then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

ERROR_AT_THE_TOP_SINCE = 2
SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

Reply = OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]

ROUTE = Route(ApiKey.OFFSET_FETCH, 1, 10, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(
    broker: Broker, request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Return the committed offsets of each group; before version 8 there is only one group."""
    version = context.api_version
    groups = request.groups if version >= SEVERAL_GROUPS_SINCE else [_only_group(request)]
    fetch = _GroupFetch(broker, version, request.require_stable)
    replies = [fetch.start(group) for group in groups]
    return then_all(replies, lambda replies: _finish(fetch, groups, replies))


def _finish(
    fetch: _GroupFetch,
    groups: list[OffsetFetchRequestGroup],
    replies: list[OffsetFetchResponseGroup],
) -> OffsetFetchResponse:
    """Return the response from the coordinators' replies, in the form of the version."""
    answers = [fetch.finish(group, reply) for group, reply in zip(groups, replies, strict=True)]
    if fetch.version >= SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(groups=answers)
    return _of_one_group(answers[0])


class _GroupFetch:
    """Converts the request and reply of each group: topic ids, and where v1 has its error."""

    def __init__(self, broker: Broker, version: int, require_stable: bool) -> None:
        self._broker = broker
        self._require_stable = require_stable
        self.version = version
        self._refused: dict[int, list[OffsetFetchResponseTopics]] = {}

    def start(self, group: OffsetFetchRequestGroup) -> Reply:
        """Ask the group's coordinator for its offsets; the reply may come later.

        From version 10 topics have ids; a topic with an unknown id is not part of the question.
        """
        if self.version >= TOPIC_IDS_SINCE and group.topics is not None:
            names = self._broker.image.names_by_id
            for topic in group.topics:
                topic.name = names.get(topic.topic_id, "")
            self._refused[id(group)] = [_unknown(topic) for topic in group.topics if not topic.name]
            group.topics = [topic for topic in group.topics if topic.name]
        return self._broker.coordinators.groups.fetch_offsets(
            group, require_stable=self._require_stable
        )

    def finish(
        self, group: OffsetFetchRequestGroup, reply: OffsetFetchResponseGroup
    ) -> OffsetFetchResponseGroup:
        """Return the coordinator's reply in the form of the version, with unknown topics added."""
        if reply.error_code != ErrorCode.NONE:
            return reply if self.version >= ERROR_AT_THE_TOP_SINCE else _spread(group, reply)
        if self.version >= TOPIC_IDS_SINCE:
            if group.topics is None:
                self._name_by_id(reply)
            reply.topics += self._refused.get(id(group), [])
        return reply

    def _name_by_id(self, reply: OffsetFetchResponseGroup) -> None:
        """Set the topic ids in the reply, and leave out topics that were deleted."""
        topics = self._broker.image.topics
        reply.topics = [topic for topic in reply.topics if topic.name in topics]
        for topic in reply.topics:
            topic.topic_id = topics[topic.name].id


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the group of a request before version 8, which has its fields at the top level."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _of_one_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Return the response of a version before 8, which has the group's fields at the top level."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return _failed(topic, ErrorCode.UNKNOWN_TOPIC_ID)


def _spread(
    group: OffsetFetchRequestGroup, reply: OffsetFetchResponseGroup
) -> OffsetFetchResponseGroup:
    """The group's error in every partition: v1 has no other field for it."""
    error = ErrorCode(reply.error_code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_failed(topic, error) for topic in group.topics or []]
    )


def _failed(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    """Return the answer of a topic in which each partition has `error` and no offset."""
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=error,
            )
            for index in topic.partition_indexes
        ],
    )


# -- rights


def guard(access: Access, request: OffsetFetchRequest, proceed: Proceed) -> Response:
    """Require DESCRIBE on each group, and DESCRIBE on each topic; refuse the others one by one."""
    if access.version < SEVERAL_GROUPS_SINCE:
        return _fetch_of_one(access, request, proceed)
    requested = request.groups
    allowed = [
        access.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id) for group in requested
    ]
    request.groups = [group for group, may in zip(requested, allowed, strict=True) if may]
    refused = [_hide(access, group) for group in request.groups]

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        """Put the refused groups in their places, and refuse or hide topics of the others."""
        answers = iter(zip(response.groups, refused, request.groups, strict=True))
        groups = []
        for group, may in zip(requested, allowed, strict=True):
            if not may:
                groups.append(
                    OffsetFetchResponseGroup(
                        group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                    )
                )
                continue
            answer, refused_topics, allowed_group = next(answers)
            groups.append(answer)
            _show(access, answer, refused_topics, everything=allowed_group.topics is None)
        response.groups = groups
        return response

    return reshaped(proceed(request), merge)


def _hide(access: Access, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Remove topics that the sender may not describe from the request; return their answers."""
    if group.topics is None:
        return []
    names = access.broker.image.names_by_id
    if access.version >= TOPIC_IDS_SINCE:
        for topic in group.topics:
            topic.name = names.get(topic.topic_id, "")
    group.topics, denied = access.split(
        AclOperation.DESCRIBE,
        ResourceType.TOPIC,
        group.topics,
        lambda topic: topic.name,
        nameless=True,
    )
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    index, -1, -1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
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
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            [topic.name for topic in answer.topics],
            quiet=True,
        )
        answer.topics = [topic for topic in answer.topics if topic.name in seen]
    elif answer.error_code == ErrorCode.NONE:
        answer.topics = [*answer.topics, *refused]


def _fetch_of_one(access: Access, request: OffsetFetchRequest, proceed: Proceed) -> Response:
    """Check a request before version 8, which is about one group."""
    if not access.may(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return _refused_fetch(request, access.version)
    everything = request.topics is None
    allowed, denied = access.split(
        AclOperation.DESCRIBE, ResourceType.TOPIC, request.topics or (), lambda topic: topic.name
    )
    if not everything:
        request.topics = allowed

    refused = [_unfetched(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        _show(access, response, refused, everything=everything)
        return response

    return reshaped(proceed(request), merge)


def _refused_fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """Return the response to a sender that may not describe the group.

    Version 1 has no error at the top level, so each partition has it.
    """
    if version >= ERROR_AT_THE_TOP_SINCE:
        return OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return OffsetFetchResponse(
        topics=[
            _unfetched(topic, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for topic in request.topics or ()
        ]
    )


def _unfetched(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    """Return the answer of a topic in which each partition has `error` and no offset."""
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(index, -1, -1, "", error)
            for index in topic.partition_indexes
        ],
    )
