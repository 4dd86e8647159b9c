"""What a set of configs belongs to: Kafka's config resource types (ConfigResource.Type)."""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The `ResourceType` of the config requests; each also keys the image's configs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


CLUSTER_DEFAULT = ""
"""The name of the BROKER resource whose configs hold for every broker of the cluster."""
