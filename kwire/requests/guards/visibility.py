"""Guards of requests that describe topics and the cluster.

A client without the right to describe a topic must not learn whether it exists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponseTopic
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.security.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS

if TYPE_CHECKING:
    from kwire.codecs.messages.describe_cluster import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )
    from kwire.codecs.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
    from kwire.codecs.messages.metadata import MetadataResponse

TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NAMES_OR_IDS_SINCE = 12


def cluster_operations(access: Access) -> int:
    """The bits of the operations that the sender may do on the cluster; 0 if it may not see it."""
    if not access.on_cluster(AclOperation.DESCRIBE):
        return 0
    return access.authority.operations(
        access.context, CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME
    )


def topic_operations(access: Access, name: str) -> int:
    return access.authority.operations(access.context, TOPIC_OPERATIONS, TOPIC, name)


def describe_cluster(access: Access, request: DescribeClusterRequest, proceed: Proceed) -> Response:
    def merge(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = cluster_operations(access)
        return response

    return then(proceed(request), merge)


def metadata(access: Access, request: MetadataRequest, proceed: Proceed) -> Response:
    requested = request.topics
    everything = requested is None or (access.version == 0 and not requested)
    refused: list[MetadataResponseTopic] = []
    if not everything and not _is_misuse(request, access.version):
        request, refused = _without_denied(access, request)
    # In v0 an empty list requests all topics, so drop the topics that the handler then returns.
    nothing_left = access.version == 0 and not everything and not request.topics

    def merge(response: MetadataResponse) -> MetadataResponse:
        if nothing_left:
            response.topics = []
        elif everything:
            response.topics = [
                topic
                for topic in response.topics
                if topic.name is not None
                and access.on_topic(AclOperation.DESCRIBE, topic.name, quiet=True)
            ]
        if request.include_topic_authorized_operations:
            # The handler has copied the topics for this request, so they may be changed.
            for topic in response.topics:
                if topic.name and topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                    topic.topic_authorized_operations = topic_operations(access, topic.name)
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = cluster_operations(access)
        response.topics = [*response.topics, *refused]
        return response

    return then(proceed(request), merge)


def _is_misuse(request: MetadataRequest, version: int) -> bool:
    """Whether the handler refuses the request as a whole because of its names or ids."""
    topics = request.topics or ()
    if all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in topics):
        return False
    return version < _NAMES_OR_IDS_SINCE or all(topic.topic_id == ZERO_UUID for topic in topics)


def _without_denied(
    access: Access, request: MetadataRequest
) -> tuple[MetadataRequest, list[MetadataResponseTopic]]:
    topics = request.topics or []
    if any(topic.topic_id != ZERO_UUID for topic in topics):
        return _ids_without_denied(access, request)
    names = dict.fromkeys(topic.name or "" for topic in topics)
    seen = access.permitted(AclOperation.DESCRIBE, TOPIC, names)
    visible = [name for name in names if name in seen]
    uncreatable = dict.fromkeys(_uncreatable(access, request, visible))
    allowed = [topic for topic in topics if topic.name in seen and topic.name not in uncreatable]
    refused = [*uncreatable, *(name for name in names if name not in seen)]
    return replace(request, topics=allowed), [_denied(name) for name in refused]


def _uncreatable(access: Access, request: MetadataRequest, names: list[str]) -> list[str]:
    """Missing topics that the request would create, but that its sender may not create."""
    broker = access.broker
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return []
    missing = [name for name in names if name not in broker.image.topics]
    if not missing or access.on_cluster(AclOperation.CREATE, quiet=True):
        return []
    creatable = access.permitted(AclOperation.CREATE, TOPIC, missing)
    return [name for name in missing if name not in creatable]


def _ids_without_denied(
    access: Access, request: MetadataRequest
) -> tuple[MetadataRequest, list[MetadataResponseTopic]]:
    """The request without ids that the sender may not see, and the answers for these.

    The answers have no names: a name would say what the id belongs to.
    """
    allowed, hidden = [], []
    names = access.broker.image.names_by_id
    for topic in request.topics or ():
        name = names.get(topic.topic_id)
        if name is None or access.on_topic(AclOperation.DESCRIBE, name):
            allowed.append(topic)
        else:
            hidden.append(MetadataResponseTopic(DENIED, None, topic.topic_id))
    return replace(request, topics=allowed), hidden


def _denied(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(DENIED, name, is_internal=name in INTERNAL_TOPICS)


def describe_topic_partitions(
    access: Access, request: DescribeTopicPartitionsRequest, proceed: Proceed
) -> Response:
    everything = not request.topics
    names = [topic.name for topic in request.topics] or sorted(access.broker.image.topics)
    if "" in names:
        return proceed(request)  # the handler refuses it as a whole
    seen = access.permitted(AclOperation.DESCRIBE, TOPIC, names)
    denied = [] if everything else [name for name in dict.fromkeys(names) if name not in seen]
    allowed = [TopicRequest(name) for name in names if name in seen]
    cursor = request.cursor
    if everything and cursor is not None:
        # The cursor's topic may have been deleted or hidden; the handler needs it in the list.
        allowed = [topic for topic in allowed if topic.name >= cursor.topic_name]
        if not (allowed and allowed[0].name == cursor.topic_name):
            cursor = None

    def merge(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = topic_operations(access, topic.name)
        response.topics += [DescribeTopicPartitionsResponseTopic(DENIED, name) for name in denied]
        return response

    if not allowed:  # an empty list would request all topics
        return merge(DescribeTopicPartitionsResponse())
    return then(proceed(replace(request, topics=allowed, cursor=cursor)), merge)
