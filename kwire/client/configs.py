"""The configs of topics, brokers, groups and client metrics: describe and alter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.connection import BrokerConnection
from kwire.client.errors import Misuse, check
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


class ConfigResourceKind(IntEnum):
    """The types of resources that have configs, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with configs.  The name of a broker is its id, or empty for all brokers."""

    type: ConfigResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(all)'}"


DOCUMENTED_SINCE = 3
"""The first version of DescribeConfigs with documentation (KIP-569)."""


class ConfigAlteration(IntEnum):
    """An operation on one config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Source(IntEnum):
    """The source of a value, with Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


def source_name(number: int) -> str:
    """The name of a source in Kafka's tools."""
    names = {Source.TOPIC: "DYNAMIC_TOPIC_CONFIG", Source.DEFAULT: "DEFAULT_CONFIG"}
    try:
        source = Source(number)
    except ValueError:
        return f"UNKNOWN({number})"
    return names.get(source, f"{source.name}_CONFIG")


def _connection_for(cluster: Cluster, resource: ConfigResource) -> BrokerConnection:
    """The connection to the broker itself for its own configs, else to any broker."""
    if (
        resource.type in (ConfigResourceKind.BROKER, ConfigResourceKind.BROKER_LOGGER)
        and resource.name
    ):
        if not resource.name.isdigit():
            raise Misuse(f"the name of a broker is its id, not {resource.name!r}")
        cluster.must_have_broker(int(resource.name))
        return cluster.node(int(resource.name))
    return cluster.any()


def _topic(resource: ConfigResource) -> str | None:
    return resource.name if resource.type is ConfigResourceKind.TOPIC else None


def describe_configs(
    cluster: Cluster,
    resource: ConfigResource,
    keys: Iterable[str] | None = None,
    *,
    documented: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """All configs of a resource, or those in `keys`, sorted by name.

    With `documented`, each has its documentation if the broker has one (Kafka since 2.6).
    """

    def ask() -> list[DescribeConfigsResourceResult]:
        """Sends the request once and returns the configs sorted by name.  Documentation is
        requested only if the broker supports it."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if keys is None else list(keys),
                )
            ],
            include_synonyms=True,
        )
        connection = _connection_for(cluster, resource)
        request.include_documentation = (
            documented and connection.version_for(request) >= DOCUMENTED_SINCE
        )
        result: DescribeConfigsResult = connection.call(request).results[0]
        message = result.error_message
        check(result.error_code, f"settings of {resource}", message, topic=_topic(resource))
        return sorted(result.configs, key=lambda config: config.name)

    return cluster.retrying(ask)


def topic_settings(
    cluster: Cluster, topics: Iterable[str], names: Iterable[str]
) -> dict[str, dict[str, str | None]]:
    """The configs `names` of many topics.  Topics that no longer exist are left out."""
    keys, topic_names = list(names), list(topics)

    def ask() -> dict[str, dict[str, str | None]]:
        """Sends one request for all topics.  Topics that do not exist, or no longer, are left
        out."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ConfigResourceKind.TOPIC,
                    resource_name=topic,
                    configuration_keys=keys,
                )
                for topic in topic_names
            ]
        )
        by_topic: dict[str, dict[str, str | None]] = {}
        for result in cluster.any().call(request).results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            what = f"settings of topic {result.resource_name}"
            check(result.error_code, what, result.error_message, topic=result.resource_name)
            by_topic[result.resource_name] = {each.name: each.value for each in result.configs}
        return by_topic

    return cluster.retrying(ask) if topic_names else {}


def alter_configs(
    cluster: Cluster,
    resource: ConfigResource,
    changes: Mapping[str, tuple[ConfigAlteration, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Change the named configs of a resource, and no others."""

    def ask() -> None:
        """Sends the request once, to the broker that has the resource.  Raises BrokerRefused if it
        refuses."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(name=name, config_operation=operation, value=value)
                        for name, (operation, value) in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )
        result = _connection_for(cluster, resource).call(request).responses[0]
        message = result.error_message
        check(result.error_code, f"alter {resource}", message, topic=_topic(resource))

    cluster.retrying(ask)
