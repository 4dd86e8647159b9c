"""What is declared, and what is found: plain values.

A section of `Declared` that is None was not in the file: nothing is said of what is in it, and so
nothing of it is ever removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

Settings = Mapping[str, str]
Entity = tuple[tuple[str, str | None], ...]
"""Whose quotas: names by `user`, `client-id` or `ip`, in this order; None is the default."""

ENTITY_KINDS: Final = ("user", "client-id", "ip")
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""What brokers take (KIP-554)."""


class Source(StrEnum):
    """Where a secret is."""

    TEXT = "text"
    ENV = "env"
    FILE = "file"


class Secret(NamedTuple):
    """A password, or in which variable of the environment, or file, it is."""

    source: Source
    said: str

    def __repr__(self) -> str:
        """Never the password itself: what fails is printed, and kept."""
        return f"Secret({self.source.value}{'' if self.source is Source.TEXT else f' {self.said}'})"


class SeedFormat(StrEnum):
    """How a file of records is written."""

    RECORDS = "records"
    """As `kwire consume --format json` does."""
    VALUES = "values"
    """Each line is a record's value."""
    CSV = "csv"
    """Each row is a record, whose value is an object of the columns."""


class SeedFile(NamedTuple):
    """Records in a file; `key` is the column of CSV that becomes the key."""

    path: str
    format: SeedFormat
    key: str | None = None


class Inline(NamedTuple):
    """A record in the declaration itself, with the fields that `kwire produce --format json` takes;
    `where` it stands is for messages."""

    record: Mapping[str, object]
    where: str


Seed = SeedFile | Inline


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as declared; None is whatever there is, and the broker's default of a new one."""

    partitions: int | None = None
    replication: int | None = None
    configs: Settings = field(default_factory=dict)
    seeds: tuple[Seed, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """Who logs in by SCRAM; without a password it must be there already."""

    password: Secret | None = None
    mechanisms: Mapping[str, int | None] = field(default_factory=lambda: {MECHANISMS[0]: None})
    """With their iterations; None is whatever there is, and the least of a new one."""


class Acl(NamedTuple):
    """A rule, in the words of `kwire acls`."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class Declared:
    """See the module."""

    topics: Mapping[str, Topic] | None = None
    users: Mapping[str, User] | None = None
    acls: frozenset[Acl] | None = None
    quotas: Mapping[Entity, Mapping[str, float]] | None = None
    groups: Mapping[str, Settings] | None = None
    client_metrics: Mapping[str, Settings] | None = None


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is; `configs` are those that are its own."""

    partitions: int
    replication: int
    configs: Settings = field(default_factory=dict)
    is_internal: bool = False
    is_empty: bool = False
    """Whether it has never had a record; looked at where records are declared."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a cluster has.  What was not asked about is empty; `untold` says why something could
    not be told, by the names of sections."""

    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Iterations by mechanism."""
    acls: frozenset[Acl] = frozenset()
    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    groups: Mapping[str, Settings] = field(default_factory=dict)
    client_metrics: Mapping[str, Settings] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)


def is_kafkas_own(name: str, topic: FoundTopic) -> bool:
    """Whether a topic is kept by Kafka for itself, or looks like it: it is left alone."""
    return topic.is_internal or name.startswith("__")


def entity_text(entity: Entity) -> str:
    """`user alice, client-id (default)`."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
