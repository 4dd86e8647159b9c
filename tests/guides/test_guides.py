"""The commands, files and programs of the guides work as written, apart from ports."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kwire.testing import Kafka
from tests.docker.test_recipes import config_of
from tests.guides.page import followed
from tests.test_snippets import blocks
from tests.typed import KWIRE_ON_PATH, serving, typed

pytestmark = pytest.mark.slow

CONTROL = "docs/control.md"


def test_tutorial_reads_its_orders_and_its_tests_pass(tmp_path: Path) -> None:
    with followed("docs/tutorial.md", tmp_path) as run:
        consumed, read, tested, _ = run.printed
    assert '{"fruit": "apples"}\n' in consumed
    assert "['apples', 'pears']\n" in read
    assert re.search(r"orders +\d +1 +1 +0 ", read), read
    assert "2 passed" in tested


@pytest.mark.long
def test_security_guide_lets_alice_read_and_not_write(tmp_path: Path) -> None:
    with followed("docs/security.md", tmp_path) as run:
        consumed = run.printed[3]
        assert consumed == '{"fruit": "apples"}\n'
        assert run.printed[4].startswith("TOPIC")
        users = f"kwire users list -b {run.address} --command-config admin.properties"
        login = (tmp_path / "alice.properties").read_text()
        login = re.sub(r'username=".*', 'username="admin" password="geheim";', login)
        login = login.replace("kwire-data-secure/ca.pem", "kwire-certs/ca.pem")
        (tmp_path / "admin.properties").write_text(login)
        assert "admin" in typed(users, tmp_path, {})


@pytest.mark.long
def test_cluster_guide_survives_the_loss_of_a_broker(tmp_path: Path) -> None:
    with followed("docs/clusters.md", tmp_path) as run:
        created, moved = run.printed
        assert "all is well" in created
        assert "1-2" in moved
        here = {"KWIRE_BOOTSTRAP_SERVERS": run.address}
        typed("kwire cluster reassign --to 1,2,3 --replication-factor 3 --yes", tmp_path, here)
        match = re.search(
            r"broker 2 is ready at \S+, process (\d+)", (tmp_path / "serve.log").read_text()
        )
        assert match is not None
        os.kill(int(match[1]), signal.SIGKILL)
        typed("echo pears | kwire produce orders", tmp_path, here)
        (shown,) = [
            block.text
            for block in blocks()
            if block.page == "docs/clusters.md" and block.language == "text"
        ]
        status = typed("kwire cluster status || true", tmp_path, here)
        assert shown in status


@pytest.mark.long
def test_moving_guide_copies_records_to_another_broker(tmp_path: Path) -> None:
    with followed("docs/moving.md", tmp_path) as run:
        assert sorted(run.printed[-1].splitlines()[-2:]) == ["apples", "pears"]


def test_example_of_the_python_page_creates_a_topic(tmp_path: Path) -> None:
    (example,) = [block.text for block in blocks() if block.page == "docs/python.md"]
    with Kafka() as kafka:
        program = example.replace("localhost:9092", kafka.bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
        )
    assert done.stdout == "3 partitions\n", done.stderr


def test_options_of_the_spark_page_come_from_the_file_of_a_secured_broker(tmp_path: Path) -> None:
    (example,) = [
        block.text
        for block in blocks()
        if block.page == "docs/spark.md" and block.first_line == "import json"
    ]
    with serving("kwire serve --secure", tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", example + "print(options['kafka.security.protocol'])"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.stdout == "SASL_SSL\n", done.stderr


def test_requests_of_the_control_page_are_answered(tmp_path: Path) -> None:
    _, asked = [block.text for block in blocks() if block.page == CONTROL]
    with Kafka() as kafka:
        commands = asked.replace("localhost:9644", f"localhost:{kafka.control_port}")
        printed = subprocess.run(
            ["bash", "-ec", commands], capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "PATH": KWIRE_ON_PATH},
        )  # fmt: skip
    if printed.returncode == 127:
        pytest.skip("there is no curl here")
    added, happened, clock = printed.stdout.splitlines()
    assert added == '{"rules": [1]}'
    assert happened == '{"happened": []}'
    assert '"ahead_ms": 60000' in clock, clock


@pytest.mark.long
def test_serve_commands_of_the_control_page_start_brokers(tmp_path: Path) -> None:
    started, _ = [block.text for block in blocks() if block.page == CONTROL]
    for number, command in enumerate(started.splitlines()):
        folder = tmp_path / str(number)
        folder.mkdir()
        ports = 3 if "--brokers 3" in command else 1
        control = serving_with_control(command, ports)
        with serving(control, folder, ports=ports) as bootstrap:
            assert typed(f"kwire ping -b {bootstrap}", folder, {})


def serving_with_control(command: str, ports: int) -> str:
    """The command with free ports for its control."""
    from kwire.testing.hosting.ports import free_ports

    return command.partition(" #")[0].replace("--control 9644", f"--control {free_ports(ports)}")


def test_compose_file_of_the_bitnami_guide_serves_containers_and_the_host(tmp_path: Path) -> None:
    (text,) = [
        block.text
        for block in blocks()
        if block.page == "docs/bitnami.md" and block.first_line == "# compose.yaml"
    ]
    service = yaml.safe_load(text)["services"]["kafka"]
    given = "".join(f"  {name}: {value}\n" for name, value in service["environment"].items())
    config = config_of(given, tmp_path)
    assert config.notes == ()
    assert config.num_partitions == 3
    addresses = [f"{each.host}:{each.port}" for each in config.advertised_listeners]
    assert addresses == ["kafka:9092", "localhost:29092"]
    assert service["ports"] == ["29092:29092"]


def test_command_of_the_bitnami_guide_creates_its_topic(tmp_path: Path) -> None:
    (text,) = [
        block.text
        for block in blocks()
        if block.page == "docs/bitnami.md" and block.first_line == "# topics.yaml"
    ]
    command = yaml.safe_load(text)["services"]["topics"]["command"]
    with Kafka() as kafka:
        typed(shlex.join(command).replace("kafka:9092", kafka.bootstrap), tmp_path, {})
        assert len(kafka.topic("orders").records()) == 0
