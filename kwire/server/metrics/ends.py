"""The ends of partitions, from which the lag of groups follows.

A broker knows the high watermarks of its own replicas.  A group that it coordinates may also read
partitions that only other brokers have; it asks their leaders for those ends every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from kwire.codecs.errors import ErrorCode
from kwire.requests.handlers.share_groups.latest import Place, latest_offsets

if TYPE_CHECKING:
    from kwire.broker.broker import Broker

INTERVAL_S: Final = 5.0
"""The pause between two rounds of questions."""
ASKED_MAX: Final = 10_000
"""Partitions of one round; the lag of groups on further ones is not known."""


class EndOffsets:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        """Know the partitions of this broker; `follow` asks for others."""
        self._broker = broker
        self._hosted = broker.hosted.by_topic
        self._elsewhere: dict[Place, int] = {}

    def of(self, topic: str, index: int) -> int | None:
        """The offset after the last committed record of a partition; None if it is not known."""
        partition = self._hosted.get(topic, {}).get(index)
        if partition is not None:
            return partition.high_watermark
        return self._elsewhere.get((topic, index))

    async def follow(self) -> None:
        """Ask the leaders of partitions elsewhere again and again, until cancelled."""
        while True:
            await self.ask()
            await trio.sleep(INTERVAL_S)

    async def ask(self) -> None:
        """Ask the leaders once; an end that no leader tells is not known afterwards."""
        if self._broker.node.peers is None:
            return  # a broker alone has all partitions
        places = list(islice(dict.fromkeys(self._unknown()), ASKED_MAX))
        latest = await latest_offsets(self._broker, places) if places else {}
        self._elsewhere = {
            place: each.offset for place, each in latest.items() if each.error is ErrorCode.NONE
        }

    def _unknown(self) -> Iterator[Place]:
        """The partitions that groups coordinated here read, and that this broker does not have."""
        image, hosted = self._broker.image, self._hosted
        for topic, index in self._read():
            is_elsewhere = index not in hosted.get(topic, {})
            if is_elsewhere and image.leader_of(topic, index) is not None:
                yield topic, index

    def _read(self) -> Iterator[Place]:
        """The partitions that groups coordinated here read."""
        groups = self._broker.coordinators.groups_if_any
        if groups is not None:
            for shard in groups.runtime.active():
                for topics in shard.machine.offsets.by_group.values():
                    for topic, partitions in topics.items():
                        yield from ((topic, index) for index in partitions)
        shares = self._broker.coordinators.share_if_any
        if shares is not None:
            for share_shard in shares.runtime.active():
                for key, _ in share_shard.machine.states():
                    name = self._broker.metadata.topic_name(key.topic_id)
                    if name is not None:
                        yield name, key.partition
