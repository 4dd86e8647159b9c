"""The description of a streams application's topology, as its members send it (KIP-1331).

A description is for people and tools: it names the processors and stores of each subtopology.  The
coordinator does not use it; a plug-in of the broker stores it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_describe as describe
from kwire.codecs.messages import streams_group_topology_description_update as update

SOURCE, PROCESSOR, SINK = 1, 2, 3
"""The types of nodes."""


class TopologyNode(NamedTuple):
    """A node of a topology: a source reads topics, a processor has stores, a sink writes a topic.

    The fields that its type does not have are empty.
    """

    name: str
    node_type: int
    topics: tuple[str, ...] = ()
    """The topics of a source, or the topic of a sink; a sink that chooses topics has none."""
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


class DescribedSubtopology(NamedTuple):
    subtopology_id: str
    nodes: tuple[TopologyNode, ...]


class DescribedGlobalStore(NamedTuple):
    """A store that each process has in full: its source, and the processor that fills it."""

    source: TopologyNode
    processor: TopologyNode


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """See the module."""

    subtopologies: tuple[DescribedSubtopology, ...] = ()
    global_stores: tuple[DescribedGlobalStore, ...] = ()


def description_of(sent: update.TopologyDescription) -> TopologyDescription:
    """The description in a request.  Raises Refusal."""
    subtopologies = [
        DescribedSubtopology(each.subtopology_id, tuple(_node(node) for node in each.nodes))
        for each in sent.subtopologies
    ]
    return TopologyDescription(
        tuple(subtopologies), tuple(_global_store(each) for each in sent.global_stores)
    )


def _global_store(sent: update.TopologyDescriptionGlobalStore) -> DescribedGlobalStore:
    store = DescribedGlobalStore(_node(sent.source), _node(sent.processor))
    if (store.source.node_type, store.processor.node_type) != (SOURCE, PROCESSOR):
        message = "Global store must be composed of a source and a processor node."
        raise Refusal(ErrorCode.INVALID_REQUEST, message)
    return store


def _node(sent: update.TopologyDescriptionNode) -> TopologyNode:
    """A node, with the fields of its type only."""
    kind, successors = sent.node_type, _distinct(sent.successors)
    if kind == SOURCE:
        return TopologyNode(sent.name, kind, _distinct(sent.source_topics), (), successors)
    if kind == PROCESSOR:
        return TopologyNode(sent.name, kind, (), _distinct(sent.stores), successors)
    if kind == SINK:
        topics = () if sent.sink_topic is None else (sent.sink_topic,)
        return TopologyNode(sent.name, kind, topics, (), successors)
    raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown topology node type: {kind}")


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def described(description: TopologyDescription) -> describe.TopologyDescription:
    """The description in a StreamsGroupDescribe response."""
    return describe.TopologyDescription(
        [
            describe.TopologyDescriptionSubtopology(
                each.subtopology_id, [_described_node(node) for node in each.nodes]
            )
            for each in description.subtopologies
        ],
        [
            describe.TopologyDescriptionGlobalStore(
                _described_node(each.source), _described_node(each.processor)
            )
            for each in description.global_stores
        ],
    )


def _described_node(node: TopologyNode) -> describe.TopologyDescriptionNode:
    is_sink = node.node_type == SINK
    return describe.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=[] if is_sink else list(node.topics),
        sink_topic=node.topics[0] if is_sink and node.topics else None,
        stores=list(node.stores),
        successors=list(node.successors),
    )
