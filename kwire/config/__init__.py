"""Configuration: what Kafka 4.3's settings are, and a broker's values of them."""

from __future__ import annotations

from kwire.config.broker import BrokerConfig
from kwire.config.error import ConfigError
from kwire.config.load import load
from kwire.config.resources import CLUSTER_DEFAULT, ConfigResourceType
from kwire.config.topics import topic_log_config

__all__ = [
    "CLUSTER_DEFAULT",
    "BrokerConfig",
    "ConfigError",
    "ConfigResourceType",
    "load",
    "topic_log_config",
]
