"""Every request passes the gate, whichever way it is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.codecs.primitives import Message
from kwire.requests.context import CloseConnection, Context
from kwire.requests.shortcuts.registry import SHORTCUTS
from tests.inside import RawClient, running_broker
from tests.requests.shortcuts.test_repeated_produce import batch, create, produce

TIMES = 5


class Counting:
    """A gate that notes who passes, and turns away one client."""

    def __init__(self) -> None:
        self.admitted: list[tuple[int, int]] = []
        self.answered_bytes: list[int] = []
        self.refused: str | None = None
        self.parked_keys: list[int] = []

    def admit(self, context: Context, frame: memoryview) -> None:
        if context.client_id == self.refused:
            raise CloseConnection("not this one")
        assert len(frame) > 0
        self.admitted.append((context.api_key, context.api_version))

    def parked(self, context: Context) -> None:
        self.parked_keys.append(context.api_key)

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        return 0

    def answered(self, context: Context, size_bytes: int) -> None:
        self.answered_bytes.append(size_bytes)


async def gated(broker: Broker) -> tuple[Counting, RawClient]:
    gate = broker.gate = Counting()
    return gate, await RawClient.connect(broker)


def asked_for(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


async def ask_all(client: RawClient, topic_id: bytes) -> None:
    """What has shortcuts, several times, so that they are taken; and what has none."""
    for _ in range(TIMES):
        told = await client.ask(produce("t", topic_id, batch()), 9, ProduceResponse)
        answer = told.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE
        found = await client.ask(asked_for("t"), 6, ListOffsetsResponse)
        assert found.topics[0].partitions[0].offset == answer.base_offset + 1
        await client.ask(MetadataRequest(topics=None), 9, MetadataResponse)


EXPECTED = {(ApiKey.PRODUCE, 9), (ApiKey.LIST_OFFSETS, 6), (ApiKey.METADATA, 9)}


async def test_gate_sees_every_request_that_a_shortcut_could_answer(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        gate, client = await gated(broker)
        await ask_all(client, topic_id)
        assert set(gate.admitted) == EXPECTED
        assert all(gate.admitted.count(each) == TIMES for each in EXPECTED), "each once"
        assert len(gate.answered_bytes) == len(gate.admitted)
        assert all(gate.answered_bytes)


async def test_shortcut_answers_a_request_that_the_gate_admits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    for kind in SHORTCUTS.values():
        answer = kind.answer  # type: ignore[attr-defined]  # each is a class

        def noted(self: object, *args: object, _answer: object = answer) -> object:
            reply = _answer(self, *args)  # type: ignore[operator]  # a function
            if reply is not None:
                taken.append(type(self).__name__)
            return reply

        monkeypatch.setattr(kind, "answer", noted)
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        _, client = await gated(broker)
        await ask_all(client, topic_id)
    assert set(taken) == {"RepeatedProduce", "RepeatedListOffsets"}


async def test_request_that_the_gate_refuses_closes_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        gate, client = await gated(broker)
        await ask_all(client, topic_id)
        (partition,) = broker.hosted.by_topic["t"].values()
        end = partition.log_end_offset
        gate.refused = client.client_id
        await client.send(produce("t", topic_id, batch()), 9)
        assert await client.receive_frame() is None
        assert partition.log_end_offset == end, "nothing was written"


async def test_gate_reports_no_reply_for_acks_0(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        gate, client = await gated(broker)
        await client.send(produce("t", topic_id, batch(), acks=0), 9)
        frame = client.frame(produce("t", topic_id, batch(), acks=1), 9)
        await client.stream.send_all(frame)
        reply = await client.receive_frame()
        assert reply is not None
        assert gate.answered_bytes == [0, 4 + len(reply)]


async def test_gate_gets_the_frame_of_each_request(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Weighing(Counting):
        def admit(self, context: Context, frame: memoryview) -> None:
            sizes.append(len(frame))

    async with running_broker(tmp_path) as broker:
        broker.gate = Weighing()
        client = await RawClient.connect(broker)
        frame = client.frame(MetadataRequest(topics=None), 9)
        await client.stream.send_all(frame)
        assert await client.receive_frame() is not None
        assert sizes == [len(frame) - 4]
