"""Settings that the cluster keeps: of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.connection import Connection
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


class ResourceType(IntEnum):
    """What settings belong to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """One owner of settings; a broker's name is its id, or empty for all brokers of the cluster."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(all)'}"


DOCUMENTED_SINCE = 3
"""The version of DescribeConfigs that has documentation (KIP-569)."""


class Operation(IntEnum):
    """What to do with one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Source(IntEnum):
    """Where a value comes from, the strongest first."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


def source_name(number: int) -> str:
    """The source as Kafka's tools spell it."""
    names = {Source.TOPIC: "DYNAMIC_TOPIC_CONFIG", Source.DEFAULT: "DEFAULT_CONFIG"}
    try:
        source = Source(number)
    except ValueError:
        return f"UNKNOWN({number})"
    return names.get(source, f"{source.name}_CONFIG")


def _asked(cluster: Cluster, resource: Resource) -> Connection:
    """Only a broker itself knows all of its own settings; the others every broker knows."""
    if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
        if not resource.name.isdigit():
            raise Misuse(f"a broker is named by its id, not {resource.name!r}")
        cluster.must_have_broker(int(resource.name))
        return cluster.node(int(resource.name))
    return cluster.any()


def _topic(resource: Resource) -> str | None:
    return resource.name if resource.type is ResourceType.TOPIC else None


def describe_configs(
    cluster: Cluster,
    resource: Resource,
    keys: Iterable[str] | None = None,
    *,
    documented: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """All settings of a resource, or those of `keys`, by name.

    `documented`: with a text on each, where the broker has one (Kafka since 2.6).
    """

    def ask() -> list[DescribeConfigsResourceResult]:
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
        connection = _asked(cluster, resource)
        request.include_documentation = (
            documented and connection.version_for(request) >= DOCUMENTED_SINCE
        )
        result: DescribeConfigsResult = connection.call(request).results[0]
        told = result.error_message
        check(result.error_code, f"settings of {resource}", told, topic=_topic(resource))
        return sorted(result.configs, key=lambda config: config.name)

    return cluster.retrying(ask)


def topic_settings(
    cluster: Cluster, topics: Iterable[str], names: Iterable[str]
) -> dict[str, dict[str, str | None]]:
    """The settings `names` of many topics; topics that are gone by now are left out."""
    keys, asked = list(names), list(topics)

    def ask() -> dict[str, dict[str, str | None]]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=keys
                )
                for topic in asked
            ]
        )
        found: dict[str, dict[str, str | None]] = {}
        for result in cluster.any().call(request).results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            what = f"settings of topic {result.resource_name}"
            check(result.error_code, what, result.error_message, topic=result.resource_name)
            found[result.resource_name] = {each.name: each.value for each in result.configs}
        return found

    return cluster.retrying(ask) if asked else {}


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    changes: Mapping[str, tuple[Operation, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Change the named settings of a resource and leave the others as they are."""

    def ask() -> None:
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
        result = _asked(cluster, resource).call(request).responses[0]
        told = result.error_message
        check(result.error_code, f"alter {resource}", told, topic=_topic(resource))

    cluster.retrying(ask)
