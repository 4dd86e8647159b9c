"""Which topics and partitions a request names, and where its answer has an error for each.

Requests differ in what they call these, and some have other places in other versions; here is each
once.  What is not named here is answered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import response_class
from kwire.codecs.primitives import ZERO_UUID, Message

Part = tuple[str, int | None]
"""A topic and a partition; None where the request is about the topic as a whole."""
NameOf = Callable[[bytes], str | None]
"""The name of a topic by its id."""


class OfPartitions(NamedTuple):
    """Names of a request's fields, and of its answer's: topics, their partitions, their number."""

    topics: str
    partitions: str
    number: str
    answers: str
    answered: str
    answered_number: str


class OfTopics(NamedTuple):
    """The same, of a request about topics as a whole."""

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
"""Those whose answer has its errors in other places in other versions:
kwire.testing.hooks.faults.refusing."""

NOWHERE: Final = frozenset({ApiKey.ELECT_LEADERS})
"""Those whose answer has a place in some versions only."""


def has_place_for_error(api_key: int) -> bool:
    """Whether a request can be answered with an error, whatever it names."""
    if api_key in OF_PARTITIONS or api_key in OF_TOPICS or api_key in ELSEWHERE:
        return True
    return api_key not in NOWHERE and "error_code" in response_class(api_key).__slots__


def topic_of(entry: Any, name_of: NameOf) -> str:  # noqa: ANN401 - an entry of any request's topics
    """Its name, empty where the entry has an id that nobody knows."""
    name = getattr(entry, "name", None) or getattr(entry, "topic", None)
    if name:
        return str(name)
    topic_id = getattr(entry, "topic_id", ZERO_UUID)
    return (name_of(topic_id) or "") if topic_id != ZERO_UUID else ""


def parts_of(api_key: int, request: Message, name_of: NameOf) -> Iterator[Part]:
    """What a request names, in its order; nothing where it names no topics."""
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
    """The groups that a request is about."""
    own = getattr(request, "group_id", "")
    several = getattr(request, "groups", None) or ()
    named = tuple(each if isinstance(each, str) else each.group_id for each in several)
    return (own, *named) if own else named


def transactional_id_of(request: Message) -> str | None:
    """The transactional id that a request is about, if it is."""
    found: str | None = getattr(request, "transactional_id", None)
    return found or getattr(request, "v3_and_below_transactional_id", None)
