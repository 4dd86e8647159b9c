"""InitProducerId: without a transactional id, and what is wrong with one."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.INIT_PRODUCER_ID)


@case("two ids")
def two(stage: Stage) -> None:
    for _ in range(2):
        stage.send(InitProducerIdRequest(None, 60_000))


@case("an id that is held already", since=3)
def held(stage: Stage) -> None:
    mine = stage.send(InitProducerIdRequest(None, 60_000))
    for producer_id, epoch in ((mine.producer_id, 0), (mine.producer_id, 5), (7, -1), (-1, 3)):
        stage.send(InitProducerIdRequest(None, 60_000, producer_id, epoch))
    stage.send(InitProducerIdRequest(None, 60_000, -5, -5))


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
