"""Connection limits with a syntax of their own: `host:count` pairs, and limits of one listener."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Protocol

from kwire.settings.error import ConfigError

OVERRIDES = "max.connections.per.ip.overrides"
ListenerLimit = Literal["max.connections", "max.connection.creation.rate"]
LISTENER_LIMITS: tuple[ListenerLimit, ...] = ("max.connections", "max.connection.creation.rate")

_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
_COUNT = re.compile(r"[+-]?[0-9]{1,10}")
_INT_MAX = 2**31 - 1


def parse_overrides(text: str) -> dict[str, int]:
    """Return the most connections of each host, from `host:count,host:count`.

    Raises ConfigError.
    """
    overrides: dict[str, int] = {}
    for pair in re.split(r"\s*,\s*", text.strip().rstrip(",")) if text.strip() else ():
        host, colon, count = pair.rpartition(":")
        if not colon:
            raise ConfigError(
                f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, "
                f"length {len(pair)}"
            )
        host, count = host.strip(), count.strip()
        if _COUNT.fullmatch(count) is None or abs(int(count)) > _INT_MAX:
            raise ConfigError(f'For input string: "{count}"')
        overrides[host] = int(count)
    invalid = [host for host in overrides if _HOST.fullmatch(host) is None]
    if invalid:
        raise ConfigError(f"{OVERRIDES} contains invalid addresses : {','.join(invalid)}")
    return overrides


class Given(Protocol):
    """The settings of the file (`explicit`) and of run time (`dynamic`), as in BrokerConfig."""

    @property
    def explicit(self) -> Mapping[str, str]: ...

    @property
    def dynamic(self) -> Mapping[str, str]: ...


def listener_limit(config: Given, listener: str, name: ListenerLimit) -> int | None:
    """The value of `listener.name.<listener>.<name>`, or None if it is not set."""
    full_name = f"listener.name.{listener.lower()}.{name}"
    text = config.dynamic.get(full_name, config.explicit.get(full_name))
    return None if text is None else int(text)


def check_listener_limits(settings: Mapping[str, str]) -> None:
    """Raise ConfigError for an invalid limit of a listener, with Kafka's message at run time."""
    for name, text in settings.items():
        limit = name.split(".", 3)[-1]
        if not name.startswith("listener.name.") or limit not in LISTENER_LIMITS:
            continue
        if _COUNT.fullmatch(text.strip()) is None or not 0 < int(text) <= _INT_MAX:
            raise ConfigError(
                f"Invalid value org.apache.kafka.common.config.ConfigException: Invalid {limit} "
                f"{text} for configuration Invalid dynamic configuration"
            )
