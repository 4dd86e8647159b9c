"""`kwire snapshot`, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.testing import BrokerProcess, Kafka
from kwire.testing.hosting.folders import PREFIX
from kwire.testing.hosting.ports import free_port
from kwire.testing.topics import Topic
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow
WAIT_S = 240
KWIRE = [sys.executable, "-m", "kwire.cli"]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


def run(*arguments: str, status: int = 0) -> str:
    done = run_kwire(*arguments)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_snapshot_command_takes_lists_restores_and_removes(kafka: Kafka) -> None:
    control = ("--control", f"http://127.0.0.1:{kafka.control_port}")
    kafka.create_topic("t").seed(["before"])
    told = run("snapshot", "take", "seeded", *control)
    assert re.fullmatch(r"/\S+-snapshots/seeded: 1 partitions, \d+ B\n", told), told
    assert "there is a snapshot 'seeded' already" in run(
        "snapshot", "take", "seeded", *control, status=1
    )
    kafka.topic("t").seed(["after"])
    kafka.clock.advance(hours=1)
    pid = kafka.pid
    run("snapshot", "restore", "seeded", *control)
    kafka.topic("t").assert_holds(["before"])
    assert kafka.pid == pid
    assert kafka.clock.ahead_ms == 0
    (each,) = json.loads(run("snapshot", "list", "--json", *control))
    assert each["snapshot"] == "seeded"
    assert each["partitions"] == 1
    assert "did you mean seeded?" in run("snapshot", "restore", "seded", *control, status=1)
    run("snapshot", "remove", "seeded", *control)
    assert json.loads(run("snapshot", "list", "--json", *control)) == []
    assert "has none" in run("snapshot", "remove", "seeded", *control, status=1)


def test_snapshot_command_works_without_the_killed_broker(tmp_path: Path) -> None:
    control = free_port()
    broker = BrokerProcess(tmp_path)
    command = [*KWIRE, "serve", "--exit-on-eof", f"--control={control}"]
    broker.command = lambda: [  # type: ignore[method-assign]  # one option more
        *command, *(f"--set={name}={value}" for name, value in broker.settings.items())
    ]  # fmt: skip
    broker.start()
    Topic(broker.bootstrap, "t").seed(["before"])
    run("snapshot", "take", "a", "--control", f"127.0.0.1:{control}")
    Topic(broker.bootstrap, "t").seed(["after"])
    data = ("--data", str(broker.data_dir))
    assert "is in use: stop its broker" in run("snapshot", "restore", "a", *data, status=1)
    broker.kill()
    assert "seeded" not in run("snapshot", "list", *data)
    run("snapshot", "restore", "a", *data)
    with broker:
        Topic(broker.bootstrap, "t").assert_holds(["before"])
    run("snapshot", "remove", "a", *data)
    assert list((tmp_path / "data-snapshots").iterdir()) == []


def test_fork_command_runs_until_it_is_interrupted(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("t").seed(["before"])
    taken = kafka.snapshot(tmp_path / "taken")
    kafka.topic("t").seed(["after"])
    port = free_port()
    bootstrap = f"localhost:{port}"
    command = [*KWIRE, "snapshot", "fork", str(taken.path), f"--port={port}"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as fork:
        assert fork.stderr is not None
        while "is ready" not in (line := fork.stderr.readline()):
            assert line, "it has ended"
        Topic(bootstrap, "t").assert_holds(["before"])
        Topic(bootstrap, "t").seed(["there"])
        (folder,) = tmp_path.glob(f"{PREFIX}*")
        fork.send_signal(signal.SIGTERM)
        assert fork.wait(WAIT_S) == 0
        fork.stderr.close()
    assert not folder.exists()
    kafka.topic("t").assert_holds(["before", "after"])


def test_fork_of_an_unknown_snapshot_is_refused(kafka: Kafka) -> None:
    control = ("--control", f"http://127.0.0.1:{kafka.control_port}")
    told = run("snapshot", "fork", "a", *control, status=1)
    assert told == "kwire: there is no snapshot 'a': there are none\n"


@pytest.mark.long
def test_fork_of_a_gigabyte_takes_no_extra_space(tmp_path: Path) -> None:
    """In less than 200 ms, where the machine gives it that: the best of ten counts."""
    from confluent_kafka import Producer

    with Kafka() as kafka:
        kafka.create_topic("t", partitions=4)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "batch.size": 1_000_000})
        for number in range(10_800):
            producer.produce("t", b"x" * 100_000, partition=number % 4)
            if not number % 100:
                producer.flush(WAIT_S)
        assert producer.flush(WAIT_S) == 0
        taking, forking = [], []
        for _ in range(10):
            begin = time.perf_counter()
            taken = kafka.snapshot()
            taking.append(time.perf_counter() - begin)
            fork = kafka.fork(taken)
            begin = time.perf_counter()
            fork.start()
            forking.append(time.perf_counter() - begin)
            fork.stop()
        assert taken.size_bytes > 1 << 30
        own = sum(
            each.stat().st_size for each in taken.path.rglob("*")
            if each.is_file() and each.stat().st_nlink == 1
        )  # fmt: skip
    print(f"\ntaken in {min(taking) * 1000:.0f} ms, fork in {min(forking) * 1000:.0f} ms, {own=}")
    assert own < taken.size_bytes / 100
    assert min(forking) < 0.2
    assert min(taking) < 0.2
