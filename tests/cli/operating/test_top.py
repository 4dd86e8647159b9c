"""`kwire top`: as JSON, as tables, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kwire.cli.app import app
from kwire.cli.operating.live.rows import TopTotals, TopView
from kwire.cli.operating.live.taking import SampleTaker
from kwire.cli.operating.live.view import view_of
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.groups import commit_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.testing import BrokerProcess, SharedClusterProcess

pytestmark = pytest.mark.slow

BrokerFactory = Callable[[Mapping[str, str]], BrokerProcess]

WAIT_S = 120
QUICK = ("--interval", "0.1", "--timeout", "60")


def top(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["top", "-b", bootstrap, *QUICK, *arguments])


def with_lag(bootstrap: str, topic: str, group: str) -> None:
    """Write ten records, of which a group has read four."""
    with Cluster(bootstrap, timeout_s=60) as cluster:
        create_topic(cluster, topic, partitions=1, replication_factor=1)
        producer = Producer(cluster)
        for _ in range(10):
            producer.send(topic, b"v", partition=0)
        producer.flush()
        commit_offsets(cluster, group, {TopicPartition(topic, 0): 4})


def check_json(bootstrap: str, topic: str) -> dict[str, Any]:
    """What `--once --json` says of a topic with a group that is behind, without metrics."""
    with_lag(bootstrap, topic, f"{topic}-readers")
    done = top(bootstrap, "--once", "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    (of_topic,) = [each for each in found["topics"] if each["topic"] == topic]
    assert (of_topic["records_in_per_s"], of_topic["lag"], of_topic["groups"]) == (0.0, 6, 1)
    assert of_topic["bytes_in_per_s"] is None
    (group,) = [each for each in found["groups"] if each["group"] == f"{topic}-readers"]
    assert (group["lag"], group["worst"], group["read_per_s"]) == (6, f"{topic}-0", 0.0)
    assert found["with_metrics"] == 0
    assert found["requests"] == found["slow"] == found["clients"] == []
    return found


def test_top_as_json_has_rates_and_lag(shared_broker: BrokerProcess, unique: str) -> None:
    found = check_json(shared_broker.bootstrap, unique)
    assert {each for each in found} >= {"cluster", "controller", "totals", "brokers", "problems"}
    assert set(found["totals"]) == set(TopTotals.__dataclass_fields__)
    assert set(TopView.__dataclass_fields__) <= set(found)
    assert "no metrics endpoint" in found["metrics_trouble"]["1"]


def test_top_once_prints_tables_and_what_is_missing(
    shared_broker: BrokerProcess, unique: str
) -> None:
    with_lag(shared_broker.bootstrap, unique, f"{unique}-readers")
    done = top(shared_broker.bootstrap, "--once")
    assert done.exit_code == 0, done.output
    assert re.search(r"\nTOPIC +RECORDS/S", done.stdout)
    assert "no latencies, requests and clients: no broker has a metrics endpoint" in done.stdout
    assert done.stdout.endswith("all partitions are well\n")


def test_top_of_a_cluster_has_each_broker_and_one_that_is_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with SharedClusterProcess(tmp_path_factory.mktemp("three"), 3) as three:
        with Cluster(three.bootstrap, timeout_s=60) as cluster:
            create_topic(cluster, "t", partitions=3, replication_factor=3)
        three.brokers[3].kill()
        with Cluster(three.bootstrap, timeout_s=60) as cluster:
            deadline = time.monotonic() + WAIT_S
            while len(cluster.refresh([]).brokers) == 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        found = json.loads(top(three.bootstrap, "--once", "--json").stdout)
    assert [each["broker"] for each in found["brokers"]] == [1, 2, 3]
    assert [each["trouble"] for each in found["brokers"]] == [None, None, "absent"]
    assert "broker 3: absent" in found["problems"]


def test_top_exits_with_1_if_no_broker_answers() -> None:
    done = CliRunner().invoke(app, ["top", "-b", "127.0.0.1:1", "--once", "--timeout", "0.1"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot connect to 127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("wrong", ["http://h:1", "x=http://h:1", "1=h:1"])
def test_top_refuses_metrics_that_name_no_broker_and_endpoint(wrong: str) -> None:
    done = top("127.0.0.1:1", "--once", "--metrics", wrong)
    assert done.exit_code == 2
    assert "is not like 1=http://HOST:PORT" in done.stderr


@pytest.mark.java
def test_top_works_with_apache_kafka(apache_kafka: ApacheKafkaNode, unique: str) -> None:
    check_json(apache_kafka.bootstrap, unique)


# -- on a terminal


class Terminal:
    """A process on a terminal of its own: what it has written, and keys."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._text = ""

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until the text was written since the last call."""
        deadline = time.monotonic() + WAIT_S
        while text not in self._text:
            readable, _, _ = select.select([self._descriptor], [], [], deadline - time.monotonic())
            assert readable, self._text
            self._text += os.read(self._descriptor, 65_536).decode(errors="replace")
        self._text = ""

    def status(self) -> int:
        """Read until the process ends, since it waits while nobody reads; return its status."""
        with suppress(OSError):  # EIO: the process has closed the terminal.
            while os.read(self._descriptor, 65_536):
                pass
        return self.process.wait(WAIT_S)


@contextmanager
def on_terminal(*arguments: str) -> Iterator[Terminal]:
    """Run `kwire top` on a terminal of its own."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kwire.cli", "top", *arguments],
        stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True,
        env={**os.environ, "COLUMNS": "120", "LINES": "30", "TERM": "xterm"},
    )  # fmt: skip
    os.close(terminal)
    try:
        yield Terminal(process, controller)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def test_top_on_a_terminal_answers_keys_and_ends_with_q(
    shared_broker: BrokerProcess, unique: str
) -> None:
    with_lag(shared_broker.bootstrap, unique, "readers")
    with on_terminal("-b", shared_broker.bootstrap, "--interval", "0.2") as screen:
        screen.wait_for("topics  ")
        screen.press("g")
        screen.wait_for("most behind")
        screen.press("/nobody\r")
        screen.wait_for("groups  0")
        screen.press("c")
        screen.wait_for("busiest clients: no latencies")
        screen.press("q")
        assert screen.status() == 0


def test_top_has_latencies_requests_and_clients_of_a_broker_with_metrics(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"metrics.port": "0"})
    with Cluster(broker.bootstrap, client_id="looking", timeout_s=60) as cluster:
        taker = SampleTaker(cluster)
        before = taker.take()
        with_lag(broker.bootstrap, "t", "readers")
        view = view_of(before, taker.take())
    assert (view.with_metrics, view.metrics_trouble) == (1, {})
    (row,) = view.brokers
    assert row.bytes_in_per_s is not None
    assert row.bytes_in_per_s > 0
    assert (row.connections or 0) >= 1
    assert (row.memory_bytes or 0) > 1_000_000
    produce = next(each for each in view.requests if each.api == "Produce")
    assert (produce.per_s > 0, produce.p99_ms is not None) == (True, True)
    assert "Produce" in {each.api for each in view.slow}
    assert {"looking", "kwire"} <= {each.client for each in view.clients}
    assert next(each for each in view.topics if each.topic == "t").bytes_in_per_s


def test_top_of_a_cluster_reads_the_endpoint_of_each_broker(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 3, {"metrics.port": "0"}) as three:
        found = json.loads(top(three.bootstrap, "--once", "--json").stdout)
    assert (found["with_metrics"], found["metrics_trouble"]) == (3, {})
    assert all(each["requests_per_s"] > 0 for each in found["brokers"])
