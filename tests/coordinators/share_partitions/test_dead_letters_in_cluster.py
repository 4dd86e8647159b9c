"""Dead letters in a cluster: the topic's leader is another broker, or there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.metadata.features import (
    DEAD_LETTER_QUEUES,
    SHARE_VERSION,
    FinalizedFeatures,
)
from kwire.codecs.batches import iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from kwire.conformance.wire.cases.share_group import REJECT, acknowledge
from kwire.coordinators.share.dead_letters import origin_of
from kwire.coordinators.share_partitions import dead_letter_queue
from kwire.settings.resources import ConfigResourceType
from kwire.storage.partitions.partition import Partition
from tests.coordinators.runtime.cluster import Cluster, Member
from tests.coordinators.share_partitions.test_cluster import (
    TOPIC,
    acquired,
    begun,
    connected,
    described,
    joined,
    three_brokers,
)
from tests.inside import RawClient, until

pytestmark = pytest.mark.slow

DEAD = "dlq.t"
GROUP_ENABLE = "errors.deadletterqueue.group.enable"
TOPIC_NAME = "errors.deadletterqueue.topic.name"


def configure(member: Member) -> None:
    """Tell a broker the configs of the group and of its dead-letter topic."""
    before = member.broker.image
    after = (
        before.with_configs(ConfigResourceType.TOPIC, DEAD, {GROUP_ENABLE: "true"})
        .with_configs(ConfigResourceType.GROUP, "g", {TOPIC_NAME: DEAD})
        .with_features(FinalizedFeatures({SHARE_VERSION: DEAD_LETTER_QUEUES}))
    )
    member.broker.metadata.apply(after, delta_between(before, after))


async def begin(made: Cluster, leader: int, *configured: int) -> None:
    """Create the dead-letter topic with this leader, and let the group read the first record."""
    made.create(DEAD, (leader, *(each for each in (1, 2, 3) if each != leader)))
    for number in configured:
        configure(made.members[number])
    await begun(made)
    await joined(made.members[1])


async def reject(client: RawClient, epoch: int, first: int, last: int) -> None:
    request = acknowledge("g", "m", epoch, TOPIC, (first, last, [REJECT]))
    response = await client.ask(request, 2, ShareAcknowledgeResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NONE


async def until_lag(made: Cluster, lag: int) -> None:
    """Wait until only `lag` records are not in a terminal state."""
    with trio.fail_after(60):
        while (await described(made.members[1]))[2] != lag:  # noqa: ASYNC110 - of another broker
            await trio.sleep(0.01)


def letters(partition: Partition) -> list[int]:
    """The offsets of the dead letters in the topic, in order."""
    end = partition.log_end_offset
    region = partition.read(0, 1 << 20, max_offset=end, min_one_batch=True) if end else None
    data = b"" if region is None else region.read()
    found = [origin_of(record) for pos, _ in iter_batches(data) for record in records(data, pos)]
    return [origin.offset for origin in found if origin is not None]


async def test_dead_letters_are_written_to_the_leader_on_another_broker(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        await begin(made, 2, 3)
        assert await acquired(client, 0) == [(0, 9, 1)]
        await reject(client, 1, 0, 3)
        await until(lambda: letters(made.members[2].partition(DEAD)) == [0, 1, 2, 3])
        await until_lag(made, 6)
        await reject(client, 2, 7, 7)
        await until(lambda: letters(made.members[2].partition(DEAD)) == [0, 1, 2, 3, 7])


async def test_next_leader_writes_the_dead_letters_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic loses its leader after two dead letters, and the source's leader ends then."""
    monkeypatch.setattr(dead_letter_queue, "PAUSES_S", (0.05, 0.1, 60.0, 60.0))
    async with (
        three_brokers(tmp_path) as made,
        connected(made, 3) as before,
        connected(made, 1) as after,
    ):
        await begin(made, 2, 1, 3)
        assert await acquired(before, 0) == [(0, 9, 1)]
        await reject(before, 1, 0, 1)
        await until(lambda: letters(made.members[2].partition(DEAD)) == [0, 1])
        made.elect(DEAD, 0, -1)
        await reject(before, 2, 2, 4)
        made.elect(TOPIC.name, 0, 1)  # so that the session's end is not written as a delivery
        await made.end(3)
        made.elect(DEAD, 0, 2)
        await until(lambda: made.members[1].partition(TOPIC.name).high_watermark == 10)
        assert await acquired(after, 0) == [(5, 9, 1)]
        await until(lambda: letters(made.members[2].partition(DEAD)) == [0, 1, 2, 3, 4])
