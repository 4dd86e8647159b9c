"""Keys and values decoded: by a schema if there is one, else as what the bytes look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kwire.console.decoding import plain
from kwire.console.decoding.avro import avro_data
from kwire.console.decoding.files import SchemaFile
from kwire.console.decoding.problem import CannotDecode
from kwire.console.decoding.protobuf import fields_of, message_data, schemaless_data
from kwire.console.decoding.registry import SchemaRegistry
from kwire.console.filtering.facts import Data

DECODER: Final = "decoder"
"""The name of the decoder among what views share."""
AUTO: Final = "auto"
FORMS: Final = ("auto", "text", "json", "hex", "base64", "number", "avro", "protobuf")
"""How the visitor may ask for the bytes to be read."""
MAGIC: Final = 0
PREFIX_BYTES: Final = 5
"""A zero and the id of the schema, by which serializers of registries begin."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or a value as people can read it."""

    kind: str
    """`null`, `empty`, `text`, `json`, `hex`, `base64`, `number`, `avro` or `protobuf`."""
    text: str
    """All of it on as few lines as it has.  Empty if it is null."""
    data: Data = None
    """The structure, if `is_structured`."""
    is_structured: bool = False
    note: str = ""
    """What the kind does not say, such as the schema's id."""
    trouble: str = ""
    """Why it is not shown in the form that was asked for, or by its schema."""

    @property
    def is_null(self) -> bool:
        """Whether there are no bytes at all: as a value, it is a tombstone."""
        return self.kind == "null"


@dataclass
class Decoder:
    """Decodes the keys and values of all topics.  Threads may share it."""

    registry: SchemaRegistry | None = None
    files: Mapping[tuple[str, str], SchemaFile] = field(default_factory=dict)
    """The schema by topic and part (`key` or `value`)."""

    def decoded(
        self, topic: str, part: str, data: bytes | memoryview | None, form: str = AUTO
    ) -> Decoded:
        """The bytes in a form.  What cannot be read in that form is hex, with the reason."""
        if data is None:
            return Decoded("null", "")
        raw = bytes(data)
        if not raw:
            return Decoded("empty", "")
        try:
            if form == AUTO:
                return self._by_schema(topic, part, raw) or looked_at(raw)
            return self._in_form(topic, part, raw, form)
        except CannotDecode as problem:
            looks = looked_at(raw) if form == AUTO else plain_hex(raw)
            return Decoded(
                looks.kind, looks.text, looks.data, looks.is_structured, looks.note, str(problem)
            )

    def _in_form(self, topic: str, part: str, raw: bytes, form: str) -> Decoded:
        """The bytes in a form other than `auto`.  Raises CannotDecode."""
        if form in SIMPLE:
            return SIMPLE[form](raw)
        found = self._by_schema(topic, part, raw)
        if found is not None and found.kind == form:
            return found
        if form == "protobuf":
            return structured("protobuf", schemaless_data(fields_of(raw)), "without a schema")
        raise CannotDecode(f"there is no schema to read it as {form}")

    def _by_schema(self, topic: str, part: str, raw: bytes) -> Decoded | None:
        """The bytes by the schema of a registry or of a file; None if there is none.

        Raises CannotDecode if there is one and the bytes do not agree with it.
        """
        is_framed = raw[0] == MAGIC and len(raw) >= PREFIX_BYTES
        file = self.files.get((topic, part))
        if is_framed and self.registry is not None:
            return self._by_registry(self.registry, raw)
        if file is None:
            return None
        if file.avro is not None:
            return structured("avro", avro_data(raw, file.avro), f"schema {file.name}")
        assert file.message is not None
        return structured("protobuf", message_data(raw, file.message), f"schema {file.name}")

    def _by_registry(self, registry: SchemaRegistry, raw: bytes) -> Decoded:
        schema_id = int.from_bytes(raw[1:PREFIX_BYTES])
        schema = registry.schema(schema_id)
        note, body = f"schema {schema_id}", raw[PREFIX_BYTES:]
        if schema.kind == "AVRO":
            return structured("avro", avro_data(body, schema.avro()), note)
        if schema.kind == "PROTOBUF":
            message, body = schema.message(body)
            return structured("protobuf", message_data(body, message), note)
        return structured("json", plain.json_data(body), f"JSON {note}")


def structured(kind: str, data: Data, note: str = "") -> Decoded:
    """Decoded data, with their JSON as text."""
    return Decoded(kind, plain.json_line(data), data, True, note)


def plain_text(raw: bytes) -> Decoded:
    """The bytes as UTF-8; others are shown as escapes."""
    return Decoded("text", raw.decode("utf-8", "backslashreplace"))


def plain_json(raw: bytes) -> Decoded:
    """The bytes as JSON, as they are written.  Raises CannotDecode."""
    return Decoded("json", raw.decode("utf-8", "replace"), plain.json_data(raw), True)


def plain_hex(raw: bytes) -> Decoded:
    """The bytes as hex, two digits each."""
    return Decoded("hex", raw.hex(" "), note=plain.number_note(raw))


def plain_base64(raw: bytes) -> Decoded:
    """The bytes as base64."""
    return Decoded("base64", plain.base64_text(raw))


def plain_number(raw: bytes) -> Decoded:
    """The bytes as a number of Kafka's serializers.  Raises CannotDecode."""
    number, kind = plain.number_of(raw)
    return Decoded("number", str(number), number, True, kind)


SIMPLE: Final[dict[str, Callable[[bytes], Decoded]]] = {
    "text": plain_text,
    "json": plain_json,
    "hex": plain_hex,
    "base64": plain_base64,
    "number": plain_number,
}


def looked_at(raw: bytes) -> Decoded:
    """The bytes as what they look like: JSON, text or hex."""
    if not plain.is_text(raw):
        return plain_hex(raw)
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            return plain_json(raw)
        except CannotDecode:
            return plain_text(raw)
    return plain_text(raw)
