"""Guards of CreateTopics and DeleteTopics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.decisions.outcome import named_once
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import CreatableTopicResult
from kwire.codecs.messages.delete_topics import DeletableTopicResult
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.guards.base import Access, Proceed, Response, then

if TYPE_CHECKING:
    from kwire.codecs.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CREATION_DENIED = "Authorization failed."
DELETION_DENIED = "Topic authorization failed."
_CONFIGS_SINCE = 5
_IDS_SINCE = 6


def create_topics(access: Access, request: CreateTopicsRequest, proceed: Proceed) -> Response:
    """The right CREATE on the cluster allows every topic.

    The response has a new topic's configs only if the sender may describe them.
    """
    names = [topic.name for topic in request.topics]
    _, repeated = named_once(names, str)
    if access.on_cluster(AclOperation.CREATE, quiet=True):
        denied = set[str]()
    else:
        permitted = access.permitted(AclOperation.CREATE, TOPIC, names)
        denied = set(names).difference(permitted, repeated)
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def merge(response: CreateTopicsResponse) -> CreateTopicsResponse:
        if access.version >= _CONFIGS_SINCE:
            for topic in response.topics:
                _hide_configs(access, topic)
        response.topics += [
            CreatableTopicResult(name=name, error_code=DENIED, error_message=CREATION_DENIED)
            for name in dict.fromkeys(names)
            if name in denied
        ]
        return response

    return then(proceed(request), merge)


def _hide_configs(access: Access, topic: CreatableTopicResult) -> None:
    if topic.error_code == ErrorCode.NONE and not access.on_topic(
        AclOperation.DESCRIBE_CONFIGS, topic.name, quiet=True
    ):
        topic.topic_config_error_code = DENIED
        topic.num_partitions = topic.replication_factor = -1
        topic.configs = []


def delete_topics(access: Access, request: DeleteTopicsRequest, proceed: Proceed) -> Response:
    """The answer for a topic id has the topic's name only if the sender may describe the topic."""
    if access.on_cluster(AclOperation.DELETE, quiet=True):
        return proceed(request)
    denied: list[DeletableTopicResult] = []
    if access.version < _IDS_SINCE:
        refused = {name for name in request.topic_names if _is_denied(access, name)}
        denied = [
            DeletableTopicResult(name, ZERO_UUID, DENIED, DELETION_DENIED)
            for name in dict.fromkeys(request.topic_names)
            if name in refused
        ]
        request.topic_names = [name for name in request.topic_names if name not in refused]
    else:
        allowed = []
        for topic in request.topics:
            denial = _denial(access, topic.name, topic.topic_id)
            if denial is None:
                allowed.append(topic)
            else:
                denied.append(denial)
        request.topics = allowed

    def merge(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses = [*denied, *response.responses]
        return response

    return then(proceed(request), merge)


def _is_denied(access: Access, name: str) -> bool:
    """Whether to answer with missing rights; a sender with DESCRIBE learns if no topic exists."""
    if access.on_topic(AclOperation.DELETE, name):
        return False
    exists = name in access.broker.image.topics
    return exists or not access.on_topic(AclOperation.DESCRIBE, name, quiet=True)


def _denial(access: Access, name: str | None, topic_id: bytes) -> DeletableTopicResult | None:
    if name is not None and topic_id != ZERO_UUID:
        return None  # the handler refuses a topic with both name and id
    topic_name = access.broker.image.names_by_id.get(topic_id) if name is None else name
    if topic_name is None or not _is_denied(access, topic_name):
        return None
    if name is None and not access.on_topic(AclOperation.DESCRIBE, topic_name, quiet=True):
        topic_name = None
    return DeletableTopicResult(topic_name, topic_id, DENIED, DELETION_DENIED)
