"""Records that `kwire produce` encodes by schemas of a registry."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.grammar.options import with_options
from kwire.cli.schemas.options import (
    FORMATS,
    check_installed,
    reference_option,
    registry_of,
    registry_option,
    schema_file,
    schema_text,
)
from kwire.cli.text.records import BadLine, NewRecord, text_parser

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.registry.client.serializing import RecordSerializer, SchemaChoice
    from kwire.registry.schemas.kinds import Reference, SchemaKind

R = TypeVar("R")

SUBJECT_NAMES = ("topic", "record", "topic-record")
NEEDS_FORMAT = "{} is for --format avro, protobuf and json-schema"


OPTIONS: tuple[Callable[[Any], Any], ...] = (
    registry_option,
    schema_file(
        "The schema of values; it is registered. [default: the latest version of the subject]"
    ),
    click.option(
        "--schema-id", type=click.IntRange(min=1), metavar="N", help="The id of the schema."
    ),
    click.option(
        "--key-schema",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="The schema of keys, which are JSON then. Without it, keys are text.",
    ),
    click.option("--message", metavar="NAME", help="The Protobuf message. [default: the first]"),
    reference_option,
    click.option(
        "--subject-names",
        type=click.Choice(SUBJECT_NAMES),
        help="The subject under which the schema is registered: TOPIC-value, the name of the "
        "record's type, or both. [default: topic]",
    ),
    click.option(
        "--no-register",
        is_flag=True,
        help="Do not register the schema: it must be registered already.",
    ),
    click.option("--normalize", is_flag=True, help="Let the registry normalize the schema."),
    click.option("--no-check", is_flag=True, help="Write JSON also if the schema refuses it."),
)


@dataclass(frozen=True)
class SchemaOptions:
    """What the options of `kwire produce` say about schemas."""

    registry: str | None = None
    schema: str | None = None
    schema_id: int | None = None
    key_schema: str | None = None
    message: str | None = None
    references: tuple[Reference, ...] = ()
    subject_names: str | None = None
    no_register: bool = False
    normalize: bool = False
    no_check: bool = False

    def check(self, form: str) -> None:
        """Raise UsageError for options that have no effect, or contradict each other."""
        given = {
            "--schema": self.schema,
            "--schema-id": self.schema_id,
            "--key-schema": self.key_schema,
            "--message": self.message,
            "--reference": self.references,
            "--subject-names": self.subject_names,
            "--no-register": self.no_register,
            "--normalize": self.normalize,
            "--no-check": self.no_check,
        }
        named = [name for name, value in given.items() if value]
        if form not in FORMATS:
            if named:
                raise click.UsageError(NEEDS_FORMAT.format(named[0]))
            return
        if self.schema is not None and self.schema_id is not None:
            raise click.UsageError("give one of --schema and --schema-id")
        if self.schema is None:
            for name in ("--reference", "--subject-names", "--no-register", "--normalize"):
                if name in named and self.key_schema is None:
                    raise click.UsageError(f"{name} needs --schema")
        if self.message is not None and form != "protobuf":
            raise click.UsageError("--message is for --format protobuf")
        if self.no_check and form != "json-schema":
            raise click.UsageError("--no-check is for --format json-schema")


def schema_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options about schemas, which the command gets as `schemas`, a SchemaOptions."""
    names = [each for each in SchemaOptions.__dataclass_fields__]

    def run(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        """Runs the command with the options about schemas as one argument."""
        schemas = SchemaOptions(**{name: kwargs.pop(name) for name in names})
        return command(*args, schemas=schemas, **kwargs)

    return with_options(update_wrapper(run, command), OPTIONS)


def schema_parser(
    cluster: Cluster,
    topic: str,
    form: str,
    schemas: SchemaOptions,
    key: str | None,
    key_separator: str | None,
    null_value: str | None,
) -> tuple[Callable[[bytes], NewRecord], bytes | None]:
    """The function that parses a line and encodes its value and key, and the encoded `--key`.

    The registry is asked for the schemas now, so that an error is reported before the first line.
    Raises UsageError, Misuse, RegistryFailure, OSError.
    """
    from kwire.registry.client.serializing import RecordSerializer
    from kwire.registry.schemas.kinds import SchemaKind
    from kwire.registry.schemas.values.json_schema import json_data
    from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode

    kind = SchemaKind(FORMATS[form])
    check_installed(kind)
    client = registry_of(schemas.registry, cluster)
    value = RecordSerializer(client, topic, "value", _choice(schemas, kind, schemas.schema, form))
    value.prepare()
    keys: RecordSerializer | None = None
    if schemas.key_schema is not None:
        keys = RecordSerializer(client, topic, "key", _choice(schemas, kind, schemas.key_schema))
        keys.prepare()
    plain = text_parser(key_separator, null_value)

    def encoded(serializer: RecordSerializer, text: bytes | None, part: str) -> bytes | None:
        """The bytes for JSON; None for null, which deletes the key in a compacted topic.

        Raises BadLine.
        """
        if text is None:
            return None
        try:
            data = json_data(text)
            return None if data is None else serializer.encoded(data)
        except (CannotDecode, CannotEncode) as problem:
            raise BadLine(f"the {part}: {problem}") from None

    def parse(line: bytes) -> NewRecord:
        record = plain(line)
        record.value = encoded(value, record.value, "value")
        if keys is not None:
            record.key = encoded(keys, record.key, "key")
        return record

    shared = None if key is None else os.fsencode(key)
    return parse, shared if keys is None else encoded(keys, shared, "key")


def _choice(
    schemas: SchemaOptions,
    kind: SchemaKind,
    path: str | None,
    form: str = "",
) -> SchemaChoice:
    """The schema that the options choose, for values if `form` is given and else for keys."""
    from kwire.registry.client.serializing import SchemaChoice
    from kwire.registry.client.subject_names import SubjectNames

    text, imports = None, {}
    if path is not None:
        text = schema_text(path, kind, schemas.references if form else ())
        if form == "protobuf":
            imports = _imports(Path(path).parent, text.text)
    return SchemaChoice(
        kind,
        text,
        schemas.schema_id if form else None,
        (schemas.message or "") if form else "",
        SubjectNames(schemas.subject_names or "topic"),
        registers=not schemas.no_register,
        normalizes=schemas.normalize,
        checks=not schemas.no_check,
        imports=imports,
    )


def _imports(folder: Path, text: str) -> dict[str, str]:
    """The files that a Protobuf schema imports, directly or not, if they are in its folder.

    They are found by their names from that folder.  Raises OSError for one that cannot be read.
    """
    from kwire.registry.schemas.kinds import InvalidSchemaError
    from kwire.registry.schemas.protobuf.reading import file_of

    found: dict[str, str] = {}
    waiting = [text]
    while waiting:
        try:
            imported = file_of(waiting.pop())
        except InvalidSchemaError:
            continue  # whoever encodes by it says what is wrong
        for name in (*imported.imports, *imported.public_imports):
            file = folder / name
            if name not in found and file.is_file():
                found[name] = file.read_text("utf-8")
                waiting.append(found[name])
    return found
