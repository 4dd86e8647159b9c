"""The topics and partitions that a request names, and the places of their errors in the response.

The messages of Kafka use different field names for topics, partitions and their numbers; the tables
here list them per API.  A request of an API that is in no table is answered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import response_class
from kwire.codecs.primitives import ZERO_UUID, Message

Part = tuple[str, int | None]
"""A topic and a partition; the partition is None if the request is about the whole topic."""
NameOf = Callable[[bytes], str | None]
"""Returns the name of a topic id, None if it is unknown."""


class OfPartitions(NamedTuple):
    """Field names of a request and its response: the topics, their partitions, their numbers."""

    topics: str
    partitions: str
    number: str
    answers: str
    answered: str
    answered_number: str


class OfTopics(NamedTuple):
    """Field names of a request about whole topics and its response."""

    topics: str
    answers: str


OF_PARTITIONS: Final[dict[int, OfPartitions]] = {
    ApiKey.PRODUCE: OfPartitions(
        "topic_data", "partition_data", "index", "responses", "partition_responses", "index"
    ),
    ApiKey.FETCH: OfPartitions(
        "topics", "partitions", "partition", "responses", "partitions", "partition_index"
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OfPartitions(
        "topics", "partitions", "partition", "topics", "partitions", "partition"
    ),
    **dict.fromkeys(
        (
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_COMMIT,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.DELETE_RECORDS,
        ),
        OfPartitions(
            "topics", "partitions", "partition_index", "topics", "partitions", "partition_index"
        ),
    ),
}
OF_TOPICS: Final[dict[int, OfTopics]] = {
    ApiKey.METADATA: OfTopics("topics", "topics"),
    ApiKey.CREATE_TOPICS: OfTopics("topics", "topics"),
    ApiKey.DELETE_TOPICS: OfTopics("topics", "responses"),
    ApiKey.CREATE_PARTITIONS: OfTopics("topics", "results"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: OfTopics("topics", "topics"),
}
ELSEWHERE: Final = frozenset(
    {ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH, ApiKey.ADD_PARTITIONS_TO_TXN}
)
"""APIs whose response has its errors in different places in different versions; `refusing` handles
each of them."""

NOWHERE: Final = frozenset({ApiKey.ELECT_LEADERS})
"""APIs whose response has a place for an error in some versions only."""


def has_place_for_error(api_key: int) -> bool:
    """Whether every response of this API has a place for an error."""
    if api_key in OF_PARTITIONS or api_key in OF_TOPICS or api_key in ELSEWHERE:
        return True
    return api_key not in NOWHERE and "error_code" in response_class(api_key).__slots__


def topic_of(entry: Any, name_of: NameOf) -> str:  # noqa: ANN401 - an entry of any request's topics
    """The topic's name; empty if the entry has an unknown topic id."""
    name = getattr(entry, "name", None) or getattr(entry, "topic", None)
    if name:
        return str(name)
    topic_id = getattr(entry, "topic_id", ZERO_UUID)
    return (name_of(topic_id) or "") if topic_id != ZERO_UUID else ""


def parts_of(api_key: int, request: Message, name_of: NameOf) -> Iterator[Part]:
    """The topics and partitions that a request names, in its order."""
    if (shape := OF_PARTITIONS.get(api_key)) is not None:
        for topic in getattr(request, shape.topics):
            name = topic_of(topic, name_of)
            for partition in getattr(topic, shape.partitions):
                yield name, getattr(partition, shape.number)
    elif (whole := OF_TOPICS.get(api_key)) is not None:
        for topic in getattr(request, whole.topics) or ():
            yield topic_of(topic, name_of), None
        for name in getattr(request, "topic_names", None) or ():  # DeleteTopics up to v5
            yield name, None


def groups_of(request: Message) -> tuple[str, ...]:
    """Ids of the groups that a request is about."""
    own = getattr(request, "group_id", "")
    several = getattr(request, "groups", None) or ()
    named = tuple(each if isinstance(each, str) else each.group_id for each in several)
    return (own, *named) if own else named


def transactional_id_of(request: Message) -> str | None:
    """The transactional id that a request is about, or None."""
    found: str | None = getattr(request, "transactional_id", None)
    return found or getattr(request, "v3_and_below_transactional_id", None)
