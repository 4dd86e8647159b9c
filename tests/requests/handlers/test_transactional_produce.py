"""Transactional batches: the verification by the coordinator, its timing and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio
import trio.testing

from kwire.codecs.batches import ControlType, Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.coordinators.runtime import transactional_produce, verification
from kwire.coordinators.runtime.promise import Promise
from kwire.requests.context import CloseConnection, Context
from kwire.requests.handlers import produce
from tests.requests.handlers.node import Node, as_received

PRODUCER = 7
VERIFIED, ABORTABLE, IMPLICIT = 10, 11, 12
"""Versions of Produce, by how they are verified."""

Place = tuple[str, int]


class Coordinator:
    """A coordinator with fixed answers; records the requests that it receives."""

    def __init__(self, *answers: ErrorCode | Promise[Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, frozenset[int]]]] = []

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Any]
    ) -> dict[Place, ErrorCode] | Promise[Any]:
        answer = self._next("verify", partitions)
        if isinstance(answer, Promise):
            return answer
        return {(topic, index): answer for topic, found in partitions.items() for index in found}

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Mapping[str, Any],
        client_transaction_version: int,
    ) -> ErrorCode | Promise[Any]:
        assert client_transaction_version == 2
        return self._next("add", partitions)

    def _next(self, kind: str, partitions: Mapping[str, Any]) -> ErrorCode | Promise[Any]:
        self.asked.append((kind, dict(partitions)))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def verifying(make_node: Callable[..., Node]) -> Callable[..., tuple[Node, Coordinator]]:
    """A broker with topic `t` of two partitions and a coordinator that gives these answers."""

    def make(
        *answers: ErrorCode | Promise[Any], settings: Mapping[str, str] | None = None
    ) -> tuple[Node, Coordinator]:
        node, coordinator = make_node(settings), Coordinator(*answers)
        vars(node.broker.coordinators)["_transactions"] = coordinator
        node.create("t", 2)
        for index in range(2):
            node.partition("t", index).log.producers.verify_transactions = True
        return node, coordinator

    return make


def batch(
    index: int = 0, sequence: int = 0, producer_id: int = PRODUCER, *, transactional: bool = True
) -> PartitionProduceData:
    record = Record(0, 1000, None, b"v")
    records = build(
        [record],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    return PartitionProduceData(index, records)


def start(node: Node, version: int, *data: PartitionProduceData, acks: int = 1) -> Any:  # noqa: ANN401 - a reply or an awaitable
    request = ProduceRequest("x", acks, 1000, [TopicProduceData("t", ZERO_UUID, list(data))])
    received = ProduceRequest.decode(bytearray(request.encode(version)), version)
    context = Context("PLAINTEXT", "127.0.0.1", "test-1", api_version=version)
    return produce.handle(node.broker, received, context)


def told(reply: ProduceResponse, version: int) -> list[tuple[int, ErrorCode, str | None]]:
    return [
        (answer.index, ErrorCode(answer.error_code), answer.error_message)
        for answer in as_received(reply, version).responses[0].partition_responses
    ]


def send(node: Node, version: int, *data: PartitionProduceData) -> list[Any]:
    reply = start(node, version, *data)
    assert isinstance(reply, ProduceResponse), "it does not wait"
    return told(reply, version)


async def wait_for(
    node: Node, version: int, *data: PartitionProduceData
) -> tuple[list[Any], float]:
    """The response to a request that waits, and its time in seconds."""
    before = trio.current_time()
    reply = start(node, version, *data)
    assert isinstance(reply, Awaitable)
    answer = told(await reply, version)
    return answer, round(trio.current_time() - before, 3)


OK = (0, ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("version", "kind"), [(VERIFIED, "verify"), (ABORTABLE, "verify"), (IMPLICIT, "add")]
)
def test_partition_is_verified_once_per_transaction(
    verifying: Callable[..., tuple[Node, Coordinator]], version: int, kind: str
) -> None:
    node, coordinator = verifying(ErrorCode.NONE)
    both = [OK, (1, ErrorCode.NONE, None)]
    assert send(node, version, batch(0), batch(1)) == both
    assert coordinator.asked == [(kind, {"t": frozenset({0, 1})})]
    assert send(node, version, batch(0, 1), batch(1, 1)) == both
    assert len(coordinator.asked) == 1, "it is known that the transaction is open there"


def test_produce_without_a_transaction_is_not_verified(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, coordinator = verifying(ErrorCode.TRANSACTION_ABORTABLE)
    assert send(node, VERIFIED, batch(transactional=False), batch(1, producer_id=-1)) == [
        OK,
        (1, ErrorCode.NONE, None),
    ]
    assert coordinator.asked == []


_NOT_ADDED = "Partition was not added to the transaction"


def _unable(error: ErrorCode) -> tuple[ErrorCode, str]:
    words = "Unable to verify the partition has been added to the transaction. Underlying error: "
    return ErrorCode.NOT_ENOUGH_REPLICAS, words + error.name


@pytest.mark.parametrize(
    ("version", "answer", "error", "message"),
    [
        (VERIFIED, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, _NOT_ADDED),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, None),
        (ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE, _NOT_ADDED),
        (VERIFIED, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (IMPLICIT, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        *(
            (version, answer, *_unable(answer))
            for version in (VERIFIED, IMPLICIT)
            for answer in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            )
        ),
        (
            VERIFIED,
            ErrorCode.CONCURRENT_TRANSACTIONS,
            *_unable(ErrorCode.CONCURRENT_TRANSACTIONS),
        ),
    ],
)
def test_transactional_produce_maps_errors_of_the_coordinator(
    verifying: Callable[..., tuple[Node, Coordinator]],
    version: int,
    answer: ErrorCode,
    error: ErrorCode,
    message: str | None,
) -> None:
    node, _ = verifying(answer)
    plain = batch(1, transactional=False)
    assert send(node, version, batch(), plain) == [
        (0, error, message),
        (1, ErrorCode.NONE, None),
    ]
    assert node.partition("t").log_end_offset == 0


async def test_partition_is_added_again_while_the_previous_transaction_ends(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    early = ErrorCode.CONCURRENT_TRANSACTIONS
    node, coordinator = verifying(early, early, ErrorCode.NONE)
    assert await wait_for(node, IMPLICIT, batch()) == ([OK], 0.04)
    assert len(coordinator.asked) == 3


async def test_adding_a_partition_stops_after_its_time_limit(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    early = ErrorCode.CONCURRENT_TRANSACTIONS
    settings = {
        "add.partitions.to.txn.retry.backoff.ms": "30",
        "add.partitions.to.txn.retry.backoff.max.ms": "50",
    }
    node, coordinator = verifying(early, settings=settings)
    assert await wait_for(node, IMPLICIT, batch()) == ([(0, *_unable(early))], 0.06)
    assert len(coordinator.asked) == 3


async def test_adding_a_partition_stops_at_the_request_timeout(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    """The limit is 10 s; the last attempt starts 5 ms before it."""
    early = ErrorCode.CONCURRENT_TRANSACTIONS
    settings = {
        "add.partitions.to.txn.retry.backoff.ms": "1999",
        "add.partitions.to.txn.retry.backoff.max.ms": "60000",
        "request.timeout.ms": "10000",
    }
    node, _ = verifying(early, settings=settings)
    assert await wait_for(node, IMPLICIT, batch()) == ([(0, *_unable(early))], 6 * 1.999)


async def test_transactional_produce_writes_only_verified_partitions(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    """Refused partitions before it in the request have no effect on it."""
    promise: Promise[Any] = Promise()
    node, coordinator = verifying(promise)
    promise.resolve({("t", 0): ErrorCode.TRANSACTION_ABORTABLE, ("t", 1): ErrorCode.NONE})
    answer, _ = await wait_for(node, ABORTABLE, batch(7), batch(0), batch(1))
    assert answer == [
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (0, ErrorCode.TRANSACTION_ABORTABLE, None),
        (1, ErrorCode.NONE, None),
    ]
    assert coordinator.asked == [("verify", {"t": frozenset({0, 1})})]
    assert [node.partition("t", index).log_end_offset for index in range(2)] == [0, 1]


def test_partition_led_elsewhere_does_not_affect_the_next_one(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, coordinator = verifying(ErrorCode.NONE)
    node.change_leader("t", 0, leader=2, leader_epoch=1)
    assert send(node, ABORTABLE, batch(0), batch(1)) == [
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
        (1, ErrorCode.NONE, None),
    ]
    assert coordinator.asked == [("verify", {"t": frozenset({1})})]


def test_unknown_topic_does_not_affect_the_next_one(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, coordinator = verifying(ErrorCode.TRANSACTION_ABORTABLE)
    topics = [TopicProduceData(name, ZERO_UUID, [batch()]) for name in ("none", "t")]
    request = ProduceRequest("x", 1, 1000, topics)
    reply = node.call(request, ABORTABLE)
    errors = [topic.partition_responses[0].error_code for topic in reply.responses]
    assert errors == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTION_ABORTABLE,
    ]
    assert coordinator.asked == [("verify", {"t": frozenset({0})})]


def test_producer_id_0_is_verified(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, _ = verifying(ErrorCode.TRANSACTION_ABORTABLE)
    assert send(node, ABORTABLE, batch(producer_id=0)) == [
        (0, ErrorCode.TRANSACTION_ABORTABLE, None)
    ]


@pytest.mark.parametrize("version", [VERIFIED, IMPLICIT])
async def test_transactional_produce_waits_for_the_coordinator(
    verifying: Callable[..., tuple[Node, Coordinator]],
    autojump_clock: trio.testing.MockClock,
    version: int,
) -> None:
    promise: Promise[Any] = Promise()
    node, _ = verifying(promise)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await wait_for(node, version, batch()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert node.partition("t").log_end_offset == 0
        error = ErrorCode.NONE
        promise.resolve(error if version == IMPLICIT else {("t", 0): error})
    assert answers == [([OK], 0.0)]


async def test_verification_is_void_after_an_abort(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    """Otherwise the transaction would hang, because its marker was written before (KIP-890)."""
    promise: Promise[Any] = Promise()
    node, _ = verifying(promise, ErrorCode.NONE)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await wait_for(node, VERIFIED, batch(sequence=1)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert send(node, VERIFIED, batch(sequence=0)) == [OK]
        node.end_transaction("t", 0, ControlType.ABORT, PRODUCER, now_ms=10_000)
        promise.resolve({("t", 0): ErrorCode.NONE})
    assert answers[0][0] == [(0, ErrorCode.INVALID_TXN_STATE, None)]
    assert node.partition("t").last_stable_offset == node.partition("t").log_end_offset == 2


def test_produce_is_not_verified_if_verification_is_disabled(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    settings = {"transaction.partition.verification.enable": "false"}
    node, coordinator = verifying(ErrorCode.NONE, settings=settings)
    node.partition("t").log.producers.verify_transactions = False
    assert send(node, VERIFIED, batch()) == [OK]
    assert coordinator.asked == []
    assert send(node, IMPLICIT, batch(1, producer_id=8)) == [(1, ErrorCode.NONE, None)]
    assert coordinator.asked == [("add", {"t": frozenset({1})})]


def test_transactional_produce_with_acks_0_closes_the_connection_on_refusal(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, _ = verifying(ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(CloseConnection, match="t-0: TRANSACTION_ABORTABLE"):
        start(node, ABORTABLE, batch(), acks=0)
    with pytest.raises(CloseConnection, match="t-1: INVALID_PRODUCER_ID_MAPPING"):
        start(node, ABORTABLE, batch(), batch(1, producer_id=8), acks=0)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after the verification of each partition."""
    for module in (transactional_produce, verification):
        monkeypatch.setattr(module, "PARTITIONS_AT_ONCE", 1)


class Steps(trio.abc.Instrument):
    """Counts how often a task was continued."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.task = task
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self.task


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("version", [VERIFIED, ABORTABLE, IMPLICIT])
async def test_large_request_asks_the_coordinator_once_after_all_turns(
    verifying: Callable[..., tuple[Node, Coordinator]],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    node, coordinator = verifying(ErrorCode.NONE)
    steps, turns = Steps(trio.lowlevel.current_task()), []
    begin = verification._begin

    def noted(*arguments: Any) -> Any:  # noqa: ANN401 - those of `_begin`
        turns.append(steps.count)
        return begin(*arguments)

    monkeypatch.setattr(verification, "_begin", noted)
    trio.lowlevel.add_instrument(steps)
    reply = start(node, version, batch(0), batch(1))
    assert isinstance(reply, Awaitable)
    answers = told(await reply, version)
    trio.lowlevel.remove_instrument(steps)
    assert len(turns) == len(set(turns)) == 2, "others run between the turns"
    assert answers == [(0, ErrorCode.NONE, None), (1, ErrorCode.NONE, None)]
    ((_, asked),) = coordinator.asked
    assert asked == {"t": frozenset({0, 1})}


@pytest.mark.usefixtures("one_at_a_time")
async def test_large_request_that_is_refused_gets_the_errors_of_a_small_one(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, _ = verifying(ErrorCode.TRANSACTION_ABORTABLE)
    answers = told(await start(node, ABORTABLE, batch(0), batch(1)), ABORTABLE)
    assert [error for _, error, _ in answers] == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    several = told(await start(node, IMPLICIT, batch(0), batch(1, producer_id=8)), IMPLICIT)
    assert [error for _, error, _ in several] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    absent = told(await start(node, IMPLICIT, batch(2), batch(3)), IMPLICIT)
    assert [error for _, error, _ in absent] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    plain = await start(node, IMPLICIT, batch(0, -1, -1), batch(1, -1, -1))
    assert [error for _, error, _ in told(plain, IMPLICIT)] == [ErrorCode.NONE] * 2
