"""What a trace sees, and for how long it is kept."""

from __future__ import annotations

import base64

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.primitives import Message
from kwire.testing.hooks.faults.machine import HELPERS, RequestInfo
from kwire.testing.hooks.faults.rules import RequestFilter, read_filter
from kwire.testing.hooks.tracing import traces as module
from kwire.testing.hooks.tracing.describe import described
from kwire.testing.hooks.tracing.traces import (
    EVENTS_MAX,
    TRACES_MAX,
    RecordedTrace,
    TooMany,
    TracedRequest,
    Traces,
)


class Clock:
    """Seconds that only the test lets pass."""

    def __init__(self) -> None:
        self.now_s = 1.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traces(clock: Clock) -> Traces:
    return Traces(lambda: 42, clock)


def see(traces: Traces, group: str = "g", client: str = "c") -> TracedRequest | None:
    asked = RequestInfo(12, 4, client, HeartbeatRequest(group_id=group), lambda _: None)
    return traces.see(asked, 1, "here", 9)


def test_event_has_request_and_response(traces: Traces, clock: Clock) -> None:
    assert not traces
    number = traces.begin(RequestFilter())
    seen = see(traces)
    assert seen is not None
    trace = traces.get(number)
    assert trace is not None
    assert trace.after(0) == {"events": [], "dropped": 0}
    clock.now_s += 0.25
    seen.answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (event,) = trace.after(0)["events"]
    assert event["request"]["groupId"] == "g"
    assert event["response"]["errorCode"] == "REBALANCE_IN_PROGRESS"
    assert event["errors"] == ["REBALANCE_IN_PROGRESS"]
    wanted = {"number": 1, "timeMs": 42, "durationMs": 250.0, "connection": "here", "client": "c"}
    assert wanted.items() <= event.items()
    assert event["broker"] == 1
    assert (event["api"], event["version"], event["correlationId"]) == ("Heartbeat", 4, 9)


def test_trace_records_only_matching_requests(traces: Traces) -> None:
    first = traces.begin(read_filter({"group": "g"}))
    second = traces.begin(read_filter({"api": "Heartbeat"}))
    for group in ("g", "h"):
        seen = see(traces, group)
        assert seen is not None
        seen.answered(HeartbeatResponse())
    assert see(traces, client=HELPERS) is None
    found = [trace.seen for number in (first, second) if (trace := traces.get(number))]
    assert found == [1, 2]
    assert traces.end(first)
    assert not traces.end(first)
    assert traces.get(first) is None


def test_fault_decides_when_its_request_is_over(traces: Traces) -> None:
    trace = traces.get(traces.begin(RequestFilter()))
    seen = see(traces)
    assert seen is not None
    assert trace is not None
    seen.befallen = True
    seen.answered(HeartbeatResponse())
    assert trace.seen == 0
    seen.over(fault=3, ending="disconnect")
    (event,) = trace.after(0)["events"]
    assert (event["fault"], event["ending"], "response" in event) == (3, "disconnect", True)


def test_oldest_events_are_dropped_and_counted(traces: Traces) -> None:
    trace = traces.get(traces.begin(RequestFilter()))
    assert trace is not None
    for number in range(EVENTS_MAX + 5):
        trace.add({"n": number}, {})
    found = trace.after(0)
    assert (len(found["events"]), found["dropped"]) == (EVENTS_MAX, 5)
    assert found["events"][0]["number"] == 6
    found = trace.after(EVENTS_MAX + 3)
    assert ([event["number"] for event in found["events"]], found["dropped"]) == (
        [EVENTS_MAX + 4, EVENTS_MAX + 5],
        0,
    )
    assert trace.after(3)["dropped"] == 2


def test_too_many_traces_are_refused(traces: Traces) -> None:
    for _ in range(TRACES_MAX):
        traces.begin(RequestFilter())
    with pytest.raises(TooMany, match="100 traces already"):
        traces.begin(RequestFilter())


def kept(traces: Traces) -> RecordedTrace:
    found = traces.get(traces.begin(RequestFilter(), keeps_bytes=True))
    assert found is not None
    return found


def ask(traces: Traces, request: Message, version: int, frame: bytes = b"frame") -> TracedRequest:
    assert request.API_KEY is not None
    asked = RequestInfo(request.API_KEY, version, "c", request, lambda _: None)
    seen = traces.see(asked, 1, "here", 9, memoryview(frame))
    assert seen is not None
    return seen


def test_bytes_are_kept_if_the_trace_asks_for_them(traces: Traces) -> None:
    plain, trace = traces.get(traces.begin(RequestFilter())), kept(traces)
    first = ask(traces, HeartbeatRequest(), 4)
    second = ask(traces, HeartbeatRequest(), 4)
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    second.answered(response)
    first.answered(None)
    later, earlier = trace.after(0)["events"]
    assert (earlier["begun"], later["begun"]) == (1_000_000, 1_000_001)
    assert (later["ended"], earlier["ended"]) == (1_000_002, 1_000_003)
    assert base64.b64decode(later["requestBytes"]) == b"frame"
    assert base64.b64decode(later["responseBytes"]) == response.encode(4)
    assert "responseBytes" not in earlier
    assert plain is not None
    assert all("requestBytes" not in event for event in plain.after(0)["events"])


def test_bytes_with_secrets_are_withheld(traces: Traces) -> None:
    trace = kept(traces)
    ask(traces, SaslAuthenticateRequest(auth_bytes=b"s3cret"), 2, b"s3cret").answered(None)
    asked = ask(traces, CreateDelegationTokenRequest(), 3)
    asked.answered(CreateDelegationTokenResponse(hmac=b"s3cret"))
    login, token = trace.after(0)["events"]
    assert login["withheld"] == {"request": "it holds secrets"}
    assert token["withheld"] == {"response": "it holds secrets"}
    assert "requestBytes" in token
    assert not {"requestBytes", "responseBytes"} & login.keys()
    assert base64.b64encode(b"s3cret").decode() not in str([login, token])


def test_bytes_of_a_large_message_are_withheld(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_MESSAGE_BYTES_MAX", 5)
    trace = kept(traces)
    for frame in (b"five!", b"longer"):
        ask(traces, HeartbeatRequest(), 4, frame).answered(None)
    small, large = trace.after(0)["events"]
    assert "withheld" not in small
    assert large["withheld"] == {"request": "its 6 bytes are more than 5"}
    assert "requestBytes" not in large


def test_oldest_events_are_dropped_when_bytes_exceed_the_limit(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 40)
    trace = kept(traces)
    for _ in range(12):
        ask(traces, HeartbeatRequest(), 4, b"three").answered(None)  # eight in base64
    found = trace.after(0)
    assert [event["number"] for event in found["events"]] == [8, 9, 10, 11, 12]
    assert found["dropped"] == 7


def test_position_of_a_response_is_fixed_when_it_is_decided(traces: Traces) -> None:
    """Who is answered later, for another had its turn first, was not answered after that one."""
    trace = kept(traces)
    first = ask(traces, HeartbeatRequest(), 4)
    first.decided()
    second = ask(traces, HeartbeatRequest(), 4)
    second.answered(None)
    first.answered(None)
    later, earlier = trace.after(0)["events"]
    assert (earlier["begun"], earlier["ended"]) == (1_000_000, 1_000_001)
    assert (later["begun"], later["ended"]) == (1_000_002, 1_000_003)


def test_positions_of_several_brokers_have_one_order(clock: Clock) -> None:
    """Whichever of them was asked more, and began to be traced first."""
    here, there = (Traces(lambda: 42, clock) for _ in range(2))
    first, second = kept(here), kept(there)
    for _ in range(5):
        ask(here, HeartbeatRequest(), 4).answered(None)
    clock.now_s += 0.000_02
    ask(there, HeartbeatRequest(), 4).answered(None)
    clock.now_s += 0.000_02
    ask(here, HeartbeatRequest(), 4).answered(None)
    (between,) = second.after(0)["events"]
    *_, before, after = first.after(0)["events"]
    assert before["ended"] < between["begun"]
    assert between["ended"] < after["begun"]


def test_event_has_all_fields_of_a_request_with_partitions(traces: Traces, clock: Clock) -> None:
    number = traces.begin(RequestFilter())
    assert bool(traces)
    assert traces.to_json() == [{"trace": number, "seen": 0}]
    topics = [
        ListOffsetsTopic("t", [ListOffsetsPartition(0, 1, -2), ListOffsetsPartition(3, 1, -1)])
    ]
    request = ListOffsetsRequest(topics=topics)
    asked = RequestInfo(2, 7, None, request, lambda _: None)
    seen = traces.see(asked, 5, "there", 8)
    assert seen is not None
    clock.now_s += 0.001_234_4
    seen.answered(None)
    trace = traces.get(number)
    assert trace is not None
    assert traces.to_json() == [{"trace": number, "seen": 1}]
    (event,) = trace.after(0)["events"]
    assert event == {
        "number": 1,
        "timeMs": 42,
        "durationMs": 1.234,
        "broker": 5,
        "connection": "there",
        "client": None,
        "api": "ListOffsets",
        "version": 7,
        "correlationId": 8,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 3}],
        "request": described(request),
        "errors": [],
    }
    traces.end(number)
    assert not traces


def test_bytes_of_requests_and_responses_count_for_the_limit(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 60)
    trace = kept(traces)
    for _ in range(5):
        ask(traces, HeartbeatRequest(), 4, b"three").answered(HeartbeatResponse())
    (event, *_) = trace.after(0)["events"]
    size_bytes = len(event["requestBytes"]) + len(event["responseBytes"])
    assert len(trace.after(0)["events"]) == 60 // size_bytes == 3


def test_event_has_each_error_once_and_no_success(traces: Traces) -> None:
    trace = traces.get(traces.begin(RequestFilter()))
    assert trace is not None
    errors = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    members = [MemberResponse("m", None, error) for error in errors]
    ask(traces, HeartbeatRequest(), 4).answered(LeaveGroupResponse(members=members))
    assert trace.after(0)["events"][0]["errors"] == ["UNKNOWN_MEMBER_ID"]
