"""A hash of the topics that a group is subscribed to: what tells it that one has changed.

A topic's hash is XXH3 over a byte 0 (the format), its id, name, number of partitions and, of each
partition, its index and the racks of its replicas, sorted.  A group's is XXH3 over those of its
topics by name; 0 without any.  Numbers are little-endian; a string is its UTF-16 units and how many
they are, and in front of that of a rack stands its length once more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codecs.xxh3 import xxh3_64
from kwire.groups.java import utf16

_INT = struct.Struct("<i")
_LONG = struct.Struct("<Q")
_FORMAT = b"\0"


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)


def topic_hash(topic: TopicImage, image: ClusterImage) -> int:
    """As an unsigned number."""
    parts = [_FORMAT, topic.id[7::-1], topic.id[:7:-1], _string(topic.name)]
    parts.append(_INT.pack(len(topic.partitions)))
    for index, partition in enumerate(topic.partitions):
        parts.append(_INT.pack(index))
        replicas = (image.brokers.get(replica) for replica in partition.replicas)
        racks = [broker.rack for broker in replicas if broker is not None and broker.rack]
        for rack in sorted(racks, key=utf16):
            string = _string(rack)
            parts += (string[-_INT.size :], string)
    return xxh3_64(b"".join(parts))


class MetadataHashes:
    """Hashes of groups; what was computed of a topic is kept as long as the topic is the same."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[TopicImage, object, int]] = {}
        self._groups: dict[str, tuple[ClusterImage, frozenset[str], int]] = {}

    def of_group(self, group_id: str, names: frozenset[str], image: ClusterImage) -> int:
        """As its record has it: a signed number.  `names` that are no topics do not count."""
        known = self._groups.get(group_id)
        if known is not None and known[0] is image and known[1] == names:
            return known[2]
        value = self._computed(names, image)
        self._groups[group_id] = image, names, value
        return value

    def forget(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    def _computed(self, names: Iterable[str], image: ClusterImage) -> int:
        there = sorted((name for name in names if name in image.topics), key=utf16)
        if not there:
            return 0
        hashes = (self._of_topic(image.topics[name], image) for name in there)
        value = xxh3_64(b"".join(map(_LONG.pack, hashes)))
        return value - (1 << 64) if value >> 63 else value

    def _of_topic(self, topic: TopicImage, image: ClusterImage) -> int:
        known = self._topics.get(topic.name)
        if known is not None and known[0] is topic and known[1] is image.brokers:
            return known[2]
        value = topic_hash(topic, image)
        self._topics[topic.name] = topic, image.brokers, value
        return value
