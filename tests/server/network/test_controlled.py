"""A broker has connections that may be befallen only where that was asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from confluent_kafka import Producer

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.heartbeat import HeartbeatResponse
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.server.http.messages import HttpRequest
from kwire.server.network.watching import watch
from kwire.server.server import serve
from kwire.settings import load
from kwire.testing import BrokerProcess, Faults, free_port
from kwire.testing.control import ControlClient
from kwire.testing.hooks.control.api import answer
from kwire.testing.hooks.control.service import Control
from kwire.testing.hooks.tracing.traces import TracedRequest
from tests.inside import RawClient
from tests.security.tls.authority import Authority

HEADERS = {"host": "localhost:9", "content-type": "application/json"}
IMPORTED = """
import sys
from kwire.cli import serve
import kwire.server.server, kwire.server.startup
print(*sorted(name for name in sys.modules if name.startswith(("kwire.", "h11"))))
"""


@pytest.mark.slow
def test_broker_without_control_imports_no_fault_code(broker: BrokerProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    names = done.stdout.split()
    assert "kwire.server.network.connection" in names
    packages = {".".join(name.split(".")[:2]) for name in names}
    assert not packages & {"kwire.testing.hooks.faults", "kwire.testing.hooks.control", "h11"}
    assert "kwire.server.network.controlled" not in names
    assert "The control serves at" not in broker.log


@pytest.mark.slow
def test_each_broker_of_a_cluster_has_its_own_control_port() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwire.cli", "serve", "--brokers", "3", "--control", "65534"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--control 65534: 3 brokers need 3 ports" in done.stderr


class Controlled(BrokerProcess):
    """One whose control listens at `control_port`."""

    control_port = 0

    def command(self) -> list[str]:
        return [*super().command(), f"--control={self.control_port}"]


@pytest.mark.slow
def test_faults_are_injected_into_tls_connections(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.issue()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(tmp_path / "own.pem")),
    }
    broker = Controlled(tmp_path, settings)
    broker.control_port, within = free_port(), f"SSL://127.0.0.1:{free_port()}"
    for name in ("listeners", "advertised.listeners"):
        broker.settings[name] += f",{within}"
    with broker:
        faults = Faults(ControlClient(f"http://127.0.0.1:{broker.control_port}"))
        fault = faults.add("leader-moved", api="Produce", times=1)
        producer = Producer(
            {
                "bootstrap.servers": within.removeprefix("SSL://"),
                "security.protocol": "ssl",
                "ssl.ca.pem": authority.pem,
            }
        )
        producer.produce("t", "v")
        assert producer.flush(120) == 0
        fault.assert_happened(times=1)


async def ask_control(control: Control, method: str, target: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    """The answer of the control to a request, as if it came over HTTP."""
    text = b"" if body is None else json.dumps(body).encode()
    request = HttpRequest(method, target, HEADERS, text)
    reply = await answer(control, request)
    assert reply.status < 300, reply
    return reply.body


@pytest.mark.slow
@pytest.mark.parametrize("has_fault", [False, True])
@pytest.mark.parametrize("has_trace", [False, True])
async def test_fault_and_trace_work_with_each_other_and_alone(
    tmp_path: Path, has_fault: bool, has_trace: bool
) -> None:
    control, stop = Control(0), trio.Event()
    config = load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    async with trio.open_nursery() as nursery:
        broker = await nursery.start(partial(serve, control=control), config, stop)
        if has_fault:
            rule = {"api": "ListGroups", "error": "COORDINATOR_NOT_AVAILABLE"}
            await ask_control(control, "POST", "/faults", rule)
        if has_trace:
            await ask_control(control, "POST", "/traces", {"api": "ListGroups"})
        client = await RawClient.connect(broker)
        told = await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if has_fault else ErrorCode.NONE
        assert told.error_code == error
        if has_trace:
            [event] = (await ask_control(control, "GET", "/traces/1"))["events"]
            assert (event["api"], event["errors"]) == ("ListGroups", [error.name] * has_fault)
            assert event.get("fault") == (1 if has_fault else None)
        stop.set()


# -- what a trace is told of a request's response


RESPONSE = HeartbeatResponse()


class Seen:
    """Records what is reported of one request."""

    def __init__(self) -> None:
        self.reports: list[object] = []

    def answered(self, response: object) -> None:
        self.reports.append(response)

    def over(self, **more: object) -> None:
        self.reports.append(more)


def traced(seen: Seen) -> TracedRequest:
    return cast(TracedRequest, seen)


class Defect(Exception):
    """Stands for a defect of a handler."""


def fail() -> Any:  # noqa: ANN401 - a handler's result
    raise Defect


@pytest.mark.parametrize("response", [RESPONSE, None])
async def test_response_is_reported_when_it_is_there(response: HeartbeatResponse | None) -> None:
    """None: a request without a response."""
    seen = Seen()
    assert watch(traced(seen), lambda: cast(Any, response)) is response
    assert seen.reports == [response]

    async def later() -> HeartbeatResponse | None:
        return response

    pending = cast(Any, watch(traced(seen), later))
    assert seen.reports == [response]
    assert await pending is response
    assert seen.reports == [response, response]


async def test_defect_of_a_handler_is_reported_and_raised() -> None:
    seen = Seen()
    with pytest.raises(Defect):
        watch(traced(seen), fail)
    assert seen.reports == [{"ending": "error"}]

    async def later() -> HeartbeatResponse:
        return cast(HeartbeatResponse, fail())

    pending = cast(Any, watch(traced(seen), later))
    with pytest.raises(Defect):
        await pending
    assert seen.reports == [{"ending": "error"}] * 2
