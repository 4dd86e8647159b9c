"""Cases of InitProducerId: with, without, and with an invalid transactional id."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.access.requests import TRANSACTION
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import (
    TIMEOUT_MS,
    begin_transaction,
    create_producer,
    end_transaction,
    wait_until_ended,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.INIT_PRODUCER_ID)


def access_request(version: int, topic_id: bytes) -> InitProducerIdRequest:
    return InitProducerIdRequest(TRANSACTION, 0)


@case("two ids")
def two(stage: Stage) -> None:
    for _ in range(2):
        stage.send(InitProducerIdRequest(None, 60_000))


@case("an id that is held already", since=3)
def held(stage: Stage) -> None:
    """A producer without transactional id names an id and epoch that it has, or not."""
    mine = stage.send(InitProducerIdRequest(None, 60_000))
    for producer_id, epoch in ((mine.producer_id, 0), (mine.producer_id, 5), (7, -1), (-1, 3)):
        stage.send(InitProducerIdRequest(None, 60_000, producer_id, epoch))
    stage.send(InitProducerIdRequest(None, 60_000, -5, -5))


@case("a transactional id again and again")
def again(stage: Stage) -> None:
    producer = create_producer(stage)
    for timeout_ms in (TIMEOUT_MS, 1, 900_000):
        stage.send(InitProducerIdRequest(producer.transactional_id, timeout_ms))


@case("a transactional producer that goes on", since=3)
def goes_on(stage: Stage) -> None:
    """A producer that names its expected id and epoch gets a new epoch or an error.

    Expected values are right, ahead, behind, missing in part, and at the largest epoch, 32,767.
    """
    producer = create_producer(stage)
    name = producer.transactional_id
    mine, epoch = producer.producer_id, producer.epoch
    for expected in (
        (mine, epoch + 1),
        (mine + 1000, epoch),
        (mine, -2),
        (-2, -2),
        (mine, epoch),
        (mine, epoch),
        (mine, epoch + 1),
        (mine, epoch),
        (mine, 32_767),
        (mine, -1),
        (-1, epoch),
    ):
        stage.send(InitProducerIdRequest(name, TIMEOUT_MS, *expected))
    stage.send(InitProducerIdRequest(name, TIMEOUT_MS))
    new = stage.name("new")
    for expected in ((mine, epoch), (7, 0)):
        stage.send(InitProducerIdRequest(new, TIMEOUT_MS, *expected))


@case("a transaction that is open")
def open_transaction(stage: Stage) -> None:
    """A new start of the producer aborts its open transaction; it may have to ask again."""
    producer = begin_transaction(stage, "txn", stage.topic())
    for _ in range(2):
        stage.send(InitProducerIdRequest(producer.transactional_id, TIMEOUT_MS))
        wait_until_ended(stage, producer)


@case("a transaction that has ended")
def ended_transaction(stage: Stage) -> None:
    """A producer starts anew after a committed transaction, twice: its epoch rises."""
    producer = begin_transaction(stage, "txn", stage.topic())
    end_transaction(stage, producer)
    for _ in range(2):
        stage.send(InitProducerIdRequest(producer.transactional_id, TIMEOUT_MS))


case.requests(
    {
        "a transactional id": lambda stage: InitProducerIdRequest(stage.name("t"), 60_000),
        "a transaction timeout that is too long": lambda stage: InitProducerIdRequest(
            stage.name("t"), 2**31 - 1
        ),
        "a transaction timeout of 0": lambda stage: InitProducerIdRequest(stage.name("t"), 0),
        "a transaction timeout of 0 without a transaction": lambda stage: InitProducerIdRequest(
            None, 0
        ),
        "a negative timeout without a transaction": lambda stage: InitProducerIdRequest(None, -1),
        "the empty transactional id": lambda stage: InitProducerIdRequest("", 60_000),
    }
)
