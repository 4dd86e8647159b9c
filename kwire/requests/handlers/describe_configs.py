"""DescribeConfigs (key 32): v1-4.

Behaviour
- The response has all configs, or the named ones, of topics, brokers, broker loggers, groups and
  client metrics subscriptions.  It leaves out names that do not exist.  An empty list of names
  stands for all.
- Each config has its source and, if requested, its synonyms: the values of all sources.  The value
  of a secret is null.
- A broker describes only itself.  The broker with an empty name has the cluster-wide defaults.
- A topic may give UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION.  Groups and subscriptions
  need not exist.  A resource of another type gives INVALID_REQUEST for all resources.
- Without an error the error message is empty, not null.

Version notes: synonyms and sources from v1 (KIP-226); types and documentation from v3 (KIP-569);
flexible from v4.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.topic_names import why_invalid
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.configs import RULES, by_resource
from kwire.requests.route import Right, Route
from kwire.settings import CLUSTER_DEFAULT, ConfigResourceType
from kwire.settings.entries import (
    BrokerLayers,
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    logger_entries,
    topic_entries,
)

_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)

ROUTE = Route(
    ApiKey.DESCRIBE_CONFIGS, 1, 4, Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
)


def handle(
    broker: Broker, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResponse:
    """Return the configs of each resource; INVALID_REQUEST for all if one has an unknown type."""
    resources = request.resources
    if not all(resource.resource_type in _TYPES for resource in resources):
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    ErrorCode.INVALID_REQUEST, _MALFORMED, each.resource_type, each.resource_name
                )
                for each in resources
            ]
        )
    return DescribeConfigsResponse(
        results=[_describe(broker, request, resource) for resource in resources]
    )


def _describe(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    """Return the configs of one resource, or the error why it has none."""
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(broker, resource)
    except Refusal as refusal:
        result.error_code = refusal.error
        result.error_message = refusal.message or ""
        return result
    result.configs = [_config(entry, request.include_synonyms) for entry in entries]
    if request.include_documentation:
        from kwire.settings.documentation import (
            documentation_of,  # most brokers never need it
        )

        for config in result.configs:
            config.documentation = documentation_of(resource.resource_type, config.name)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        for config in result.configs:
            config.documentation = ""
    return result


def _config(entry: ConfigEntry, with_synonyms: bool) -> DescribeConfigsResourceResult:
    """Return one config as the response has it; `synonyms` are the values of all its sources."""
    synonyms = (
        [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if with_synonyms else []
    )
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.is_sensitive,
        synonyms,
        entry.kind,
        None,
    )


def _entries(broker: Broker, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    """The requested configs of `resource`.  Raises Refusal."""
    kind, name = resource.resource_type, resource.resource_name
    names = frozenset(resource.configuration_keys or ()) or None
    layers = BrokerLayers(broker.config, broker.image, broker.node_id)
    overrides = broker.image.configs_of(kind, name)
    if kind == ConfigResourceType.TOPIC:
        _check_topic(broker, name)
        return topic_entries(layers, overrides, names)
    if kind == ConfigResourceType.BROKER:
        if name == CLUSTER_DEFAULT:
            return cluster_default_entries(broker.image, names)
        _check_broker_id(broker, name, " or empty string,")
        return broker_entries(layers, names)
    if kind == ConfigResourceType.BROKER_LOGGER:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_broker_id(broker, name, "")
        return logger_entries(names)
    if kind == ConfigResourceType.GROUP:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return group_entries(layers, overrides, names)
    assert kind == ConfigResourceType.CLIENT_METRICS, kind
    if not name:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
        )
    if broker.config.zookeeper_connect is not None:  # as Apache Kafka 3.9 says there
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "Config type client-metrics is only supported on KRaft clusters",
        )
    return client_metrics_entries(overrides, names)


def _check_topic(broker: Broker, name: str) -> None:
    """Raise Refusal if the topic does not exist; an invalid name has its own error."""
    reason = why_invalid(name)
    if reason is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in broker.image.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_broker_id(broker: Broker, name: str, alternative: str) -> None:
    """Raise Refusal unless `name` is the id of this broker.

    `alternative` is the part of the message that names what else is valid.
    """
    try:
        broker_id = int(name)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if broker_id != broker.node_id:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id}{alternative} but received {name}",
        )


# -- rights


def guard(access: Access, request: DescribeConfigsRequest, proceed: Proceed) -> Response:
    """Let the handler describe the permitted resources, and refuse the others one by one."""
    if any(each.resource_type not in RULES for each in request.resources):
        return proceed(request)  # the handler refuses the whole request
    operation = AclOperation.DESCRIBE_CONFIGS
    return by_resource(access, request, proceed, operation, "results", DescribeConfigsResult)
