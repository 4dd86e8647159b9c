"""Connections of the growth benchmark: checked requests, one in flight."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Self, TypeVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.primitives import Message
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.frames import ProduceReply, RequestFailed
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.transactions import REPLY_HEADER_BYTES, RETRIABLE, request

CREATE_VERSION = 7
DELETE_VERSION = 6
LIST_VERSION = 7
PARTITIONS_AT_ONCE = 2_000
"""Partitions in one CreateTopics request; Apache Kafka refuses more than 10,000."""
LATEST = -1
TIMEOUT_MS = 60_000
PATIENCE_S = 180.0
RETRY_S = 0.02

ReplyT = TypeVar("ReplyT", bound=Message)
TopicPartition = tuple[str, int]


class Caller:
    """One connection; it closes at the end of a `with` block."""

    def __init__(self, address: Address) -> None:
        """Connect to a broker."""
        self.sock = load.connect(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sock.close()

    def exchange(self, frame: bytes | bytearray) -> bytes:
        """Send a prepared frame and return the response, with its size field."""
        self.sock.sendall(frame)
        return load.receive_reply(self.sock)

    def ask(self, message: Message, version: int, kind: type[ReplyT]) -> ReplyT:
        """Send a request in a flexible version and return the decoded response."""
        reply = self.exchange(request(message, version))
        return kind.decode(reply, version, 4 + REPLY_HEADER_BYTES)

    def create_topics(
        self, names: Sequence[str], partitions: int, configs: dict[str, str] | None = None
    ) -> None:
        """Create topics of one replica, and wait until this broker leads all their partitions."""
        step = max(1, PARTITIONS_AT_ONCE // partitions)
        for start in range(0, len(names), step):
            some = names[start : start + step]
            self.request_topics(some, partitions, configs)
            self.wait_until_led(some, partitions)

    def request_topics(
        self, names: Sequence[str], partitions: int, configs: dict[str, str] | None = None
    ) -> None:
        """Create topics of one replica with one request."""
        settings = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
        topics = [CreatableTopic(name, partitions, 1, configs=settings) for name in names]
        message = CreateTopicsRequest(topics, TIMEOUT_MS)
        reply = self.ask(message, CREATE_VERSION, CreateTopicsResponse)
        check("CreateTopics", (topic.error_code for topic in reply.topics))

    def wait_until_led(self, names: Sequence[str], partitions: int) -> None:
        """Wait until ListOffsets succeeds for every partition of these topics."""
        indexes = [ListOffsetsPartition(index, -1, LATEST) for index in range(partitions)]
        topics = [ListOffsetsTopic(name, indexes) for name in names]
        message = ListOffsetsRequest(replica_id=-1, topics=topics)

        def errors() -> Iterator[int]:
            reply = self.ask(message, LIST_VERSION, ListOffsetsResponse)
            return (p.error_code for topic in reply.topics for p in topic.partitions)

        for _ in attempts():
            if not any(errors()):
                return
        raise RequestFailed("not all partitions have a leader")

    def create_and_delete(self, name: str, partitions: int) -> None:
        """Create a topic and delete it again, with its files."""
        at_once = [CreatableTopicConfig("file.delete.delay.ms", "0")]
        topic = CreatableTopic(name, partitions, 1, configs=at_once)
        creation = CreateTopicsRequest([topic], TIMEOUT_MS)
        reply = self.ask(creation, CREATE_VERSION, CreateTopicsResponse)
        check("CreateTopics", (each.error_code for each in reply.topics))
        deletion = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=TIMEOUT_MS)
        for _ in attempts():  # a new topic is unknown for a moment
            deleted = self.ask(deletion, DELETE_VERSION, DeleteTopicsResponse)
            error = deleted.responses[0].error_code
            if not is_retriable(error):
                check("DeleteTopics", iter([error]))
                return
        raise RequestFailed("DeleteTopics: the topic stays unknown")


def attempts() -> Iterator[None]:
    """Yield until PATIENCE_S seconds have passed, with pauses of RETRY_S seconds between."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield
        time.sleep(RETRY_S)


def check(what: str, errors: Iterator[int]) -> None:
    """Raise RequestFailed with the name of the first error, if there is one."""
    for error in errors:
        if error:
            raise RequestFailed(f"{what} has the error {ErrorCode(error).name}")


def is_retriable(error: int) -> bool:
    """Return whether a request with this error succeeds when it is sent again later."""
    return error in RETRIABLE


class Producing:
    """Sends one batch after another to some partitions in turn; a call is one request."""

    def __init__(
        self, caller: Caller, partitions: Sequence[TopicPartition], batch: bytes | None = None
    ) -> None:
        """Prepare the requests, each with one batch, by default of one record of 100 bytes."""
        self._caller = caller
        batch = batch or frames.batch(1, 100)
        self._prepared = [
            (topic, frames.produce(topic, index, batch).data) for topic, index in partitions
        ]
        self._next = 0

    def __call__(self) -> int:
        """Send the next request and check its response; return 1, the number of requests."""
        topic, frame = self._prepared[self._next]
        self._next = (self._next + 1) % len(self._prepared)
        ProduceReply(topic, self._caller.exchange(frame))
        return 1
