"""Kafka's config resource types (ConfigResource.Type): the kinds of things that have configs."""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The `ResourceType` of config requests; the metadata image has its configs by it."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


CLUSTER_DEFAULT = ""
"""The name of the BROKER resource whose configs apply to every broker of the cluster."""
