"""The errors of a configuration, each with a message of one sentence."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting that cannot be used.  The message is for the person who wrote the setting."""


class BrokenRule(ConfigError):
    """Settings that are valid one by one, and that cannot be used together."""


class InvalidValue(ConfigError):
    """A value that the setting does not accept, with the message that Kafka has for it."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
