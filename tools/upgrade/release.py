"""One release of Apache Kafka, read from a folder of its jars."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tools.upgrade.facts import Facts, read_facts
from tools.upgrade.jars import JsonSchema, read_schemas, release_of


class Release(NamedTuple):
    """The version, the message schemas and the facts of a release."""

    version: str
    schemas: list[JsonSchema]
    facts: Facts


def read_release(libs: Path) -> Release:
    """The release whose jars are in `libs`.  Needs Java, and takes some five seconds."""
    return Release(release_of(libs), read_schemas(libs), read_facts(libs))
