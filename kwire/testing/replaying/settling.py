"""Waits until all brokers of a cluster report the same metadata of the topics in a response.

A client that learned of a topic from one broker may ask another broker too early.  In the trace,
the client took some time; a replay takes none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from kwire.client.connection import BrokerConnection
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
from kwire.testing.replaying.timing import RealTime

LOOK_AGAIN_S: Final = 0.02
COORDINATORS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""The topics of coordinators, by the key type of FindCoordinator."""
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (), ())

TopicState = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A topic's metadata: the error, the leader of each partition, and the leader epochs."""


class Settling:
    """Asks all brokers for metadata of topics until they agree, over connections of its own."""

    def __init__(
        self, probes: Sequence[BrokerConnection], timing: RealTime, within_s: float
    ) -> None:
        """`probes` are connections to all brokers that carry no requests of the trace."""
        self._probes = probes
        self._timing = timing
        self._within_s = within_s
        self._agreed: dict[str, TopicState] = {}

    def after(self, request: Message, answer: Message) -> None:
        """Return when all brokers agree on the topics of a response, or after `within_s`.

        Raises ClientError if a broker does not answer.
        """
        names = set(_topics_of(request, answer))
        if isinstance(answer, MetadataResponse):
            names -= {
                topic.name or ""
                for topic in answer.topics
                if self._agreed.get(topic.name or "") == _state(topic)
            }
        deadline = time.monotonic() + self._within_s
        while names and not self._all_agree(names):
            if time.monotonic() > deadline:
                return
            self._timing.wait(LOOK_AGAIN_S)

    def _all_agree(self, names: set[str]) -> bool:
        """Whether all brokers report the same state of these topics, and it is settled.

        The state is noted as agreed in either case: it is waited for only once.
        """
        first, *others = [_fetch_states(probe, names) for probe in self._probes]
        self._agreed |= first
        return all(each == first for each in others) and all(map(_is_settled, first.values()))


def _topics_of(request: Message, answer: Message) -> Iterable[str]:
    """Return the topics of which the response reports a new state, so that other brokers may not
    know it yet: created, deleted or described topics, or the topic of a coordinator."""
    if isinstance(answer, MetadataResponse | CreateTopicsResponse):
        return [topic.name for topic in answer.topics if topic.name]
    if isinstance(answer, DeleteTopicsResponse):
        return [topic.name for topic in answer.responses if topic.name]
    if isinstance(answer, CreatePartitionsResponse):
        return [topic.name for topic in answer.results]
    if isinstance(request, FindCoordinatorRequest) and isinstance(answer, FindCoordinatorResponse):
        return [COORDINATORS[request.key_type]]
    return []


def _fetch_states(probe: BrokerConnection, names: Iterable[str]) -> dict[str, TopicState]:
    """Return the state that one broker reports of each topic; GONE for topics that it does not
    know."""
    wanted = [MetadataRequestTopic(name=name) for name in sorted(names)]
    answer = probe.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    return dict.fromkeys(names, GONE) | {
        topic.name: _state(topic) for topic in answer.topics if topic.name
    }


def _state(topic: MetadataResponseTopic) -> TopicState:
    """Return what all brokers must agree on for a topic: its error, leaders and leader epochs,
    without the replicas."""
    parts = sorted(topic.partitions, key=lambda part: part.partition_index)
    return (
        topic.error_code,
        tuple(part.leader_id for part in parts),
        tuple(part.leader_epoch for part in parts),
    )


def _is_settled(state: TopicState) -> bool:
    """Whether the topic does not exist, or all of its partitions have a leader."""
    error, leaders, _ = state
    return error != ErrorCode.LEADER_NOT_AVAILABLE and all(leader >= 0 for leader in leaders)
