"""The settings of a running broker: those it was started with, and those of now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.settings.broker import BrokerConfig


class LiveSettings:
    """The only reference to the broker's current settings.

    `static_config` holds the settings that the broker was started with, and never changes.
    `config` adds the dynamic broker configs (KIP-226).  A change of these replaces `config` by
    another object.  A service that keeps the `LiveSettings` therefore reads the current values.
    """

    __slots__ = ("config", "node_id", "static_config")

    def __init__(self, static_config: BrokerConfig) -> None:
        self.static_config = static_config
        self.config = static_config
        self.node_id: int = static_config.node_id
