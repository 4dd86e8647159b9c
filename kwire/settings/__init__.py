"""Configuration: the settings of Apache Kafka 4.4, and a broker's values of them."""

from __future__ import annotations

from kwire.settings.broker import BrokerConfig
from kwire.settings.definitions.topics import topic_log_config
from kwire.settings.error import ConfigError
from kwire.settings.load import load
from kwire.settings.resources import CLUSTER_DEFAULT, ConfigResourceType

__all__ = [
    "CLUSTER_DEFAULT",
    "BrokerConfig",
    "ConfigError",
    "ConfigResourceType",
    "load",
    "topic_log_config",
]
