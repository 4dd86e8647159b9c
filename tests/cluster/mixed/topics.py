"""The life of a topic in a cluster of two brokers, with requests to either of them."""

from __future__ import annotations

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    alter_configs,
    topic_settings,
)
from kwire.client.elections import ElectionType, elect_leaders
from kwire.client.reassignments import alter_reassignments
from kwire.client.topics import add_partitions, create_topic, delete_topic
from tests.cluster.mixed.watched import State, WatchedCluster
from tests.waiting import until

OURS, THEIRS = 1, 2
BOTH = frozenset((1, 2))


def life_of_a_topic(cluster: WatchedCluster, name: str) -> None:
    """Topics are created, filled, grown, reassigned from kwire and back, read and deleted."""
    with cluster.client(OURS) as ours, cluster.client(THEIRS) as theirs:
        made = create_topic(
            ours,
            name,
            assignment=[[OURS, THEIRS], [THEIRS, OURS]],
            configs={"retention.ms": "7777777"},
        )
        assert made.error_code == 0
        cluster.all_say(name, [(1, (1, 2), BOTH), (2, (2, 1), BOTH)])
        values = [str(number) for number in range(100)]
        cluster.produce(name, values, 2)
        add_partitions(theirs, name, 3)
        until(lambda: len(cluster.topic(OURS, name) or ()) == 3, "grown")
        first = TopicPartition(name, 0)
        assert alter_reassignments(theirs, {first: [THEIRS]}) == {}
        until(lambda: _state(cluster, name) == (2, (2,), frozenset((2,))), "moved away from kwire")
        assert alter_reassignments(ours, {first: [OURS, THEIRS]}) == {}
        until(lambda: _state(cluster, name) == (2, (1, 2), BOTH), "moved to kwire")
        assert [each.failed for each in elect_leaders(theirs, ElectionType.PREFERRED, [first])] == [
            False
        ]
        until(lambda: _state(cluster, name) == (1, (1, 2), BOTH), "led as preferred")
        assert sorted(cluster.read(name, 2, 100)) == sorted(values)
        for client, other, size in ((ours, theirs, "2000000"), (theirs, ours, "3000000")):
            wanted = {"segment.bytes": (ConfigAlteration.SET, size)}
            alter_configs(client, ConfigResource(ConfigResourceKind.TOPIC, name), wanted)
            _has_size(other, name, size)
        delete_topic(theirs, name)
        cluster.all_say(name, None)


def _state(cluster: WatchedCluster, name: str) -> State | None:
    """The state of the first partition, once both brokers report the same."""
    ours, theirs = (cluster.topic(each, name) for each in (OURS, THEIRS))
    return ours[0] if ours and theirs and ours[0] == theirs[0] else None


def _has_size(client: Cluster, name: str, size: str) -> None:
    def says_so() -> bool:
        return topic_settings(client, [name], ["segment.bytes"])[name]["segment.bytes"] == size

    until(says_so, "told to the other")
