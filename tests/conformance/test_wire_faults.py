"""Checks that the wire part finds faults in responses.

It compares a broker with the same broker behind a proxy that changes responses, so that the proxy
causes every difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.case import Case, Play
from kwire.conformance.wire.cases import all_cases
from kwire.conformance.wire.runner import Cell, CellState, Selection, WireRunner
from kwire.conformance.wire.stage import Stage
from kwire.testing import BrokerProcess
from tests.conformance.fault_proxy import FaultProxy, Spoil, changed

pytestmark = pytest.mark.slow

NEVER_S = 3.0
"""Timeout for a response that may be withheld; longer than all waits of the cases."""
PATIENCE_S = 240.0


def compare(
    broker: BrokerProcess,
    spoil: Spoil,
    only: str,
    case: str | None = None,
    timeout_s: float = PATIENCE_S,
) -> list[Cell]:
    cases = [candidate for candidate in all_cases() if case in (None, candidate.name)]
    address = address_of(broker.bootstrap)
    with FaultProxy(address, spoil) as proxy:
        runner = WireRunner(
            RemoteBroker(proxy.address), RemoteBroker(address), cases, reply_timeout_s=timeout_s
        )
        return runner.run([Selection.parse(only)])


def first_path(cells: list[Cell]) -> tuple[str, str]:
    """(name, path of the difference) of the first red case."""
    for cell in cells:
        for verdict in cell.verdicts:
            if verdict.state is CellState.RED:
                assert verdict.first_difference is not None, verdict.problem
                return verdict.case.name, verdict.first_difference.difference.path
    raise AssertionError("no fault was found")


@pytest.mark.parametrize(
    "only", ["Produce:13", "Fetch:12", "Metadata:9", "JoinGroup:9", "CreateTopics:7", "ListGroups"]
)
def test_wire_part_finds_no_difference_between_a_broker_and_itself(
    shared_broker: BrokerProcess, only: str
) -> None:
    cells = compare(shared_broker, lambda key, version, message, data: data, only)
    red = [v for cell in cells for v in cell.verdicts if v.state is CellState.RED]
    assert [(v.case.name, v.first_difference, v.problem) for v in red] == []
    assert all(cell.state is CellState.GREEN for cell in cells)


def test_wire_case_marked_alone_runs_after_all_others(shared_broker: BrokerProcess) -> None:
    address = address_of(shared_broker.bootstrap)
    under_way: list[str] = []
    alone: list[int] = []

    def recording(case: Case) -> Play:
        def play(stage: Stage) -> None:
            under_way.append(case.name)
            if case.alone:
                alone.append(len(set(under_way)))  # on both brokers
            try:
                case.play(stage)
            finally:
                under_way.remove(case.name)

        return play

    cases = [case for case in all_cases() if case.api_key == ApiKey.PRODUCE]
    watched = [dataclasses.replace(case, play=recording(case)) for case in cases]
    WireRunner(RemoteBroker(address), RemoteBroker(address), watched).run(
        [Selection.parse("Produce:9")]
    )
    assert len(alone) > 10
    assert set(alone) == {1}


def set_to(path: str, value: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A function that sets the field at `path`, in all list items, to `value` of its content."""
    *way, last = path.split(".")

    def change(message: Any) -> None:  # noqa: ANN401 - any response
        parents = [message]
        for name in way:
            parents = [item for parent in parents for item in (getattr(parent, name) or [])]
        for parent in parents:
            setattr(parent, last, value(getattr(parent, last)))

    return change


def one_bit(records: Any) -> Any:  # noqa: ANN401 - bytes or null
    data = bytearray(records or b"")
    if data:
        data[-1] ^= 1
    return bytes(data)


FAULTS = {
    "an error code is another": (
        "Heartbeat:4",
        "a stable group",
        changed(ApiKey.HEARTBEAT, set_to("error_code", lambda code: 22 if code == 25 else code)),
        "error_code",
    ),
    "an error is swallowed": (
        "Produce:9",
        "unknown topic",
        changed(ApiKey.PRODUCE, set_to("responses.partition_responses.error_code", lambda code: 0)),
        "responses[0].partition_responses[0].error_code",
    ),
    "the high watermark is one too high": (
        "Fetch:11",
        "from every offset",
        changed(ApiKey.FETCH, set_to("responses.partitions.high_watermark", lambda mark: mark + 1)),
        "responses[0].partitions[0].high_watermark",
    ),
    "a field is dropped at one version": (
        "Metadata:7",
        "topics by name",
        changed(ApiKey.METADATA, set_to("topics.partitions.leader_epoch", lambda epoch: -1), 7),
        "topics[0].partitions[0].leader_epoch",
    ),
    "null is sent for empty": (
        "Fetch:12",
        "read committed",
        changed(
            ApiKey.FETCH, set_to("responses.partitions.aborted_transactions", lambda found: None)
        ),
        "responses[0].partitions[0].aborted_transactions",
    ),
    "a bit of a record is wrong": (
        "Fetch:12",
        "from every offset",
        changed(ApiKey.FETCH, set_to("responses.partitions.records", one_bit)),
        "responses[0].partitions[0].records[2].corrupt",
    ),
    "a timestamp is missing": (
        "ListOffsets:5",
        "by time",
        changed(ApiKey.LIST_OFFSETS, set_to("topics.partitions.timestamp", lambda time: -1)),
        "topics[0].partitions[0].timestamp",
    ),
    "words are missing": (
        "CreateTopics:7",
        "one, again, and several",
        changed(ApiKey.CREATE_TOPICS, set_to("topics.error_message", lambda words: None)),
        "topics[0].error_message",
    ),
    "a member is given another id": (
        "JoinGroup:7",
        "a new group of one",
        changed(ApiKey.JOIN_GROUP, set_to("leader", lambda leader: leader and "x" + leader)),
        "leader",
    ),
    "an offset is one too low": (
        "OffsetFetch:8",
        "what was committed",
        changed(
            ApiKey.OFFSET_FETCH,
            set_to("groups.topics.partitions.committed_offset", lambda offset: offset - 1),
        ),
        "groups[0].topics[0].partitions[0].committed_offset",
    ),
    "a reply is withheld": (
        "FindCoordinator:4",
        "no keys",
        lambda key, version, message, data: data if key != ApiKey.FIND_COORDINATOR else _only(data),
        "",
    ),
    "the connection is closed": (
        "DescribeCluster:1",
        "brokers",
        lambda key, version, message, data: None if key == ApiKey.DESCRIBE_CLUSTER else data,
        "",
    ),
    "bytes follow the reply": (
        "ListGroups:3",
        "all",
        lambda key, version, message, data: data + b"\0" * (key == ApiKey.LIST_GROUPS),
        "",
    ),
    "another's reply": (
        "DescribeLogDirs:4",
        "no topics",
        lambda key, version, message, data: (
            b"\x7f" + data[1:] if key == ApiKey.DESCRIBE_LOG_DIRS else data
        ),
        "",
    ),
}
"""By fault: the API and version, the case, the injecting function, and the path that differs."""


def _only(data: bytes) -> bytes:
    """Withhold the response, but not the response of version 3 at the start of a run."""
    return b"" if len(data) < 12 else data


@pytest.mark.parametrize("fault", FAULTS)
def test_wire_part_finds_a_fault_in_responses(shared_broker: BrokerProcess, fault: str) -> None:
    only, case, spoil, path = FAULTS[fault]
    timeout_s = NEVER_S if "withheld" in fault else PATIENCE_S
    cells = compare(shared_broker, spoil, only, case, timeout_s)
    assert first_path(cells) == (case, path)
