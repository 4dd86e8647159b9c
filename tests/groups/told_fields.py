"""Parses the fields of heartbeats in the lines of told_scripts/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages import streams_group_heartbeat as streams
from kwire.codecs.messages.consumer_group_heartbeat import TopicPartitions
from tests.groups.streams.simulation import copying, counting


def listed(text: str) -> list[str]:
    return text.split(",") if text else []


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split("+")]


def _owned(image: ClusterImage, text: str) -> list[TopicPartitions]:
    places = (each.partition(":") for each in listed(text))
    return [TopicPartitions(image.topics[name].id, numbers(these)) for name, _, these in places]


def tasks_by_id(text: str) -> dict[str, frozenset[int]]:
    places = (each.partition(":") for each in listed(text))
    return {name: frozenset(numbers(these)) for name, _, these in places}


def _tasks(__: ClusterImage, text: str) -> list[streams.TaskIds]:
    return [streams.TaskIds(name, sorted(these)) for name, these in tasks_by_id(text).items()]


def _topology(__: ClusterImage, text: str) -> streams.Topology:
    name, _, epoch = text.partition(":")
    return TOPOLOGIES[name](int(epoch or 0))


def mixed(epoch: int = 0) -> streams.Topology:
    """Of everything that a topology may say."""
    topic = streams.TopicInfo("changes", 0, 2, [streams.KeyValue("b", "2"), streams.KeyValue("a")])
    return streams.Topology(
        epoch,
        [
            streams.Subtopology(
                "x",
                source_topics=["t", "u"],
                state_changelog_topics=[topic],
                repartition_sink_topics=["middle"],
                copartition_groups=[streams.CopartitionGroup(source_topics=[0, 1])],
            ),
            streams.Subtopology(
                "y",
                source_topics=["u"],
                repartition_source_topics=[streams.TopicInfo("middle", 3, 1)],
            ),
        ],
    )


def broken(epoch: int = 0) -> streams.Topology:
    """It reads what nobody writes, which shows once its source is there."""
    never = streams.TopicInfo("never")
    subtopology = streams.Subtopology("0", ["t"], repartition_source_topics=[never])
    return streams.Topology(epoch, [subtopology])


def jumbled(epoch: int = 0) -> streams.Topology:
    """Nothing of it is in order."""
    changelogs = [streams.TopicInfo("c2"), streams.TopicInfo("c1")]
    sinks = ["n", "m"]
    first = streams.Subtopology("b", ["v", "t", "w"], [], changelogs, sinks)
    read = [streams.TopicInfo(name) for name in sinks]
    return streams.Topology(
        epoch, [first, streams.Subtopology("a", ["s"], repartition_source_topics=read)]
    )


def swapped(epoch: int = 0) -> streams.Topology:
    """Another order of the same."""
    return streams.Topology(epoch, jumbled().subtopologies[::-1])


def twice(epoch: int = 0) -> streams.Topology:
    return streams.Topology(epoch, copying().subtopologies * 2)


TOPOLOGIES = {
    each.__name__: each for each in (copying, counting, mixed, broken, jumbled, swapped, twice)
}


def _endpoint(__: ClusterImage, text: str) -> streams.Endpoint:
    host, _, port = text.partition(":")
    return streams.Endpoint(host, int(port))


def _tags(__: ClusterImage, text: str) -> list[streams.KeyValue]:
    pairs = (each.partition(":") for each in listed(text))
    return [streams.KeyValue(key, value) for key, _, value in pairs]


Read = Callable[[ClusterImage, str], Any]

FIELDS: dict[str, tuple[str, Read]] = {
    "instance": ("instance_id", lambda _, text: text),
    "rack": ("rack_id", lambda _, text: text),
    "timeout": ("rebalance_timeout_ms", lambda _, text: int(text)),
    "topics": ("subscribed_topic_names", lambda _, text: listed(text)),
    "pattern": ("subscribed_topic_regex", lambda _, text: text),
    "assignor": ("server_assignor", lambda _, text: text),
    "owned": ("topic_partitions", _owned),
    "endpoints": ("endpoint_information_epoch", lambda _, text: int(text)),
    "topology": ("topology", _topology),
    "active": ("active_tasks", _tasks),
    "standby": ("standby_tasks", _tasks),
    "warmup": ("warmup_tasks", _tasks),
    "process": ("process_id", lambda _, text: text),
    "endpoint": ("user_endpoint", _endpoint),
    "tags": ("client_tags", _tags),
    "offsets": ("task_offsets", lambda _, text: []),
    "ends": ("task_end_offsets", lambda _, text: []),
    "shutdown": ("shutdown_application", lambda _, text: bool(int(text))),
}
"""What a field is called in a line, what in the messages."""

JOINS = {
    "consumer": {"timeout": "60000", "owned": ""},
    "share": {},
    "streams": {"timeout": "60000", "active": "", "standby": "", "warmup": ""},
}
"""What `joins` stands for, beside epoch 0."""
