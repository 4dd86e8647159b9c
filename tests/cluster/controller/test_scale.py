"""The controller at 1,000 brokers and 200,000 partitions: costs of its start and of a lost broker.

`pytest -s -m long tests/cluster/controller/test_scale.py` prints the figures.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.membership.collector import collector_paused
from kwire.cluster.metadata.changes import Change, UnregisterBroker, apply_all, decide_all
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.placement import new_partition
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest
from kwire.settings import BrokerConfig
from tests.cluster.controller.simulation import Host

BROKERS, TOPICS, PARTITIONS, REPLICAS = 1_000, 2_000, 100, 3
CONFIG = BrokerConfig({"node.id": "1"})
T = TypeVar("T")


def big_cluster() -> ClusterImage:
    image = ClusterImage("big", controller_id=1, controller_epoch=1)
    for number in range(1, BROKERS + 1):
        endpoint = Endpoint("PLAINTEXT", f"host{number}", 9092)
        image = image.with_broker(BrokerImage(number, (endpoint,), None, number))
    topics = []
    for number in range(TOPICS):
        partitions = tuple([_partition(number * PARTITIONS + each) for each in range(PARTITIONS)])
        topics.append(TopicImage(f"topic-{number}", number.to_bytes(16, "big"), partitions))
    return image.with_topics(topics)


def _partition(number: int) -> PartitionImage:
    """A partition; each broker leads equally many, and follows each of many others."""
    lap = number // BROKERS + 1
    return new_partition([(number + lap * each) % BROKERS + 1 for each in range(REPLICAS)])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


class Followed:
    """A controller, and the image that it has."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.machine = ClusterController(Host(1, CONFIG, CONFIG), image)

    def changed(self, changes: Sequence[Change]) -> ControllerEffects:
        before, self.image = self.image, apply_all(self.image, changes)
        return self.machine.image_changed(self.image, delta_of(before, self.image, changes))

    def lose(self, broker_id: int) -> tuple[int, int]:
        """Remove a broker and commit the decisions: the numbers of changes and requests."""
        effects = self.changed([UnregisterBroker(broker_id)])
        changes, _ = decide_all(self.image, effects.decisions)
        requests = len(effects.requests) + len(self.changed(changes).requests)
        return len(changes), requests


@pytest.mark.long
def test_lost_broker_among_a_thousand_costs_only_its_own_partitions() -> None:
    image = big_cluster()
    cluster, making_s = timed(lambda: Followed(image))
    with collector_paused():  # as the driver does
        effects, begin_s = timed(cluster.machine.start)
    sent = [each.request for each in effects.requests]
    assert sum(isinstance(each, LeaderAndIsrRequest) for each in sent) == BROKERS
    del effects, sent
    (changes, requests), death_s = timed(lambda: cluster.lose(500))
    concerned = len(cluster.machine.state.hosted[500])
    assert changes == concerned == TOPICS * PARTITIONS * REPLICAS // BROKERS
    assert not [each for each in cluster.machine.state.leaderless]
    assert death_s < begin_s, "it must cost what it concerns, not all there is"
    print(
        f"\n{BROKERS} brokers, {TOPICS * PARTITIONS} partitions: begin {making_s + begin_s:.2f} s"
        f" ({BROKERS} LeaderAndIsr and as many UpdateMetadata twice);"
        f" a broker dies {death_s:.2f} s ({changes} changes, {requests} requests)"
    )


@pytest.mark.long
def test_controller_of_a_thousand_brokers_keeps_less_than_the_image() -> None:
    tracemalloc.start()
    image = big_cluster()
    image_bytes = tracemalloc.get_traced_memory()[0]
    cluster = Followed(image)
    cluster.machine.start()
    kept_bytes = tracemalloc.get_traced_memory()[0] - image_bytes
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"\nimage {image_bytes / 1e6:.0f} MB, the machine beside it {kept_bytes / 1e6:.0f} MB,"
        f" with all requests of its begin {peak_bytes / 1e6:.0f} MB"
    )
    assert kept_bytes < image_bytes
