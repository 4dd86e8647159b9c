"""The message schemas in the jars of one release of Apache Kafka.

Kafka's build puts the JSON of each message into the jar that has the message's class.  Below
`common/message` (clients, coordinators, raft), `common/metadata` (records of the metadata log) and
`message` (storage) there is one file for each message.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]

SCHEMA_FOLDERS: Final = frozenset({"common/message", "common/metadata", "message"})
IGNORED_ARTIFACTS: Final = frozenset({"kafka-streams"})
"""Jars whose messages no broker reads: Streams sends its own among its members, as bytes."""

_JAR = re.compile(r"(kafka(?:_2\.\d+)?(?:-[a-z-]*[a-z])?)-(\d[\w.-]*?)\.jar")
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class JarsError(ValueError):
    """A folder does not hold the jars of one release of Apache Kafka."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The schema of one message as Kafka writes it, and the artifact that has it."""

    artifact: str
    json: JsonObject
    comments: tuple[str, ...] = ()
    """Its comments, of which most say what a version adds and which errors there are."""

    @property
    def name(self) -> str:
        return str(self.json["name"])


def kafka_jars(folder: Path) -> dict[str, Path]:
    """The jars of Apache Kafka by artifact, without tests, sources and other libraries."""
    found = {}
    for path in sorted(folder.glob("kafka*.jar")):
        match = _JAR.fullmatch(path.name)
        if match and not match[2].endswith(("-test", "-sources", "-javadoc")):
            if match[1] in found:
                raise JarsError(f"{folder} has two versions of {match[1]}")
            found[match[1]] = path
    if "kafka-clients" not in found:
        raise JarsError(f"{folder} has no jar of kafka-clients")
    return found


def release_of(folder: Path) -> str:
    """The release whose jars a folder holds, such as `4.4.0` or `4.5.0-rc1`."""
    name = kafka_jars(folder)["kafka-clients"].name
    return name.removeprefix("kafka-clients-").removesuffix(".jar")


def read_schemas(folder: Path) -> list[JsonSchema]:
    """The schemas of all messages that a broker or controller may read, sorted by name."""
    found: dict[str, JsonSchema] = {}
    for artifact, path in kafka_jars(folder).items():
        if artifact in IGNORED_ARTIFACTS:
            continue
        for schema in _schemas_of(artifact, path):
            if schema.name in found:
                raise JarsError(f"{schema.name} is in {artifact} and {found[schema.name].artifact}")
            found[schema.name] = schema
    return [found[name] for name in sorted(found)]


def _schemas_of(artifact: str, path: Path) -> Iterable[JsonSchema]:
    with zipfile.ZipFile(path) as jar:
        for entry in jar.namelist():
            folder, _, name = entry.rpartition("/")
            if folder in SCHEMA_FOLDERS and name.endswith(".json"):
                text = jar.read(entry).decode()
                yield JsonSchema(artifact, parse_json(text), comments_in(text))


def comments_in(text: str) -> tuple[str, ...]:
    """The lines of the comments in a schema, without the licence in front of it."""
    lines = (line.strip() for line in text[text.find("{") :].splitlines())
    comments = (line.lstrip("/ ") for line in lines if line.startswith("//"))
    return tuple(comment for comment in comments if comment)


def parse_json(text: str) -> JsonObject:
    """The JSON object of a text in which there may be comments, as Kafka's parser allows them."""
    plain = _COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else "", text)
    parsed: JsonObject = json.loads(plain)
    return parsed
