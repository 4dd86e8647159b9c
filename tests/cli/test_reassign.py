"""`kwire cluster reassign` on three brokers of Apache Kafka and of kwire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import topic_settings
from kwire.client.inspection.survey import partitions_of
from kwire.client.moving import Progress, await_moves, bytes_to_copy, copied_bytes
from kwire.client.producer import Producer
from kwire.client.reassignments import (
    alter_reassignments,
    list_reassignments,
    plan_object,
    read_plan,
)
from kwire.client.spreading import ReplicaMove
from kwire.client.throttles import FOLLOWERS, LEADERS, OF_TOPIC, find_throttles, lists_of
from kwire.client.topics import create_topic, delete_topic
from tests.cli.conftest import OneBroker, await_known

Kwire = Callable[..., CompletedProcess[str]]
Brokers = Mapping[int, OneBroker]
Replicas = list[tuple[int, ...]]

PATIENCE_S = 240.0


@pytest.fixture
def cluster(three_brokers: Brokers) -> Iterator[Cluster]:
    with Cluster(three_brokers[1].bootstrap, timeout_s=240) as found:
        yield found


@pytest.fixture
def reassign(kwire: Kwire, three_brokers: Brokers) -> Kwire:
    """Runs the command on the three brokers."""
    address = three_brokers[1].bootstrap

    def run(*words: str, status: int = 0, stdin: str = "") -> CompletedProcess[str]:
        return kwire("cluster", "reassign", *words, "-b", address, status=status, stdin=stdin)

    return run


@contextmanager
def topic(
    cluster: Cluster, name: str, assignment: list[list[int]], size_bytes: int
) -> Iterator[None]:
    create_topic(cluster, name, assignment=assignment)
    await_known(cluster, name)
    producer = Producer(cluster)
    for partition in range(len(assignment)):
        for _ in range(size_bytes // 10_000):
            producer.send(name, os.urandom(10_000), partition=partition)
    producer.flush()
    try:
        yield
    finally:
        delete_topic(cluster, name)


def replicas(cluster: Cluster, name: str) -> Replicas:
    states = partitions_of([cluster.topic(name)])
    return [tuple(state.replica_nodes) for state in states.values()]


def all_tell(cluster: Cluster, name: str, holds: Callable[[Replicas], bool]) -> None:
    """Wait until each broker tells so of the replicas, whichever will be asked."""
    for node in cluster.nodes.values():
        with Cluster(f"{node.host}:{node.port}", timeout_s=240) as one:
            await_that(lambda: holds(replicas(one, name)))


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def throttles(cluster: Cluster, name: str) -> tuple[list[int], list[str]]:
    cluster.refresh([])
    return find_throttles(cluster, [name])


def test_reassign_to_spreads_replicas_to_a_new_broker(
    reassign: Kwire, cluster: Cluster, unique: str
) -> None:
    with topic(cluster, unique, [[1, 2], [2, 1], [1, 2]], 20_000):
        asked = reassign(unique, "--to", "1,2,3", status=2)
        assert asked.stderr.startswith("2 partitions to move, 39.2 kB")
        assert replicas(cluster, unique) == [(1, 2), (2, 1), (1, 2)]
        done = reassign(unique, "--to", "1,2,3", "--yes")
        assert done.stderr.endswith("2 partitions being moved\ndone\n")
        all_tell(
            cluster,
            unique,
            lambda after: (
                sorted(each for of in after for each in of) == [1, 1, 2, 2, 3, 3]
                and sorted(of[0] for of in after) == [1, 2, 3]
            ),
        )
        assert "nothing to move" in reassign(unique, "--to", "1,2,3").stderr


def test_reassign_carries_out_a_plan_from_a_file(
    reassign: Kwire, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    with topic(cluster, unique, [[1], [2]], 0):
        plan.write_text(reassign(unique, "-r", "2", "--dry-run", "--json").stdout)
        assert replicas(cluster, unique) == [(1,), (2,)]
        wanted = read_plan(plan.read_text())
        reassign("--plan", str(plan), "--yes")
        all_tell(cluster, unique, lambda after: after == [*wanted.values()])
        assert [len(each) for each in wanted.values()] == [2, 2]
        plan.write_text(json.dumps(plan_object({TopicPartition(unique, 5): [1]})))
        assert (
            f"partition {unique}-5 does not exist" in reassign("--plan", str(plan), status=1).stderr
        )


def test_reassign_without_waiting_keeps_the_throttle_until_finish(
    reassign: Kwire, cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    """With one byte a second nothing comes to an end by itself."""
    with topic(cluster, unique, [[3, 1]], 3_000_000):
        done = reassign(unique, "--off", "3", "--throttle", "1", "-y", "--no-wait")
        assert "until `kwire cluster reassign --finish`" in done.stderr
        await_that(lambda: throttles(cluster, unique) == ([1, 2, 3], [unique]))
        lists = topic_settings(cluster, [unique], OF_TOPIC)[unique]
        assert (lists[LEADERS], lists[FOLLOWERS]) == ("0:3,0:1", "0:2")
        (listed,) = json.loads(reassign("--list", "--json").stdout)
        assert (listed["adding"], listed["removing"]) == ([2], [3])
        assert f"{unique}-0" in reassign("--list").stdout
        assert (
            "1 partition still being moved, such as"
            in reassign(unique, "--to", "1", "-y", status=1).stderr
        )
        assert "still being moved" in reassign("--finish", status=1).stderr
        assert (
            reassign(unique, "--cancel", "--yes").stderr
            == "reassignment of 1 partition cancelled\n"
        )
        await_that(lambda: not list_reassignments(cluster))
        await_that(lambda: {*replicas(cluster, unique)[0]} == {1, 3})  # in no order of its own
        refused = reassign(unique, "--off", "3", "--throttle", "1", "-y", status=1)
        assert "a throttle is set on broker 1" in refused.stderr
        done = reassign("--finish")
        assert done.stderr == "throttles removed from 3 brokers and 1 topic\n"
        await_that(lambda: throttles(cluster, unique) == ([], []))
        assert reassign("--cancel").stderr == "no reassignment is in progress\n"


def test_reassign_removes_the_throttle_at_ctrl_c(
    cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    words = ["cluster", "reassign", unique, "--off", "3", "--throttle", "1", "--yes"]
    command = [sys.executable, "-m", "kwire.cli", *words, "-b", three_brokers[1].bootstrap]
    with topic(cluster, unique, [[3, 1]], 3_000_000):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            await_that(lambda: bool(list_reassignments(cluster)))
            running.send_signal(signal.SIGINT)
            assert running.stderr is not None
            told = running.stderr.read()
        assert running.returncode == 130, told
        assert "throttle removed" in told
        await_that(lambda: throttles(cluster, unique) == ([], []))
        await_that(lambda: replicas(cluster, unique) == [(2, 1)])


def test_reassign_refuses_impossible_plans(reassign: Kwire, cluster: Cluster, unique: str) -> None:
    with topic(cluster, unique, [[1, 2, 3]], 0):
        said = reassign(unique, "--to", "1,2", status=1).stderr
        assert (
            said
            == f"kwire: {unique}-0 cannot have 3 replicas: there are 2 brokers to choose from\n"
        )
        said = reassign(unique, "--to", "1,2,9", status=1).stderr
        assert said == "kwire: broker 9 is not in the cluster now; brokers are: 1, 2, 3\n"
    assert "give --to, --off or --replication-factor" in reassign(status=2).stderr
    assert (
        "give --to, --off or --replication-factor"
        in reassign("--to", "1", "--list", status=2).stderr
    )
    assert "is not like 1,2,3" in reassign("--to", "1,1", status=2).stderr


def test_await_moves_reports_progress_until_all_moves_are_done(
    cluster: Cluster, unique: str
) -> None:
    place = TopicPartition(unique, 0)
    with topic(cluster, unique, [[1]], 100_000):
        assert alter_reassignments(cluster, {place: [2]}) == {}
        told: list[Progress] = []
        moves = {place: ReplicaMove((1,), (2,))}
        assert await_moves(cluster, moves, told.append, lambda: time.sleep(0.02)) == []
        assert told[-1].partitions_left == 0
        assert told[-1].copied_bytes == told[-1].total_bytes > 100_000


def test_bytes_to_copy_sums_the_bytes_by_receiving_broker() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    moves = {first: ReplicaMove((1,), (2, 3)), second: ReplicaMove((2, 1), (1, 2))}
    sizes = {1: {first: 100, second: 7}, 2: {first: 30}, 3: {first: 120}}
    assert bytes_to_copy(moves, sizes) == {2: 120, 3: 120}
    assert copied_bytes(moves, sizes) == 150


def test_throttles_cover_sending_and_receiving_replicas() -> None:
    moves = {
        TopicPartition("t", 0): ReplicaMove((1, 2), (2, 3)),
        TopicPartition("t", 1): ReplicaMove((1, 2), (2, 1)),
        TopicPartition("t", 2): ReplicaMove((1,), (3, 4)),
    }
    assert list(lists_of(moves)["t"].values()) == ["0:1,0:2,2:1", "0:3,2:3,2:4"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ('{"version": 2, "partitions": []}', "version 2 is unknown"),
        ('{"version": 1, "partitions": []}', "it names no partitions"),
        ('{"version": 1}', "'partitions'"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "t-0 has"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "t-0 has"),
    ],
)
def test_read_plan_refuses_an_invalid_file(text: str, why: str) -> None:
    from kwire.client.errors import Misuse

    with pytest.raises(Misuse, match=f"not a reassignment plan: .*{why}"):
        read_plan(text)


def test_read_plan_accepts_a_plan_of_kafkas_tool() -> None:
    """As kafka-reassign-partitions --generate of 3.9.2 prints it."""
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,1],'
        '"log_dirs":["any","any"]},{"topic":"t","partition":0,"replicas":[2]}]}'
    )
    assert read_plan(text) == {TopicPartition("t", 1): (3, 1), TopicPartition("t", 0): (2,)}
    with pytest.raises(Exception, match="has log directories"):
        read_plan(text.replace('"any"', '"/data"'))
