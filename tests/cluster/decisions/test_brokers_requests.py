"""Requests of brokers to their controller, over the network."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.image import FIRST_PRODUCER_ID
from kwire.cluster.stores.contract import NotController
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from tests.cluster.replication.cluster import ask, cluster

EPOCH = -1
"""Of the registration of a broker whose store nobody shares."""


async def test_each_block_of_producer_ids_is_allocated_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as controller:
        member = controller.members[1]
        for first in (FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1000):
            request = AllocateProducerIdsRequest(1, EPOCH)
            given = await ask(member, request, 0, AllocateProducerIdsResponse)
            assert given.error_code == ErrorCode.NONE
            assert (given.producer_id_start, given.producer_id_len) == (first, 1000)
        for request, error in (
            (AllocateProducerIdsRequest(9, EPOCH), ErrorCode.BROKER_ID_NOT_REGISTERED),
            (AllocateProducerIdsRequest(1, 5), ErrorCode.STALE_BROKER_EPOCH),
        ):
            refused = await ask(member, request, 0, AllocateProducerIdsResponse)
            assert (refused.error_code, refused.producer_id_len) == (error, 0)


async def test_alter_partition_is_answered_only_in_the_current_broker_epoch(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as controller:
        topic = RequestTopicData(b"?" * 16, [RequestPartitionData(0)])
        for version in (2, 3):
            for epoch in (EPOCH, 5):
                request = AlterPartitionRequest(1, epoch, [topic])
                reply = await ask(controller.members[1], request, version, AlterPartitionResponse)
                if epoch == EPOCH:
                    ((answer,),) = [each.partitions for each in reply.topics]
                    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
                else:
                    assert reply.error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_controlled_shutdown_is_answered_at_every_version(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as controller:
        for version in (1, 2, 3):
            for broker_id, error in ((1, ErrorCode.NONE), (9, ErrorCode.BROKER_NOT_AVAILABLE)):
                request = ControlledShutdownRequest(broker_id, EPOCH)
                member = controller.members[1]
                reply = await ask(member, request, version, ControlledShutdownResponse)
                assert (reply.error_code, reply.remaining_partitions) == (error, [])


async def test_requests_to_another_broker_are_answered_not_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are those of Apache Kafka 3.9.2."""

    async def refuse(*arguments: object) -> NoReturn:
        raise NotController

    monkeypatch.setattr(LoneMembership, "ask", refuse)
    async with cluster(tmp_path, 1) as controller:
        member = controller.members[1]
        for version in (2, 3):
            isr = await ask(member, AlterPartitionRequest(1), version, AlterPartitionResponse)
            assert (isr.error_code, isr.topics) == (ErrorCode.NOT_CONTROLLER, [])
        for version in (1, 2, 3):
            request = ControlledShutdownRequest(1)
            shutdown = await ask(member, request, version, ControlledShutdownResponse)
            assert shutdown.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        ids = await ask(member, AllocateProducerIdsRequest(1), 0, AllocateProducerIdsResponse)
        assert (ids.error_code, ids.producer_id_len) == (ErrorCode.NOT_CONTROLLER, 0)
