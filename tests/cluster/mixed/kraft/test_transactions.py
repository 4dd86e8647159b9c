"""Transactions and groups of Java clients, while their coordinators are killed."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from kwire.groups.java import partition_for
from tests.cluster.mixed.copying import copying
from tests.cluster.mixed.kraft.stage import KINDS, SAFE, OnKRaft, on_kraft
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
COUNT = 3000
LOG = logging.getLogger(__name__)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_coordinators_are_killed_and_brokers_of_the_other_kind_take_over(
    kinds: tuple[str, ...], apache_kafka_tools: Path, tmp_path: Path
) -> None:
    """Runs until transactions and groups have moved from each kind to a broker of the other."""
    with on_kraft(tmp_path, *kinds, settings=SAFE) as cluster:
        values = [str(number) for number in range(COUNT)]
        for topic in ("in", "out"):
            cluster.create(topic, [[1, 2, 3]])
        cluster.produce("in", values, 1)
        with copying(cluster, "in", "out", COUNT) as job:
            for topic, key in ((STATE, "in"), (OFFSETS, "in-group")) * 3:
                if not job.done():
                    kill_coordinator(cluster, topic, key, job)
        assert cluster.values("out", 1) == values
        LOG.info("out: %d records, each once and in order", COUNT)
        until(lambda: all(map(cluster.in_sync, ("in", "out", STATE, OFFSETS))), "in sync")
        cluster.check_equal("in", "out", STATE)


def kill_coordinator(cluster: OnKRaft, topic: str, key: str, job: Future[int]) -> None:
    """Restart it when another coordinator has taken over and done some work."""
    until(lambda: cluster.topic(cluster.up[0], topic), f"{topic} there")
    until(lambda: cluster.in_sync(topic), f"{topic} in sync")
    known = cluster.topic(1, topic)
    assert known is not None
    victim = known[partition_for(key, len(known))][0]
    begun = time.monotonic()
    cluster.kill(victim)
    until(lambda: cluster.in_sync(topic, frozenset(cluster.up)), "led by the others")
    before = cluster.end("out", 0)
    until(lambda: job.done() or cluster.end("out", 0) > before + 50, "copied meanwhile")
    kind = cluster.quorum.kinds[victim]
    LOG.info("coordinator %s (%s): copied after %.1f s", victim, kind, time.monotonic() - begun)
    cluster.start(victim)
