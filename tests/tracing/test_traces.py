"""What a trace sees, and for how long it is kept."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.faults.machine import HELPERS, Asked
from kwire.faults.rules import Which, read_which
from kwire.tracing.traces import EVENTS_MAX, TRACES_MAX, Seen, TooMany, Traces


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


def see(traces: Traces, group: str = "g", client: str = "c") -> Seen | None:
    asked = Asked(12, 4, client, HeartbeatRequest(group_id=group), lambda _: None)
    return traces.see(asked, "here", 9)


def test_an_event_is_told_with_its_answer(traces: Traces, clock: Clock) -> None:
    assert not traces
    number = traces.begin(Which())
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
    assert (event["api"], event["version"], event["correlationId"]) == ("Heartbeat", 4, 9)


def test_only_what_is_wanted_is_seen(traces: Traces) -> None:
    first = traces.begin(read_which({"group": "g"}))
    second = traces.begin(read_which({"api": "Heartbeat"}))
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


def test_of_a_request_that_is_befallen_the_fault_says_when_it_is_over(traces: Traces) -> None:
    trace = traces.get(traces.begin(Which()))
    seen = see(traces)
    assert seen is not None
    assert trace is not None
    seen.befallen = True
    seen.answered(HeartbeatResponse())
    assert trace.seen == 0
    seen.over(fault=3, ending="disconnect")
    (event,) = trace.after(0)["events"]
    assert (event["fault"], event["ending"], "response" in event) == (3, "disconnect", True)


def test_the_oldest_events_go_first_and_are_counted(traces: Traces) -> None:
    trace = traces.get(traces.begin(Which()))
    assert trace is not None
    for number in range(EVENTS_MAX + 5):
        trace.add({"n": number})
    found = trace.after(0)
    assert (len(found["events"]), found["dropped"]) == (EVENTS_MAX, 5)
    assert found["events"][0]["number"] == 6
    found = trace.after(EVENTS_MAX + 3)
    assert ([event["number"] for event in found["events"]], found["dropped"]) == (
        [EVENTS_MAX + 4, EVENTS_MAX + 5],
        0,
    )
    assert trace.after(3)["dropped"] == 2


def test_there_are_not_endlessly_many(traces: Traces) -> None:
    for _ in range(TRACES_MAX):
        traces.begin(Which())
    with pytest.raises(TooMany, match="100 traces already"):
        traces.begin(Which())
