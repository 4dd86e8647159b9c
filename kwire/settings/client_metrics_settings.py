"""The configs of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.coordinators.contract.pattern import InvalidRegex, RegexPattern
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
"""The properties of a client that a pattern can match."""


class ClientMetricsSettings(Settings):
    """The metrics that clients push, how often, and the clients that push them."""

    interval_ms = integer(300_000, MEDIUM, doc="How often the clients push their metrics.")
    match = strings(
        (),
        MEDIUM,
        doc="The clients that the subscription is for, as name=regex. A client must match all of "
        "them.",
    )
    metrics = strings(
        (),
        MEDIUM,
        doc="Prefixes of the names of the metrics that clients push; * means all metrics.",
    )


def match_patterns(match: Iterable[str]) -> Iterator[tuple[str, RegexPattern]]:
    """Yield (key, pattern) of each `key=regex`.  If a key comes twice, the last one wins.

    As with Java's split, `=` at the end is ignored, and any further part is an error.  Raises
    ConfigError.
    """
    for text in match:
        key, *expressions = text.rstrip("=").split("=")
        if len(expressions) != 1 or key.strip() not in MATCH_KEYS:
            raise _illegal(text)
        try:
            yield key.strip(), RegexPattern(expressions[0].strip())
        except InvalidRegex:
            raise _illegal(text) from None


def _illegal(text: str) -> ConfigError:
    return ConfigError(f"Illegal client matching pattern: {text}")
