"""Parts of responses that depend on when a broker learns of a change, and retriable errors.

In a cluster, a broker learns of changes at other brokers with a delay that is chance: of a new
topic, of what replicas hold, of the end of a transaction.  So a replay of a trace of several
brokers sends requests with retriable errors again, and compares only these parts of

    Fetch       the offsets up to the end of the recorded response.  The replayed Fetch waits for as
                many bytes; what follows them is fetched by a later Fetch of the trace.
    Metadata    of all topics: the topics in the recorded response
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import CorruptBatch, iter_batches
from kwire.codecs.errors import ErrorCode, error_codes_in, error_name
from kwire.codecs.messages.fetch import FetchResponse, PartitionData
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.primitives import Message
from kwire.testing.replaying.recording import Recorded

RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors of a request that comes too early; the client sends it again."""
REFUSED_WHOLE: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)
"""Requests that have no effect if their response has a retriable error."""

Key = tuple[str, int]


def recorded_retriable_errors(recorded: Recorded) -> set[int]:
    """The retriable errors in the recorded response."""
    if recorded.response is None:
        return set()
    return {code for code in error_codes_in(recorded.response) if code in RETRIABLE}


def did_nothing(recorded: Recorded) -> str | None:
    """Why the request is not sent: it came too early and had no effect, but might have one now.

    None if it may have had an effect.
    """
    errors = recorded_retriable_errors(recorded)
    if not errors or recorded.request.API_KEY not in REFUSED_WHOLE or recorded.response is None:
        return None
    if recorded.request.API_KEY == ApiKey.PRODUCE and not all(error_codes_in(recorded.response)):
        return None  # other partitions appended their records
    return came_too_early(errors)


def came_too_early(errors: set[int]) -> str:
    """Why a response is not compared, in words."""
    return f"it had come too early ({', '.join(sorted(map(error_name, errors)))})"


def fetched_bytes(response: Message | None) -> int:
    """How many bytes of records a Fetch response has; 0 for any other response."""
    if not isinstance(response, FetchResponse):
        return 0
    return sum(
        len(_records(partition)) for topic in response.responses for partition in topic.partitions
    )


def comparable(
    recorded: Recorded,
    answer: Message,
    recorded_topics: Mapping[bytes, str],
    topics: Mapping[bytes, str],
) -> tuple[Message, Message]:
    """The recorded response and the new one, without the parts that depend on chance.

    `recorded_topics` and `topics` have the names of topics by the recorded and the new topic ids.
    """
    response = recorded.response
    assert response is not None
    if isinstance(response, FetchResponse) and isinstance(answer, FetchResponse):
        ends = {
            key: _last_offset(partition)
            for key, partition in _partitions(response, recorded_topics)
            if partition.error_code or partition.records
        }
        return (
            _cut(response, recorded_topics, lambda key, _: key in ends, ends),
            _cut(answer, topics, lambda key, part: key in ends or bool(part.error_code), ends),
        )
    request = recorded.request
    if isinstance(response, MetadataResponse) and isinstance(answer, MetadataResponse):
        recorded_names = {topic.name for topic in response.topics}
        if isinstance(request, MetadataRequest) and request.topics is None:
            answer = copy.copy(answer)
            answer.topics = [topic for topic in answer.topics if topic.name in recorded_names]
    return response, answer


def _partitions(
    response: FetchResponse, names: Mapping[bytes, str]
) -> list[tuple[Key, PartitionData]]:
    """Return the partitions of a Fetch response, each with its topic name and index.  `names` has
    topic names by id, for versions of Fetch that carry ids."""
    return [
        ((topic.topic or names.get(topic.topic_id, ""), partition.partition_index), partition)
        for topic in response.responses
        for partition in topic.partitions
    ]


def _cut(
    response: FetchResponse,
    names: Mapping[bytes, str],
    is_kept: Callable[[Key, PartitionData], bool],
    ends: Mapping[Key, int],
) -> FetchResponse:
    """A copy of the response with the kept partitions, each up to its offset in `ends`."""
    cut = copy.copy(response)
    cut.responses = []
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        cut_topic = copy.copy(topic)
        cut_topic.partitions = [
            _up_to(partition, ends.get((name, partition.partition_index), -1))
            for partition in topic.partitions
            if is_kept((name, partition.partition_index), partition)
        ]
        if cut_topic.partitions:
            cut.responses.append(cut_topic)
    return cut


def _up_to(partition: PartitionData, end: int) -> PartitionData:
    """A copy without records and aborted transactions after the offset `end`, nor high watermark
    and last stable offset, which depend on other replicas."""
    cut = copy.copy(partition)
    cut.high_watermark = cut.last_stable_offset = -1
    cut.records = _whole_batches(partition, end)
    if partition.aborted_transactions is not None:
        cut.aborted_transactions = [
            aborted for aborted in partition.aborted_transactions if aborted.first_offset <= end
        ]
    return cut


def _whole_batches(partition: PartitionData, end: int) -> bytes:
    """The whole batches that begin at or before the offset `end`."""
    data = _records(partition)
    stop = 0
    try:
        for position, header in iter_batches(data):
            if header.base_offset > end:
                break
            stop = position + header.size_bytes
    except CorruptBatch:
        return data
    return data[:stop]


def _last_offset(partition: PartitionData) -> int:
    """The last offset of the last whole batch; -1 if there is no whole batch."""
    try:
        ends = [header.last_offset for _, header in iter_batches(_records(partition))]
    except CorruptBatch:
        return -1
    return ends[-1] if ends else -1


def _records(partition: PartitionData) -> bytes:
    records = partition.records or b""
    return bytes(records if isinstance(records, bytes | bytearray | memoryview) else records.read())
