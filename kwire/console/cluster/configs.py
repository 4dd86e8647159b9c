"""Configs of topics, brokers, groups and client metrics: what differs, and what it means."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kwire.client.cluster import Cluster
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    Source,
    alter_configs,
    describe_configs,
    source_name,
)
from kwire.client.errors import Misuse
from kwire.client.inspection.many_groups import listed_groups
from kwire.client.telemetry import subscriptions
from kwire.client.topics import list_topics
from kwire.codecs.messages.describe_configs import DescribeConfigsResourceResult

KINDS: Final = {
    "topic": ConfigResourceKind.TOPIC,
    "broker": ConfigResourceKind.BROKER,
    "group": ConfigResourceKind.GROUP,
    "client-metrics": ConfigResourceKind.CLIENT_METRICS,
}
"""The kinds of resources by the words of `kwire configs`."""
OWN_SOURCES: Final = {
    "topic": Source.TOPIC,
    "group": Source.GROUP,
    "client-metrics": Source.CLIENT_METRICS,
    "broker": Source.DYNAMIC_BROKER,
}
"""The source of values that were set for a resource of the kind itself."""
TYPES: Final = {
    1: "boolean", 2: "text", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 8: "class",
    9: "password",
}  # fmt: skip
"""Types of configs with the protocol's numbers."""
BOOLEAN: Final = "boolean"
_TAG: Final = re.compile(r"</?[a-zA-Z][^>]{0,200}>")
_SPACE: Final = re.compile(r"[ \t\n\r]+")


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One config of a resource."""

    name: str
    value: str | None
    """None if it is sensitive, or has no value."""
    source: str
    """The source of the value in the words of Kafka's tools."""
    is_default: bool
    """Whether the value is the default of Kafka."""
    is_own: bool
    """Whether the value was set for this resource, so that it can be removed."""
    is_sensitive: bool
    is_read_only: bool
    type: str
    inherited: str | None
    """The value that would apply without the own one; None if it is unknown."""
    documentation: str

    @property
    def differs(self) -> bool:
        """Whether the value was chosen by somebody."""
        return not self.is_default


@dataclass(frozen=True, slots=True)
class ConfigsPage:
    """The configs of one resource."""

    kind: str
    name: str
    rows: Sequence[ConfigRow]


def resource_of(kind: str, name: str) -> ConfigResource:
    """The resource of these words.  Raises Misuse for an unknown kind."""
    if kind not in KINDS:
        raise Misuse(f"configs are of {', '.join(KINDS)}, not {kind[:60]!r}")
    return ConfigResource(KINDS[kind], name)


def resource_names(cluster: Cluster, kind: str) -> list[str]:
    """The names of the resources of a kind, sorted; for brokers also the empty name of all.

    Raises ClientError.
    """
    if kind == "broker":
        cluster.retrying(lambda: cluster.refresh([]))
        return ["", *map(str, sorted(cluster.nodes))]
    if kind == "topic":
        return [topic.name or "" for topic in list_topics(cluster)]
    if kind == "group":
        return [group.group_id for group in listed_groups(cluster).groups]
    return sorted(subscriptions(cluster))


def configs(cluster: Cluster, kind: str, name: str) -> ConfigsPage:
    """All configs of a resource, sorted by name.  Raises ClientError."""
    found = describe_configs(cluster, resource_of(kind, name), documented=True)
    return ConfigsPage(kind, name, [_row(config, own_source(kind, name)) for config in found])


def own_source(kind: str, name: str) -> Source:
    """The source of values that were set for this resource, so that they can be removed."""
    if kind == "broker" and not name:
        return Source.DYNAMIC_DEFAULT_BROKER
    return OWN_SOURCES[kind]


def _row(config: DescribeConfigsResourceResult, own: Source) -> ConfigRow:
    source = config.config_source
    is_own = source == own
    synonyms = [each for each in config.synonyms if each.source != source]
    return ConfigRow(
        config.name,
        None if config.is_sensitive else config.value,
        source_name(source),
        source == Source.DEFAULT,
        is_own,
        config.is_sensitive,
        config.read_only,
        TYPES.get(config.config_type, ""),
        synonyms[0].value if is_own and synonyms else None,
        plain(config.documentation or ""),
    )


def plain(documentation: str) -> str:
    """Documentation without the HTML tags that Kafka's has."""
    return _SPACE.sub(" ", html.unescape(_TAG.sub("", documentation))).strip()


def change(
    cluster: Cluster, kind: str, name: str, config: str, value: str | None, *, check_only: bool
) -> None:
    """Set a config, or remove it with None.  With `check_only` the broker only checks it.

    Raises ClientError.
    """
    operation = ConfigAlteration.DELETE if value is None else ConfigAlteration.SET
    alter_configs(
        cluster, resource_of(kind, name), {config: (operation, value)}, validate_only=check_only
    )


def change_words(kind: str, name: str, config: str, value: str | None) -> list[str]:
    """The words of the `kwire` command that changes a config."""
    option = ["--delete", config] if value is None else ["--set", f"{config}={value}"]
    return ["configs", "alter", kind, name, *option]
