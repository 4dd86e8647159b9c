"""Brokers on the test's loop, controlled by the test over sockets with a controller's requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.replication.context import ReplicationContext
from kwire.codecs.batches import Record, build, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
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
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from kwire.codecs.primitives import Message
from kwire.settings import ConfigResourceType
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.membership import TestedMembership
from tests.cluster.replication.recorder import Recorder
from tests.inside import RawClient, Response, port_of, running_broker, until

TOPIC = "t"
NOW_MS = 1_700_000_000_000


@dataclass
class Member:
    """A broker of the test, with its connection."""

    broker: Broker
    host: Host
    stop: trio.Event
    gone: trio.Event = field(default_factory=trio.Event)

    def partition(self, index: int = 0, topic: str = TOPIC) -> Partition:
        found = self.broker.hosted.get(topic, index)
        assert found is not None
        return found


async def ask(member: Member, request: Message, version: int, kind: type[Response]) -> Response:
    """Ask over a new connection: a broker that ends closes the test's other connections."""
    return await ask_at(port_of(member.broker), request, version, kind)


async def ask_at(port: int, request: Message, version: int, kind: type[Response]) -> Response:
    """Like `ask`, of the broker that listens on `port`."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        return await RawClient(stream).ask(request, version, kind)


@dataclass
class State:
    """The partition state that the controller sends."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0


class Controller:
    """The test's controller of `topic`-0; grants AlterPartition unless `refusal` is set."""

    def __init__(
        self, directory: Path, nursery: trio.Nursery, apache: Mapping[int, int], topic: str
    ) -> None:
        self.topic = topic
        self.topic_id = topic.encode().ljust(16, b"\1")
        self.members: dict[int, Member] = {}
        self.recorders: dict[int, Recorder] = {}
        """With Apache Kafka brokers: recorders of the requests that brokers send to each other."""
        self.apache = apache
        """Ports of the Apache Kafka brokers that accept this as their controller."""
        self.racks: dict[int, str] = {}
        self.epoch = 100
        self.state = State(-1, (), ())
        self.refusal = ErrorCode.NONE
        self.answers = trio.Event()
        self.answers.set()
        self._directory = directory
        self._nursery = nursery

    async def start(self, *ids: int, settings: Mapping[str, str] | None = None) -> None:
        """Start brokers, and send UpdateMetadata to all."""
        for number in ids:
            await self._nursery.start(self._run, number, settings or {})
        await self.tell_brokers()

    async def _run(
        self,
        number: int,
        settings: Mapping[str, str],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        stop = trio.Event()
        base = {
            "node.id": str(number),
            "replica.fetch.wait.max.ms": "100",
            "replica.fetch.backoff.ms": "20",
            "replica.lag.time.max.ms": "60000",
        }
        directory = self._directory / f"broker-{number}"
        async with (
            running_broker(directory, {**base, **settings}, stop) as broker,
            trio.open_nursery() as nursery,
        ):
            host = Host(broker, self)
            TestedMembership(broker, host, nursery)
            member = Member(broker, host, stop)
            self.members[number] = member
            if self.apache:
                await self._record(number)
            task_status.started()
            await stop.wait()
            nursery.cancel_scope.cancel()
        host.peers.close()
        member.gone.set()

    async def _record(self, number: int) -> None:
        recorder = self.recorders[number] = Recorder(self.port_of(number))
        await self._nursery.start(recorder.run)

    def port_of(self, number: int) -> int:
        """The port on which a broker listens."""
        port = self.apache.get(number)
        return port_of(self.members[number].broker) if port is None else port

    async def ask(
        self, number: int, request: Message, version: int, kind: type[Response]
    ) -> Response:
        """The broker's answer."""
        return await ask_at(self.port_of(number), request, version, kind)

    async def end(self, number: int) -> None:
        """Stop a broker cleanly."""
        member = self.members.pop(number)
        member.stop.set()
        await member.gone.wait()

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        await self.answers.wait()
        topics = []
        for topic in request.topics:
            result = ResponseTopicData(topic.topic_id)
            for asked in topic.partitions:
                assert asked.leader_epoch <= self.state.leader_epoch
                answer = ResponsePartitionData(asked.partition_index, self.refusal)
                if not self.refusal and asked.partition_epoch != self.state.partition_epoch:
                    answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
                elif not self.refusal:
                    self.state.isr = tuple(each.broker_id for each in asked.new_isr_with_epochs)
                    self.state.partition_epoch += 1
                    answer.leader_id = self.state.leader
                    answer.leader_epoch = self.state.leader_epoch
                    answer.isr = list(self.state.isr)
                    answer.partition_epoch = self.state.partition_epoch
                result.partitions.append(answer)
            topics.append(result)
        return AlterPartitionResponse(topics=topics)

    async def tell_brokers(self) -> None:
        """Send UpdateMetadata with the live brokers to all brokers."""
        everybody = [*self.members, *self.apache]
        live = [
            UpdateMetadataBroker(
                number,
                endpoints=[
                    UpdateMetadataEndpoint(self._door_of(number), "127.0.0.1", "PLAINTEXT", 0)
                ],
                rack=self.racks.get(number),
            )
            for number in everybody
        ]
        state = self.state
        states = []
        if state.replicas:
            partition_state = UpdateMetadataPartitionState(
                partition_index=0,
                controller_epoch=self.epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                zk_version=state.partition_epoch,
                replicas=list(state.replicas),
            )
            states = [UpdateMetadataTopicState(self.topic, self.topic_id, [partition_state])]
        request = UpdateMetadataRequest(
            controller_id=9, controller_epoch=self.epoch, topic_states=states, live_brokers=live
        )
        for number in everybody:
            answer = await self.ask(number, request, 8, UpdateMetadataResponse)
            assert not answer.error_code

    def _door_of(self, number: int) -> int:
        """The port on which other brokers reach a broker (a recorder's, if it has one)."""
        return self.recorders[number].port if self.recorders else self.port_of(number)

    async def elect(
        self,
        leader: int,
        isr: Sequence[int],
        replicas: Sequence[int] | None = None,
        *,
        only: Sequence[int] = (),
    ) -> None:
        """Elect a leader in the next epoch; send LeaderAndIsr to running replicas (or `only`)."""
        state = self.state
        state.leader, state.isr = leader, tuple(isr)
        state.replicas = tuple(replicas) if replicas is not None else state.replicas or tuple(isr)
        state.leader_epoch += 1
        state.partition_epoch += 1
        for number in only or state.replicas:
            if number in self.members or number in self.apache:
                assert await self.tell(number) == ErrorCode.NONE
        await self.tell_brokers()

    async def tell(self, number: int, *, broker_epoch: int = -1) -> int:
        """Send LeaderAndIsr with the present state; returns the request's or partition's error."""
        state = self.state
        door = self._door_of(state.leader) if state.leader in self.recorders else 0
        partition_state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=self.epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            is_new=True,
        )
        request = LeaderAndIsrRequest(
            controller_id=9,
            controller_epoch=self.epoch,
            broker_epoch=broker_epoch,
            topic_states=[LeaderAndIsrTopicState(self.topic, self.topic_id, [partition_state])],
            live_leaders=[LeaderAndIsrLiveLeader(state.leader, "127.0.0.1", door)],
        )
        answer = await self.ask(number, request, 7, LeaderAndIsrResponse)
        return answer.error_code or answer.topics[0].partition_errors[0].error_code

    async def stop_replica(self, number: int, *, delete: bool) -> int:
        request = StopReplicaRequest(
            controller_id=9,
            controller_epoch=self.epoch,
            topic_states=[
                StopReplicaTopicState(self.topic, [StopReplicaPartitionState(0, -1, delete)])
            ],
        )
        answer = await self.ask(number, request, 4, StopReplicaResponse)
        assert not answer.error_code
        return answer.partition_errors[0].error_code

    # -- what clients do

    async def produce(
        self, number: int, *values: bytes, acks: int = -1, timeout_ms: int = 60_000
    ) -> tuple[int, int]:
        """Produce a batch at that broker; returns the error and the base offset."""
        records = build([Record(at, NOW_MS, None, value) for at, value in enumerate(values)])
        return await self.produce_batch(number, records, acks=acks, timeout_ms=timeout_ms)

    async def produce_batch(
        self,
        number: int,
        batch: bytearray,
        *,
        acks: int = -1,
        timeout_ms: int = 60_000,
        transactional_id: str | None = None,
    ) -> tuple[int, int]:
        """Like `produce`, with an encoded batch."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(self.topic, b"", [PartitionProduceData(0, batch)])],
        )
        answer = await self.ask(number, request, 9, ProduceResponse)
        result = answer.responses[0].partition_responses[0]
        return result.error_code, result.base_offset

    async def offset(self, number: int, timestamp: int) -> int:
        """The log end offset (-1) or log start offset (-2) of a broker's log, by ListOffsets."""
        request = ListOffsetsRequest(
            replica_id=-2,  # the debugging replica: held back by nothing
            topics=[ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, -1, timestamp)])],
        )
        answer = await self.ask(number, request, 5, ListOffsetsResponse)
        result = answer.topics[0].partitions[0]
        assert not result.error_code
        return result.offset

    async def delete_records(
        self, number: int, offset: int, timeout_ms: int = 60_000
    ) -> tuple[int, int]:
        """Delete records before `offset` at the leader; returns the error and the low watermark."""
        topic = DeleteRecordsTopic(self.topic, [DeleteRecordsPartition(0, offset)])
        request = DeleteRecordsRequest([topic], timeout_ms)
        answer = await self.ask(number, request, 2, DeleteRecordsResponse)
        result = answer.topics[0].partitions[0]
        return result.error_code, result.low_watermark

    def configure_topic(self, **configs: str) -> None:
        """Set exactly these configs of the topic at all brokers."""
        for member in self.members.values():
            configure(member, ConfigResourceType.TOPIC, self.topic, **configs)

    async def until_equal(self, *ids: int) -> None:
        """Wait until these brokers have equal bytes and equal high watermarks."""
        await until(lambda: len({self.bytes_of(number) for number in ids}) == 1)
        await until(
            lambda: len({self.members[number].partition().high_watermark for number in ids}) == 1
        )

    def bytes_of(self, number: int) -> bytes:
        """The bytes of the partition's segment files."""
        log = self.members[number].partition(topic=self.topic).log
        return b"".join(segment.path.read_bytes() for segment in log.segments)

    def epochs_of(self, number: int) -> list[tuple[int, int]]:
        """(leader epoch, base offset) of each batch."""
        data = memoryview(self.bytes_of(number))
        return [(each.partition_leader_epoch, each.base_offset) for _, each in iter_batches(data)]


def configure(member: Member, kind: ConfigResourceType, name: str, **configs: str) -> None:
    """Set configs of a topic or of the broker, as its metadata store would."""
    before = member.broker.image
    values = {setting.replace("_", "."): text for setting, text in configs.items()}
    after = before.with_configs(kind, name, values)
    member.broker.metadata.apply(after, delta_between(before, after))


class Host(ReplicationContext):
    """The replication context of a broker whose controller is the test."""

    def __init__(self, broker: Broker, controller: Controller) -> None:
        super().__init__(broker.node)
        self._controller = controller
        self._coordinators = broker.coordinators
        broker.hosted.on_leadership_change = self._leadership_changed
        self.changes: list[bool] = []
        """For each change of leadership, whether this broker leads since then."""

    async def report_offline(self) -> None:
        await self._controller.tell(self.node_id)

    def _leadership_changed(self, partition: Partition) -> None:
        self.changes.append(partition.is_leader)
        self._coordinators.leadership_changed(partition)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._controller.alter_partition(request)


@asynccontextmanager
async def cluster(
    directory: Path,
    *ids: int,
    settings: Mapping[str, str] | None = None,
    apache: Mapping[int, int] | None = None,
    topic: str = TOPIC,
) -> AsyncIterator[Controller]:
    """A controller with brokers; all but Apache Kafka's are stopped at the end."""
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        controller = Controller(directory, nursery, apache or {}, topic)
        for number in controller.apache:
            await controller._record(number)
        await controller.start(*ids, settings=settings)
        try:
            yield controller
        finally:
            for number in list(controller.members):
                await controller.end(number)
            nursery.cancel_scope.cancel()
