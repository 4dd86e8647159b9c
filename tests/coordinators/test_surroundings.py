"""The settings that groups see."""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.coordinators.surroundings import BrokerSurroundings
from kwire.metadata.image import ClusterImage
from kwire.settings import BrokerConfig
from kwire.settings.resources import ConfigResourceType

GROUP = ConfigResourceType.GROUP
INTERVAL = "consumer.assignment.interval.ms"


@dataclass
class OfBroker:
    """What is asked of a broker."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    image: ClusterImage = field(default_factory=lambda: ClusterImage(cluster_id="c"))

    def put(self, group: str, configs: dict[str, str]) -> None:
        self.image = self.image.with_configs(GROUP, group, configs)


def test_a_group_has_its_own_settings_or_the_brokers_as_they_are_now() -> None:
    broker = OfBroker()
    surroundings = BrokerSurroundings(broker)  # type: ignore[arg-type] # all that it asks for
    default = surroundings.settings("g")
    assert default.assignment_interval_ms == 1_000
    assert surroundings.settings("h") is default
    broker.put("g", {INTERVAL: "0"})
    assert surroundings.settings("g").assignment_interval_ms == 0
    assert surroundings.settings("h").assignment_interval_ms == 1_000
    broker.put("g", {})
    assert surroundings.settings("g").assignment_interval_ms == 1_000
    broker.config = BrokerConfig({"group.consumer.assignment.interval.ms": "7"})
    assert surroundings.settings("g").assignment_interval_ms == 7


def test_nothing_is_kept_of_groups_whose_settings_are_gone() -> None:
    broker = OfBroker()
    surroundings = BrokerSurroundings(broker)  # type: ignore[arg-type] # all that it asks for
    for number in range(100):
        broker.put(f"g{number}", {INTERVAL: "0"})
        surroundings.settings(f"g{number}")
        surroundings.settings("other")
        broker.put(f"g{number}", {})
    surroundings.settings("other")
    assert len(surroundings._known) == 1
