"""A broker without sockets, for tests of handlers: real logs, requests in wire format."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import trio

from kwire.broker.broker import Broker
from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.changes import (
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    SetFeatures,
    apply_all,
)
from kwire.cluster.metadata.delta import ClusterDelta, delta_of
from kwire.cluster.metadata.features import NEWEST_LEVELS, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.local import FILE_NAME, LocalStore
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import ControlType, Record, build, control_batch
from kwire.codecs.primitives import Frame, Message
from kwire.codecs.uuids import random_uuid
from kwire.log import AppendResult, LogManager, Origin
from kwire.requests.context import Context
from kwire.settings import load
from kwire.storage.partitions.partition import Partition
from tests.log.configs import DEFAULTS

NODE_ID = 1

MessageT = TypeVar("MessageT", bound=Message)


class Node:
    """A broker with topics; `call` and `wait_for` send requests to its handlers."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        fixed = {
            "node.id": str(NODE_ID),
            "log.dirs": str(directory),
            "listeners": "PLAINTEXT://localhost:0",
        }
        config = load(overrides=fixed | dict(settings or {}))
        self.logs = LogManager([directory], defaults=DEFAULTS, verify_transactions=False)
        self.store = LocalStore(directory / FILE_NAME)
        self.broker = Broker(config, self.store, self.logs, "test-cluster")
        self.show(SetFeatures(0, FinalizedFeatures(NEWEST_LEVELS, epoch=1)))

    def close(self) -> None:
        self.logs.close()
        self.store.close()

    def create(self, topic: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic and return its id; config names have `_` for `.`."""
        state = PartitionImage(NODE_ID, 0, 0, (NODE_ID,), (NODE_ID,))
        made = TopicImage(topic, random_uuid(os.urandom), (state,) * partitions)
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.show(CreateTopic(made, named))
        return made.id

    def delete(self, topic: str) -> None:
        self.show(DeleteTopic(topic, self.broker.image.topics[topic].id))

    def show(self, *changes: Change) -> None:
        """Apply these changes to the broker, as if they came from its store."""
        before = self.broker.image
        after = apply_all(before, changes)
        self.apply(after, delta_of(before, after, changes))

    def apply(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Give the broker a new metadata image; `delta` is the difference to the old one."""
        membership = self.broker.membership
        assert isinstance(membership, LoneMembership)
        membership.apply(image, delta)

    def change_leader(self, topic: str, index: int, *, leader: int, leader_epoch: int) -> None:
        """Change the leader epoch, and perhaps the leader, as a controller does."""
        old = self.broker.image.topics[topic]
        state = old.partitions[index]
        epoch = state.partition_epoch
        moved = replace(state, leader=leader, leader_epoch=leader_epoch, partition_epoch=epoch + 1)
        self.show(AlterPartition(topic, old.id, index, epoch, moved))

    def lag(self, topic: str, index: int = 0) -> None:
        """Give a partition a second in-sync replica that never fetches."""
        old = self.broker.image.topics[topic]
        state = old.partitions[index]
        both = (NODE_ID, NODE_ID + 1)
        epoch = state.partition_epoch
        lagging = replace(state, replicas=both, isr=both, partition_epoch=epoch + 1)
        self.show(AlterPartition(topic, old.id, index, epoch, lagging))

    def partition(self, topic: str, index: int = 0) -> Partition:
        partition = self.broker.hosted.get(topic, index)
        assert partition is not None
        return partition

    def shrink_segments(self, topic: str, segment_bytes: int) -> None:
        """Set a segment size below the minimum of the topic config."""
        log = self.partition(topic).log
        log.update_config(replace(log.config, segment_bytes=segment_bytes))

    def append(
        self,
        topic: str,
        index: int = 0,
        *,
        timestamps: tuple[int, ...] = (1000,) * 5,
        value: bytes | None = b"a" * 10,
        key: bytes | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> AppendResult:
        """Append one batch; by default 5 records in 146 bytes.  `producer`: id, epoch, sequence."""
        batch = build(
            [Record(at, timestamp, key, value) for at, timestamp in enumerate(timestamps)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            transactional=transactional,
        )
        return self.partition(topic, index).append(batch, now_ms=10_000)

    def end_transaction(
        self, topic: str, index: int, kind: ControlType, producer_id: int, now_ms: int = 5000
    ) -> None:
        """Append the marker that ends a transaction of epoch 0."""
        marker = control_batch(kind, 0, producer_id=producer_id, producer_epoch=0, timestamp=now_ms)
        partition = self.partition(topic, index)
        partition.append(marker, now_ms=now_ms, origin=Origin.COORDINATOR)

    # Requests

    def start(self, request: Message, version: int) -> Any:  # noqa: ANN401 - by request
        """Handle a request; return the response, or an awaitable of it if it has to wait."""
        assert request.API_KEY is not None
        api_key = ApiKey(request.API_KEY)
        received = type(request).decode(request.encode(version), version)
        context = Context("PLAINTEXT", "127.0.0.1", "test-1", api_key=api_key, api_version=version)
        handler = import_module(f"kwire.requests.handlers.{api_key.name.lower()}")
        return handler.handle(self.broker, received, context)

    def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - by request
        """The decoded response to a request that must not wait."""
        reply = self.start(request, version)
        if isinstance(reply, Awaitable):
            reply.close()  # type: ignore[attr-defined]  # a coroutine
            raise AssertionError("the request waits")
        return as_received(reply, version)

    async def wait_for(self, request: Message, version: int) -> tuple[Any, float]:
        """The decoded response to a request that waits, and its time in seconds."""
        before = trio.current_time()
        reply = await self.start(request, version)
        return as_received(reply, version), round(trio.current_time() - before, 3)


def as_received(response: MessageT, version: int) -> MessageT:
    """The response as a client decodes it: the fields of `version`, with the records in memory."""
    frame = Frame()
    response.write(frame, version)
    return type(response).decode(frame.tobytes(), version)
