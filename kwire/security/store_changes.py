"""Certificates that are set while the broker runs: looked at before the change is made.

Apache Kafka refuses a store that it could not serve with, and one that clients would not know the
broker by.  The files are read in a thread, before anything is decided.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.controller.config_changes import Change
from kwire.controller.host import ControllerHost
from kwire.metadata.image import ClusterImage
from kwire.metadata.refusal import Refusal
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigError, ConfigResourceType

CheckStores = Callable[[BrokerConfig, Sequence[str]], Awaitable[None]]
"""Whether listeners could be served with other settings.  Raises ConfigError."""

_PREFIX: Final = "listener.name."


class Host(ControllerHost, Protocol):
    """See kwire.broker.Broker."""

    @property
    def image(self) -> ClusterImage: ...

    check_stores: CheckStores | None


def to_be_looked_at(broker: Host, changes: Sequence[Change]) -> bool:
    """Whether one of the changes is about certificates of this broker."""
    return broker.check_stores is not None and any(
        _asked(broker, change) is not None for change in changes
    )


async def refuse_bad_stores(broker: Host, changes: Sequence[Change]) -> None:
    """Give changes their `refusal` by which this broker could not serve its listeners."""
    if broker.check_stores is None:
        return
    for change in changes:
        asked = _asked(broker, change)
        if asked is None:
            continue
        try:
            await broker.check_stores(*asked)
        except ConfigError as problem:
            change.refusal = Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Validation of dynamic config update of SSLFactory failed: {problem}",
            )


def _asked(broker: Host, change: Change) -> tuple[BrokerConfig, list[str]] | None:
    """The settings that a change would make, and the listeners that it gives other certificates."""
    if change.refusal is not None or change.key != (
        ConfigResourceType.BROKER,
        str(broker.node_id),
    ):
        return None
    before = broker.image.configs_of(*change.key)
    everyone = broker.image.configs_of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    try:
        after = change.edit(before)
        listeners = _with_other_certificates(before, after)
        config = broker.static_config.with_dynamic(everyone, after) if listeners else None
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
