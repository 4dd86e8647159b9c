"""The file in which kwire kept a single node's metadata before it had a log of changes.

One JSON object, written whole at each change:

    {"format": 1, "version": n, "cluster_id": "...", "next_producer_id": n,
     "topics": {name: {"id": base64, "partitions": [[leader, leader_epoch, partition_epoch,
                                                     [replica, ...], [in sync, ...]], ...]}},
     "configs": [[resource type, resource name, {config: value}], ...]}

It is read once; then `kwire-metadata.log` takes its place.
"""

from __future__ import annotations

import json

from kwire.cluster.metadata.change_records import decode_partition
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codecs.uuids import uuid_bytes

FILE_NAME = "kwire-metadata.json"
CONVERTED = ".converted"
"""Behind the name of a file that was read: an older kwire would take it for its own."""


def image_of(content: bytes) -> ClusterImage:
    """What the file says.  Raises ValueError, TypeError, LookupError, AttributeError."""
    state = json.loads(content)
    if state["format"] != 1:
        raise ValueError(f"format {state['format']} is none of this file's")
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
