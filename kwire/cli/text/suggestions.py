"""What somebody may have meant who misspelt a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`: did you mean orders?`; nothing where no known name is near."""
    from difflib import get_close_matches  # 3 ms, and only a mistake needs it

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1)
    return f": did you mean {by_lower[near[0]]}?" if near else ""


def of_topic(cluster: Cluster, name: str) -> str:
    """Of a topic that the cluster does not know; it is asked once which there are."""
    from kwire.client.errors import ClientError

    try:
        known = [topic.name or "" for topic in cluster.refresh(None).topics]
    except ClientError:  # what is being told is worth more
        return ""
    return did_you_mean(name, known)


@contextmanager
def suggesting(cluster: Cluster) -> Iterator[None]:
    """Add to a refusal of an unknown topic which one may have been meant."""
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
    """Add to a refusal of settings which ones may have been meant; `kind` as in `kwire configs`."""
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
    """`retention.mss: did you mean retention.ms?`, of each name that is nearly a setting's."""
    known = settings_of(kind)
    hints = ((name, did_you_mean(name, known)) for name in names if name not in known)
    return [f"{name}{hint}" for name, hint in hints if hint]


def settings_of(kind: str) -> frozenset[str]:
    """The settings of a kind of resource in Kafka 4.3."""
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
