"""A registry whose schemas are lists of fields, and the log of its records.

The text `a b?` is a schema with the field `a` and the optional field `b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kwire.registry.schemas.kinds import (
    Incompatibility,
    InvalidSchemaError,
    ParsedSchema,
    SchemaKind,
)
from kwire.registry.schemas.levels import CompatibilityLevel
from kwire.registry.subjects.changing import (
    delete_subject,
    delete_version,
    read_config,
    set_config,
    set_mode,
)
from kwire.registry.subjects.proposals import Schemas, read_proposal
from kwire.registry.subjects.records import SchemaVersion, Write
from kwire.registry.subjects.registering import find, register
from kwire.registry.subjects.state import RecordOutcome, RegistryState

Record = tuple[bytes, bytes | None]


class Fields:
    """A parsed list of fields."""

    def __init__(self, kind: SchemaKind, text: str, references: Mapping[str, str]) -> None:
        """Raises InvalidSchemaError for the text `bad`."""
        if "bad" in text.split():
            raise InvalidSchemaError("it is bad")
        self.kind = kind
        self.references = dict(references)
        self.names = text.split()

    @property
    def canonical(self) -> str:
        return " ".join(self.names)

    def normalized(self) -> str:
        return " ".join(sorted(self.names))

    def formatted(self, name: str) -> str:
        return f"{name} {self.canonical}"

    def missing(self, writer: Fields) -> list[str]:
        """The fields that the writer lacks and this schema needs."""
        written = {name.rstrip("?") for name in writer.names}
        return [name for name in self.names if name not in written and not name.endswith("?")]

    def incompatibilities(self, *_: object) -> list[Incompatibility]:
        raise AssertionError("`compare` asks for what is missing")


def parse(kind: SchemaKind, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """As kwire.registry.schemas.parsing.parse."""
    return Fields(kind, text, references)


def compare(
    level: CompatibilityLevel, new: ParsedSchema, earlier: Sequence[tuple[int, ParsedSchema]]
) -> list[str]:
    """As kwire.registry.schemas.levels.messages, of BACKWARD levels."""
    assert isinstance(new, Fields)
    for number, old in reversed(earlier):
        assert isinstance(old, Fields)
        if missing := new.missing(old):
            return [*(f"{name} is missing" for name in missing), f"{{oldSchemaVersion: {number}}}"]
    return []


class Machine:
    """A registry, and its log."""

    def __init__(self, log: Iterable[Record] = ()) -> None:
        """`log` is replayed."""
        self.registry = RegistryState()
        self.schemas = Schemas(self.registry, parse, compare)
        self.log: list[Record] = []
        for key, value in log:
            self.append(key, value)

    def append(self, key: bytes, value: bytes | None) -> RecordOutcome:
        """Append a record to the log, and apply it."""
        self.log.append((key, value))
        return self.registry.apply(key, value)

    def write(self, writes: Iterable[Write]) -> list[RecordOutcome]:
        """Append the records of a decision."""
        return [self.append(each.key.encoded(), each.encoded_value()) for each in writes]

    def compacted(self) -> list[Record]:
        """The last record of each key, in the order of the log; removals are dropped."""
        last = {key: number for number, (key, _) in enumerate(self.log)}
        return [
            (key, value)
            for number, (key, value) in enumerate(self.log)
            if last[key] == number and value is not None
        ]

    def register(
        self, subject: str, schema: str, *, normalize: bool = False, **fields: object
    ) -> SchemaVersion:
        """Register a schema.  `fields` are further fields of the request."""
        proposal = read_proposal({"schema": schema, **fields})
        decision = register(self.registry, self.schemas, subject, proposal, normalize=normalize)
        assert RecordOutcome.REJECTED not in self.write(decision.writes)
        return decision.version

    def find(
        self, subject: str, schema: str, *, deleted: bool = False, normalize: bool = False
    ) -> SchemaVersion | None:
        """The version with this schema."""
        proposal = read_proposal({"schema": schema})
        return find(
            self.registry, self.schemas, subject, proposal, normalize=normalize, deleted=deleted
        )

    def delete(self, subject: str, version: int | None, *, permanent: bool = False) -> int:
        """Delete a version."""
        number, writes = delete_version(
            self.registry, subject, version, permanent=permanent, shown=str(version)
        )
        self.write(writes)
        return number

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject."""
        numbers, writes = delete_subject(self.registry, subject, permanent=permanent)
        self.write(writes)
        return numbers

    def configure(self, subject: str, **config: object) -> None:
        """Change a config."""
        self.write(set_config(self.registry, subject, read_config(config)))

    def set_mode(self, subject: str, mode: str, *, force: bool = False) -> None:
        """Change a mode."""
        self.write(set_mode(self.registry, subject, mode, force=force))
