"""Checks new keystores and truststores that are set while the broker runs.

Like Apache Kafka, the broker refuses a store that its listener could not use, and one by which
clients would not recognize the broker.  A thread reads the files before the change is decided.
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
"""Raises ConfigError if the listeners could not be served with other settings."""

_PREFIX: Final = "listener.name."


def to_be_looked_at(
    settings: LiveSettings, image: ClusterImage, changes: Sequence[ConfigChange]
) -> bool:
    """Whether one of the changes sets certificates of this broker."""
    return any(_store_change(settings, image, change) is not None for change in changes)


async def refuse_bad_stores(
    settings: LiveSettings,
    image: ClusterImage,
    changes: Sequence[ConfigChange],
    check_stores: CheckStores | None,
) -> None:
    """Refuse changes with which this broker could not serve its listeners.

    `check_stores` is None if no listener has TLS; then no change is refused.
    """
    if check_stores is None:
        return
    for change in changes:
        store_change = _store_change(settings, image, change)
        if store_change is None:
            continue
        try:
            await check_stores(*store_change)
        except ConfigError as problem:
            change.refusal = Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Validation of dynamic config update of SSLFactory failed: {problem}",
            )


def _store_change(
    settings: LiveSettings, image: ClusterImage, change: ConfigChange
) -> tuple[BrokerConfig, list[str]] | None:
    """Return the broker's settings after a change, and the listeners whose certificates it
    changes.
    """
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
        return None  # the decision about the change reports this error
    return None if config is None else (config, listeners)


def _with_other_certificates(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    names = (name.removeprefix(_PREFIX).split(".", 2) for name in changed if _is_tls(name))
    return sorted({listener for listener, *_ in names})


def _is_tls(name: str) -> bool:
    """Whether `name` is a listener's TLS setting, like listener.name.ssl.ssl.keystore.location."""
    parts = name.split(".")
    # parts: listener, name, <listener>, ssl, and the rest
    return name.startswith(_PREFIX) and len(parts) > 4 and parts[3] == "ssl"
