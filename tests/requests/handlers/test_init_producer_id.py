"""InitProducerId: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from kwire.cluster.metadata.image import FIRST_PRODUCER_ID
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.txn.producer_ids import BLOCK_SIZE
from tests.requests.handlers.node import Node, as_received

REFUSED = InitProducerIdResponse(0, ErrorCode.INVALID_REQUEST, -1, -1)


async def init(
    node: Node,
    transactional_id: str | None = None,
    version: int = 4,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    timeout_ms: int = 60_000,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, producer_epoch)
    reply = node.start(request, version)
    if isinstance(reply, Awaitable):
        reply = await reply
    response: InitProducerIdResponse = as_received(reply, version)
    return response


@pytest.mark.parametrize("version", range(6))
async def test_idempotent_producer_gets_a_new_producer_id(node: Node, version: int) -> None:
    for producer_id in range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 3):
        reply = await init(node, None, version)
        assert reply == InitProducerIdResponse(0, 0, producer_id, 0)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "refused"),
    [
        (13, 0, False),
        (13, 5, False),
        (13, 32767, False),
        (-5, 0, False),
        (-2, -2, False),
        (13, -1, True),
        (-1, 0, True),
        (-1, 5, True),
        (-2, -1, True),
        (-1, -2, True),
    ],
)
async def test_idempotent_producer_must_send_both_or_neither_of_id_and_epoch(
    node: Node, producer_id: int, producer_epoch: int, refused: bool
) -> None:
    reply = await init(node, producer_id=producer_id, producer_epoch=producer_epoch)
    assert reply == (REFUSED if refused else InitProducerIdResponse(0, 0, FIRST_PRODUCER_ID, 0))


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_transaction_timeout_of_an_idempotent_producer_is_ignored(
    node: Node, timeout_ms: int
) -> None:
    assert (await init(node, timeout_ms=timeout_ms)).error_code == 0
    reply = await init(node, "x", timeout_ms=timeout_ms)
    assert reply.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await init(node, "", timeout_ms=timeout_ms) == REFUSED


async def test_init_producer_id_without_transaction_state_gives_not_coordinator(node: Node) -> None:
    reply = await init(node, "x")
    assert reply == InitProducerIdResponse(0, ErrorCode.NOT_COORDINATOR, -1, -1)
    assert await init(node, "x", producer_id=5) == REFUSED


async def test_producer_ids_continue_in_the_next_block(node: Node) -> None:
    given = [(await init(node)).producer_id for _ in range(BLOCK_SIZE + 2)]
    assert given == list(range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + BLOCK_SIZE + 2))
    behind = FIRST_PRODUCER_ID + 2 * BLOCK_SIZE
    assert await node.store.allocate_producer_ids(1) == range(behind, behind + 1)


async def test_concurrent_producers_get_different_ids(node: Node) -> None:
    given = []

    async def one() -> None:
        given.append((await init(node)).producer_id)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
    assert len(set(given)) == 10


async def test_init_producer_id_gives_a_retriable_error_if_the_store_fails(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(count: int) -> range:
        raise StoreError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(node.store, "allocate_producer_ids", fail)
        reply = await init(node)
    assert reply == InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert (await init(node)).producer_id == FIRST_PRODUCER_ID
