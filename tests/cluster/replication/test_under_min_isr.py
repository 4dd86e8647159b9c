"""acks=all that waits while the ISR falls below min.insync.replicas, on kwire and Apache Kafka.

Apache Kafka 3.9.2 has an error for it, NOT_ENOUGH_REPLICAS_AFTER_APPEND.  It is for a record that
counts by then; but with too few in sync nothing comes to count (KIP-966), so what clients see is
that time runs out, or that it goes well once enough are in sync again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing.zookeeper import ZooKeeperProcess
from tests.cluster.replication.apache import APACHE, obedient_broker
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

KWIRE = 2
MIN_ISR = {"min.insync.replicas": "2"}
TIMEOUT_MS = 2000
END = -1


@pytest.fixture(scope="module")
def apache(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    directory = tmp_path_factory.mktemp("apache")
    with obedient_broker(zookeeper, directory, "/min-isr", MIN_ISR) as broker:
        yield broker


async def parked_while_it_falls(controller: Controller, leader: int, follower: int) -> None:
    await controller.elect(leader, [leader, follower])
    assert await controller.produce(leader, b"both") == (ErrorCode.NONE, 0)
    await controller.stop_replica(follower, delete=False)
    answers: dict[str, tuple[int, int]] = {}

    async def produce(name: str, timeout_ms: int) -> None:
        answers[name] = await controller.produce(leader, name.encode(), timeout_ms=timeout_ms)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce, "soon", TIMEOUT_MS)
        await until_appended(controller, leader, 2)
        nursery.start_soon(produce, "late", 60_000)
        await until_appended(controller, leader, 3)
        await controller.elect(leader, [leader], only=[leader])
        assert await controller.produce(leader, b"refused") == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        await until(lambda: "soon" in answers)
        assert answers == {"soon": (ErrorCode.REQUEST_TIMED_OUT, 1)}
        await controller.elect(leader, [leader, follower])
    assert answers["late"] == (ErrorCode.NONE, 2)


async def until_appended(controller: Controller, leader: int, end: int) -> None:
    """Wait until the leader's log has this many batches of one record."""
    while await controller.offset(leader, END) < end:  # noqa: ASYNC110 - a broker is asked
        await trio.sleep(0.01)


async def test_waiting_acks_all_fails_below_min_isr_on_kwire(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, settings=MIN_ISR) as controller:
        await parked_while_it_falls(controller, 1, 2)
        await controller.until_equal(1, 2)


@pytest.mark.parametrize("leader", [APACHE, KWIRE])
async def test_waiting_acks_all_fails_below_min_isr_with_apache_kafka(
    tmp_path: Path, apache: ZooKeeperBroker, leader: int
) -> None:
    peers, topic = {APACHE: apache.port}, f"led-by-{leader}"
    async with cluster(tmp_path, KWIRE, apache=peers, settings=MIN_ISR, topic=topic) as controller:
        await parked_while_it_falls(controller, leader, APACHE + KWIRE - leader)
