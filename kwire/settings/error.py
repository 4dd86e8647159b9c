"""What is wrong with a configuration, in one sentence."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting that cannot be used; the message is for whoever wrote it."""


class BrokenRule(ConfigError):
    """Settings that are valid one by one and cannot be together."""


class InvalidValue(ConfigError):
    """A value that its setting does not take, worded as Kafka words it for its clients."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
