"""The settings of a running broker: as it was started, and as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.settings.broker import BrokerConfig


class LiveSettings:
    """Holds the one reference to the broker's current settings.

    `static_config` is what the broker was started with and never changes.  `config` is that with
    the dynamic broker configs (KIP-226) on top; it is replaced, not changed, when these change.
    So a service that keeps the `LiveSettings` always reads the current values.
    """

    __slots__ = ("config", "static_config")

    def __init__(self, static_config: BrokerConfig) -> None:
        self.static_config = static_config
        self.config = static_config

    @property
    def node_id(self) -> int:
        return self.static_config.node_id
