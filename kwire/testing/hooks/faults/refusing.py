"""Answers a request, or some of the partitions that it names, with an error.

`split` divides a request into the part that the broker serves and the part that is refused, and
`add` puts the refused part back into the broker's response.  `overwrite` replaces errors in a
response to a request that was carried out.  `refusal` is the response to a request that is refused
as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.messages import response_class
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kwire.codecs.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kwire.codecs.primitives import Message, Struct
from kwire.testing.hooks.faults.parts import (
    OF_PARTITIONS,
    OF_TOPICS,
    NameOf,
    OfPartitions,
    topic_of,
)

Picks = Callable[[str, int | None], bool]
"""Whether the rule matches a topic and partition; the partition is None for a whole topic."""

SEVERAL_KEYS_SINCE: Final = 4
"""First version of FindCoordinator with several keys (KIP-699)."""

NO_VALUE: Final = {"base_offset": -1, "low_watermark": -1, "high_watermark": -1}
"""Fields whose value beside an error differs from their default."""


class RefusedTopic(NamedTuple):
    """A topic entry of a request, and the numbers of its partitions that are refused."""

    topic: Any
    indexes: list[int]


def split(
    api_key: int, request: Message, picks: Picks, name_of: NameOf
) -> tuple[Message | None, list[RefusedTopic]]:
    """The request without what the rule matches (None if nothing is left), and what it matches."""
    of_partitions = OF_PARTITIONS.get(api_key)
    field = OF_TOPICS[api_key].topics if of_partitions is None else of_partitions.topics
    kept: list[Any] = []
    refused: list[RefusedTopic] = []
    for topic in getattr(request, field):
        name = topic_of(topic, name_of)
        if of_partitions is None:
            if picks(name, None):
                refused.append(RefusedTopic(topic, []))
            else:
                kept.append(topic)
            continue
        rest, indexes = _split_topic(topic, of_partitions, name, picks)
        if indexes:
            refused.append(RefusedTopic(topic, indexes))
        if rest is not None:
            kept.append(rest)
    return (_with(request, field, kept) if kept else None), refused


def _split_topic(
    topic: Any,  # noqa: ANN401 - an entry of any request's topics
    shape: OfPartitions,
    name: str,
    picks: Picks,
) -> tuple[Any, list[int]]:
    """The entry without the refused partitions (None if none is left), and their numbers."""
    partitions = getattr(topic, shape.partitions)
    indexes = [getattr(each, shape.number) for each in partitions]
    refused = [index for index in indexes if picks(name, index)]
    rest = [each for each in partitions if getattr(each, shape.number) not in refused]
    if not refused:
        return topic, []
    return (_with(topic, shape.partitions, rest) if rest else None), refused


def _with(message: Any, field: str, listed: list[Any]) -> Any:  # noqa: ANN401 - of any request
    """A copy of the message with another list in that field."""
    return replace(message, **{field: listed})


def add(api_key: int, response: Message, refused: list[RefusedTopic], error: ErrorCode) -> None:
    """Add the refused topics and partitions with `error` to the response."""
    shape = OF_PARTITIONS.get(api_key)
    field = OF_TOPICS[api_key].answers if shape is None else shape.answers
    answers = getattr(response, field)
    for topic, indexes in refused:
        answer = _answer_of(answers, topic) if shape is not None else None
        if answer is None:
            answer = _named_alike(_element(type(response), field), topic)
            answers.append(answer)
        if shape is None:
            answer.error_code = error
            continue
        listed = getattr(answer, shape.answered)
        kind = _element(type(answer), shape.answered)
        listed += [_partition(kind, shape.answered_number, index, error) for index in indexes]


def _answer_of(answers: list[Any], topic: Any) -> Any:  # noqa: ANN401 - of any request
    """The response's entry of the same topic, or None."""
    for answer in answers:
        if all(
            getattr(answer, name) == getattr(topic, name, None)
            for name in ("name", "topic", "topic_id")
            if hasattr(answer, name)
        ):
            return answer
    return None


def _named_alike(kind: type[Any], topic: Any) -> Any:  # noqa: ANN401 - of any request
    names = ("name", "topic", "topic_id")
    shared = [name for name in names if name in kind.__slots__ and hasattr(topic, name)]
    return kind(**{name: getattr(topic, name) for name in shared})


def _partition(kind: type[Any], index_name: str, index: int, error: ErrorCode) -> Struct:
    values = {name: value for name, value in NO_VALUE.items() if name in kind.__slots__}
    partition: Struct = kind(**{index_name: index, "error_code": error, **values})
    return partition


def _element(kind: type[Struct], field: str) -> type[Any]:
    """The type of the elements of a message's list field."""
    hint = get_type_hints(kind)[field]
    element: type[Any] = get_args(hint)[0]
    return element


def overwrite(
    api_key: int, response: Message, picks: Picks, error: ErrorCode, name_of: NameOf
) -> None:
    """Replace the results of the matching topics and partitions by `error`."""
    if (shape := OF_PARTITIONS.get(api_key)) is not None:
        for topic in getattr(response, shape.answers):
            name = topic_of(topic, name_of)
            for partition in getattr(topic, shape.answered):
                if picks(name, getattr(partition, shape.answered_number)):
                    _set_error(partition, error)
    elif (whole := OF_TOPICS.get(api_key)) is not None:
        for topic in getattr(response, whole.answers):
            if picks(topic_of(topic, name_of), None):
                topic.error_code = error
    elif isinstance(response, FindCoordinatorResponse) and response.coordinators:
        for coordinator in response.coordinators:  # from v4 on there is no other place
            coordinator.error_code = error
    else:
        _set_all_errors(response, error)


def _set_error(partition: Any, error: ErrorCode) -> None:  # noqa: ANN401 - of any response
    """Sets the error of a partition in a response, and the values that Kafka returns together with
    an error: no offsets, no records."""
    partition.error_code = error
    for name, value in NO_VALUE.items():
        if hasattr(partition, name):
            setattr(partition, name, value)
    if hasattr(partition, "records"):
        partition.records = b""


def _set_all_errors(message: Struct, error: ErrorCode) -> None:
    """Set every error field of the message and of the structures in it."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name in ("error_code", "partition_error_code"):
            setattr(message, name, error)
        for each in value if isinstance(value, list) else ():
            if isinstance(each, Struct):
                _set_all_errors(each, error)


def refusal(api_key: int, api_version: int, request: Message, error: ErrorCode) -> Message:
    """The response to a request that is refused as a whole."""
    if isinstance(request, FindCoordinatorRequest):
        return _no_coordinator(request, api_version, error)
    if isinstance(request, OffsetFetchRequest):
        return _no_offsets(request, error)
    if isinstance(request, AddPartitionsToTxnRequest):
        return _not_added(request, error)
    response = response_class(api_key)()
    put_error(response, error)
    return response


def _no_coordinator(request: FindCoordinatorRequest, version: int, error: ErrorCode) -> Message:
    """Return a refused FindCoordinator.  From version 4 on, each key has a result (KIP-699)."""
    if version < SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            error_code=error, error_message=error.name, node_id=-1, port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key, -1, "", -1, error, error.name) for key in request.coordinator_keys
        ]
    )


def _no_offsets(request: OffsetFetchRequest, error: ErrorCode) -> Message:
    """Return a refused OffsetFetch.  From version 8 on, each group has a result (KIP-709)."""
    groups = [OffsetFetchResponseGroup(each.group_id, [], error) for each in request.groups]
    return OffsetFetchResponse(error_code=error, groups=groups)


def _not_added(request: AddPartitionsToTxnRequest, error: ErrorCode) -> Message:
    """Return a refused AddPartitionsToTxn.  Up to version 3, each partition has the error."""
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(error_code=error, results_by_topic_v3_and_below=topics)
