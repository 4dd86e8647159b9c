"""Records that `kwire consume` decodes by the schemas of a registry."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.cli.schemas.options import FORMATS, check_installed, registry_of
from kwire.cli.streams import NotPrinted
from kwire.cli.text.output import json_text, say
from kwire.cli.text.records import text_of

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.fetcher import ConsumedRecord
    from kwire.registry.client.registered import RegisteredSchemas
    from kwire.registry.schemas.kinds import SchemaKind


def schema_printer(
    cluster: Cluster,
    form: str,
    registry: str | None,
    key_separator: str | None,
    *,
    skip_bad: bool,
) -> Callable[[ConsumedRecord], None]:
    """A function that prints one record as a line: its value as JSON, after the key if
    `key_separator` is set.

    It raises NotPrinted for a record that has no schema of the format, or does not agree with it;
    with `skip_bad` it reports such a record on standard error.  Raises Misuse, UsageError.
    """
    from kwire.registry.client.framing import frame_of
    from kwire.registry.client.registered import RegisteredSchemas, RegistryAway
    from kwire.registry.schemas.kinds import SchemaKind
    from kwire.registry.schemas.values.data import EXACT
    from kwire.registry.schemas.values.problem import CannotDecode

    kind = SchemaKind(FORMATS[form])
    check_installed(kind)
    schemas = RegisteredSchemas(registry_of(registry, cluster))
    value_of = _value_reader(schemas, kind)
    between = None if key_separator is None else os.fsencode(key_separator)
    out = sys.stdout.buffer

    def key_of(record: ConsumedRecord) -> str:
        """The key as JSON if it has a schema of any kind, else as text.  Raises CannotDecode."""
        frame = None if record.key is None else frame_of(record.key, "key", record.headers)
        if frame is None:
            return text_of(record.key)
        return json_text(schemas.of_frame(frame).decoded(frame.body, shape=EXACT))

    def show(record: ConsumedRecord) -> None:
        try:
            line = json_text(value_of(record)).encode()
            if between is not None:
                line = key_of(record).encode() + between + line
        except RegistryAway as away:
            out.flush()
            raise NotPrinted(str(away)) from None
        except (CannotDecode, RecursionError) as problem:
            why = str(problem) or "the data are nested too deeply"
            message = f"{record.topic}-{record.partition} @ {record.offset}: {why}"
            if skip_bad:
                say(message)
                return
            out.flush()
            raise NotPrinted(f"{message}; --skip-bad skips such records") from None
        out.write(line + b"\n")

    return show


def _value_reader(
    schemas: RegisteredSchemas, kind: SchemaKind
) -> Callable[[ConsumedRecord], object]:
    """A function that returns the data of a record's value; None for null.

    It raises CannotDecode.
    """
    from kwire.registry.client.framing import frame_of
    from kwire.registry.schemas.values.data import EXACT
    from kwire.registry.schemas.values.problem import CannotDecode

    def value_of(record: ConsumedRecord) -> object:
        if record.value is None:
            return None
        frame = frame_of(record.value, "value", record.headers)
        if frame is None:
            raise CannotDecode("the value does not begin with the id of a schema")
        schema = schemas.of_frame(frame)
        if schema.kind is not kind:
            raise CannotDecode(f"schema {frame.name} is of the type {schema.kind}, not {kind}")
        return schema.decoded(frame.body, shape=EXACT)

    return value_of
