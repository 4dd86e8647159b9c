"""`kwire cluster` on three brokers of Apache Kafka and of kwire, and on a broker that is alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from subprocess import CompletedProcess
from typing import Any

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigAlteration, ConfigResource, ConfigResourceKind, alter_configs
from kwire.client.connection import BrokerConnection
from kwire.client.inspection.survey import own_end_offsets
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic, delete_topic
from kwire.testing import free_port
from tests.cli.conftest import OneBroker, await_known

Kwire = Callable[..., CompletedProcess[str]]
Brokers = Mapping[int, OneBroker]

pytestmark = pytest.mark.slow

PATIENCE_S = 240.0


@pytest.fixture
def cluster(three_brokers: Brokers) -> Iterator[Cluster]:
    addresses = ",".join(broker.bootstrap for broker in three_brokers.values())
    with Cluster(addresses, timeout_s=240) as found:
        yield found


@contextmanager
def topic(
    cluster: Cluster, name: str, assignment: list[list[int]], configs: dict[str, str] | None = None
) -> Iterator[str]:
    """A topic that the next test does not see."""
    create_topic(cluster, name, assignment=assignment, configs=configs)
    await_known(cluster, name)
    try:
        yield name
    finally:
        delete_topic(cluster, name)


def status_of(kwire: Kwire, address: str) -> dict[str, Any]:
    done = kwire("cluster", "status", "--json", "-b", address)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def await_status(
    kwire: Kwire, address: str, holds: Callable[[dict[str, Any]], bool], status: int, *more: str
) -> dict[str, Any]:
    """The first status of which `holds` is true; the command must have ended with `status`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = kwire("cluster", "status", "--json", "-b", address, *more, status=None)
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        if found and holds(found):
            assert done.returncode == status, done
            return found
        assert time.monotonic() < deadline, done
        time.sleep(0.1)


def names(places: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic"], each["partition"]) for each in places]


def fill(cluster: Cluster, name: str, partition: int, size_bytes: int) -> None:
    producer = Producer(cluster, acks=1)
    for _ in range(size_bytes // 10_000):
        producer.send(name, b"v" * 10_000, partition=partition)
    producer.flush()


def throttle(cluster: Cluster, name: str, rate: str | None) -> None:
    """What each follower may fetch of a topic, in bytes a second; None: all it wants."""
    operation = ConfigAlteration.DELETE if rate is None else ConfigAlteration.SET
    limit = {"follower.replication.throttled.rate": (operation, rate)}
    alter_configs(cluster, ConfigResource(ConfigResourceKind.BROKER, ""), limit)
    who = {"follower.replication.throttled.replicas": (operation, rate and "*")}
    alter_configs(cluster, ConfigResource(ConfigResourceKind.TOPIC, name), who)


def test_status_of_a_single_broker_is_well(kwire: Kwire, bootstrap: str, unique: str) -> None:
    kwire("topics", "create", unique, "-p", "3")
    found = status_of(kwire, bootstrap)
    assert (found["well"], found["ailments"], len(found["brokers"])) == (True, [], 1)
    told = kwire("cluster", "status").stdout
    assert told.endswith("all is well\n")
    assert f"cluster {found['cluster']}: 1 broker" in told
    assert found["features"]["transaction.version"] == 2
    assert "transaction.version 2\n" in told


def test_status_and_elect_work_through_the_loss_of_a_broker(
    kwire: Kwire, cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    first, last = three_brokers[1], three_brokers[3]
    ours, wide, lone = f"{unique}-ours", f"{unique}-wide", f"{unique}-lone"
    with (
        topic(cluster, wide, [[3, 1, 2], [1, 2, 3]], {"min.insync.replicas": "3"}),
        topic(cluster, lone, [[1], [2], [3]]),
        topic(cluster, ours, [[1, 2]]),
    ):
        well = await_status(kwire, first.bootstrap, lambda found: found["well"], 0)
        assert {each["broker"]: each["rack"] for each in well["brokers"]} == {
            1: "a",
            2: "b",
            3: "c",
        }
        assert well["controller"] in (1, 2, 3)
        assert well["reassignments"] == []

        last.stop()
        both = [(wide, 0), (wide, 1)]
        away = await_status(
            kwire,
            first.bootstrap,
            lambda found: (
                names(found["offline"]) == [(lone, 2)] and names(found["under_min_isr"]) == both
            ),
            1,
        )
        assert {*names(away["under_replicated"])} >= {*both}
        assert "broker 3 is absent" in away["ailments"]
        told = kwire("cluster", "status", "-b", first.bootstrap, status=1).stdout
        assert f"under-replicated:\n  {wide}:0-1\n" in told.replace(f"  {lone}:2\n", "")
        assert "broker 3 is absent" in told.splitlines()[-1]

        fill(cluster, wide, 0, 100_000)
        last.start()
        again = await_status(kwire, first.bootstrap, lambda found: found["well"], 0)
        assert names(again["not_preferred"]) == [(wide, 0)]
        assert [each["preferred_led_by_others"] for each in again["brokers"]] == [0, 0, 1]

        elected = kwire("cluster", "elect", "--all", "-b", first.bootstrap)
        assert elected.stdout.splitlines()[1].split() == [f"{wide}-0", "3", "-"]
        assert elected.stderr == "1 leader elected\n"
        await_status(kwire, first.bootstrap, lambda found: not found["not_preferred"], 0)


def test_status_names_a_follower_that_lags(
    kwire: Kwire, three_brokers: Brokers, unique: str
) -> None:
    """It is held back by a throttle."""
    address = three_brokers[1].bootstrap
    with Cluster(address, timeout_s=240) as cluster, topic(cluster, unique, [[1, 3]]):
        three_brokers[3].stop()
        fill(cluster, unique, 0, 3_000_000)
        throttle(cluster, unique, "1")
        three_brokers[3].start()
        behind = await_status(kwire, address, lambda found: bool(found["lags"]), 1)
        (lag,) = behind["lags"]
        assert (lag["topic"], lag["partition"], lag["broker"]) == (unique, 0, 3)
        assert (0 < lag["records"] <= 300, lag["in_sync"]) == (True, False)
        throttle(cluster, unique, None)
        await_status(kwire, address, lambda found: found["well"], 0)


def test_status_names_a_broker_that_hangs(kwire: Kwire, three_brokers: Brokers) -> None:
    hanging = three_brokers[2]
    addresses = ",".join(broker.bootstrap for broker in three_brokers.values())
    said = f"127.0.0.1:{hanging.port} did not respond in 2 s"
    hanging.pause()
    try:
        await_status(
            kwire,
            addresses,
            lambda found: (
                {each["broker"]: each["trouble"] for each in found["brokers"]}
                == {1: None, 2: said, 3: None}
                and f"broker 2: {said}" in found["ailments"]
            ),
            1,
            "--timeout=2",  # which others may take, too, where the machine is busy
        )
    finally:
        hanging.resume()


def test_elect_does_nothing_without_need_and_refuses_unknown_partitions(
    kwire: Kwire, cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    address = three_brokers[1].bootstrap
    with topic(cluster, unique, [[1, 2], [2, 3]]):
        done = kwire("cluster", "elect", unique, "--json", "-b", address)
        assert [(row["elected"], row["error"]) for row in json.loads(done.stdout)] == [
            (False, None), (False, None),
        ]  # fmt: skip
        done = kwire("cluster", "elect", f"{unique}:7", "-b", address, status=1)
        assert done.stderr == f"kwire: topic {unique} has no partition 7: it has 2\n"
        done = kwire("cluster", "elect", unique, "--unclean", "-b", address, status=2)
        assert "will be lost" in done.stderr
        kwire("cluster", "elect", unique, "--unclean", "--yes", "-b", address)
    assert "give --all" in kwire("cluster", "elect", "-b", address, status=2).stderr


@pytest.mark.long  # two brokers stop and start; the election that is asked for above is the same
def test_unclean_election_loses_the_records_that_the_new_leader_lacks(
    kwire: Kwire, cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    """The follower leaves the ISR, gets nothing more, and leads after the leader is gone."""
    address = three_brokers[1].bootstrap
    place = TopicPartition(unique, 0)
    with topic(cluster, unique, [[3, 2]]):
        three_brokers[2].stop()
        await_status(
            kwire, address, lambda found: (unique, 0) in names(found["under_replicated"]), 1
        )
        fill(cluster, unique, 0, 30_000)
        three_brokers[3].stop()
        three_brokers[2].start()
        await_status(kwire, address, lambda found: (unique, 0) in names(found["offline"]), 1)
        refused = kwire("cluster", "elect", unique, "-b", address, status=1)
        assert "PREFERRED_LEADER_NOT_AVAILABLE" in refused.stdout
        done = kwire("cluster", "elect", unique, "--unclean", "-y", "-b", address)
        assert done.stdout.splitlines()[1].split() == [str(place), "2", "-"]
        three_brokers[3].start()
        await_status(kwire, address, lambda found: found["well"], 0)


def test_producer_retries_an_unreachable_leader_and_delivers_once(
    cluster: Cluster, unique: str
) -> None:
    with topic(cluster, unique, [[1], [2], [3]]):
        producer = Producer(cluster)
        cluster.topic(unique)
        cluster.nodes[1] = cluster.nodes[1]._replace(port=free_port())
        for partition in range(3):
            producer.send(unique, b"v", partition=partition)
        delivered = producer.flush()
        assert sorted(each.partition.partition for each in delivered) == [0, 1, 2]
        places = [each.partition for each in delivered]
        assert set(end_offsets(cluster, places).values()) == {1}


def test_survey_returns_the_end_offset_of_a_follower(
    cluster: Cluster, three_brokers: Brokers, unique: str
) -> None:
    """What tests/requests/handlers/test_list_offsets.py says of kwire."""
    place = TopicPartition(unique, 0)
    with topic(cluster, unique, [[1, 2]]):
        producer = Producer(cluster)
        producer.send(unique, b"v", partition=0)
        producer.flush()
        follower = BrokerConnection(
            "127.0.0.1", three_brokers[2].port, client_id="test", timeout_s=240
        )
        assert own_end_offsets(follower, [place]) == {place: 1}
        follower.close()
