"""Whose requests go where, of one broker and of several, and what is compared of several."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kwire.client.cluster import ClusterNode
from kwire.codecs.batches import Record, build, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kwire.codecs.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import Message
from kwire.testing.replaying.brokers import Counterparts, brokers_of
from kwire.testing.replaying.early import comparable, did_nothing, fetched_bytes
from kwire.testing.replaying.recording import DamagedTrace, Recorded, read_recording

FIRST = ClusterNode(-1, "first", 9092)
NODES = {number: ClusterNode(number, f"b{number}", 9092) for number in (1, 2, 3)}
NAMES = {b"t" * 16: "t"}


def recorded(
    request: Message,
    response: Message | None = None,
    *,
    broker: int | None = 1,
    number: int = 1,
) -> Recorded:
    return Recorded(
        line=number,
        number=number,
        broker=broker,
        connection="c",
        client="me",
        api="Any",
        version=1,
        time_ms=0,
        duration_ms=1.0,
        begun=2 * number,
        ended=2 * number + 1,
        header=b"",
        body=b"",
        request=request,
        response=response,
        unsent=None,
        uncompared=None,
    )


def heartbeat(broker: int | None) -> Recorded:
    return recorded(HeartbeatRequest(), HeartbeatResponse(), broker=broker)


def creation(broker: int, error: ErrorCode = ErrorCode.NONE) -> Recorded:
    told = CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=error)])
    return recorded(CreateTopicsRequest(topics=[CreatableTopic("t")]), told, broker=broker)


def test_trace_of_one_broker_goes_to_the_first_address() -> None:
    alone = Counterparts({}, -1, FIRST)
    assert {alone.of(heartbeat(broker)) for broker in (None, 1, 7)} == {FIRST}
    assert not alone.are_several
    assert alone.all == [FIRST]


def test_request_goes_to_the_broker_of_the_same_id() -> None:
    several = Counterparts(NODES, 3, FIRST)
    assert several.are_several
    assert [several.of(heartbeat(broker)) for broker in (1, 2, 3)] == list(NODES.values())


def test_controller_request_goes_to_the_current_controller() -> None:
    several = Counterparts(NODES, 3, FIRST)
    assert {several.of(creation(broker)).node_id for broker in (1, 2, 3)} == {3}
    refused = [several.of(creation(broker, ErrorCode.NOT_CONTROLLER)) for broker in (1, 2, 3)]
    assert [node.node_id for node in refused] == [1, 2, 1], "and what was refused of another one"


def test_brokers_of_a_trace_are_those_that_answered_or_were_in_metadata() -> None:
    brokers = [MetadataResponseBroker(number, "h", 1) for number in (1, 2, 3)]
    told = recorded(MetadataRequest(), MetadataResponse(brokers=brokers), broker=2)
    assert brokers_of([told]) == {1, 2, 3}
    assert brokers_of([heartbeat(4), heartbeat(5)]) == {4, 5}
    assert brokers_of([heartbeat(4), heartbeat(None)]) == set(), "it is too old to say so"


def event(number: int, broker: object, begun: int) -> dict[str, Any]:
    body = HeartbeatRequest().encode(4)
    return {
        "number": number,
        "timeMs": 1,
        "durationMs": 1,
        "connection": "here",
        "api": "Heartbeat",
        "version": 4,
        "begun": begun,
        "ended": begun + 1,
        "requestBytes": base64.b64encode(RequestHeader(12, 4, 7, "me").encode(2) + body).decode(),
        "responseBytes": base64.b64encode(HeartbeatResponse().encode(4)).decode(),
        "broker": broker,
    }


def written(path: Path, *events: object) -> Path:
    file = path / "trace.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return file


def test_brokers_may_have_equal_numbers_and_positions(tmp_path: Path) -> None:
    events = event(1, 2, 10), event(1, 1, 10), event(2, 2, 5)
    found = read_recording(written(tmp_path, *events))
    assert [(each.broker, each.begun) for each in found] == [(2, 5), (1, 10), (2, 10)]
    assert str(found[0]).endswith(" at broker 2")


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (event(1, 2, 20), "line 2: it has the number 1 of line 1: does the file hold two traces?"),
        (event(2, 2, 11), "line 2: it has the place 11 of line 1: does the file hold two traces?"),
        (event(2, "2", 30), "line 2: broker must be a number, not '2'"),
    ],
)
def test_duplicate_number_or_position_of_a_broker_is_refused(
    tmp_path: Path, second: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DamagedTrace) as damaged:
        read_recording(written(tmp_path, event(1, 2, 10), second))
    assert str(damaged.value).endswith(sentence)


def test_request_with_a_retriable_error_is_not_sent() -> None:
    early = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    why = did_nothing(recorded(HeartbeatRequest(), early))
    assert why == "it had come too early (NOT_COORDINATOR)"
    real = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert did_nothing(recorded(HeartbeatRequest(), real)) is None
    assert did_nothing(recorded(HeartbeatRequest())) is None


def test_metadata_request_with_a_retriable_error_is_sent() -> None:
    topic = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")
    assert did_nothing(recorded(MetadataRequest(), MetadataResponse(topics=[topic]))) is None


def produced(*errors: ErrorCode) -> ProduceResponse:
    parts = [PartitionProduceResponse(number, error) for number, error in enumerate(errors)]
    return ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=parts)])


def test_produce_that_one_partition_accepted_is_sent() -> None:
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert did_nothing(recorded(ProduceRequest(), produced(moved, moved))) is not None
    assert did_nothing(recorded(ProduceRequest(), produced(moved, ErrorCode.NONE))) is None


def batch(offset: int, *values: bytes) -> bytes:
    records = [Record(number, 9, None, value) for number, value in enumerate(values)]
    return offset.to_bytes(8) + bytes(build(records))[8:]


def fetched(*parts: PartitionData, topic: str = "t") -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic, partitions=list(parts))])


def compared(then: FetchResponse, now: FetchResponse) -> tuple[FetchResponse, FetchResponse]:
    first, second = comparable(recorded(FetchRequest(), then), now, {}, {})
    assert isinstance(first, FetchResponse)
    assert isinstance(second, FetchResponse)
    return first, second


def test_fetch_is_compared_up_to_the_recorded_end() -> None:
    first, more = batch(0, b"a", b"b"), batch(2, b"c")
    aborted = [AbortedTransaction(7, 1)]
    then = fetched(
        PartitionData(0, 0, 2, 2, 0, aborted_transactions=aborted, records=first), PartitionData(1)
    )
    later = [*aborted, AbortedTransaction(7, 2)]
    now = fetched(
        PartitionData(0, 0, 3, 3, 0, aborted_transactions=later, records=first + more),
        PartitionData(2, 0, 5, 5, 0, records=more),
    )
    left, right = compared(then, now)
    assert left == right
    assert [offsets(each) for each in (left, right)] == [[(0, 1)]] * 2


def offsets(response: FetchResponse) -> list[tuple[int, int]]:
    return [
        (header.base_offset, header.last_offset)
        for topic in response.responses
        for part in topic.partitions
        if isinstance(part.records, bytes)
        for _, header in iter_batches(part.records)
    ]


def test_fetch_with_fewer_or_other_records_differs() -> None:
    whole = batch(0, b"a") + batch(1, b"b")
    then = fetched(PartitionData(0, records=whole))
    for now in (
        fetched(PartitionData(0, records=batch(0, b"a"))),
        fetched(PartitionData(0, records=batch(0, b"x") + batch(1, b"b"))),
        fetched(),
        fetched(PartitionData(0, records=whole), PartitionData(1, ErrorCode.UNKNOWN_TOPIC_ID)),
    ):
        left, right = compared(then, now)
        assert left != right


def test_incomplete_batch_is_not_compared() -> None:
    whole, next_one = batch(0, b"a"), batch(1, b"b")
    left, right = compared(
        fetched(PartitionData(0, records=whole + next_one[:20])),
        fetched(PartitionData(0, records=whole + next_one)),
    )
    assert left == right
    assert offsets(left) == [(0, 0)]


def test_fetched_topics_are_matched_by_id() -> None:
    """Of which the two brokers have others."""
    data, other = batch(0, b"a"), b"u" * 16
    then = fetched(PartitionData(0, records=data), topic="")
    then.responses[0].topic_id = b"t" * 16
    now = fetched(PartitionData(0, records=data + batch(1, b"b")), topic="")
    now.responses[0].topic_id = other
    asked = recorded(FetchRequest(), then)
    left, right = comparable(asked, now, NAMES, {other: "t"})
    assert isinstance(left, FetchResponse)
    assert isinstance(right, FetchResponse)
    assert offsets(left) == offsets(right) == [(0, 0)]


def test_fetched_bytes_counts_record_bytes() -> None:
    data = batch(0, b"a")
    assert fetched_bytes(fetched(PartitionData(0, records=data), PartitionData(1))) == len(data)
    assert fetched_bytes(HeartbeatResponse()) == fetched_bytes(None) == 0


def test_metadata_is_compared_for_the_recorded_topics() -> None:
    def told(*names: str) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])

    def right(request: MetadataRequest) -> Message:
        return comparable(recorded(request, told("a")), told("a", "b"), {}, {})[1]

    assert right(MetadataRequest(topics=None)) == told("a")
    assert right(MetadataRequest(topics=[])) == told("a", "b")
