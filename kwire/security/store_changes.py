"""Certificates that are set while the broker runs: looked at before the change is made.

Apache Kafka refuses a store that it could not serve with, and one that clients would not know the
broker by.  The files are read in a thread, before anything is decided.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kwire.cluster.decisions.config_changes import ConfigChange
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigError, ConfigResourceType
from kwire.settings.live import LiveSettings

CheckStores = Callable[[BrokerConfig, Sequence[str]], Awaitable[None]]
"""Whether listeners could be served with other settings.  Raises ConfigError."""

_PREFIX: Final = "listener.name."


def to_be_looked_at(
    settings: LiveSettings, image: ClusterImage, changes: Sequence[ConfigChange]
) -> bool:
    """Whether one of the changes is about certificates of this broker."""
    return any(_asked(settings, image, change) is not None for change in changes)


async def refuse_bad_stores(
    settings: LiveSettings,
    image: ClusterImage,
    changes: Sequence[ConfigChange],
    check_stores: CheckStores | None,
) -> None:
    """Refuse the changes by which this broker could not serve its listeners.

    `check_stores` is None where no listener has TLS: no change is refused then.
    """
    if check_stores is None:
        return
    for change in changes:
        asked = _asked(settings, image, change)
        if asked is None:
            continue
        try:
            await check_stores(*asked)
        except ConfigError as problem:
            change.refusal = Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Validation of dynamic config update of SSLFactory failed: {problem}",
            )


def _asked(
    settings: LiveSettings, image: ClusterImage, change: ConfigChange
) -> tuple[BrokerConfig, list[str]] | None:
    """The settings that a change would make, and the listeners that it gives other certificates."""
    if change.refusal is not None or change.key != (
        ConfigResourceType.BROKER,
        str(settings.node_id),
    ):
        return None
    before = image.configs_of(*change.key)
    everyone = image.configs_of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    try:
        after = change.edit(before)
        listeners = _with_other_certificates(before, after)
        config = settings.static_config.with_dynamic(everyone, after) if listeners else None
    except (Refusal, ConfigError):
        return None  # what decides the change says so
    return None if config is None else (config, listeners)


def _with_other_certificates(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    named = (name.removeprefix(_PREFIX).split(".", 2) for name in changed if _is_tls(name))
    return sorted({listener for listener, *_ in named})


def _is_tls(name: str) -> bool:
    """Whether it is like listener.name.ssl.ssl.keystore.location."""
    parts = name.split(".")
    return name.startswith(_PREFIX) and len(parts) > 4 and parts[3] == "ssl"
