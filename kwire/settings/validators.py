"""Validators of the values of settings: those of Kafka's ConfigDef.

A validator gets the setting's name and the parsed value, and raises ConfigError for an invalid
value.  The messages are Kafka's, since tools print them and scripts search for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kwire.settings.error import ConfigError, InvalidValue
from kwire.settings.values import ConfigType, text_of

Validator = Callable[[str, Any], None]


def at_least(low: int) -> Validator:
    return between(low, None)


def between(low: int, high: float | None) -> Validator:
    """Return a validator of numbers from `low` to `high`, both included; None is no maximum."""

    def check(name: str, value: float | None) -> None:
        """Raise InvalidValue unless the value is within the bounds; null is refused."""
        if value is None:
            raise InvalidValue(name, "null", "Value must be non-null")
        if value < low:
            raise InvalidValue(name, _number(value), f"Value must be at least {low}")
        if high is not None and value > high:
            raise InvalidValue(name, _number(value), f"Value must be no more than {high}")

    return check


def _number(value: float) -> str | None:
    return text_of(value, ConfigType.DOUBLE if isinstance(value, float) else ConfigType.LONG)


def between_or(low: int, high: int, other: int) -> Validator:
    """Return a validator of numbers from `low` to `high`, or equal to `other`.

    `other` stands for the default of a library, such as a compression level.
    """

    def check(name: str, value: int) -> None:
        if value != other and not low <= value <= high:
            raise InvalidValue(
                name, value, f"Value must be between {low} and {high} or equal to {other}"
            )

    return check


def one_of(*allowed: str) -> Validator:
    """Return a validator that accepts only the allowed texts."""

    def check(name: str, value: str | None) -> None:
        if value not in allowed:
            shown = "null" if value is None else value
            raise InvalidValue(name, shown, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Validator:
    """Return a validator that accepts only the allowed texts, in upper or lower case."""
    upper = {name.upper() for name in allowed}

    def check(name: str, value: str | None) -> None:
        if value is None or value.upper() not in upper:
            shown = "null" if value is None else value
            raise InvalidValue(
                name, shown, f"String must be one of (case insensitive): {', '.join(allowed)}"
            )

    return check


def non_empty(name: str, value: str | None) -> None:
    """Accepts null, and any text that is not empty."""
    if value is not None and not value:
        raise InvalidValue(name, value, "String must be non-empty")


def members(*allowed: str, empty: bool = True, nullable: bool = False) -> Validator:
    """Return a validator of lists without empty items; with `allowed`, only of its items.

    `empty` permits the empty list, `nullable` null.
    """

    def check(name: str, value: Sequence[str] | None) -> None:
        """Raise ConfigError, or InvalidValue for a wrong element, unless the list is allowed."""
        if value is None:
            if not nullable:
                raise ConfigError(f"Configuration '{name}' values must not be null.")
            return
        if not value and not empty:
            valid = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            raise ConfigError(
                f"Configuration '{name}' must not be empty. Valid values include: {valid}"
            )
        for one in value:
            if not one:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if allowed and one not in allowed:
                raise InvalidValue(name, one, f"String must be one of: {', '.join(allowed)}")

    return check


_THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")


def throttled_replicas(name: str, value: Sequence[str]) -> None:
    """Raise InvalidValue unless the value is `*` or a list of `partition:broker`."""
    if list(value) != ["*"] and not all(_THROTTLED_REPLICA.fullmatch(one) for one in value):
        raise InvalidValue(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def dead_letter_topic(name: str, value: str) -> None:
    """Raise ConfigError if the name is reserved for internal topics (KIP-1191)."""
    if value.startswith("__"):
        raise ConfigError(f"{name}: DLQ topic name must not start with '__'")


_VOTER = re.compile(r"[0-9]+@\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")


def quorum_voters(name: str, value: Sequence[str]) -> None:
    """Raise ConfigError unless each item is `id@host:port` of a KRaft controller."""
    for voter in value:
        if _VOTER.fullmatch(voter) is None:
            raise ConfigError(
                f"Invalid configuration value for {name}. "
                "Each entry should be in the form `{id}@{host}:{port}`."
            )


_DURATION = re.compile(
    r"P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]{1,9})?S)?)?",
    re.IGNORECASE,
)


def offset_reset(name: str, value: str) -> None:
    """Raise InvalidValue unless it is `earliest`, `latest` or `by_duration:` and a duration.

    The duration has the form of ISO 8601 (KIP-932).
    """
    if value in ("earliest", "latest"):
        return
    kind, _, duration = value.partition(":")
    if kind != "by_duration" or _DURATION.fullmatch(duration) is None:
        raise InvalidValue(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )
