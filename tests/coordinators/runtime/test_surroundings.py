"""The settings of groups: their own, or the broker's defaults."""

from __future__ import annotations

from kwire.cluster.metadata.cache import MetadataCache
from kwire.coordinators.runtime.surroundings import BrokerSurroundings
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings
from kwire.settings.resources import ConfigResourceType

GROUP = ConfigResourceType.GROUP
INTERVAL = "consumer.assignment.interval.ms"


class OfBroker:
    """The settings and the metadata of a broker."""

    def __init__(self) -> None:
        self.settings = LiveSettings(BrokerConfig())
        self.metadata = MetadataCache("c")

    def put(self, group: str, configs: dict[str, str]) -> None:
        self.metadata.image = self.metadata.image.with_configs(GROUP, group, configs)


def test_group_settings_are_its_own_or_the_brokers_current_ones() -> None:
    broker = OfBroker()
    surroundings = BrokerSurroundings(broker.settings, broker.metadata)
    default = surroundings.settings("g")
    assert default.assignment_interval_ms == 1_000
    assert surroundings.settings("h") is default
    broker.put("g", {INTERVAL: "0"})
    assert surroundings.settings("g").assignment_interval_ms == 0
    assert surroundings.settings("h").assignment_interval_ms == 1_000
    broker.put("g", {})
    assert surroundings.settings("g").assignment_interval_ms == 1_000
    broker.settings.config = BrokerConfig({"group.consumer.assignment.interval.ms": "7"})
    assert surroundings.settings("g").assignment_interval_ms == 7


def test_cache_drops_groups_whose_settings_were_deleted() -> None:
    broker = OfBroker()
    surroundings = BrokerSurroundings(broker.settings, broker.metadata)
    for number in range(100):
        broker.put(f"g{number}", {INTERVAL: "0"})
        surroundings.settings(f"g{number}")
        surroundings.settings("other")
        broker.put(f"g{number}", {})
    surroundings.settings("other")
    assert len(surroundings._known) == 1
