"""What a decision asks of the broker that it is made for; kwire.broker.Broker is one."""

from __future__ import annotations

from typing import Protocol

from kwire.settings import BrokerConfig


class ControllerHost(Protocol):
    """Its settings, as they are when a decision is asked: they may change before it is asked anew.

    static_config    As the broker was started.
    config           As they are now.
    """

    static_config: BrokerConfig
    config: BrokerConfig
    node_id: int
