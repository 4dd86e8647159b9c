"""DeleteTopics (key 20): v1-6.

Behaviour
- The topics are gone from the metadata, and their partitions from this broker, when the answer
  goes out; the files follow after `file.delete.delay.ms`.
- Unknown names are UNKNOWN_TOPIC_OR_PARTITION, whatever they look like; unknown ids are
  UNKNOWN_TOPIC_ID.  A topic named twice, by name, by id or by both, is not deleted:
  INVALID_REQUEST, once.  Naming it by name and id at once, or by neither, is INVALID_REQUEST too.
- Internal topics can be deleted, as in Kafka.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED from v3, INVALID_REQUEST before.

Version notes: flexible from v4; error messages from v5; v6 takes ids besides names (KIP-516).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable
from functools import partial

from kwire.broker import Broker
from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.context import Context
from kwire.metadata.changes import DeleteTopic
from kwire.metadata.image import ClusterImage

log = logging.getLogger("kwire.topics")

_UNKNOWN_NAME = "This server does not host this topic-partition."
_UNKNOWN_ID = "This server does not host this topic ID."
_FIRST_WITH_DELETION_DISABLED = 3


def handle(
    broker: Broker, request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    asked = request.topics
    if context.api_version < 6:
        asked = [DeleteTopicState(name) for name in request.topic_names]
    if not broker.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if context.api_version < _FIRST_WITH_DELETION_DISABLED:
            error = ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[_result(topic, error, None) for topic in asked],
        )
    return _delete(broker, asked)


async def _delete(broker: Broker, asked: list[DeleteTopicState]) -> DeleteTopicsResponse:
    found, results = _decide(broker.image, asked)
    try:
        await broker.commit([partial(_deletion, result) for result in found])
    except StoreError as problem:
        log.error("topics are not deleted: %s", problem)
        error = ErrorCode.KAFKA_STORAGE_ERROR
        results = [_result(topic, error, str(problem)) for topic in asked]
    return DeleteTopicsResponse(responses=results)


def _deletion(result: DeletableTopicResult, image: ClusterImage) -> DeleteTopic | None:
    """The decision on a topic that was there when the request came."""
    topic = image.topic_by_id(result.topic_id)
    if topic is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result.error_message = _UNKNOWN_NAME
        return None
    return DeleteTopic(topic.name, topic.id)


def _result(topic: DeleteTopicState, error: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(topic.name, topic.topic_id, error, message)


def _decide(
    image: ClusterImage, asked: list[DeleteTopicState]
) -> tuple[list[DeletableTopicResult], list[DeletableTopicResult]]:
    """Those of the topics to delete, and all that is answered."""
    results: list[DeletableTopicResult] = []
    found: dict[str, DeletableTopicResult] = {}
    by_name = Counter(topic.name for topic in asked if topic.name is not None)
    by_id = Counter(topic.topic_id for topic in asked if topic.name is None)
    told: set[str | bytes] = set()
    for topic in asked:
        mistake = _mistake(topic, by_name, by_id)
        if mistake is not None:
            key = topic.topic_id if topic.name is None else topic.name
            if key not in told or not mistake.startswith("Duplicate"):
                results.append(_result(topic, ErrorCode.INVALID_REQUEST, mistake))
            told.add(key)
            continue
        result = _find(image, topic)
        name = result.name
        if result.error_code == ErrorCode.NONE and name is not None:
            if name in found:
                found[name].error_code = ErrorCode.INVALID_REQUEST
                found[
                    name
                ].error_message = "The provided topic name maps to an ID that was already supplied."
                continue
            found[name] = result
        results.append(result)
    return [each for each in found.values() if each.error_code == ErrorCode.NONE], results


def _mistake(topic: DeleteTopicState, by_name: Counter[str], by_id: Counter[bytes]) -> str | None:
    if topic.name is None:
        if topic.topic_id == ZERO_UUID:
            return "Neither topic name nor id were specified."
        return "Duplicate topic id." if by_id[topic.topic_id] > 1 else None
    if topic.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    return "Duplicate topic name." if by_name[topic.name] > 1 else None


def _find(image: ClusterImage, topic: DeleteTopicState) -> DeletableTopicResult:
    if topic.name is None:
        known = image.topic_by_id(topic.topic_id)
        if known is None:
            return _result(topic, ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
    else:
        known = image.topics.get(topic.name)
        if known is None:
            return _result(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_NAME)
    return DeletableTopicResult(known.name, known.id)
