"""Changes of a resource's configs: what AlterConfigs and IncrementalAlterConfigs share.

The change of one resource is made as a whole or not at all.  A refused change does not affect the
changes of other resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kwire.cluster.decisions.new_cluster import refuse_min_isr
from kwire.cluster.metadata.changes import Decision, SetConfigs
from kwire.cluster.metadata.cordoning import CORDONED_LOG_DIRS
from kwire.cluster.metadata.features import CORDONING, METADATA_VERSION
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.topic_names import why_invalid
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, ConfigResourceType
from kwire.settings.check import check_broker, check_client_metrics, check_group, check_topic
from kwire.settings.live import LiveSettings

EditConfigs = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns the new configs of a resource for its current ones.  Raises Refusal."""


_KINDS = frozenset(
    {
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
        ConfigResourceType.GROUP,
        ConfigResourceType.CLIENT_METRICS,
    }
)


_NO_CLIENT_METRICS = (
    "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
)
"""The message of Apache Kafka 3.9 in clusters on ZooKeeper, which this broker can join."""


@dataclass(slots=True)
class ConfigChange:
    """A change of one resource's configs, and its refusal if there is one."""

    resource_type: int
    resource_name: str
    edit: EditConfigs
    named: Collection[str] = ()
    """The configs that the request names, in its order."""
    nulls: Collection[str] = ()
    """Those of them that need a value and have none."""
    refusal: Refusal | None = None

    @property
    def key(self) -> tuple[int, str]:
        return self.resource_type, self.resource_name


def refuse_repeated(changes: Sequence[ConfigChange]) -> None:
    """Refuse all changes of a resource that a request names more than once."""
    times = Counter(change.key for change in changes)
    for change in changes:
        if times[change.key] > 1:
            change.refusal = Refusal(
                ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
            )


def refuse_unclear(names: Collection[str], nulls: Iterable[str]) -> None:
    """Raise Refusal if a config has no value or is named more than once."""
    if len(set(names)) < len(names):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    without_value = ", ".join(nulls)
    if without_value:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {without_value}")


def refuse_on_broker(
    settings: LiveSettings, image: ClusterImage, changes: Iterable[ConfigChange]
) -> None:
    """Refuse what a broker refuses before the controllers of Apache Kafka decide.

    Only the broker knows whether its own settings allow a change of its configs.
    """
    for change in changes:
        if change.refusal is None:
            try:
                _check_on_broker(settings, image, change)
            except Refusal as refusal:
                change.refusal = refusal


def _check_on_broker(settings: LiveSettings, image: ClusterImage, change: ConfigChange) -> None:
    """Raise Refusal for unclear configs, for unknown types, and for bad configs of a broker."""
    refuse_unclear(change.named, change.nulls)
    if change.resource_type != ConfigResourceType.BROKER:
        check_kind(change.resource_type)
        return
    check_resource(settings, *change.key)
    _check(settings, image, change, change.edit(image.configs_of(*change.key)))


def config_decisions(settings: LiveSettings, changes: Iterable[ConfigChange]) -> list[Decision]:
    """Decisions for the changes that are not refused; they set `refusal` if they cannot be made."""
    return [partial(_decide, settings, change) for change in changes if change.refusal is None]


def _decide(settings: LiveSettings, change: ConfigChange, image: ClusterImage) -> SetConfigs | None:
    """Return the change of a resource's configs; None if they stay the same or it is refused.

    A refusal is kept in `change.refusal`: each resource of a request has its own result.
    """
    before = image.configs_of(*change.key)
    try:
        # Kafka checks in this order: the edits, the resource's name, the values, its existence.
        after = change.edit(before)
        check_resource(settings, change.resource_type, change.resource_name)
        _check(settings, image, change, after)
        _check_exists(image, change)
        if change.resource_type == ConfigResourceType.BROKER and not _is_on_zookeeper(settings):
            refuse_min_isr(image, change.resource_name, change.named, after)
        _refuse_early_cordon(image, change)
    except Refusal as refusal:
        change.refusal = refusal
        return None
    change.refusal = None
    return SetConfigs(*change.key, before, after) if after != before else None


def check_resource(settings: LiveSettings, kind: int, name: str) -> None:
    """Raise Refusal if the configs of the resource cannot be changed at all."""
    if kind == ConfigResourceType.TOPIC:
        _check_topic_name(name)
    elif kind == ConfigResourceType.BROKER:
        if name != CLUSTER_DEFAULT:
            check_node_id(settings, name, "Unexpected broker id, expected {0}, but received {1}")
    elif kind == ConfigResourceType.GROUP:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif kind == ConfigResourceType.CLIENT_METRICS:
        if _is_on_zookeeper(settings):
            raise Refusal(ErrorCode.INVALID_REQUEST, _NO_CLIENT_METRICS)
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    else:
        check_kind(kind)


def _is_on_zookeeper(settings: LiveSettings) -> bool:
    return settings.static_config.zookeeper_connect is not None


def check_kind(kind: int) -> None:
    """Raise Refusal if a cluster keeps no configs for resources of this type."""
    if kind not in _KINDS:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _check_topic_name(name: str) -> None:
    """Raise Refusal if the name is empty or not valid for a topic."""
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    reason = why_invalid(name)
    if reason is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def _check_exists(image: ClusterImage, change: ConfigChange) -> None:
    kind, name = change.key
    if kind == ConfigResourceType.TOPIC and name not in image.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _refuse_early_cordon(image: ClusterImage, change: ConfigChange) -> None:
    """Raise Refusal for cordoned.log.dirs below the metadata.version that has it."""
    if change.resource_type != ConfigResourceType.BROKER or CORDONED_LOG_DIRS not in change.named:
        return
    if image.features.level(METADATA_VERSION) < CORDONING:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            "The cordoned.log.dirs configuration value cannot be set because it requires "
            "metadata.version >= 4.3-IV0",
        )


def check_node_id(settings: LiveSettings, name: str, sentence: str) -> None:
    """Raise Refusal for the configs of another broker.

    `sentence` is formatted with the id of this broker and that of the request.
    """
    try:
        node_id = int(name)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from None
    if node_id != settings.node_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, sentence.format(settings.node_id, node_id))


def _check(
    settings: LiveSettings, image: ClusterImage, change: ConfigChange, configs: Mapping[str, str]
) -> None:
    """Raise Refusal if the configs are not valid for the resource."""
    kind, name = change.key
    if kind == ConfigResourceType.TOPIC:
        check_topic(settings.config, configs)
    elif kind == ConfigResourceType.GROUP:
        check_group(settings.config, configs)
    elif kind == ConfigResourceType.CLIENT_METRICS:
        check_client_metrics(configs)
    else:
        own = ConfigResourceType.BROKER, str(settings.node_id)
        everyone = ConfigResourceType.BROKER, CLUSTER_DEFAULT
        check_broker(
            settings.static_config,
            configs if name == CLUSTER_DEFAULT else image.configs_of(*everyone),
            image.configs_of(*own) if name == CLUSTER_DEFAULT else configs,
            name,
        )
