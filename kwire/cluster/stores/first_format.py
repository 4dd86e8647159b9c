"""Reads the first format of a single node's metadata file (before there was a log of changes).

The file is one JSON object, which was written whole at each change:

    {"format": 1, "version": n, "cluster_id": "...", "next_producer_id": n,
     "topics": {name: {"id": base64, "partitions": [[leader, leader_epoch, partition_epoch,
                                                     [replica, ...], [in sync, ...]], ...]}},
     "configs": [[resource type, resource name, {config: value}], ...]}

The local store reads it once, and writes `kwire-metadata.log` from it.
"""

from __future__ import annotations

import json

from kwire.cluster.metadata.change_records import decode_partition
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codecs.uuids import uuid_bytes

FILE_NAME = "kwire-metadata.json"
CONVERTED = ".converted"
"""Suffix of a file that was converted, so that an older kwire does not use it again."""


def image_of(content: bytes) -> ClusterImage:
    """The image in the file.  Raises ValueError, TypeError, LookupError, AttributeError."""
    state = json.loads(content)
    if state["format"] != 1:
        raise ValueError(f"format {state['format']} is not the format of this file, 1")
    image = ClusterImage(
        state["cluster_id"], next_producer_id=state["next_producer_id"], version=state["version"]
    )
    image = image.with_topics(
        TopicImage(name, uuid_bytes(topic["id"]), tuple(map(decode_partition, topic["partitions"])))
        for name, topic in state["topics"].items()
    )
    for kind, name, values in state["configs"]:
        image = image.with_configs(kind, name, values)
    return image
