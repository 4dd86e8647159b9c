"""Caches of values computed from the metadata image, which every heartbeat needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, TopicImage
from kwire.groups import metadata_hash
from kwire.groups.metadata_hash import MetadataHashes, topic_hash
from kwire.groups.streams.configuring import TopologyCache
from kwire.groups.streams.topology import topology_of
from tests.groups.images import put
from tests.groups.streams.simulation import copying

NAMES = frozenset("tu")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose hash was computed, in order."""
    names: list[str] = []

    def counted(topic: TopicImage, image: ClusterImage) -> int:
        names.append(topic.name)
        return topic_hash(topic, image)

    monkeypatch.setattr(metadata_hash, "topic_hash", counted)
    return names


@pytest.fixture
def image() -> ClusterImage:
    return put(put(ClusterImage(cluster_id="c"), "t", 1)[0], "u", 1)[0]


def test_topic_hash_is_computed_once_per_topic_image(
    computed: list[str], image: ClusterImage
) -> None:
    hashes = MetadataHashes()
    first = hashes.of_group("g", NAMES, image)
    assert (hashes.of_group("g", NAMES, image), computed) == (first, ["t", "u"])
    assert (hashes.of_group("h", NAMES, image), computed) == (first, ["t", "u"])
    grown, _ = put(image, "t", 2)
    second = hashes.of_group("g", NAMES, grown)
    assert (second != first, computed) == (True, ["t", "u", "t"])
    racks = replace(grown, brokers={0: BrokerImage(0, (), "r")})
    third = hashes.of_group("g", NAMES, racks)
    assert (third in (first, second), computed) == (False, ["t", "u", "t", "t", "u"])
    assert hashes.of_group("g", frozenset("t"), racks) != third
    assert len(computed) == 5


def test_group_hash_is_cached_while_the_image_is_the_same(
    image: ClusterImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = MetadataHashes()
    first = hashes.of_group("g", NAMES, image)
    hashes.forget("other")
    with monkeypatch.context() as nothing:
        nothing.setattr(metadata_hash, "xxh3_64", None)
        assert hashes.of_group("g", frozenset("ut"), image) == first
        hashes.forget("g")
        with pytest.raises(TypeError):
            hashes.of_group("g", NAMES, image)


def test_racks_with_any_characters_are_hashed() -> None:
    image, _ = put(ClusterImage(cluster_id="c"), "t", 1, [[0, 1]])
    racks = {0: BrokerImage(0, (), "\ud800"), 1: BrokerImage(1, (), "a")}
    hashes = {
        MetadataHashes().of_group("g", NAMES, replace(image, brokers=brokers))
        for brokers in ({}, racks, {0: racks[0]}, {1: racks[1]})
    }
    assert len(hashes) == 4


def test_topology_is_configured_once_per_set_of_topics(image: ClusterImage) -> None:
    configurations = TopologyCache()
    topology, same = topology_of(copying()), topology_of(copying())
    first = configurations.of_group("g", topology, image)
    assert configurations.of_group("g", topology, replace(image, version=9)) is first
    assert configurations.of_group("g", same, image) is not first
    grown, _ = put(image, "t", 2)
    second = configurations.of_group("g", same, grown)
    assert second.subtopologies["0"].task_count == 2
    assert configurations.of_group("g", same, grown) is second
    configurations.forget("other")
    assert configurations.of_group("g", same, grown) is second
    configurations.forget("g")
    assert configurations.of_group("g", same, grown) is not second
