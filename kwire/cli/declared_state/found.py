"""Reads the state of a cluster that a declaration can describe, only the needed parts of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from kwire.cli.declared_state.reading import SECTIONS
from kwire.cli.declared_state.state import (
    ENTITY_KINDS,
    MECHANISMS,
    Declared,
    DeclaredAcl,
    Entity,
    FoundState,
    FoundTopic,
)
from kwire.client.access import acls as client_acls
from kwire.client.access.users import describe_users
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigResource, ConfigResourceKind, Source, describe_configs
from kwire.client.errors import BrokerRefused, UnsupportedRequest, check
from kwire.client.offsets import end_offsets
from kwire.client.quotas import describe_quotas
from kwire.client.topics import list_topics
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kwire.codecs.messages.list_config_resources import ListConfigResourcesRequest
from kwire.codecs.messages.metadata import MetadataResponseTopic

T = TypeVar("T")

OWN: Final = frozenset({Source.TOPIC, Source.CLIENT_METRICS, Source.GROUP})
"""The sources of configs that are set on the resource itself, not inherited."""
ASKED_TOGETHER_MAX: Final = 500
"""The most topics in one request for configs."""


def sections_of(declared: Declared) -> list[str]:
    """Return the sections that the declaration has."""
    return [each for each in SECTIONS if getattr(declared, each.replace("-", "_")) is not None]


def look(
    cluster: Cluster, sections: Collection[str], declared: Declared | None = None
) -> FoundState:
    """Return the state of the cluster in the given sections of a declaration.

    `declared` limits the requests: configs of groups that cannot be listed, and end offsets, are
    fetched only where it needs them.  For a section that the brokers do not return, `untold` says
    why.  Raises ClientError.
    """
    wanted = declared or Declared()
    untold: dict[str, str] = {}

    def told(section: str, ask: Callable[[], T], empty: T) -> T:
        """Return what `ask` finds for a section.  If the section is not wanted, or the brokers
        cannot report it, returns `empty`; for the latter, `untold` says why."""
        if section not in sections:
            return empty
        try:
            return ask()
        except UnsupportedRequest as problem:
            untold[section] = str(problem)
        except BrokerRefused as problem:
            if problem.code != ErrorCode.SECURITY_DISABLED:
                raise
            untold[section] = "the brokers have no authorizer (authorizer.class.name)"
        return empty

    groups, metrics = wanted.groups or {}, wanted.client_metrics or {}
    seeded = {name for name, topic in (wanted.topics or {}).items() if topic.seeds}
    nothing: dict[str, dict[str, str]] = {}
    return FoundState(
        topics=told("topics", lambda: found_topics(cluster, seeded), {}),
        users=told("users", lambda: _users(cluster), {}),
        acls=told("acls", lambda: _acls(cluster), frozenset()),
        quotas=told("quotas", lambda: _quotas(cluster), {}),
        groups=told("groups", lambda: _named(cluster, ConfigResourceKind.GROUP, groups), nothing),
        client_metrics=told(
            "client-metrics",
            lambda: _named(cluster, ConfigResourceKind.CLIENT_METRICS, metrics),
            nothing,
        ),
        untold=untold,
    )


def found_topics(cluster: Cluster, seeded: Collection[str]) -> dict[str, FoundTopic]:
    """Return all topics.  Only for `seeded` ones, it checks whether they ever had records."""
    topics = list_topics(cluster, internal=True)
    configs = _topic_configs(cluster, [str(topic.name) for topic in topics])
    empty = _never_written(cluster, [topic for topic in topics if topic.name in seeded])
    return {
        str(topic.name): FoundTopic(
            len(topic.partitions),
            max((len(each.replica_nodes) for each in topic.partitions), default=0),
            configs[str(topic.name)],
            topic.is_internal,
            topic.name in empty,
        )
        for topic in topics
        if topic.name in configs
    }


def _topic_configs(cluster: Cluster, names: list[str]) -> dict[str, dict[str, str]]:
    """Return the configs that are set on each topic, without defaults.  Topics that were deleted
    meanwhile are left out."""
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(names), ASKED_TOGETHER_MAX):
        for result in _described(cluster, names[start : start + ASKED_TOGETHER_MAX]):
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            what = f"settings of topic {result.resource_name}"
            check(result.error_code, what, result.error_message, topic=result.resource_name)
            found[result.resource_name] = _own(result.configs)
    return found


def _described(cluster: Cluster, topics: Iterable[str]) -> list[DescribeConfigsResult]:
    """Fetches all configs of the topics with one request, which is retried."""
    request = DescribeConfigsRequest(
        [DescribeConfigsResource(ConfigResourceKind.TOPIC, name, None) for name in topics]
    )
    reply: DescribeConfigsResponse = cluster.retrying(lambda: cluster.any().call(request))
    return reply.results


def _own(configs: Iterable[DescribeConfigsResourceResult]) -> dict[str, str]:
    """Return the configs that are set on the resource itself, without defaults."""
    return {
        each.name: each.value
        for each in configs
        if each.config_source in OWN and each.value is not None
    }


def _never_written(cluster: Cluster, topics: list[MetadataResponseTopic]) -> set[str]:
    """Return the topics without any record ever: the end offsets of all partitions are 0."""
    partitions = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in topics
        for each in topic.partitions
    ]
    ends = end_offsets(cluster, partitions) if partitions else {}
    written = {partition.topic for partition, end in ends.items() if end > 0}
    return {str(topic.name) for topic in topics} - written


def _users(cluster: Cluster) -> dict[str, Mapping[str, int]]:
    """Return the iterations of each user by mechanism, for the mechanisms that kwire knows."""
    return {
        name: {each: count for each, count in its.items() if each in MECHANISMS}
        for name, its in describe_users(cluster).items()
    }


def _acls(cluster: Cluster) -> frozenset[DeclaredAcl]:
    """Return all ACLs of the cluster in the words of a declaration."""
    return frozenset(
        DeclaredAcl(
            _word(each.resource.name),
            each.name,
            _word(each.pattern.name),
            each.principal,
            each.host,
            _word(each.operation.name),
            _word(each.permission.name),
        )
        for each in client_acls.describe_acls(cluster, client_acls.AclFilter())
    )


def _word(constant: str) -> str:
    return constant.lower().replace("_", "-")


def _quotas(cluster: Cluster) -> dict[Entity, dict[str, float]]:
    """Return the quotas by entity.  The kinds in an entity have one fixed order, so that equal
    entities are equal keys."""
    return {
        tuple((kind, each.entity[kind]) for kind in ENTITY_KINDS if kind in each.entity): dict(
            each.values
        )
        for each in describe_quotas(cluster, {})
        if each.values
    }


def _named(
    cluster: Cluster, kind: ConfigResourceKind, declared: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return the configs of the resources that exist or are `declared`, without empty ones."""
    names = sorted({*declared, *_listed(cluster, kind)})
    found = {name: _own(describe_configs(cluster, ConfigResource(kind, name))) for name in names}
    return {name: settings for name, settings in found.items() if settings}


def _listed(cluster: Cluster, kind: ConfigResourceKind) -> list[str]:
    """Return the names of resources with configs.  Brokers before KIP-1142 list client metrics
    only; then only declared groups are compared."""
    request = ListConfigResourcesRequest([kind])

    def ask() -> list[str]:
        """Return the names of the resources of this kind that have configs.  Before version 1 the
        request (ListConfigResources) lists client metrics only; other kinds are then empty."""
        connection = cluster.any()
        if connection.version_for(request) < 1 and kind is not ConfigResourceKind.CLIENT_METRICS:
            return []
        reply = connection.call(request)
        check(reply.error_code, f"list {kind.name.lower()} resources")
        return [each.resource_name for each in reply.config_resources]

    return cluster.retrying(ask)
