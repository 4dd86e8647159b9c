"""What a test may ask of a broker over HTTP, and who may not."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kwire.server.http.messages import HttpReply, HttpRequest
from kwire.testing import ControlError, Kafka
from kwire.testing.hooks.control.api import answer
from kwire.testing.hooks.control.openapi import document
from kwire.testing.hooks.control.service import Control
from kwire.testing.hooks.faults.rules import FIELDS
from tests.waiting import until

RULE = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}

BODIES: dict[str, object] = {
    "/traces": {},
    "/clock": {"advance_ms": 0},
    "/leaders": {"topic": "t"},
    "/coordinators": {"group": "g"},
    "/forks": {},
}
HEADERS = {"host": "localhost:9", "content-type": "application/json"}
MOVES = ("/leaders", "/coordinators")
"""What takes a broker."""


@pytest.fixture
def control() -> Control:
    return Control(0)


def ask(
    control: Control,
    method: str,
    target: str,
    body: object = None,
    *,
    host: str = "localhost:9",
    content_type: str = "application/json",
) -> HttpReply:
    text = b"" if body is None else json.dumps(body).encode()
    headers = {"host": host, "content-type": content_type}
    return trio.run(answer, control, HttpRequest(method, target, headers, text))


def test_faults_are_added_listed_and_removed(control: Control) -> None:
    assert ask(control, "POST", "/faults", RULE) == HttpReply(201, {"rules": [1]})
    assert ask(control, "POST", "/faults", [RULE, {"die": True}]) == HttpReply(
        201, {"rules": [2, 3]}
    )
    told = ask(control, "GET", "/faults/").body["faults"]
    assert [each["rule"] for each in told] == [1, 2, 3]
    assert told[0] == {"rule": 1, **RULE, "matched": 0, "happened": 0, "used_up": False}
    assert ask(control, "DELETE", "/faults/2") == HttpReply(204)
    assert ask(control, "DELETE", "/faults/2").status == 404
    assert ask(control, "DELETE", "/faults") == HttpReply(204)
    assert ask(control, "GET", "/faults") == HttpReply(200, {"faults": []})


def test_list_with_an_invalid_rule_adds_none(control: Control) -> None:
    refused = ask(control, "POST", "/faults", [RULE, {"api": "Prduce", "die": True}])
    assert refused == HttpReply(400, {"error": "there is no API 'Prduce': did you mean Produce?"})
    assert not control.faults


def test_injections_are_listed_by_rule(control: Control) -> None:
    assert ask(control, "GET", "/faults/happened") == HttpReply(200, {"happened": []})
    assert ask(control, "GET", "/faults/happened?rule=1") == HttpReply(200, {"happened": []})
    assert ask(control, "GET", "/faults/happened?rule=x").status == 400


def test_trace_is_begun_read_and_ended(control: Control) -> None:
    assert ask(control, "POST", "/traces", {"api": "Produce"}) == HttpReply(201, {"trace": 1})
    assert ask(control, "GET", "/traces").body == {"traces": [{"trace": 1, "seen": 0}]}
    assert ask(control, "GET", "/traces/1?after=0").body == {"events": [], "dropped": 0}
    assert ask(control, "GET", "/traces/1?after=x").status == 400
    assert ask(control, "DELETE", "/traces/1") == HttpReply(204)
    assert ask(control, "DELETE", "/traces/1").status == 404
    assert ask(control, "GET", "/traces/1").status == 404
    assert ask(control, "POST", "/traces", {"bytes": True}) == HttpReply(201, {"trace": 2})
    assert ask(control, "POST", "/traces", {"bytes": 1}).status == 400
    refused = ask(control, "POST", "/traces", {"apis": "Produce"})
    assert refused == HttpReply(400, {"error": "unknown field 'apis': did you mean api?"})


@pytest.mark.parametrize(
    "said",
    [{}, [], {"advance_ms": -1}, {"advance_ms": True}, {"advance_ms": 1, "to": 2}, {"held": 1}],
)
def test_invalid_clock_request_is_refused(control: Control, said: object) -> None:
    assert ask(control, "POST", "/clock", said).status == 400
    assert ask(control, "GET", "/clock").body["ahead_ms"] == 0


def test_clock_is_held_and_released(control: Control) -> None:
    async def say(held: bool) -> HttpReply:
        body = json.dumps({"held": held}).encode()
        return await answer(control, HttpRequest("POST", "/clock", HEADERS, body))

    async def test() -> None:
        for held in (True, False):
            assert (await say(held)).body["held"] is held
            assert control.clock.is_held is held

    trio.run(test, clock=control.clock)


@pytest.mark.parametrize(
    ("path", "said", "why"),
    [
        ("/leaders", {"partition": 0}, "the body must have topic"),
        ("/leaders", {"topic": 1}, "topic must be text, not 1"),
        ("/leaders", {"topic": "t", "to": -1}, "to must be a number, not -1"),
        ("/leaders", {"topic": "t", "partition": True}, "partition must be a number, not True"),
        ("/leaders", {"topic": "t", "leader": 1}, "unknown field 'leader': the fields are topic, "),
        ("/leaders", ["t"], "the body must be a JSON object"),
        ("/coordinators", {}, "the body must have either"),
        ("/coordinators", {"group": "g", "transactional_id": "x"}, "the body must have either"),
    ],
)
def test_invalid_move_request_is_refused(
    control: Control, path: str, said: object, why: str
) -> None:
    refused = ask(control, "POST", path, said)
    assert refused.status == 400
    assert refused.body["error"].startswith(why)


def test_clock_cannot_advance_beyond_a_hundred_years(control: Control) -> None:
    refused = ask(control, "POST", "/clock", {"advance_ms": 10**13})
    assert refused == HttpReply(
        400, {"error": "a clock cannot be ahead by more than a hundred years"}
    )


@pytest.mark.parametrize(
    ("method", "target", "status", "why"),
    [
        ("GET", "/fault", 404, "there is no /fault: the paths are /, "),
        ("PUT", "/faults", 405, "/faults takes GET and POST and DELETE"),
        ("GET", "/faults/1", 405, "/faults/1 takes DELETE"),
        ("GET", "/death", 405, "/death takes POST"),
    ],
)
def test_unknown_path_or_method_is_refused(
    control: Control, method: str, target: str, status: int, why: str
) -> None:
    reply = ask(control, method, target)
    assert reply.status == status
    assert reply.body["error"].startswith(why)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:1", "[::1]:1", "[::1]"])
def test_request_with_a_local_host_header_is_served(control: Control, host: str) -> None:
    assert ask(control, "GET", "/faults", host=host).status == 200


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:80", "localhost.evil.example"])
def test_request_with_another_host_header_is_refused(control: Control, host: str) -> None:
    """A page in a browser whose own name leads here."""
    assert ask(control, "GET", "/faults", host=host).status == 403


def test_body_without_json_content_type_is_refused(control: Control) -> None:
    assert ask(control, "POST", "/faults", RULE, content_type="text/plain").status == 415
    refused = trio.run(answer, control, HttpRequest("POST", "/faults", HEADERS, b"{"))
    assert refused.status == 400
    assert refused.body["error"].startswith("the body is not JSON")
    assert not control.faults


def test_openapi_document_has_all_paths_and_fields(control: Control) -> None:
    assert ask(control, "GET", "/openapi.json").body == document()
    told = document()
    assert set(told["components"]["schemas"]["Rule"]["properties"]) == set(FIELDS)
    for path, methods in told["paths"].items():
        for method in methods:
            if path != "/death":
                target = re.sub(r"\{(rule|trace|fork)\}", "7", path)
                body = BODIES.get(path, RULE)
                status = ask(control, method.upper(), target, body).status
                if path in MOVES:
                    assert status == 409
                elif path.startswith("/snapshots") or (path, method) == ("/forks", "post"):
                    # of no broker there are none
                    assert status == 400
                else:
                    assert status in (200, 201, 204, 404)
    json.dumps(told)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


def request(kafka: Kafka, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    assert kafka.control_port is not None
    link = http.client.HTTPConnection("127.0.0.1", kafka.control_port, timeout=60)
    try:
        link.request(method, path, body, {"Content-Type": "application/json"})
        reply = link.getresponse()
        return reply.status, json.loads(reply.read() or b"null")
    finally:
        link.close()


@pytest.mark.slow
def test_control_is_served_over_http(kafka: Kafka) -> None:
    assert request(kafka, "GET", "/")[0] == 200
    assert request(kafka, "POST", "/faults", json.dumps(RULE).encode()) == (201, {"rules": [1]})
    assert request(kafka, "DELETE", "/faults/1") == (204, None)
    status, told = request(kafka, "POST", "/faults", b"x" * 5_000_000)
    assert (status, told["error"]) == (413, "the body is larger than 4194304 bytes")


@pytest.mark.slow
def test_connection_serves_several_requests_and_garbage_is_refused(kafka: Kafka) -> None:
    assert kafka.control_port is not None
    link = http.client.HTTPConnection("127.0.0.1", kafka.control_port, timeout=60)
    for _ in range(3):
        link.request("GET", "/faults")
        assert link.getresponse().read()
    link.close()
    with socket.create_connection(("127.0.0.1", kafka.control_port), 60) as garbage:
        garbage.sendall(b"\0\1\2 garbage\r\n\r\n")
        assert garbage.recv(4096).startswith(b"HTTP/1.1 400")
        assert garbage.recv(4096) == b""
    with socket.create_connection(("127.0.0.1", kafka.control_port), 60) as gone:
        gone.sendall(b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    assert request(kafka, "GET", "/faults")[0] == 200
    assert "unhandled" not in kafka.log


@pytest.mark.slow
def test_control_listens_on_the_loopback_address_only(kafka: Kafka) -> None:
    assert f"http://127.0.0.1:{kafka.control_port} serves the control" in kafka.log


@pytest.mark.slow
def test_death_request_kills_the_broker(kafka: Kafka) -> None:
    kafka.reset()
    with pytest.raises(ControlError, match="no answer from"):
        kafka.control.post("/death")
    until(lambda: not kafka.running, "it goes on")
    kafka.start()
