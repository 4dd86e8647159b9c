"""The configuration of one broker: every setting of Apache Kafka 4.4, typed and immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kwire.cluster.metadata.image import Endpoint
from kwire.settings import plugins
from kwire.settings.definition import Definition, UpdateMode
from kwire.settings.definitions.groups import GroupSettings
from kwire.settings.definitions.log import LogSettings
from kwire.settings.definitions.network import NetworkSettings
from kwire.settings.definitions.node import NodeSettings
from kwire.settings.definitions.remote import RemoteStorageSettings
from kwire.settings.definitions.security import SecuritySettings
from kwire.settings.definitions.transactions import TransactionSettings
from kwire.settings.effects import UNKNOWN, Effect
from kwire.settings.error import ConfigError
from kwire.settings.listeners import (
    check_advertised,
    own_host_name,
    parse_endpoints,
    require_distinct_ports,
    security_protocols,
)
from kwire.settings.metrics import PORT, MetricsSettings
from kwire.settings.rules import check_together
from kwire.settings.zookeeper import CONNECT, ZooKeeperSettings

NOTHING: Mapping[str, str] = {}

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: group
    for group in (
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.roll.ms", "log.roll.hours"),
    )
    for name in group
}
"""Settings that have the same meaning.  Of those that are set, the first in the list applies."""


class BrokerConfig(
    NodeSettings,
    NetworkSettings,
    SecuritySettings,
    LogSettings,
    RemoteStorageSettings,
    GroupSettings,
    TransactionSettings,
):
    """The settings of a broker.  `config.num_partitions` is the value of `num.partitions`.

    `explicit` holds the settings of the file, the environment and the command line by name, also
    those that `plugins.py` knows.  `with_dynamic` makes another BrokerConfig that also has the
    configs set by IncrementalAlterConfigs.  So read the broker's current BrokerConfig whenever you
    need a value, and do not keep it.  `listeners` are the endpoints to bind, without those of a
    KRaft controller.  `advertised_listeners` are the endpoints that clients connect to.  `metrics`
    is the address of the metrics endpoint.  `notes` say which given settings are ignored or mean
    something else here.
    """

    explicit: Mapping[str, str]
    dynamic: Mapping[str, str]
    notes: tuple[str, ...]
    metrics: MetricsSettings

    def __init__(
        self,
        explicit: Mapping[str, str] = NOTHING,
        *,
        notes: Iterable[str] = (),
        dynamic: Mapping[str, str] = NOTHING,
    ) -> None:
        """Raise ConfigError with one sentence that names the setting."""
        explicit = _with_node_id(explicit)
        known = {name: text for name, text in explicit.items() if name in self.DEFINITIONS}
        for name, text in dynamic.items():
            if name in self.DEFINITIONS:
                for other in SYNONYMS.get(name, ()):
                    known.pop(other, None)
                known[name] = text
        super().__init__(known)
        values: dict[str, object] = self.__dict__
        values["explicit"] = dict(explicit)
        values["dynamic"] = dict(dynamic)
        values["notes"] = (*notes, *self._resolve_listeners(known))
        if values["log_dirs"] is None:
            values["log_dirs"] = values["log_dir"]
        values["metrics"] = MetricsSettings(explicit)
        check_together(self)

    def with_dynamic(
        self, cluster: Mapping[str, str], broker: Mapping[str, str] = NOTHING
    ) -> BrokerConfig:
        """This configuration with the dynamic configs for all brokers and for this one.

        `broker` wins over `cluster`.  Raises ConfigError.
        """
        changed = BrokerConfig(self.explicit, dynamic={**cluster, **broker})
        values: dict[str, object] = changed.__dict__
        values["notes"] = self.notes
        if self.text("listeners") == changed.text("listeners"):  # Keep the ports that are bound.
            values["listeners"] = self.listeners
            values["advertised_listeners"] = self.advertised_listeners
        return changed

    def with_bound_ports(self, ports: Mapping[str, int]) -> BrokerConfig:
        """This configuration with the ports that the kernel chose where port 0 was asked for."""
        bound = BrokerConfig.__new__(BrokerConfig)
        values: dict[str, object] = bound.__dict__
        values.update(self.__dict__)
        for attribute in ("listeners", "advertised_listeners"):
            endpoints: tuple[Endpoint, ...] = self.__dict__[attribute]
            values[attribute] = tuple(
                endpoint if endpoint.port else replace(endpoint, port=ports[endpoint.listener])
                for endpoint in endpoints
            )
        return bound

    def with_metrics_port(self, port: int) -> BrokerConfig:
        """This configuration with the port that the metrics endpoint got instead of port 0."""
        bound = BrokerConfig.__new__(BrokerConfig)
        values: dict[str, object] = bound.__dict__
        values.update(self.__dict__)
        values["explicit"] = {**self.explicit, PORT: str(port)}
        values["metrics"] = MetricsSettings(bound.explicit)
        return bound

    def without_effect(self) -> list[str]:
        """The names of the given settings that do nothing here, sorted."""
        return sorted(name for name in self.explicit if not effect_of(name, self.explicit).acts)

    def _resolve_listeners(self, given: Mapping[str, str]) -> list[str]:
        """Set `listeners` and `advertised_listeners`; returns the notes on them."""
        notes: list[str] = []
        values = self.__dict__
        protocols = security_protocols(self.listener_security_protocol_map)
        controllers = [name.upper() for name in self.controller_listener_names]
        if "listener.security.protocol.map" not in given:
            for name in controllers:
                protocols.setdefault(name, "PLAINTEXT")
        all_listeners = parse_endpoints("listeners", values["listeners"], protocols)
        require_distinct_ports(all_listeners)
        listeners = tuple(e for e in all_listeners if e.listener not in controllers)
        if not listeners:
            raise ConfigError(
                "listeners has no listener for clients: all are in controller.listener.names"
            )
        notes.extend(
            f"listener {e.listener} is not opened: kwire has no KRaft controller"
            for e in all_listeners
            if e.listener in controllers
        )
        values["listeners"] = listeners
        values["advertised_listeners"] = self._advertised(given, controllers, protocols)
        self._check_inter_broker_listener(given)
        return notes

    def _advertised(
        self, given: Mapping[str, str], controllers: list[str], protocols: Mapping[str, str]
    ) -> tuple[Endpoint, ...]:
        """Return the endpoints that clients are told, from `advertised.listeners` or `listeners`.

        Controller listeners are left out. An endpoint without a host gets one. Raises ConfigError.
        """
        texts: tuple[str, ...] | None = self.__dict__["advertised_listeners"]
        if texts is None:
            advertised = self.listeners
        else:
            parsed = parse_endpoints("advertised.listeners", texts, protocols)
            advertised = tuple(e for e in parsed if e.listener not in controllers)
        check_advertised(advertised, self.listeners)
        if all(endpoint.host for endpoint in advertised):
            return advertised
        # Kafka advertises the host's name by default.  Without any settings localhost is better:
        # Kafka's own server.properties and image have it, and clients on the same machine reach it.
        host = own_host_name() if "listeners" in given or texts is not None else "localhost"
        return tuple(e if e.host else replace(e, host=host) for e in advertised)

    def _check_inter_broker_listener(self, given: Mapping[str, str]) -> None:
        """Raise ConfigError if the inter-broker listener is set twice or not advertised."""
        name = self.inter_broker_listener_name
        if name is None:
            return
        if "security.inter.broker.protocol" in given:
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol "
                "should be set."
            )
        advertised = [endpoint.listener for endpoint in self.advertised_listeners]
        if name.upper() not in advertised:
            raise ConfigError(
                "inter.broker.listener.name must be a listener name defined in "
                "advertised.listeners. The valid options based on currently configured listeners "
                f"are {','.join(advertised)}"
            )

    @property
    def zookeeper_connect(self) -> str | None:
        """The ZooKeeper of the cluster that this broker is a member of; None for a broker alone."""
        return self.explicit.get(CONNECT, "").strip() or None

    @property
    def joins_controllers(self) -> bool:
        """Whether this broker is a member of a cluster whose KRaft controllers are other nodes."""
        return self.process_roles == ("broker",) and self.zookeeper_connect is None

    @property
    def is_member(self) -> bool:
        """Whether this broker is a member of a cluster that its settings name."""
        return self.joins_controllers or self.zookeeper_connect is not None

    @property
    def inter_broker_listener(self) -> str:
        """The listener that brokers use between each other."""
        name = self.inter_broker_listener_name
        return name.upper() if name is not None else self.security_inter_broker_protocol

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of the listener that brokers use between each other."""
        name = self.inter_broker_listener
        protocols = (e.security_protocol for e in self.listeners if e.listener == name)
        return next(protocols, self.security_inter_broker_protocol)


def _with_node_id(explicit: Mapping[str, str]) -> Mapping[str, str]:
    """Return `explicit` with both names of the setting `node.id` or `broker.id`, if it has one."""
    node_id, broker_id = explicit.get("node.id"), explicit.get("broker.id")
    if node_id is None and broker_id is None:
        return explicit
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    either = node_id if node_id is not None else broker_id
    assert either is not None
    return {**explicit, "node.id": either, "broker.id": either}


def definition_of(name: str) -> Definition | None:
    """Return the definition of a broker setting, with or without a listener's prefix.

    `listener.name.<listener>.[<SASL mechanism>.]<setting>` sets it for one listener (KIP-103).
    """
    definition = (
        BrokerConfig.DEFINITIONS.get(name)
        or ZooKeeperSettings.DEFINITIONS.get(name)
        or MetricsSettings.DEFINITIONS.get(name)
    )
    if definition is not None or not name.startswith("listener.name."):
        return definition
    # behind listener.name.<listener>
    parts = name.split(".")[3:]
    for skipped in range(min(2, len(parts))):
        definition = BrokerConfig.DEFINITIONS.get(".".join(parts[skipped:]))
        if definition is not None:
            return definition
    return None


def effect_of(name: str, given: Mapping[str, str] = NOTHING) -> Effect:
    """Return the effect of a broker setting; an unknown name has the effect UNKNOWN.

    Some settings in `given` define prefixes for the names of others.
    """
    definition = definition_of(name)
    if definition is not None:
        return definition.effect
    owner = plugins.owner_of(name, given)
    return UNKNOWN if owner is None else plugins.effect_of(owner, in_file=name in given)


def update_mode(name: str) -> UpdateMode:
    """How a broker setting may change while the broker runs."""
    definition = definition_of(name)
    if definition is None:
        return UpdateMode.READ_ONLY
    if name.startswith("listener.name.") and definition.mode is not UpdateMode.READ_ONLY:
        return UpdateMode.PER_BROKER
    return definition.mode
