"""Deletion of topics, by name or by id.

The image at the arrival of the request decides once which of its topics exist.  A topic that is
created under one of the names while the others are deleted is not deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kwire.cluster.metadata.changes import DeleteTopic
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID

_UNKNOWN_NAME = "This server does not host this topic-partition."
_UNKNOWN_ID = "This server does not host this topic ID."


@dataclass(slots=True)
class TopicDeletion:
    """A topic to delete, by name or by id, and why it is refused.

    A request may wrongly give both or neither.  As a `Decision` it deletes the topic that existed
    when the request arrived.
    """

    name: str | None
    topic_id: bytes = ZERO_UUID
    refusal: Refusal | None = None

    def __call__(self, image: ClusterImage) -> DeleteTopic | None:
        """Return the deletion; None, with a refusal, if the topic is gone by now."""
        topic = image.topic_by_id(self.topic_id)
        if topic is None:
            self.refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_NAME)
            return None
        return DeleteTopic(topic.name, topic.id)


def deletions(image: ClusterImage, requested: Sequence[TopicDeletion]) -> list[TopicDeletion]:
    """Return a result for each topic of a request; topics without a refusal are to be deleted."""
    results: list[TopicDeletion] = []
    results_by_name: dict[str, TopicDeletion] = {}
    by_name = Counter(topic.name for topic in requested if topic.name is not None)
    by_id = Counter(topic.topic_id for topic in requested if topic.name is None)
    reported: set[str | bytes] = set()
    for topic in requested:
        mistake = _mistake(topic, by_name, by_id)
        if mistake is not None:
            key = topic.topic_id if topic.name is None else topic.name
            if key not in reported or not mistake.startswith("Duplicate"):
                results.append(_refused(topic, ErrorCode.INVALID_REQUEST, mistake))
            reported.add(key)
            continue
        result = _looked_up(image, topic)
        name = result.name
        if result.refusal is None and name is not None:
            if name in results_by_name:
                results_by_name[name].refusal = Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
                continue
            results_by_name[name] = result
        results.append(result)
    return results


def _refused(topic: TopicDeletion, error: ErrorCode, message: str) -> TopicDeletion:
    return TopicDeletion(topic.name, topic.topic_id, Refusal(error, message))


def _mistake(topic: TopicDeletion, by_name: Counter[str], by_id: Counter[bytes]) -> str | None:
    """Return what is wrong with how the request names a topic, in Kafka's words, or None."""
    if topic.name is None:
        if topic.topic_id == ZERO_UUID:
            return "Neither topic name nor id were specified."
        return "Duplicate topic id." if by_id[topic.topic_id] > 1 else None
    if topic.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    return "Duplicate topic name." if by_name[topic.name] > 1 else None


def _looked_up(image: ClusterImage, topic: TopicDeletion) -> TopicDeletion:
    """Return the topic with its name and id, or with a refusal if it does not exist."""
    if topic.name is None:
        topic_image = image.topic_by_id(topic.topic_id)
        if topic_image is None:
            return _refused(topic, ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
    else:
        topic_image = image.topics.get(topic.name)
        if topic_image is None:
            return _refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_NAME)
    return TopicDeletion(topic_image.name, topic_image.id)
