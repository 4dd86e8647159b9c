"""AlterPartition in the versions that controllers may support."""

from __future__ import annotations

import pytest

from kwire.cluster.replication.isr import in_version
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)


@pytest.mark.parametrize(("version", "plain", "with_epochs"), [(2, [1, 3], []), (3, [], [1, 3])])
def test_alter_partition_states_the_isr_once_per_version(
    version: int, plain: list[int], with_epochs: list[int]
) -> None:
    asked = RequestPartitionData(0, 4, new_isr_with_epochs=[BrokerState(1, -1), BrokerState(3, -1)])
    request = AlterPartitionRequest(1, 9, [RequestTopicData(b"t" * 16, [asked])])
    sent = in_version(request, version).encode(version)
    decoded = AlterPartitionRequest.decode(sent, version).topics[0].partitions[0]
    assert decoded.new_isr == plain
    assert [each.broker_id for each in decoded.new_isr_with_epochs] == with_epochs
