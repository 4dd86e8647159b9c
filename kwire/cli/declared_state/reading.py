"""Parses a document into the declared state, and collects all errors in it.

    topics:                                  users:
      orders:                                  alice: {password: {env: ALICE_PASSWORD}}
        partitions: 6                        acls:
        configs: {cleanup.policy: compact}     - {principal: User:alice, topic: orders,
        records: [{key: k, value: v}]             operations: [read, describe]}
    groups:                                  quotas:
      billing: {share.auto.offset.reset: x}    - {user: alice, producer_byte_rate: 1048576}

docs/declared-state.md describes each field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from kwire.cli.declared_state.document import DeclarationError, Document, Path
from kwire.cli.declared_state.state import (
    ENTITY_KINDS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    Declared,
    DeclaredAcl,
    DeclaredTopic,
    DeclaredUser,
    Entity,
    Inline,
    Secret,
    SecretSource,
    Seed,
    SeedFile,
    SeedFormat,
)
from kwire.cluster.metadata.topic_names import why_invalid

T = TypeVar("T")

SECTIONS: Final = ("topics", "users", "acls", "quotas", "groups", "client-metrics")
TOPIC_FIELDS: Final = ("partitions", "replication", "configs", "records")
USER_FIELDS: Final = ("password", "mechanisms", "iterations")
FILE_FIELDS: Final = ("file", "format", "key")
RECORD_FIELDS: Final = (
    "key", "key_encoding", "value", "value_encoding", "headers", "partition", "timestamp",
)  # fmt: skip
RESOURCES: Final = ("topic", "group", "transactional-id", "delegation-token", "user", "cluster")
CLUSTER_NAME: Final = "kafka-cluster"
PATTERNS: Final = ("literal", "prefixed")
PERMISSIONS: Final = ("allow", "deny")
OPERATIONS: Final = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster-action",
    "describe-configs", "alter-configs", "idempotent-write", "create-tokens", "describe-tokens",
    "two-phase-commit",
)  # fmt: skip
ACL_FIELDS: Final = ("principal", *RESOURCES, "pattern", "operations", "host", "permission")
QUOTAS: Final = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage",
    "controller_mutation_rate", "connection_creation_rate",
)  # fmt: skip
FORMATS_BY_ENDING: Final = {".jsonl": SeedFormat.RECORDS, ".csv": SeedFormat.CSV}
PARTITIONS_MAX, REPLICAS_MAX = 2**31 - 1, 2**15 - 1


def declared_by(document: Document) -> Declared:
    """The state that a document declares.  Raises DeclarationError with a line for each error."""
    reading = _Reading(document)
    found = reading.declared()
    if reading.problems:
        raise DeclarationError("\n".join(reading.problems))
    return found


class _Reading:
    """Parses a document.  An error is collected, and parsing goes on with a substitute value."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[str] = []

    def wrong(self, path: Path, problem: str) -> None:
        self.problems.append(f"{self._document.place(path)}: {problem}")

    # -- pieces

    def mapping(self, value: object, path: Path, known: Collection[str] = ()) -> dict[str, object]:
        """A mapping by name.  If `known` names are given, another name is an error."""
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            self.wrong(path, f"is to be names with values, not {_kind(value)}")
            return {}
        for name in value:
            if known and name not in known:
                self.wrong((*path, name), f"unknown{_hint(name, known)}")
        return {name: each for name, each in value.items() if not known or name in known}

    def sequence(self, value: object, path: Path) -> list[object]:
        """Return a list; an empty one for null, and after an error."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.wrong(path, f"is to be a list, not {_kind(value)}")
            return []
        return list(value)

    def number(self, value: object, path: Path, least: int, most: int) -> int | None:
        """Return a number from `least` to `most`; None for null, and after an error."""
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            self.wrong(path, f"is to be a number from {least} to {most}, not {_shown(value)}")
            return None
        return value

    def text(self, value: object, path: Path) -> str:
        """A text that is not empty; a whole number is taken as text."""
        if isinstance(value, str) and value:
            return value
        if type(value) is int:
            return str(value)
        self.wrong(path, f"is to be a text, not {_shown(value)}")
        return ""

    def word(self, value: object, path: Path, known: Collection[str]) -> str:
        """One of the known words, in any case and with `_` or `-`."""
        text = str(value).lower().replace("_", "-")
        if text in known:
            return text
        self.wrong(path, f"{_shown(value)} is none of {', '.join(known)}{_hint(text, known)}")
        return next(iter(known))

    def settings(self, value: object, path: Path) -> dict[str, str]:
        found = self.mapping(value, path)
        return {name: self.setting(each, (*path, name)) for name, each in found.items()}

    def setting(self, value: object, path: Path) -> str:
        """The value of a config as text.  A list becomes a text with commas."""
        if isinstance(value, list | tuple):
            return ",".join(self.setting(each, (*path, n)) for n, each in enumerate(value))
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        self.wrong(path, f"is to be a value, not {_shown(value)}")
        return ""

    # -- sections

    def declared(self) -> Declared:
        """Return the state that the document declares.  A section that is missing is None, which
        is not the same as empty: only sections that are declared are compared."""
        sections = self.mapping(self._document.value, (), SECTIONS)

        def each(section: str, read: Callable[[object, Path], T]) -> dict[str, T] | None:
            """Return the entries of a section by name, each parsed by `read`; None if the section
            is missing."""
            if section not in sections:
                return None
            named = self.mapping(sections[section], (section,))
            return {name: read(value, (section, name)) for name, value in named.items()}

        return Declared(
            topics=each("topics", self.topic),
            users=each("users", self.user),
            acls=self.acls(sections["acls"]) if "acls" in sections else None,
            quotas=self.quotas(sections["quotas"]) if "quotas" in sections else None,
            groups=each("groups", self.settings),
            client_metrics=each("client-metrics", self.settings),
        )

    def topic(self, value: object, path: Path) -> DeclaredTopic:
        """Return a declared topic; the last part of `path` is its name."""
        if problem := why_invalid(str(path[-1])):
            self.wrong(path, problem)
        fields = self.mapping(value, path, TOPIC_FIELDS)
        return DeclaredTopic(
            self.number(fields.get("partitions"), (*path, "partitions"), 1, PARTITIONS_MAX),
            self.number(fields.get("replication"), (*path, "replication"), 1, REPLICAS_MAX),
            self.settings(fields.get("configs"), (*path, "configs")),
            self.seeds(fields.get("records"), (*path, "records")),
        )

    def seeds(self, value: object, path: Path) -> tuple[Seed, ...]:
        """Return the records of a topic: one record or file, or a list of them."""
        if isinstance(value, Mapping):
            return (self.seed(value, path),)
        found = self.sequence(value, path)
        return tuple(self.seed(each, (*path, number)) for number, each in enumerate(found))

    def seed(self, value: object, path: Path) -> Seed:
        """Return a record to write, or a file with records.  A value that is no mapping is the
        value of a record without a key."""
        if not isinstance(value, Mapping):
            return Inline({"value": value}, self._document.place(path))
        if "file" in value:
            return self.seed_file(value, path)
        fields = self.mapping(value, path, RECORD_FIELDS)
        if "value" not in fields:
            self.wrong(path, "a record has a value (null deletes its key), or is in a file")
        return Inline(fields, self._document.place(path))

    def seed_file(self, value: object, path: Path) -> SeedFile:
        """Return a file with records.  Its format is declared, or follows from the ending of its
        name."""
        fields = self.mapping(value, path, FILE_FIELDS)
        name = self.text(fields.get("file"), (*path, "file"))
        ending = next((each for each in FORMATS_BY_ENDING if name.endswith(each)), None)
        words = [each.value for each in SeedFormat]
        if "format" in fields:
            kind = SeedFormat(self.word(fields["format"], (*path, "format"), words))
        elif ending is not None:
            kind = FORMATS_BY_ENDING[ending]
        else:
            self.wrong(path, f"say its format: {', '.join(words)}")
            kind = SeedFormat.RECORDS
        key = self.text(fields["key"], (*path, "key")) if "key" in fields else None
        if key is not None and kind is not SeedFormat.CSV:
            self.wrong((*path, "key"), "is a column of CSV; other records have keys of their own")
        return SeedFile(name, kind, key)

    def user(self, value: object, path: Path) -> DeclaredUser:
        """Return a declared user: the source of the password, and the iterations of each
        mechanism."""
        fields = self.mapping(value, path, USER_FIELDS)
        iterations = self.iterations(fields.get("iterations"), (*path, "iterations"))
        mechanisms = self.mechanisms(fields.get("mechanisms"), (*path, "mechanisms"))
        return DeclaredUser(
            self.secret(fields["password"], (*path, "password")) if "password" in fields else None,
            {each: own or iterations for each, own in mechanisms.items()},
        )

    def mechanisms(self, value: object, path: Path) -> dict[str, int | None]:
        """The iterations by mechanism; None if they are not given."""
        known = {each.lower(): each for each in MECHANISMS}
        if value is None:
            return {MECHANISMS[0]: None}
        if isinstance(value, Mapping):
            named = self.mapping(value, path)
            found = {name: self.iterations(each, (*path, name)) for name, each in named.items()}
        else:
            listed = [value] if isinstance(value, str) else self.sequence(value, path)
            found = dict.fromkeys(map(str, listed))
        if not found:
            self.wrong(path, f"one at least: {', '.join(MECHANISMS)}")
        return {known[self.word(name, path, known)]: each for name, each in found.items()}

    def iterations(self, value: object, path: Path) -> int | None:
        return self.number(value, path, ITERATIONS_MIN, ITERATIONS_MAX)

    def secret(self, value: object, path: Path) -> Secret:
        """A password.  No error message shows it."""
        if isinstance(value, str) and value:
            return Secret(SecretSource.TEXT, value)
        if isinstance(value, Mapping) and len(value) == 1:
            [(name, said)] = value.items()
            if name in ("env", "file"):
                return Secret(SecretSource(name), self.text(said, (*path, str(name))))
        problem = "is to be {env: VARIABLE} or {file: NAME}, or the password as a text"
        self.wrong(path, f"{problem} (in quotes, where it is a number)")
        return Secret(SecretSource.TEXT, "")

    def acls(self, value: object) -> frozenset[DeclaredAcl]:
        listed = enumerate(self.sequence(value, ("acls",)))
        return frozenset(acl for n, each in listed for acl in self.rules(each, ("acls", n)))

    def rules(self, value: object, path: Path) -> list[DeclaredAcl]:
        """The ACLs of an entry, one for each operation."""
        fields = self.mapping(value, path, ACL_FIELDS)
        resource, name = self.resource(fields, path)
        principal = self.text(fields.get("principal"), (*path, "principal"))
        if principal and ":" not in principal:
            self.wrong((*path, "principal"), f"is Type:name, as User:{principal}")
        listed = fields.get("operations")
        operations = [listed] if isinstance(listed, str) else self.sequence(listed, path)
        if not operations:
            self.wrong(path, f"operations are missing: {', '.join(OPERATIONS)}")
        return [
            DeclaredAcl(
                resource,
                name,
                self.word(fields.get("pattern", "literal"), (*path, "pattern"), PATTERNS),
                principal,
                self.text(fields.get("host", "*"), (*path, "host")),
                self.word(operation, (*path, "operations"), OPERATIONS),
                self.word(fields.get("permission", "allow"), (*path, "permission"), PERMISSIONS),
            )
            for operation in operations
        ]

    def resource(self, fields: Mapping[str, object], path: Path) -> tuple[str, str]:
        """Return the type and the name of the resource of an ACL, which names exactly one."""
        named = [each for each in RESOURCES if each in fields]
        if len(named) != 1:
            self.wrong(path, f"is to name one of {', '.join(RESOURCES)}")
            return "topic", ""
        (kind,) = named
        if kind == "cluster":
            if fields[kind] not in (True, CLUSTER_NAME):
                self.wrong((*path, kind), "is to be true")
            return kind, CLUSTER_NAME
        return kind, self.text(fields[kind], (*path, kind))

    def quotas(self, value: object) -> dict[Entity, dict[str, float]]:
        """Return the quotas by entity; an entity that stands twice is an error."""
        found: dict[Entity, dict[str, float]] = {}
        for number, each in enumerate(self.sequence(value, ("quotas",))):
            path: Path = ("quotas", number)
            fields = self.mapping(each, path, (*ENTITY_KINDS, *QUOTAS))
            entity = self.entity(fields, path)
            if entity in found:
                self.wrong(path, "its quotas stand there twice")
            found[entity] = {
                name: self.rate(fields[name], (*path, name)) for name in QUOTAS if name in fields
            }
        return found

    def entity(self, fields: Mapping[str, object], path: Path) -> Entity:
        """Return the entity of quotas: a user, a client id, both, or an IP address, as Kafka
        allows.  None as a name stands for the default entity."""
        entity = tuple(
            (kind, None if fields[kind] is None else self.text(fields[kind], (*path, kind)))
            for kind in ENTITY_KINDS
            if kind in fields
        )
        if not entity or (len(entity) > 1 and any(kind == "ip" for kind, _ in entity)):
            self.wrong(path, "say whose: user, client-id or both, or ip (null is the default)")
        return entity

    def rate(self, value: object, path: Path) -> float:
        """Return the rate of a quota; 0 after an error."""
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        self.wrong(path, f"is to be a number from 0 on, not {_shown(value)}")
        return 0.0


def _hint(name: str, known: Collection[str]) -> str:
    """`: did you mean partitions?` for a near name, or the list of known names."""
    near = get_close_matches(name.lower(), list(known), n=1)
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(known)}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "names with values"
    return "a list" if isinstance(value, list | tuple) else _shown(value)
