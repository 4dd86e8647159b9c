"""After a takeover, new producers do not get producer ids that are in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.cluster.metadata.image import FIRST_PRODUCER_ID
from kwire.codecs.batches import Record, build
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.log import LogManager
from tests.inside import RawClient, running_broker
from tests.log.configs import DEFAULTS

TOPIC_ID = b"0123456789abcdef"
NOW_MS = Broker.now_ms()  # producers are forgotten after a day
LARGEST = FIRST_PRODUCER_ID + 41_999


@pytest.mark.parametrize("largest", [FIRST_PRODUCER_ID, LARGEST])
async def test_new_producer_ids_are_above_those_in_the_logs(tmp_path: Path, largest: int) -> None:
    """Without KRaft metadata, the ids in the logs are the only ones known to be in use."""
    logs = LogManager(
        [tmp_path], defaults=DEFAULTS, clock=lambda: NOW_MS, verify_transactions=False
    )
    logs.identify(1, "cluster")
    logs.load()
    log = logs.create("t", TOPIC_ID, 0)
    for producer_id in (7, largest, 12):
        batch = build(
            [Record(0, NOW_MS, None, b"v", [])],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    logs.close()
    async with running_broker(tmp_path, {"node.id": "1"}) as broker:
        client = await RawClient.connect(broker)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = [
            (await client.ask(request, 4, InitProducerIdResponse)).producer_id for _ in range(3)
        ]
        assert min(given) > largest
        assert len(set(given)) == 3
