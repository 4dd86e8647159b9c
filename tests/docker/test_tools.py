"""Tests of the commands that compose files run in the image, and of its start scripts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwire.cli.image.init_scripts import DONE, ScriptFailed, pending, run_scripts
from kwire.cli.image.tools import api_versions, console_consumer, cub, topics
from kwire.testing import BrokerProcess, free_port

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "docker" / "image" / "bin"

pytestmark = pytest.mark.slow


def kafka_topics(*arguments: str) -> Result:
    return CliRunner().invoke(topics.command, arguments, prog_name="kafka-topics")


def test_kafka_topics_creates_lists_describes_and_deletes(
    shared_broker: BrokerProcess, unique: str
) -> None:
    server = ("--bootstrap-server", shared_broker.bootstrap)
    new = ("--create", "-topic", unique, "--partitions=2", "--config", "retention.ms=5000")
    assert kafka_topics(*server, *new).output == f"Created topic {unique}.\n"
    assert kafka_topics(*server, *new, "--if-not-exists").output == ""
    again = kafka_topics(*server, *new)
    assert (again.exit_code, "TOPIC_ALREADY_EXISTS" in again.output) == (1, True)
    assert unique in kafka_topics(*server, "--list").output.splitlines()
    described = kafka_topics(*server, "--describe", "--topic", unique).output
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=5000" in described
    assert described.count("\tLeader: ") == 2
    assert kafka_topics(*server, "--delete", "--topic", unique).exit_code == 0
    missing = kafka_topics(*server, "--describe", "--topic", unique)
    assert (missing.exit_code, "does not exist as expected" in missing.output) == (1, True)
    assert kafka_topics(*server, "--describe", "--topic", unique, "--if-exists").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--zookeeper", "z:2181", "--list"], "Kafka 3.0 removed --zookeeper"),
        (["--list"], "write --bootstrap-server HOST:PORT"),
        (["--bootstrap-server", "a:1", "--list", "--at-min-isr-partitions"], "and has no option"),
        (["--bootstrap-server", "a:1"], "write one of --create, --list"),
        (["--bootstrap-server", "a:1", "--create"], "--create needs --topic NAME"),
    ],
)
def test_kafka_topics_refuses_what_it_cannot_do(arguments: list[str], sentence: str) -> None:
    refused = kafka_topics(*arguments)
    assert (refused.exit_code, sentence in refused.output) == (2, True), refused.output


def test_api_versions_and_cub_find_the_broker(shared_broker: BrokerProcess) -> None:
    runner = CliRunner()
    server = ["--bootstrap-server", shared_broker.bootstrap]
    shown = runner.invoke(api_versions.command, server)
    assert (shown.exit_code, "\tProduce(0): 0 to " in shown.output) == (0, True)
    ready = ["kafka-ready", "-b", shared_broker.bootstrap, "1", "20"]
    assert runner.invoke(cub.command, ready).exit_code == 0
    too_few = runner.invoke(cub.command, ["kafka-ready", "-b", shared_broker.bootstrap, "9", "1"])
    assert (too_few.exit_code, "1 of 9 brokers" in too_few.output) == (1, True)
    listeners = runner.invoke(cub.command, ["listeners", "A://kafka:9092,B://[::1]:1"])
    assert listeners.output == "A://0.0.0.0:9092,B://0.0.0.0:1\n"


def test_console_producer_and_consumer_pass_keys_on(
    shared_broker: BrokerProcess, unique: str
) -> None:
    produced = subprocess.run(
        [
            *(sys.executable, "-m", "kwire.cli.image.tools", "kafka-console-producer"),
            *("--broker-list", shared_broker.bootstrap, "--topic", unique),
            *("--property", "parse.key=true", "--property", "key.separator=:"),
        ],
        input="k:v\nk2:v2\n", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert produced.returncode == 0, produced.stderr
    read = ["--bootstrap-server", shared_broker.bootstrap, "--topic", unique, "--from-beginning"]
    runner = CliRunner()
    shown = ["--max-messages", "2", "--property", "print.key=true"]
    assert runner.invoke(console_consumer.command, [*read, *shown]).output == "k\tv\nk2\tv2\n"
    ended = runner.invoke(console_consumer.command, [*read, "--timeout-ms", "10"])
    assert (ended.exit_code, "no record for 10 ms" in ended.output) == (1, True)


def test_other_commands_of_kafka_name_those_of_kwire() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwire.cli.image.tools", "kafka-acls", "--list"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "use kwire acls" in done.stderr) == (2, True)


def test_nc_says_whether_a_port_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert subprocess.run([str(TOOLS / "nc"), "-z", "127.0.0.1", port]).returncode == 0
    closed = [str(TOOLS / "nc"), "-vz", "-w", "2", "127.0.0.1", str(free_port())]
    assert subprocess.run(closed, capture_output=True).returncode == 1
    refused = subprocess.run([str(TOOLS / "nc"), "-l", "1"], capture_output=True, text=True)
    assert (refused.returncode, "install netcat" in refused.stderr) == (2, True)


def test_init_scripts_run_once_sorted_by_name_with_the_address(tmp_path: Path) -> None:
    folder, data = tmp_path / "init", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / "b.sh").write_text(f"echo two $KWIRE_BOOTSTRAP_SERVERS >> {data}/out\n")
    (folder / "a.sh").write_text(f"#!/bin/sh\necho one >> {data}/out\n")
    (folder / "a.sh").chmod(0o755)
    (folder / "notes.txt").write_text("no script")
    scripts = pending(str(data), folder)
    assert [path.name for path in scripts] == ["a.sh", "b.sh"]
    run_scripts(scripts, str(data), "127.0.0.1:9092")
    assert (data / "out").read_text() == "one\ntwo 127.0.0.1:9092\n"
    assert (data / DONE).exists()
    assert pending(str(data), folder) == []


def test_init_script_that_fails_is_named_and_runs_again(tmp_path: Path) -> None:
    script = tmp_path / "fails.sh"
    script.write_text("exit 3\n")
    with pytest.raises(ScriptFailed, match=r"fails.sh has failed with status 3"):
        run_scripts([script], str(tmp_path), "127.0.0.1:9092")
    assert pending(str(tmp_path), tmp_path) == [script]
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(ScriptFailed, match="name an interpreter that this image has"):
        run_scripts([script], str(tmp_path), "127.0.0.1:9092")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root gives files to a user")
def test_files_are_laid_where_other_images_have_them(tmp_path: Path) -> None:
    subprocess.run([ROOT / "docker" / "image" / "install", tmp_path], check=True)
    for path in (
        "opt/kwire/tools/kafka-topics.sh",
        "opt/kwire/tools/cub",
        "opt/kwire/last/nc",
        "etc/confluent/docker/run",
        "opt/bitnami/scripts/kafka/run.sh",
    ):
        assert os.access(tmp_path / path, os.X_OK), path
    assert (tmp_path / "usr/bin/kafka-topics").readlink() == Path("/opt/kwire/tools/kafka-topics")
    assert (tmp_path / "opt/bitnami/kafka/bin").readlink() == Path("/opt/kwire/tools")
    data = (tmp_path / "bitnami/kafka/data").stat()
    assert (data.st_uid, data.st_gid, data.st_mode & 0o770) == (1000, 0, 0o770)
