"""Brokers of both kinds, while the leading controller changes and while no controller runs."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from kwire.client.topics import create_topic
from tests.cluster.mixed.kraft.stage import ALL, KINDS, SAFE, SPREAD, OnKRaft, on_kraft
from tests.cluster.mixed.watched import Load
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

LOG = logging.getLogger(__name__)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_brokers_follow_each_new_leader_of_three_controllers(
    kinds: tuple[str, ...], apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Each leader is killed in turn; topics are created and elections made by the next one."""
    with on_kraft(tmp_path, *kinds, controllers=3, settings=SAFE) as cluster:
        cluster.create("t")
        with cluster.loaded("t", 3) as acknowledged:
            for number in range(3):
                change_leader(cluster, f"after-{number}", acknowledged)
                lose_broker(cluster, number + 1, acknowledged)
        until(lambda: cluster.in_sync("t", ALL), "in sync")
        cluster.check_values("t", 3, acknowledged)
        cluster.check_equal("t")


def change_leader(cluster: OnKRaft, topic: str, acknowledged: Load) -> None:
    """Kill the leading controller, and create a topic by the next one."""
    quorum = cluster.quorum
    leader = quorum.wait_for_leader()
    acknowledged.take_gap_s()
    begun = time.monotonic()
    quorum.controllers[leader].kill()
    after = quorum.wait_for_leader(other_than=leader)
    elected_s = time.monotonic() - begun
    until(lambda: created(cluster, topic), f"{topic} created by {after}")
    LOG.info(
        "controller %s killed: %s leads after %.1f s, topic after %.1f s, longest pause %.1f s",
        *(leader, after, elected_s, time.monotonic() - begun, acknowledged.take_gap_s()),
    )
    quorum.controllers[leader].start()


def created(cluster: OnKRaft, topic: str) -> bool:
    """Create a topic unless it exists; return whether all its replicas are in sync."""
    if cluster.topic(cluster.up[0], topic) is None:
        with cluster.client(cluster.up[0]) as client:
            create_topic(client, topic, assignment=SPREAD)
    return cluster.in_sync(topic)


def lose_broker(cluster: OnKRaft, victim: int, acknowledged: Load) -> None:
    """Kill a broker, which the new controller fences, and start it again."""
    until(lambda: cluster.in_sync("t", ALL), "in sync")
    cluster.kill(victim)
    until(lambda: cluster.in_sync("t", ALL - {victim}), "led by the others")
    acknowledged.wait_for_more(100)
    cluster.start(victim)
    until(lambda: cluster.in_sync("t", ALL), "in sync again")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_brokers_serve_while_no_controller_runs(
    kinds: tuple[str, ...], apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """The only controller is killed: records go on, and a broker restarts meanwhile."""
    with on_kraft(tmp_path, *kinds, settings=SAFE) as cluster:
        cluster.create("t")
        [controller] = cluster.quorum.controllers.values()
        with cluster.loaded("t", 3) as acknowledged:
            for victim in cluster.brokers:
                until(lambda: cluster.in_sync("t", ALL), "in sync")
                controller.kill()
                acknowledged.wait_for_more(300)
                LOG.info("without controller: %.1f s", acknowledged.take_gap_s())
                cluster.kill(victim)
                cluster.quorum.brokers[victim].spawn()
                controller.start()
                cluster.brokers[victim].wait_until_up()
                cluster.down.discard(victim)
                acknowledged.wait_for_more(300)
                LOG.info("broker %s restarted: %.1f s", victim, acknowledged.take_gap_s())
        until(lambda: cluster.in_sync("t", ALL), "in sync")
        cluster.check_values("t", 3, acknowledged)
        cluster.check_equal("t")
