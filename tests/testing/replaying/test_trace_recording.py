"""Files of traces, whole and damaged."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.request_header import RequestHeader
from kwire.testing.replaying.recording import DamagedTrace, read_recording

HEADER = RequestHeader(12, 4, 7, "me").encode(2)
BODY = HeartbeatRequest(group_id="g", member_id="m").encode(4)


def event(number: int, **other: object) -> dict[str, Any]:
    """Of a Heartbeat that was answered at once."""
    return {
        "number": number,
        "timeMs": 1000 + number,
        "durationMs": 0.5,
        "connection": "here",
        "client": "me",
        "api": "Heartbeat",
        "version": 4,
        "begun": 2 * number - 1,
        "ended": 2 * number,
        "requestBytes": base64.b64encode(HEADER + BODY).decode(),
        "responseBytes": base64.b64encode(HeartbeatResponse(error_code=27).encode(4)).decode(),
        **other,
    }


def written(path: Path, *events: object) -> Path:
    file = path / "trace.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return file


def test_requests_are_read_in_their_recorded_order(tmp_path: Path) -> None:
    late, early = event(1, begun=2, ended=3), event(2, begun=1, ended=4)
    first, second = read_recording(written(tmp_path, late, early))
    assert (first.line, second.line) == (2, 1)
    assert (first.header, first.body) == (HEADER, BODY)
    assert first.request == HeartbeatRequest(group_id="g", member_id="m")
    assert first.response == HeartbeatResponse(error_code=27)
    assert str(first) == "line 2, Heartbeat v4 of me"


def test_withheld_request_is_not_sent_and_withheld_response_not_compared(tmp_path: Path) -> None:
    silent, large = event(1, withheld={"request": "why"}), event(2, withheld={"response": "why"})
    del silent["requestBytes"]
    del large["responseBytes"]
    kept_off = event(3, fault=1, ending="disconnect")
    del kept_off["responseBytes"]
    first, second, third = read_recording(written(tmp_path, silent, large, kept_off))
    assert (first.unsent, second.unsent) == ("why", None)
    assert (first.uncompared, second.uncompared) == (None, "why")
    assert third.unsent == "a fault kept it from being carried out (disconnect)"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda e: e.pop("requestBytes"), "it has no requestBytes: take the trace with --bytes"),
        (lambda e: e.pop("begun"), "it has no begun"),
        (lambda e: e.update(timeMs="now"), "timeMs must be a number, not 'now'"),
        (lambda e: e.update(api="Hartbeat"), "there is no request 'Hartbeat'"),
        (lambda e: e.update(requestBytes="%"), "requestBytes is not base64"),
        (lambda e: e.update(requestBytes="AAwABA=="), "requestBytes cannot be read"),
        (lambda e: e.update(responseBytes="AAAA"), "responseBytes cannot be read"),
        (lambda e: e.update(responseBytes="AAAAAAAAAAA="), "1 bytes follow the message"),
        (lambda e: e.update(api="LeaveGroup"), "requestBytes "),
        (lambda e: e.update(begun=9, ended=9), "it ended before it began"),
        (
            lambda e: e.update(begun=1),
            "it has the place 1 of line 1: does the file hold two traces?",
        ),
    ],
)
def test_damaged_line_is_refused_with_its_number(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    spoiled = event(2)
    spoil(spoiled)
    path = written(tmp_path, event(1), spoiled, event(3))
    with pytest.raises(DamagedTrace) as refused:
        read_recording(path)
    assert str(refused.value).startswith(f"{path}, line 2: ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("[1]", "it is not an event"), ("{", "it is not JSON"), ("\xff", "it is not JSON")],
)
def test_line_that_is_not_an_event_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    path = written(tmp_path, event(1))
    path.write_bytes(path.read_bytes() + line.encode("latin-1"))
    with pytest.raises(DamagedTrace, match=f"line 2: {sentence}"):
        read_recording(path)


def test_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedTrace, match="holds no requests"):
        read_recording(written(tmp_path))
