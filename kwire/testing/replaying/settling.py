"""Waiting, in a cluster, until all brokers tell the same of what one of them has told.

A client that hears of a topic at one broker and asks another about it may come too early: in the
trace it took its time, and a replay takes none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from kwire.client.connection import Connection
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import CreatePartitionsResponse
from kwire.codecs.messages.create_topics import CreateTopicsResponse
from kwire.codecs.messages.delete_topics import DeleteTopicsResponse
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.codecs.primitives import Message
from kwire.testing.replaying.timing import WorldsTime

LOOK_AGAIN_S: Final = 0.02
COORDINATORS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""The topics of coordinators, by the type that is asked for."""
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (), ())

Told = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Of a topic: the error, who leads each partition, and in which epoch."""


class Settling:
    """What all brokers are known to tell, over connections of its own."""

    def __init__(self, probes: Sequence[Connection], timing: WorldsTime, within_s: float) -> None:
        """`probes` are connections to all brokers, where nothing of the trace is sent."""
        self._probes = probes
        self._timing = timing
        self._within_s = within_s
        self._agreed: dict[str, Told] = {}

    def after(self, request: Message, answer: Message) -> None:
        """Return when all tell the same of the topics that it is about, or time is up.

        Raises ClientError where a broker does not answer.
        """
        names = set(_topics_of(request, answer))
        if isinstance(answer, MetadataResponse):
            names -= {
                topic.name or ""
                for topic in answer.topics
                if self._agreed.get(topic.name or "") == _told(topic)
            }
        deadline = time.monotonic() + self._within_s
        while names and not self._all_agree(names):
            if time.monotonic() > deadline:
                return
            self._timing.wait(LOOK_AGAIN_S)

    def _all_agree(self, names: set[str]) -> bool:
        """What is told of them now counts as known, whether they do or not: that was waited for."""
        first, *others = [_asked(probe, names) for probe in self._probes]
        self._agreed |= first
        return all(each == first for each in others) and all(map(_is_settled, first.values()))


def _topics_of(request: Message, answer: Message) -> Iterable[str]:
    if isinstance(answer, MetadataResponse | CreateTopicsResponse):
        return [topic.name for topic in answer.topics if topic.name]
    if isinstance(answer, DeleteTopicsResponse):
        return [topic.name for topic in answer.responses if topic.name]
    if isinstance(answer, CreatePartitionsResponse):
        return [topic.name for topic in answer.results]
    if isinstance(request, FindCoordinatorRequest) and isinstance(answer, FindCoordinatorResponse):
        return [COORDINATORS[request.key_type]]
    return []


def _asked(probe: Connection, names: Iterable[str]) -> dict[str, Told]:
    wanted = [MetadataRequestTopic(name=name) for name in sorted(names)]
    answer = probe.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    return dict.fromkeys(names, GONE) | {
        topic.name: _told(topic) for topic in answer.topics if topic.name
    }


def _told(topic: MetadataResponseTopic) -> Told:
    parts = sorted(topic.partitions, key=lambda part: part.partition_index)
    return (
        topic.error_code,
        tuple(part.leader_id for part in parts),
        tuple(part.leader_epoch for part in parts),
    )


def _is_settled(told: Told) -> bool:
    """Whether nobody has to be waited for: a topic that is gone, or led everywhere."""
    error, leaders, _ = told
    return error != ErrorCode.LEADER_NOT_AVAILABLE and all(leader >= 0 for leader in leaders)
