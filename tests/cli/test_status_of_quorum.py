"""What `kwire cluster status` prints about controllers."""

from __future__ import annotations

import pytest

from kwire.cli.cluster.status import as_object, show
from kwire.client.cluster import ClusterNode
from kwire.client.inspection.health import ClusterHealth, health_of
from kwire.client.inspection.quorum import ControllerQuorum, QuorumMember
from kwire.client.inspection.survey import BrokerReport, Survey

SEPARATE = ControllerQuorum(
    102,
    7,
    90,
    [QuorumMember(101, True, 98, 2, 1.5, "h:9093"), QuorumMember(102, True, 100, 0, 0.0, "i:9093")],
    [QuorumMember(1, False, 100, 0, 0.0), QuorumMember(2, False, 5, 95, None)],
)
OF_ONE_NODE = ControllerQuorum(1, 3, 90, [QuorumMember(1, True, 90, 0, 0.0, "h:9092")])


def health(quorum: ControllerQuorum | None) -> ClusterHealth:
    nodes = {number: ClusterNode(number, "h", 9000 + number) for number in (1, 2)}
    reports = {number: BrokerReport(quorum=quorum) for number in nodes}
    return health_of(Survey("id", 2, nodes, {}, reports, {}))


def lines_of(health: ClusterHealth, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    show(health)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_status_shows_each_member_of_the_quorum(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(health(SEPARATE), capsys)
    at = lines.index(["quorum:", "led", "by", "102", "in", "epoch", "7"])
    assert lines[at + 2 : at + 6] == [
        ["101", "voter", "h:9093", "98", "2", "1.5"],
        ["102", "leader", "i:9093", "100", "0", "0.0"],
        ["1", "observer", "-", "100", "0", "0.0"],
        ["2", "observer", "-", "5", "95", "-"],
    ]
    assert all("yes" not in line for line in lines)  # No broker is the controller.


@pytest.mark.parametrize("quorum", [OF_ONE_NODE, None])
def test_status_shows_no_quorum_if_the_controller_is_a_broker(
    quorum: ControllerQuorum | None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(health(quorum), capsys)
    assert all(line[:1] != ["quorum:"] for line in lines)
    assert [line[0] for line in lines if "yes" in line] == ["2" if quorum is None else "1"]


def test_status_as_json_has_the_quorum() -> None:
    found = as_object(health(SEPARATE))
    assert found["controller"] == 102
    assert found["quorum"]["leader_epoch"] == 7
    assert found["quorum"]["voters"][0] == {
        "id": 101,
        "address": "h:9093",
        "end_offset": 98,
        "records_behind": 2,
        "seconds_behind": 1.5,
    }
    assert [each["id"] for each in found["quorum"]["observers"]] == [1, 2]
    assert as_object(health(None))["quorum"] is None
