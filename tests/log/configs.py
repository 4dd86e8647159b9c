"""Topic configs for tests of logs: Apache Kafka's defaults, except what a test sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kwire.log import LogConfig
from kwire.settings import BrokerConfig, topic_log_config

DEFAULTS = topic_log_config(BrokerConfig(), {})


def log_config(**fields: Any) -> LogConfig:  # noqa: ANN401 - of LogConfig, whatever they are
    """The defaults with these `fields` instead."""
    return replace(DEFAULTS, **fields)
