"""A broker without sockets that follows broker 2; the test gives broker 2's answers one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio
from trio.testing import wait_all_tasks_blocked

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset as EpochEnd,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kwire.codecs.primitives import Message
from kwire.storage.partitions.partition import Partition
from tests.cluster.controller.laws import Laws
from tests.cluster.replication.simulation.broker import ReplicatingBroker
from tests.cluster.replication.simulation.network import Call, Network

TOPIC = "t"
TOPIC_ID = b"t" * 16
LEADER = 2
TRUNCATES_ON_FETCH, ASKS_FOR_EPOCHS = 17, 11
"""Versions of Fetch."""
NO_SETTINGS: Mapping[str, str] = {}


def batch(offset: int, leader_epoch: int, value: bytes = b"v") -> bytes:
    """A batch of one record, as in the leader's log."""
    built = build([Record(0, 0, None, value)], base_offset=offset)
    built[12:16] = leader_epoch.to_bytes(4, "big")
    return bytes(built)


class FollowingStage:
    """See the module; `broker` has id 1."""

    def __init__(self, broker: ReplicatingBroker, network: Network) -> None:
        self.broker = broker
        self.network = network
        self.controller_epoch = 1

    # -- the controller

    def send_leader_and_isr(
        self,
        leaders: dict[int, int],
        epoch: int,
        *,
        isr: tuple[int, ...] = (1, 2),
        replicas: tuple[int, ...] = (1, 2),
        partition_epoch: int | None = None,
        controller_epoch: int | None = None,
        broker_epoch: int | None = None,
        topic: str = TOPIC,
        topic_id: bytes = TOPIC_ID,
        is_new: bool = True,
    ) -> LeaderAndIsrResponse:
        """Send LeaderAndIsr with the leader of each of these partitions of one topic."""
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=self.controller_epoch,
                leader=leader,
                leader_epoch=epoch,
                isr=list(isr),
                partition_epoch=epoch if partition_epoch is None else partition_epoch,
                replicas=list(replicas),
                is_new=is_new,
            )
            for index, leader in leaders.items()
        ]
        answer = self.broker.requests.leader_and_isr(
            LeaderAndIsrRequest(
                controller_id=3,
                controller_epoch=controller_epoch or self.controller_epoch,
                broker_epoch=self.broker.epoch if broker_epoch is None else broker_epoch,
                topic_states=[LeaderAndIsrTopicState(topic, topic_id, states)],
            ),
            LeaderAndIsrRequest.MAX_VERSION,
        )
        return answer

    def send_stop_replica(
        self,
        index: int,
        leader_epoch: int,
        *,
        delete: bool,
        controller_epoch: int | None = None,
        broker_epoch: int | None = None,
    ) -> StopReplicaResponse:
        state = StopReplicaPartitionState(index, leader_epoch, delete)
        return self.broker.requests.stop_replica(
            StopReplicaRequest(
                controller_id=3,
                controller_epoch=controller_epoch or self.controller_epoch,
                broker_epoch=self.broker.epoch if broker_epoch is None else broker_epoch,
                topic_states=[StopReplicaTopicState(TOPIC, [state])],
            )
        )

    def send_update_metadata(
        self, *, controller_epoch: int | None = None, broker_epoch: int | None = None
    ) -> UpdateMetadataResponse:
        """Send UpdateMetadata, in which broker 2 is alive."""
        endpoint = UpdateMetadataEndpoint(9092, "host2", "PLAINTEXT", 0)
        return self.broker.requests.update_metadata(
            UpdateMetadataRequest(
                controller_id=3,
                controller_epoch=controller_epoch or self.controller_epoch,
                broker_epoch=self.broker.epoch if broker_epoch is None else broker_epoch,
                live_brokers=[UpdateMetadataBroker(LEADER, endpoints=[endpoint])],
            )
        )

    # -- the leader

    async def next_request(self, kind: type[Message]) -> Call:
        """The broker's next request to its leader, which must be of this kind."""
        await wait_all_tasks_blocked()
        calls = [each for each in self.network.calls if not each.done.is_set()]
        assert [type(each.request) for each in calls] == [kind], calls
        return calls[0]

    async def answer(self, call: Call, reply: Message) -> None:
        call.reply = reply
        call.done.set()
        await wait_all_tasks_blocked()

    async def pause_s(self) -> float:
        """Seconds until the broker sends its leader a request; 0 if it has, at most 10."""
        start = trio.current_time()
        for _ in range(100):
            await wait_all_tasks_blocked()
            sent = [each.sent_s for each in self.network.calls if not each.done.is_set()]
            if sent:
                return round(max(0, min(sent) - start), 6)
            await trio.sleep(0.1)
        return 10

    # -- what there is

    def partition(self, index: int = 0) -> Partition:
        assert self.broker.broker is not None
        return self.broker.broker.hosted.by_topic[TOPIC][index]

    def end(self, index: int = 0) -> int:
        return self.partition(index).log_end_offset


def fetched(*partitions: PartitionData, session_id: int = 0) -> FetchResponse:
    """A Fetch response with the topic's name and id; each version encodes one of them."""
    return FetchResponse(
        session_id=session_id,
        responses=[FetchableTopicResponse(TOPIC, TOPIC_ID, list(partitions))],
    )


def data(index: int, *batches: bytes, **fields: Any) -> PartitionData:  # noqa: ANN401 - of the answer
    return PartitionData(
        partition_index=index,
        records=b"".join(batches),
        **{"high_watermark": 0, "log_start_offset": 0, **fields},
    )


def diverging(index: int, epoch: int, end_offset: int) -> PartitionData:
    return data(index, diverging_epoch=EpochEndOffset(epoch, end_offset))


def epoch_ends(ends: dict[int, tuple[int, int]]) -> OffsetForLeaderEpochResponse:
    """An OffsetForLeaderEpoch response, by partition: (epoch, end offset)."""
    results = [EpochEnd(ErrorCode.NONE, index, epoch, end) for index, (epoch, end) in ends.items()]
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, results)])


def requested_partitions(call: Call) -> dict[int, FetchPartition]:
    assert isinstance(call.request, FetchRequest)
    return {each.partition: each for topic in call.request.topics for each in topic.partitions}


async def filled(stage: FollowingStage, count: int, *, high_watermark: int = 0) -> None:
    """Make both partitions follow broker 2 in epoch 1, with `count` records of it."""
    stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
    batches = [batch(offset, 1) for offset in range(count)]
    both = [data(index, *batches, high_watermark=high_watermark) for index in (0, 1)]
    call = await stage.next_request(FetchRequest)
    await stage.answer(call, fetched(*both))
    assert (stage.end(0), stage.end(1)) == (count, count)


def log_offsets(index: int, offset: int) -> ListOffsetsResponse:
    """A ListOffsets response with one offset."""
    told = [ListOffsetsPartitionResponse(index, ErrorCode.NONE, offset=offset)]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, told)])


@asynccontextmanager
async def following(
    tmp_path: Path, version: int, settings: Mapping[str, str] = NO_SETTINGS
) -> AsyncIterator[FollowingStage]:
    """Broker 1 with these settings, which fetches from broker 2 in this version of Fetch."""
    network = Network()
    broker = ReplicatingBroker(1, Laws(), tmp_path, network, settings, version)
    broker.start(100)

    async def unanswered(request: Message, version: int) -> Message | None:
        raise AssertionError("a test answers")

    async def here(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as there
        """Runs the work of a thread at once, so that the test need not wait for it."""
        return work()

    with patch("trio.to_thread.run_sync", here):
        async with trio.open_nursery() as nursery:
            network.handlers[LEADER] = (unanswered, nursery)
            await nursery.start(broker.run)
            yield FollowingStage(broker, network)
            nursery.cancel_scope.cancel()
