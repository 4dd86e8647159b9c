"""Keys and values decoded: by a schema if there is one, else as what the bytes look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.console.decoding import plain
from kwire.console.decoding.fields import fields_of, schemaless_data
from kwire.console.decoding.files import SchemaFile
from kwire.registry.client.framing import SchemaFrame, frame_of
from kwire.registry.client.registered import RegisteredSchemas
from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.values.avro import avro_data
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.json_schema import json_data
from kwire.registry.schemas.values.problem import CannotDecode
from kwire.registry.schemas.values.protobuf import message_data

DECODER: Final = "decoder"
"""The name of the decoder among what views share."""
AUTO: Final = "auto"
FORMS: Final = ("auto", "text", "json", "hex", "base64", "number", "avro", "protobuf")
"""How the visitor may ask for the bytes to be read."""
Headers = Sequence[tuple[str, bytes | None]]
KINDS: Final = {SchemaKind.AVRO: "avro", SchemaKind.PROTOBUF: "protobuf", SchemaKind.JSON: "json"}
"""The kind of what is decoded by a schema of a registry."""


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

    registry: RegisteredSchemas | None = None
    files: Mapping[tuple[str, str], SchemaFile] = field(default_factory=dict)
    """The schema by topic and part (`key` or `value`)."""

    def decoded(
        self,
        topic: str,
        part: str,
        data: bytes | memoryview | None,
        form: str = AUTO,
        headers: Headers = (),
    ) -> Decoded:
        """The bytes in a form.  What cannot be read in that form is hex, with the reason.

        `headers` are those of the record: one of them may have the GUID of the schema.
        """
        if data is None:
            return Decoded("null", "")
        raw = bytes(data)
        if not raw:
            return Decoded("empty", "")
        try:
            if form == AUTO:
                return self._by_schema(topic, part, raw, headers) or looked_at(raw)
            return self._in_form(topic, part, raw, form, headers)
        except CannotDecode as problem:
            looks = looked_at(raw) if form == AUTO else plain_hex(raw)
            return Decoded(
                looks.kind, looks.text, looks.data, looks.is_structured, looks.note, str(problem)
            )

    def _in_form(self, topic: str, part: str, raw: bytes, form: str, headers: Headers) -> Decoded:
        """The bytes in a form other than `auto`.  Raises CannotDecode."""
        if form in SIMPLE:
            return SIMPLE[form](raw)
        found = self._by_schema(topic, part, raw, headers)
        if found is not None and found.kind == form:
            return found
        if form == "protobuf":
            return structured("protobuf", schemaless_data(fields_of(raw)), "without a schema")
        raise CannotDecode(f"there is no schema to read it as {form}")

    def _by_schema(self, topic: str, part: str, raw: bytes, headers: Headers) -> Decoded | None:
        """The bytes by the schema of a registry or of a file; None if there is none.

        Raises CannotDecode if there is one and the bytes do not agree with it.
        """
        if self.registry is not None:
            frame = frame_of(raw, part, headers)
            if frame is not None:
                return _by_registry(self.registry, frame)
        file = self.files.get((topic, part))
        if file is None:
            return None
        if file.avro is not None:
            return structured("avro", avro_data(raw, file.avro), f"schema {file.name}")
        assert file.message is not None
        return structured("protobuf", message_data(raw, file.message), f"schema {file.name}")


def _by_registry(registry: RegisteredSchemas, frame: SchemaFrame) -> Decoded:
    schema = registry.of_frame(frame)
    kind = KINDS[schema.kind]
    note = f"JSON schema {frame.name}" if kind == "json" else f"schema {frame.name}"
    return structured(kind, schema.decoded(frame.body), note)


def structured(kind: str, data: Data, note: str = "") -> Decoded:
    """Decoded data, with their JSON as text."""
    return Decoded(kind, plain.json_line(data), data, True, note)


def plain_text(raw: bytes) -> Decoded:
    """The bytes as UTF-8; others are shown as escapes."""
    return Decoded("text", raw.decode("utf-8", "backslashreplace"))


def plain_json(raw: bytes) -> Decoded:
    """The bytes as JSON, as they are written.  Raises CannotDecode."""
    return Decoded("json", raw.decode("utf-8", "replace"), json_data(raw), True)


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
