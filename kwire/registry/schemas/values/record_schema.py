"""A schema of any kind, applied to the bytes of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from kwire.registry.schemas.values import protobuf
from kwire.registry.schemas.values.avro import ParsedAvro, avro_bytes, avro_data, parsed_avro
from kwire.registry.schemas.values.data import PLAIN, Data, Shape
from kwire.registry.schemas.values.json_schema import (
    json_bytes,
    json_checker,
    json_data,
    parsed_json,
)
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


class RecordSchema:
    """Decodes and encodes what stands behind the id of a schema in a record.

    It is parsed when it is first used.  Threads may share it.
    """

    def __init__(
        self, kind: SchemaKind, text: str, references: Iterable[tuple[str, str]] = ()
    ) -> None:
        """`references` are the names and texts of the schemas that it refers to, directly or not,
        those first that others need."""
        self.kind = kind
        self.text = text
        self.references = list(references)
        self._messages: dict[tuple[int, ...], Descriptor] = {}
        self._indexes: dict[str, tuple[int, ...]] = {}
        """The indexes of messages by their names."""

    @cached_property
    def avro(self) -> ParsedAvro:
        """The schema of Avro.  Raises InvalidSchemaError."""
        return parsed_avro(self.text, (text for _, text in self.references))

    @cached_property
    def protobuf(self) -> ProtobufSchema:
        """The schema of Protobuf.  Raises InvalidSchemaError."""
        return ProtobufSchema(self.text, dict(self.references))

    @cached_property
    def check(self) -> Callable[[Data], None]:
        """Raises CannotEncode for data that JSON Schema refuses.  The property itself raises
        InvalidSchemaError."""
        return json_checker(self.text, self.references)

    def record_name(self, message: str = "") -> str:
        """The name of a record's type, by which subjects can be named; empty if it has none.

        It is the full name of a type of Avro or of a message, and the `title` of a JSON Schema.
        Raises InvalidSchemaError, and CannotEncode for a message that the schema lacks.
        """
        if self.kind is SchemaKind.AVRO:
            return self.avro.name or ""
        if self.kind is SchemaKind.PROTOBUF:
            return str(self.message(message).full_name)
        schema = parsed_json(self.text)
        return str(schema.get("title", "")) if isinstance(schema, dict) else ""

    def message(self, name: str = "") -> Descriptor:
        """The Protobuf message of a name, or the first.  Raises CannotEncode if there is none, and
        InvalidSchemaError."""
        return self._message(self._indexes_of(name))

    def decoded(
        self, body: bytes, reader: RecordSchema | None = None, shape: Shape = PLAIN
    ) -> Data:
        """The data of a record without its frame; a Protobuf message follows its indexes.

        `reader` is a schema of Avro as which the data are read.  Raises CannotDecode.
        """
        try:
            if self.kind is SchemaKind.AVRO:
                as_read = reader.avro if reader is not None else None
                return avro_data(body, self.avro, as_read, shape)
            if self.kind is SchemaKind.PROTOBUF:
                indexes, start = protobuf.message_indexes(body)
                message = self._message(tuple(indexes))
                return protobuf.message_data(body[start:], message, shape)
        except InvalidSchemaError as error:
            raise CannotDecode(str(error)) from None
        return json_data(body)

    def encoded(self, data: Data, message: str = "", *, checks: bool = True) -> bytes:
        """The bytes of a record without its frame: what `decoded` takes.

        `message` is the name of a Protobuf message; without it, it is the first of the schema.
        Without `checks`, JSON is written also if the schema refuses it.  Raises CannotEncode.
        """
        try:
            if self.kind is SchemaKind.AVRO:
                return avro_bytes(data, self.avro)
            if self.kind is SchemaKind.PROTOBUF:
                indexes = self._indexes_of(message)
                body = protobuf.message_bytes(data, self._message(indexes))
                return protobuf.indexes_bytes(indexes) + body
            if checks:
                self.check(data)
        except InvalidSchemaError as error:
            raise CannotEncode(str(error)) from None
        return json_bytes(data)

    def _indexes_of(self, name: str) -> tuple[int, ...]:
        """The indexes of a message.  Raises CannotEncode and InvalidSchemaError."""
        if name not in self._indexes:
            self._indexes[name] = protobuf.indexes_of(self.protobuf, name)
        return self._indexes[name]

    def _message(self, indexes: tuple[int, ...]) -> Descriptor:
        """The message of the indexes.  Raises InvalidSchemaError if there is none."""
        if indexes not in self._messages:
            self._messages[indexes] = self.protobuf.message(list(indexes))
        return self._messages[indexes]
