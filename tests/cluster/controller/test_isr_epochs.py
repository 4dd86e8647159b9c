"""A broker may join the ISR only in the epoch that its leader knows (KIP-903)."""

from __future__ import annotations

import pytest

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import AlterPartitionResponse, BrokerState
from kwire.settings import BrokerConfig
from tests.cluster.controller.requests import alter_partition
from tests.cluster.controller.simulation import Cluster

PARTITION = ("t", 0)


@pytest.mark.parametrize(
    ("behind", "error"),
    [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INELIGIBLE_REPLICA),
        (None, ErrorCode.NONE),  # its leader does not say
    ],
)
def test_broker_with_a_new_epoch_does_not_join_the_isr(
    behind: int | None, error: ErrorCode
) -> None:
    cluster = Cluster(2, BrokerConfig({"node.id": "1"}))
    term = cluster.term
    assert term is not None
    topic = TopicImage(PARTITION[0], b"t" * 16, (new_partition([1, 2]),))
    term.take(
        ControllerEffects(decisions=[lambda image: None if image.topics else CreateTopic(topic)])
    )
    cluster.settle(anew=False)
    local = cluster.brokers[1].hosted[PARTITION]
    request = alter_partition(1, cluster.brokers[1].epoch, 0, local, [1])
    replies: list[AlterPartitionResponse] = []
    term.take(term.machine.alter_partition(request), replies.append)
    term.work()
    local.partition_epoch = replies[0].topics[0].partitions[0].partition_epoch
    request = alter_partition(1, cluster.brokers[1].epoch, 0, local, [1, 2])
    partition = cluster.brokers[2].epoch
    epoch = -1 if behind is None else partition - behind
    request.topics[0].partitions[0].new_isr_with_epochs[1] = BrokerState(2, epoch)
    term.take(term.machine.alter_partition(request), replies.append)
    term.work()
    assert replies[1].topics[0].partitions[0].error_code == error
