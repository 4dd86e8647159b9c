"""What is answered to who asks too early, and what in a cluster is there sooner or later.

In a cluster brokers hear of each other's doings a moment later: of a topic, of what replicas have,
of a transaction's end.  How much later is chance.  So of a trace of several brokers, beside what
clients are told too early and ask again:

    Fetch       waits for as many bytes as had been told, and is compared as far as those went:
                what is beyond is asked for by a later Fetch of the trace
    Metadata    of all topics is compared as far as the topics go that had been told
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

NOT_YET: Final = frozenset(
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
"""What a client is told who asks too early, and asks again."""
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
"""What does nothing where it is refused so."""

Key = tuple[str, int]


def told_then(recorded: Recorded) -> set[int]:
    """The errors by which the trace's broker had said that it was asked too early."""
    if recorded.response is None:
        return set()
    return {code for code in error_codes_in(recorded.response) if code in NOT_YET}


def did_nothing(recorded: Recorded) -> str | None:
    """Why it did nothing, where it had come too early: sent later it might do something."""
    told = told_then(recorded)
    if not told or recorded.request.API_KEY not in REFUSED_WHOLE or recorded.response is None:
        return None
    if recorded.request.API_KEY == ApiKey.PRODUCE and not all(error_codes_in(recorded.response)):
        return None  # another partition has taken what it was sent
    return came_too_early(told)


def came_too_early(told: set[int]) -> str:
    """Why its answer says nothing."""
    return f"it had come too early ({', '.join(sorted(map(error_name, told)))})"


def told_bytes(response: Message | None) -> int:
    """How many bytes of records a Fetch had been told; 0 for anything else."""
    if not isinstance(response, FetchResponse):
        return 0
    return sum(len(_records(part)) for topic in response.responses for part in topic.partitions)


def as_far_as_told(
    recorded: Recorded, answer: Message, then: Mapping[bytes, str], now: Mapping[bytes, str]
) -> tuple[Message, Message]:
    """The recorded answer and this one, without what may be there sooner or later.

    `then` and `now` are the topics' names by their ids.
    """
    response = recorded.response
    assert response is not None
    if isinstance(response, FetchResponse) and isinstance(answer, FetchResponse):
        ends = {key: _end(part) for key, part in _parts(response, then) if _tells(part)}
        return (
            _kept(response, then, lambda key, _: key in ends, ends),
            _kept(answer, now, lambda key, part: key in ends or bool(part.error_code), ends),
        )
    asked = recorded.request
    if isinstance(response, MetadataResponse) and isinstance(answer, MetadataResponse):
        told = {topic.name for topic in response.topics}
        if isinstance(asked, MetadataRequest) and asked.topics is None:
            answer = copy.copy(answer)
            answer.topics = [topic for topic in answer.topics if topic.name in told]
    return response, answer


def _tells(part: PartitionData) -> bool:
    return bool(part.error_code or part.records)


def _parts(response: FetchResponse, names: Mapping[bytes, str]) -> list[tuple[Key, PartitionData]]:
    return [
        ((topic.topic or names.get(topic.topic_id, ""), part.partition_index), part)
        for topic in response.responses
        for part in topic.partitions
    ]


def _kept(
    response: FetchResponse,
    names: Mapping[bytes, str],
    is_kept: Callable[[Key, PartitionData], bool],
    ends: Mapping[Key, int],
) -> FetchResponse:
    """The partitions that are, each up to where the recorded one went."""
    found = copy.copy(response)
    found.responses = []
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        kept = copy.copy(topic)
        kept.partitions = [
            _up_to(part, ends.get((name, part.partition_index), -1))
            for part in topic.partitions
            if is_kept((name, part.partition_index), part)
        ]
        if kept.partitions:
            found.responses.append(kept)
    return found


def _up_to(part: PartitionData, end: int) -> PartitionData:
    """Without what lies behind the offset `end`, and how far others have come."""
    found = copy.copy(part)
    found.high_watermark = found.last_stable_offset = -1
    found.records = _whole_batches(part, end)
    if part.aborted_transactions is not None:
        found.aborted_transactions = [
            each for each in part.aborted_transactions if each.first_offset <= end
        ]
    return found


def _whole_batches(part: PartitionData, end: int) -> bytes:
    """Those that begin up to there; one that is cut short at the end tells nothing."""
    data = _records(part)
    stop = 0
    try:
        for position, header in iter_batches(data):
            if header.base_offset > end:
                break
            stop = position + header.size_bytes
    except CorruptBatch:
        return data
    return data[:stop]


def _end(part: PartitionData) -> int:
    """The last offset of the last whole batch; -1 where there is none."""
    try:
        ends = [header.last_offset for _, header in iter_batches(_records(part))]
    except CorruptBatch:
        return -1
    return ends[-1] if ends else -1


def _records(part: PartitionData) -> bytes:
    records = part.records or b""
    return bytes(records if isinstance(records, bytes | bytearray | memoryview) else records.read())
