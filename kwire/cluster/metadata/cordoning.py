"""Cordoned brokers: those that get no new replicas (KIP-1066).

A broker is cordoned if all its log directories are: `cordoned.log.dirs` names them, or is `*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.cluster.metadata.image import BrokerImage, ClusterImage

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
ALL_DIRECTORIES: Final = "*"

_BROKER_RESOURCE: Final = 4


def cordoned_brokers(image: ClusterImage) -> frozenset[int]:
    """The ids of the registered brokers that are cordoned."""
    return frozenset(each.id for each in image.brokers.values() if _is_cordoned(image, each))


def uncordoned_brokers(image: ClusterImage) -> Mapping[int, BrokerImage]:
    """The registered brokers that can get new replicas, by id."""
    cordoned = cordoned_brokers(image)
    if not cordoned:
        return image.brokers
    return {each.id: each for each in image.brokers.values() if each.id not in cordoned}


def _is_cordoned(image: ClusterImage, broker: BrokerImage) -> bool:
    """Whether all log directories of a broker are cordoned, by its config or else its settings."""
    config = image.configs_of(_BROKER_RESOURCE, str(broker.id)).get(CORDONED_LOG_DIRS)
    names = broker.cordoned if config is None else [name.strip() for name in config.split(",")]
    if ALL_DIRECTORIES in names:
        return True
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(names)
