"""Controllers as processes, with a program that stands for Java.

tests/cli/test_up_kraft.py runs Apache Kafka's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing.controllers import (
    FIRST_CONTROLLER_ID,
    QUORUM_FILE,
    ControllersError,
    ControllersProcess,
    KafkaProgram,
    QuorumRecord,
)

JAVA = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$*" in
*kafka.tools.StorageTool*)
    [ -e {folder}/fails ] && echo "no such directory" && exit 1
    while [ "$1" != --config ]; do shift; done
    data=$(sed -n 's/^log.dirs=//p' "$2")
    mkdir -p "$data/__cluster_metadata-0"
    echo voters > "$data/__cluster_metadata-0/first.checkpoint"
    echo node.id=101 > "$data/meta.properties";;
*) echo "Invalid value many for configuration num.partitions"; exit 3;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> KafkaProgram:
    """Formats like StorageTool, and does not start."""
    java = tmp_path / "java"
    java.write_text(JAVA.format(folder=tmp_path))
    java.chmod(0o755)
    return KafkaProgram(java, tmp_path / "libs", ())


def properties(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_formatted_controllers_differ_only_in_their_identities(
    program: KafkaProgram, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    quorum = ControllersProcess(folder, program, 3)
    quorum.format()
    identities = [
        properties(folder / f"controller-{number}" / "data" / "meta.properties")
        for number in (101, 102, 103)
    ]
    assert [each["node.id"] for each in identities] == ["101", "102", "103"]
    assert {each["cluster.id"] for each in identities} == {quorum.record.cluster_id}
    assert len({each["directory.id"] for each in identities}) == 3
    for number in (101, 102, 103):
        checkpoint = folder / f"controller-{number}/data/__cluster_metadata-0/first.checkpoint"
        assert checkpoint.read_text() == "voters\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        "controller-101", "controller-102", "controller-103", QUORUM_FILE,
    ]  # fmt: skip
    voters = ",".join(
        f"{number}@127.0.0.1:{port}:{quorum.record.directory_ids[number]}"
        for number, port in quorum.record.ports.items()
    )
    assert f"--initial-controllers {voters}\n" in (tmp_path / "calls").read_text()


def test_controllers_keep_their_ports_and_are_formatted_once(
    program: KafkaProgram, tmp_path: Path
) -> None:
    first = ControllersProcess(tmp_path / "cluster", program, 3)
    first.format()
    again = ControllersProcess(tmp_path / "cluster", program)
    again.format()
    assert (again.record, again.addresses) == (first.record, first.addresses)
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_first_start_that_was_interrupted_is_completed(
    program: KafkaProgram, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    ControllersProcess(folder, program, 3).format()
    (folder / "controller-102" / "data").rename(folder / "controller-102" / "data.new")
    quorum = ControllersProcess(folder, program)
    quorum.format()
    identity = properties(folder / "controller-102" / "data" / "meta.properties")
    assert identity["directory.id"] == quorum.record.directory_ids[102]
    assert not (folder / "controller-102" / "data.new").exists()


def test_number_of_controllers_of_a_cluster_does_not_change(
    program: KafkaProgram, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    ControllersProcess(folder, program).format()
    assert list(ControllersProcess(folder, program, 1).controllers) == [FIRST_CONTROLLER_ID]
    with pytest.raises(
        ControllersError, match=r"3 controllers cannot run on .*, which has a quorum of 1"
    ):
        ControllersProcess(folder, program, 3)


def test_damaged_record_of_a_quorum_is_an_error(tmp_path: Path) -> None:
    (tmp_path / QUORUM_FILE).write_text('{"cluster_id": "x"}')
    with pytest.raises(ControllersError, match=f"{QUORUM_FILE} does not say"):
        QuorumRecord.read(tmp_path)


def test_format_that_fails_is_reported_with_the_output(
    program: KafkaProgram, tmp_path: Path
) -> None:
    (tmp_path / "fails").touch()
    with pytest.raises(ControllersError, match="no such directory"):
        ControllersProcess(tmp_path / "cluster", program).start()


def test_controller_that_does_not_start_is_reported_with_its_log(
    program: KafkaProgram, tmp_path: Path
) -> None:
    quorum = ControllersProcess(tmp_path / "cluster", program, 2)
    with pytest.raises(ControllersError, match="status 3:\nInvalid value many for configuration"):
        quorum.start()
    assert not any(each.running for each in quorum.controllers.values())


def test_controllers_share_settings_with_brokers_but_not_the_broker_own_ones(
    program: KafkaProgram, tmp_path: Path
) -> None:
    given = {"num.partitions": "6", "listeners": "PLAINTEXT://:1", "broker.rack": "a"}
    controller = ControllersProcess(tmp_path, program, 1, given).controllers[FIRST_CONTROLLER_ID]
    assert controller.settings["num.partitions"] == "6"
    assert controller.settings["listeners"] == f"CONTROLLER://{controller.address}"
    assert controller.settings["controller.quorum.bootstrap.servers"] == controller.address
    assert "broker.rack" not in controller.settings
