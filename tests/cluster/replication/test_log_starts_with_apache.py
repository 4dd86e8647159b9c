"""DeleteRecords with kwire as the leader and Apache Kafka 3.9.2 as the follower, and reversed."""

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

pytestmark = pytest.mark.slow

KWIRE = 2
BEGIN, END = -2, -1


@pytest.fixture(scope="module")
def apache(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    directory = tmp_path_factory.mktemp("apache")
    with obedient_broker(zookeeper, directory, "/log-starts") as broker:
        yield broker


async def until_both_are(controller: Controller, begin: int, end: int) -> None:
    """Wait until both logs have these start and end offsets."""
    for number in (APACHE, KWIRE):
        with trio.fail_after(240):
            while await ends_of(controller, number) != (begin, end):  # noqa: ASYNC110 - a broker is asked
                await trio.sleep(0.01)


async def ends_of(controller: Controller, number: int) -> tuple[int, int]:
    return await controller.offset(number, BEGIN), await controller.offset(number, END)


@pytest.mark.parametrize("leader", [APACHE, KWIRE])
async def test_log_that_starts_within_a_batch_is_replicated_with_apache_kafka(
    tmp_path: Path, apache: ZooKeeperBroker, leader: int
) -> None:
    """The follower is new, or returns with older records; afterwards it leads."""
    peers, topic, other = {APACHE: apache.port}, f"of-{leader}", APACHE + KWIRE - leader
    async with cluster(tmp_path, KWIRE, apache=peers, topic=topic) as controller:
        await controller.elect(leader, [leader], [APACHE, KWIRE], only=[leader])
        assert await controller.produce(leader, b"a", b"b", b"c") == (ErrorCode.NONE, 0)
        # The other is alive, and a replica: it is waited for.
        reply = await controller.delete_records(leader, 1, 500)
        assert reply == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await controller.tell(other)
        await until_both_are(controller, 1, 3)
        assert await controller.delete_records(leader, 2) == (ErrorCode.NONE, 2)
        await until_both_are(controller, 2, 3)
        await controller.stop_replica(other, delete=False)
        await controller.elect(leader, [leader], only=[leader])
        assert await controller.produce(leader, b"d", b"e") == (ErrorCode.NONE, 3)
        assert await controller.produce(leader, b"f", b"g", b"h") == (ErrorCode.NONE, 5)
        assert (await controller.delete_records(leader, 6, 1))[0] == ErrorCode.REQUEST_TIMED_OUT
        await controller.tell(other)
        await until_both_are(controller, 6, 8)
        assert await controller.delete_records(leader, 9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        await controller.elect(other, [other, leader])
        assert await controller.produce(other, b"i") == (ErrorCode.NONE, 8)
        await until_both_are(controller, 6, 9)
