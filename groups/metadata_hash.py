"""The hash of the topics that a group subscribes to; it changes when a topic changes.

A topic's hash is XXH3 over a byte 0 (the format), its id, name and partition count and, for each
partition, its index and the sorted racks of its replicas.  A group's hash is XXH3 over the hashes
of its topics, ordered by name, or 0 without topics.  Numbers are little-endian.  A string is its
UTF-16 units followed by their count; a rack has the count in front as well.
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
    """The hash of one topic, as an unsigned 64-bit number."""
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
    """Computes the hashes of groups, and caches them as long as the topics are unchanged."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[TopicImage, object, int]] = {}
        self._groups: dict[str, tuple[ClusterImage, frozenset[str], int]] = {}

    def of_group(self, group_id: str, names: frozenset[str], image: ClusterImage) -> int:
        """The hash of a group as in its record: signed.  Names without a topic are ignored."""
        entry = self._groups.get(group_id)
        if entry is not None and entry[0] is image and entry[1] == names:
            return entry[2]
        value = self._computed(names, image)
        self._groups[group_id] = image, names, value
        return value

    def forget(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    def _computed(self, names: Iterable[str], image: ClusterImage) -> int:
        """Return the hash of a group's topics as a signed number; 0 if none of them exists.

        The names are sorted by UTF-16 units, the order of strings in Java.
        """
        existing = sorted((name for name in names if name in image.topics), key=utf16)
        if not existing:
            return 0
        hashes = (self._of_topic(image.topics[name], image) for name in existing)
        value = xxh3_64(b"".join(map(_LONG.pack, hashes)))
        # The record has the hash as an int64.
        return value - (1 << 64) if value >> 63 else value

    def _of_topic(self, topic: TopicImage, image: ClusterImage) -> int:
        """Return the hash of one topic, from the cache if topic and brokers are unchanged.

        Brokers count because the hash includes the racks of the replicas.
        """
        entry = self._topics.get(topic.name)
        if entry is not None and entry[0] is topic and entry[1] is image.brokers:
            return entry[2]
        value = topic_hash(topic, image)
        self._topics[topic.name] = topic, image.brokers, value
        return value
