"""Topologies get the tasks and internal topics that Apache Kafka 4.3.1 computes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.codecs.messages.coordinator.streams_group_topology import StreamsGroupTopologyValue
from kwire.groups.record_format import VERSION
from kwire.groups.streams.configuring import ConfiguredSubtopology, ConfiguredTopology, configure
from kwire.groups.streams.topology import InvalidTopology, Topology
from tests.kafkas_classes import asked, kept

ANSWERS = Path(__file__).parent / "data" / "configurer-4.3.1.txt"
SOURCE = Path(__file__).with_name("Configurer.java")


def told_subtopology(name: str, it: ConfiguredSubtopology) -> str:
    topics = [*it.repartition_sources.values(), *it.changelogs.values()]
    listed = sorted(f"{topic.name}={topic.partitions}" for topic in topics)
    return f"{name}:{it.task_count}:{','.join(listed)}"


def told(configured: ConfiguredTopology) -> str:
    parts = []
    if configured.problem is not None:
        parts.append(f"{configured.problem.code} {configured.problem.detail}")
    parts += [told_subtopology(name, it) for name, it in configured.subtopologies.items()]
    for topic in configured.to_create.values():
        configs = ", ".join(f"{key}={value}" for key, value in topic.configs.items())
        factor = topic.replication_factor or -1
        parts.append(f"+{topic.name}:{topic.partitions}:{factor}:[{configs}]")
    return ";".join(parts)


def check(line: str) -> None:
    record, topics, answer = line.split("|")
    value = StreamsGroupTopologyValue.decode(bytes.fromhex(record), 0, VERSION.size)
    pairs = (each.partition("=") for each in topics.split())
    existing = {name: int(count) for name, _, count in pairs}
    if answer == "broken":  # Apache Kafka says no more than that
        with pytest.raises(InvalidTopology):
            configure(Topology(value), existing.get)
    elif answer.startswith("invalid: "):
        with pytest.raises(InvalidTopology) as raised:
            configure(Topology(value), existing.get)
        assert f"invalid: {raised.value}" == answer, line
    else:
        assert told(configure(Topology(value), existing.get)) == answer, line


def test_configured_topologies_match_recorded_kafka_results() -> None:
    for line in kept(ANSWERS):
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_recorded_topologies_match_apache_kafka(rng: random.Random) -> None:
    for line in asked(SOURCE, rng):
        check(line)
