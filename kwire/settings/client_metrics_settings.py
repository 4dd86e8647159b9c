"""The configs of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.coordinators.contract.pattern import InvalidPattern, Pattern
from kwire.settings.definition import MEDIUM, Settings, integer, strings
from kwire.settings.error import ConfigError

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000

MATCH_KEYS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What can be asked about a client."""


class ClientMetricsSettings(Settings):
    """Which metrics clients push, how often, and which clients are meant."""

    interval_ms = integer(300_000, MEDIUM)
    match = strings((), MEDIUM)
    metrics = strings((), MEDIUM)


def match_patterns(match: Iterable[str]) -> Iterator[tuple[str, Pattern]]:
    """The pattern of each `key=regex`, by its key; of a key that comes twice the last one counts.

    As Java splits: what is behind the first two parts must be empty.  Raises ConfigError.
    """
    for text in match:
        key, *expressions = text.rstrip("=").split("=")
        if len(expressions) != 1 or key.strip() not in MATCH_KEYS:
            raise _illegal(text)
        try:
            yield key.strip(), Pattern(expressions[0].strip())
        except InvalidPattern:
            raise _illegal(text) from None


def _illegal(text: str) -> ConfigError:
    return ConfigError(f"Illegal client matching pattern: {text}")
