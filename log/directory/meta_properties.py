"""`meta.properties`: the node and the cluster that a log directory belongs to.

Apache Kafka 4 (and 3.9 with KRaft) writes version 1, Apache Kafka 3.9 with ZooKeeper version 0:

    version=1                                   version=0
    node.id=1                                   broker.id=1
    cluster.id=AAAAAAAAQACEAgAAAAAAAA           cluster.id=…
    directory.id=ZFL20n1uLxPHnVaA9v9t3w         (absent)

It is a Java properties file: comment lines start with # or !, as none of the keys read here does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.log.error import LogDirError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kwire.log.directory.files import Files

FILE_NAME = "meta.properties"
_NODE_ID_KEYS = {0: "broker.id", 1: "node.id"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of one log directory; None means that the file has no such field."""

    version: int
    node_id: int
    cluster_id: str | None
    directory_id: str | None = None


def read(files: Files, directory: Path) -> MetaProperties | None:
    """Return the identity, None without a file.

    Raises LogDirError if the file cannot be parsed.
    """
    path = directory / FILE_NAME
    try:
        text = files.read(path).decode("latin-1")
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        fields[key.strip()] = value.strip()
    try:
        return _understood(fields)
    except ValueError as error:
        raise LogDirError(f"{path} cannot be understood: {error}") from error


def _understood(fields: Mapping[str, str]) -> MetaProperties:
    """Return the properties in the fields; raises ValueError if one is missing or wrong.

    A file without a version is of version 0, which had no cluster id before Kafka 0.10.1.
    """
    version = int(fields.get("version", "0"))
    if version not in _NODE_ID_KEYS:
        raise ValueError(f"version {version}")
    return MetaProperties(
        version,
        int(_needed(fields, _NODE_ID_KEYS[version])),
        _needed(fields, "cluster.id") if version else fields.get("cluster.id"),
        fields.get("directory.id"),
    )


def _needed(fields: Mapping[str, str], key: str) -> str:
    if not fields.get(key):
        raise ValueError(f"it has no {key}")
    return fields[key]


def write(files: Files, directory: Path, properties: MetaProperties) -> None:
    """Replace the file of a directory atomically; properties that are None are left out. Raises
    OSError.
    """
    fields = {
        "version": properties.version,
        _NODE_ID_KEYS[properties.version]: properties.node_id,
        "cluster.id": properties.cluster_id,
        "directory.id": properties.directory_id,
    }
    lines = [f"{key}={value}\n" for key, value in fields.items() if value is not None]
    files.replace(directory / FILE_NAME, "".join(lines).encode("latin-1"))
