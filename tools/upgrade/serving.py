"""What kwire serves of Apache Kafka, read from its own declarations and sources.

Nothing here is a list of its own: API versions come from the routes, settings from their
declarations and effects, features from the supported levels.  A field or an error code counts as
used if hand-written code names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from kwire.cluster.metadata.features import SUPPORTED
from kwire.requests.route_table import CLUSTER_ROUTES, ROUTES
from kwire.settings.broker import BrokerConfig
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.client_properties import NAMES as CLIENT_PROPERTIES
from kwire.settings.definition import Definition, Settings
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.effects import NOT_SERVED
from kwire.settings.topic_settings import TopicSettings

CODE_FOLDERS: Final = ("kwire", "groups", "txn", "log", "codecs")
GENERATED_FOLDERS: Final = ("codecs/messages", "codecs/errors.py", "codecs/api_keys.py")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w+")
_RESOURCES: Final[Mapping[str, type[Settings]]] = {
    "broker": BrokerConfig,
    "topic": TopicSettings,
    "group": GroupResourceSettings,
    "client-metrics": ClientMetricsSettings,
}


class Status(Enum):
    """Whether kwire has what is new in a release."""

    SERVED = "served"
    TO_DO = "to be done"
    GATED = "gated"
    """Kafka itself does not offer it to clients: an unstable version, a level that is not for
    production, an internal setting, or a request for controllers."""


class Serving(NamedTuple):
    """What kwire serves."""

    versions: Mapping[int, tuple[int, int]]
    """The lowest and highest version of each API key that has a route."""
    settings: Mapping[tuple[str, str], Definition]
    """The declared settings by resource and name."""
    client_properties: frozenset[str]
    features: Mapping[str, tuple[int, int]]
    identifiers: frozenset[str]
    """All names in hand-written code."""

    def version(self, key: int, version: int) -> bool:
        """Return whether kwire serves a version of an API key."""
        low, high = self.versions.get(key, (0, -1))
        return low <= version <= high

    def setting(self, resource: str, name: str) -> tuple[Status, str]:
        """Whether kwire has a setting, and why it has no effect if it has none."""
        if resource == "streams":
            return Status.GATED, "Kafka Streams' own"
        if (resource, name) in self.settings:
            note = self.settings[resource, name].effect.note
            return (Status.TO_DO if note.startswith(NOT_SERVED) else Status.SERVED), note
        known = resource not in _RESOURCES and name in self.client_properties
        return (Status.SERVED if known else Status.TO_DO), ""


def serving(root: Path) -> Serving:
    """What kwire serves; `root` is the folder of the repository."""
    return Serving(
        {int(each.api_key): each[1:3] for each in (*ROUTES, *CLUSTER_ROUTES)},
        {
            (resource, name): definition
            for resource, settings in _RESOURCES.items()
            for name, definition in settings.DEFINITIONS.items()
        },
        frozenset(CLIENT_PROPERTIES),
        SUPPORTED,
        frozenset(identifiers_in(root)),
    )


def identifiers_in(root: Path) -> set[str]:
    """All names in the hand-written modules of the repository, without its tests."""
    found: set[str] = set()
    for folder in CODE_FOLDERS:
        for path in (root / folder).rglob("*.py"):
            if not path.relative_to(root).as_posix().startswith(GENERATED_FOLDERS):
                found.update(_IDENTIFIER.findall(path.read_text("utf-8")))
    return found
