"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`: did you mean orders?` for the nearest known name, or an empty text if none is near."""
    from difflib import get_close_matches  # The import takes 3 ms, and only an error needs it.

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1)
    return f": did you mean {by_lower[near[0]]}?" if near else ""


def of_topic(cluster: Cluster, name: str) -> str:
    """The suggestion for an unknown topic.  Requests the names of all topics."""
    from kwire.client.errors import ClientError

    try:
        known = [topic.name or "" for topic in cluster.refresh(None).topics]
    except ClientError:  # The first error is more important than the suggestion.
        return ""
    return did_you_mean(name, known)


@contextmanager
def suggesting(cluster: Cluster) -> Iterator[None]:
    """Add a suggestion to the error of an unknown topic."""
    from kwire.client.errors import BrokerRefused, Misuse
    from kwire.codecs.errors import ErrorCode

    try:
        yield
    except BrokerRefused as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or error.topic is None:
            raise
        hint = of_topic(cluster, error.topic)
        raise Misuse(f"{error}{hint}") from error


@contextmanager
def suggesting_settings(kind: str, names: Iterable[str]) -> Iterator[None]:
    """Add suggestions to the error of unknown settings.  `kind` is a type of `kwire configs`."""
    from kwire.client.errors import BrokerRefused, Misuse
    from kwire.codecs.errors import ErrorCode

    try:
        yield
    except BrokerRefused as error:
        if error.code != ErrorCode.INVALID_CONFIG:
            raise
        hints = [hint.partition(":")[2] for hint in misspelt(kind, names)]
        raise Misuse(":".join([str(error), *hints])) from error


def misspelt(kind: str, names: Iterable[str]) -> list[str]:
    """`retention.mss: did you mean retention.ms?` for each unknown name with a near setting."""
    known = settings_of(kind)
    hints = ((name, did_you_mean(name, known)) for name in names if name not in known)
    return [f"{name}{hint}" for name, hint in hints if hint]


def settings_of(kind: str) -> frozenset[str]:
    """The names of the settings of a kind of resource."""
    if kind == "topic":
        from kwire.settings.topic_settings import TopicSettings

        return frozenset(TopicSettings.DEFINITIONS)
    if kind == "broker":
        from kwire.settings import BrokerConfig

        return frozenset(BrokerConfig.DEFINITIONS)
    if kind == "group":
        from kwire.settings.definitions.groups import GroupResourceSettings

        return frozenset(GroupResourceSettings.DEFINITIONS)
    from kwire.settings.client_metrics_settings import ClientMetricsSettings

    return frozenset(ClientMetricsSettings.DEFINITIONS)
