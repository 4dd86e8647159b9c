"""The declared state and the state found in a cluster, as plain values.

A section of `Declared` is None if the file does not have it.  Nothing of such a section is changed
or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

Settings = Mapping[str, str]
Entity = tuple[tuple[str, str | None], ...]
"""An entity with quotas: (`user`, `client-id` or `ip`, name) in this order; None is the default."""

ENTITY_KINDS: Final = ("user", "client-id", "ip")
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""The iterations that brokers accept (KIP-554)."""


class SecretSource(StrEnum):
    """The source of a password: the declaration itself, an environment variable or a file."""

    TEXT = "text"
    ENV = "env"
    FILE = "file"


class Secret(NamedTuple):
    """A password, or the name of the environment variable or file that has it."""

    source: SecretSource
    said: str

    def __repr__(self) -> str:
        """Does not show the password, since error reports print and store it."""
        shown = "" if self.source is SecretSource.TEXT else f" {self.said}"
        return f"Secret({self.source.value}{shown})"


class SeedFormat(StrEnum):
    """The format of a file of records."""

    RECORDS = "records"
    """Each line is a record as `kwire consume --format json` prints it."""
    VALUES = "values"
    """Each line is the value of a record, as JSON."""
    CSV = "csv"
    """Each row is a record.  Its value is an object of the columns."""


class SeedFile(NamedTuple):
    """Records in a file; `key` is the column of CSV that becomes the key."""

    path: str
    format: SeedFormat
    key: str | None = None


class Inline(NamedTuple):
    """A record in the declaration itself, with the fields of `kwire produce --format json`.

    `where` is its place in the file, for error messages.
    """

    record: Mapping[str, object]
    where: str


Seed = SeedFile | Inline


@dataclass(frozen=True, slots=True)
class DeclaredTopic:
    """A declared topic.  None means any number, and the broker's default for a new topic."""

    partitions: int | None = None
    replication: int | None = None
    configs: Settings = field(default_factory=dict)
    seeds: tuple[Seed, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredUser:
    """A declared user with SCRAM.  Without a password, the user must exist already."""

    password: Secret | None = None
    mechanisms: Mapping[str, int | None] = field(default_factory=lambda: {MECHANISMS[0]: None})
    """The iterations by mechanism.  None means any, and the minimum for a new user."""


class DeclaredAcl(NamedTuple):
    """An ACL, in the words of `kwire acls`."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared state: see the module."""

    topics: Mapping[str, DeclaredTopic] | None = None
    users: Mapping[str, DeclaredUser] | None = None
    acls: frozenset[DeclaredAcl] | None = None
    quotas: Mapping[Entity, Mapping[str, float]] | None = None
    groups: Mapping[str, Settings] | None = None
    client_metrics: Mapping[str, Settings] | None = None


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic of the cluster; `configs` are those set on the topic itself."""

    partitions: int
    replication: int
    configs: Settings = field(default_factory=dict)
    is_internal: bool = False
    is_empty: bool = False
    """Whether it has never had a record; only set if records are declared for it."""


@dataclass(frozen=True, slots=True)
class FoundState:
    """The state of a cluster.  A section that was not requested is empty.

    `untold` has the errors of sections that the cluster did not return.
    """

    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Iterations by mechanism."""
    acls: frozenset[DeclaredAcl] = frozenset()
    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    groups: Mapping[str, Settings] = field(default_factory=dict)
    client_metrics: Mapping[str, Settings] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)


def is_kafkas_own(name: str, topic: FoundTopic) -> bool:
    """Whether a topic is internal to Kafka, or named like such a topic.  It is not changed."""
    return topic.is_internal or name.startswith("__")


def entity_text(entity: Entity) -> str:
    """An entity as text: `user alice, client-id (default)`."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
