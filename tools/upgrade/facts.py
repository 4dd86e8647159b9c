"""What a release of Apache Kafka says of itself: its APIs, error codes, settings and features.

`Facts.java` reads them from the classes in the jars.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kwire.conformance import java
from kwire.conformance.apache_kafka import QUICK_JVM

PROGRAM: Final = Path(__file__).with_name("Facts.java")
TIMEOUT_S: Final = 300
BROKER: Final = "broker"
RECORDS_MAY_CHANGE: Final = "didMetadataChange"
"""Kafka's method that says whether a downgrade below a metadata.version could lose records."""


class Api(NamedTuple):
    """An API key with its versions; those above `stable` are served on request only."""

    key: int
    name: str
    min: int
    max: int
    stable: int
    listeners: tuple[str, ...]
    """Where it is served: `broker` or `controller`, or both."""


class Error(NamedTuple):
    """An error code."""

    code: int
    name: str
    retriable: bool


class Setting(NamedTuple):
    """A setting of a broker, a resource or a client.  All values are texts."""

    resource: str
    """`broker`, `topic`, `group`, `client-metrics`, `producer`, `consumer`, `admin`, `streams`."""
    name: str
    type: str
    default: str
    """`<required>` if there is none, `null` for null."""
    valid: str
    importance: str
    update: str
    """`read-only`, `per-broker` or `cluster-wide`; empty unless it is of a broker."""
    internal: bool
    synonyms: str
    """The broker settings that are the defaults of a topic config, separated by commas."""
    documentation: str


class FeatureLevel(NamedTuple):
    """One level of a feature."""

    feature: str
    level: int
    name: str
    production: bool
    needs: str
    """The levels of other features that it needs, as Java prints a map."""
    since: str
    """The metadata.version from which new clusters have this level."""
    abilities: Mapping[str, str]
    """What the level allows, by the name of Kafka's method."""


class Facts(NamedTuple):
    """All facts of a release."""

    apis: list[Api]
    errors: list[Error]
    settings: list[Setting]
    features: list[FeatureLevel]


def read_facts(libs: Path) -> Facts:
    """The facts of the release whose jars are in `libs`.  Takes some five seconds.

    Raises JavaMissing without Java, and CalledProcessError, with Java's message on standard error,
    if a class is not where the program looks for it.
    """
    command = [str(java.executable()), *QUICK_JVM, "-cp", f"{libs}/*", str(PROGRAM)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    return parse_facts(done.stdout)


def parse_facts(text: str) -> Facts:
    """The facts in the JSON that `Facts.java` prints."""
    json_facts: dict[str, list[dict[str, Any]]] = json.loads(text)
    for api in json_facts["apis"]:
        api["listeners"] = tuple(sorted(api["listeners"]))
    return Facts(
        [Api(**row) for row in json_facts["apis"]],
        [Error(**row) for row in json_facts["errors"]],
        [Setting(**row) for row in json_facts["settings"]],
        [FeatureLevel(**row) for row in json_facts["features"]],
    )
