"""Brokers of one cluster in the test's event loop; the test is their controller.

The test passes controller requests directly to the brokers' replication.  Brokers and clients
communicate over sockets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from kwire.broker.broker import Broker
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kwire.codecs.primitives import Message
from kwire.coordinators.runtime.runtime import ShardState
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.membership import TestedMembership
from tests.inside import RawClient, Response, port_of, running_broker, until

CONTROLLER = 9
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
SETTINGS = {
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "20",
    "replica.lag.time.max.ms": "60000",
}


@dataclass
class State:
    """A partition, as the controller has it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass
class Member:
    """One broker, and its end."""

    broker: Broker
    host: Host
    requests: ControllerRequests
    stop: trio.Event
    gone: trio.Event = field(default_factory=trio.Event)

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.broker.hosted.get(topic, index)
        assert found is not None
        return found

    async def ask(self, request: Message, version: int, kind: type[Response]) -> Response:
        """Over a connection of its own."""
        async with await trio.open_tcp_stream("127.0.0.1", port_of(self.broker)) as stream:
            return await RawClient(stream).ask(request, version, kind)


class Host(ReplicationContext):
    """A broker whose controller is the test."""

    def __init__(self, broker: Broker, cluster: Cluster) -> None:
        super().__init__(broker.node)
        self._cluster = cluster

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return self._cluster.alter_partition(request)


class Cluster:
    """See the module."""

    def __init__(self, directory: Path, nursery: trio.Nursery, settings: Mapping[str, str]) -> None:
        self.members: dict[int, Member] = {}
        self.topics: dict[str, list[State]] = {}
        self._directory = directory
        self._nursery = nursery
        self._settings = {**SETTINGS, **settings}

    # -- brokers

    async def start(self, *ids: int) -> None:
        """Start brokers: they are told of all there is."""
        for number in ids:
            await self._nursery.start(self._run, number)
        self.tell()

    async def _run(
        self, number: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        stop = trio.Event()
        directory = self._directory / f"broker-{number}"
        settings = {"node.id": str(number), **self._settings}
        async with (
            running_broker(directory, settings, stop) as broker,
            trio.open_nursery() as nursery,
        ):
            host = Host(broker, self)
            # Of its own store it has heard the last: what that says would hide the cluster.
            await broker.node.producer_ids.restock()
            while broker.node.producer_ids.ids.take() is not None:
                continue
            broker.node.producer_ids.ids.add(range(1000 * number, 1000 * number + 1000))
            requests = TestedMembership(broker, host, nursery).controller_requests
            member = self.members[number] = Member(broker, host, requests, stop)
            task_status.started()
            await stop.wait()
            nursery.cancel_scope.cancel()
        host.peers.close()
        member.gone.set()

    async def stop(self, number: int) -> None:
        """Stop a broker, and tell nobody."""
        member = self.members.pop(number)
        member.stop.set()
        await member.gone.wait()

    async def end(self, number: int) -> None:
        """Stop a broker: what it led is led by the next in sync, or by nobody."""
        await self.stop(number)
        for state in (state for states in self.topics.values() for state in states):
            if state.isr == (number,):
                self._elect(state, -1)
            elif number in state.isr:
                state.isr = tuple(each for each in state.isr if each != number)
                self._elect(state, state.isr[0] if state.leader == number else state.leader)
        self.tell()

    # -- what the controller does

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """A topic with these replicas of each partition, the first of which leads."""
        self.topics[topic] = [State(each[0], each, each) for each in replicas]
        self.tell()

    def elect(self, topic: str, index: int, leader: int) -> None:
        """Another leader, or the same, in the next epoch."""
        self._elect(self.topics[topic][index], leader)
        self.tell()

    @staticmethod
    def _elect(state: State, leader: int) -> None:
        state.leader = leader
        state.leader_epoch += 1
        state.partition_epoch += 1

    def delete(self, topic: str) -> None:
        """A topic is no more; its replicas are left where they are."""
        states = self.topics.pop(topic)
        gone = [
            UpdateMetadataPartitionState(partition_index=index, leader=-2, leader_epoch=99)
            for index in range(len(states))
        ]
        told = [UpdateMetadataTopicState(topic, _id_of(topic), gone)]
        for member in self.members.values():
            self._update_metadata(member, told)

    def tell(self) -> None:
        """Have all members know how it is now."""
        for number, member in self.members.items():
            self.lead_and_follow(number)
            self._update_metadata(member, self._told())

    def lead_and_follow(self, number: int) -> None:
        """LeaderAndIsr to one broker, about all that it is a replica of."""
        topics = [
            LeaderAndIsrTopicState(
                topic,
                _id_of(topic),
                [
                    LeaderAndIsrPartitionState(
                        partition_index=index,
                        controller_epoch=1,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=list(state.isr),
                        partition_epoch=state.partition_epoch,
                        replicas=list(state.replicas),
                        is_new=True,
                    )
                    for index, state in enumerate(states)
                    if number in state.replicas
                ],
            )
            for topic, states in self.topics.items()
        ]
        request = LeaderAndIsrRequest(
            controller_id=CONTROLLER, controller_epoch=1, topic_states=topics
        )
        answer = self.members[number].requests.leader_and_isr(request, 6)
        assert not answer.error_code

    def _told(self) -> list[UpdateMetadataTopicState]:
        return [
            UpdateMetadataTopicState(
                topic,
                _id_of(topic),
                [
                    UpdateMetadataPartitionState(
                        partition_index=index,
                        controller_epoch=1,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=list(state.isr),
                        zk_version=state.partition_epoch,
                        replicas=list(state.replicas),
                    )
                    for index, state in enumerate(states)
                ],
            )
            for topic, states in self.topics.items()
        ]

    def _update_metadata(self, member: Member, topics: list[UpdateMetadataTopicState]) -> None:
        live = [
            UpdateMetadataBroker(
                number,
                endpoints=[
                    UpdateMetadataEndpoint(port_of(each.broker), "127.0.0.1", "PLAINTEXT", 0)
                ],
            )
            for number, each in self.members.items()
        ]
        request = UpdateMetadataRequest(
            controller_id=CONTROLLER, controller_epoch=1, topic_states=topics, live_brokers=live
        )
        assert not member.requests.update_metadata(request).error_code

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Whoever asks for an ISR gets it."""
        answers = []
        for topic in request.topics:
            name = next(each for each in self.topics if _id_of(each) == topic.topic_id)
            told = ResponseTopicData(topic.topic_id)
            for asked in topic.partitions:
                state = self.topics[name][asked.partition_index]
                answer = ResponsePartitionData(asked.partition_index)
                if asked.partition_epoch == state.partition_epoch:
                    with_epochs = [each.broker_id for each in asked.new_isr_with_epochs]
                    state.isr = tuple(with_epochs or asked.new_isr)
                    state.partition_epoch += 1
                    answer.leader_id, answer.leader_epoch = state.leader, state.leader_epoch
                    answer.isr = list(state.isr)
                    answer.partition_epoch = state.partition_epoch
                else:
                    answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
                told.partitions.append(answer)
            answers.append(told)
        return AlterPartitionResponse(topics=answers)

    def silence(self, number: int, topic: str) -> None:
        """Have that broker follow none of the topic's partitions until another is elected."""
        partitions = [
            StopReplicaPartitionState(index, -1, False) for index in range(len(self.topics[topic]))
        ]
        request = StopReplicaRequest(
            controller_id=CONTROLLER,
            controller_epoch=1,
            topic_states=[StopReplicaTopicState(topic, partitions)],
        )
        assert not self.members[number].requests.stop_replica(request).error_code

    # -- what is waited for

    async def until_served(self, topic: str, index: int = 0) -> Member:
        """The broker that coordinates what lives in a partition, once it does."""
        leader = self.members[self.topics[topic][index].leader]
        broker = leader.broker
        shards = (
            broker.coordinators.groups if topic == OFFSETS else broker.coordinators.transactions
        ).runtime.shards
        await until(lambda: index in shards and shards[index].state is ShardState.ACTIVE)
        return leader


def _id_of(topic: str) -> bytes:
    """Sixteen bytes that a test can read."""
    return topic.encode()[-16:].ljust(16, b"-")


@asynccontextmanager
async def cluster(
    directory: Path, *ids: int, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Cluster]:
    """A controller with brokers; all are stopped at the end."""
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        made = Cluster(directory, nursery, settings or {})
        await made.start(*ids)
        try:
            yield made
        finally:
            for number in list(made.members):
                await made.stop(number)
