"""Reads a Protobuf schema as it is written, `.proto`, into the descriptor of its file.

Some registries give Protobuf schemas only as text.  What decides how bytes are decoded is read:
messages, fields, enums, oneofs and maps of proto2 and proto3.  Options, services, extensions and
reserved names are skipped.  Groups and editions are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kwire.console.decoding.problem import CannotDecode

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<token> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \.?[A-Za-z_][\w.]*
      | [0-9][\w.]*(?:[eE][+-]?[0-9]+)? | [-+{}\[\]()<>=;,:/.] )""",
    re.VERBOSE | re.DOTALL,
)
NESTED_MAX: Final = 30
CLOSING: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}
LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
SCALARS: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
"""The numbers of `FieldDescriptorProto.Type`.  Other types are names of messages and enums."""
REPEATED, OPTIONAL = LABELS["repeated"], LABELS["optional"]


def file_of(text: str, name: str) -> FileDescriptorProto:
    """The descriptor of a file of this name.  Raises CannotDecode if the text is no schema."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    try:
        return _SchemaReader(text).file(FileDescriptorProto(name=name))
    except ValueError as error:  # a number or a text that a descriptor cannot have
        raise CannotDecode(f"the Protobuf schema is invalid: {error}") from None


class _SchemaReader:
    """Reads the tokens of a schema, one after the other."""

    def __init__(self, text: str) -> None:
        """Raises CannotDecode for a character that no token has."""
        self._tokens: list[str] = []
        self._next = 0
        position = 0
        while position < len(text):
            found = TOKEN.match(text, position)
            if found is None:
                raise CannotDecode(
                    f"the Protobuf schema has {text[position]!r} at character {position:,}"
                )
            if found["token"] is not None:
                self._tokens.append(found["token"])
            position = found.end()

    # -- tokens

    def _take(self, expected: str | None = None) -> str:
        """The next token, which must be `expected` if that is given."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else "its end"
        if token == "its end" or (expected is not None and token != expected):
            wanted = "more" if expected is None else repr(expected)
            raise CannotDecode(f"the Protobuf schema has {token[:60]} instead of {wanted}")
        self._next += 1
        return token

    def _is_next(self, token: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next] == token

    def _is_word_next(self, word: str) -> bool:
        """Whether the next token is a keyword, and no name of a field or a type."""
        after = self._tokens[self._next + 1 : self._next + 2]
        return self._is_next(word) and after != ["="]

    def _skip_statement(self) -> None:
        """Skip to the end of a statement: a semicolon, or a block."""
        while not self._is_next(";"):
            is_block = self._is_next("{") and self._tokens[self._next - 1] != "="
            self._skip_one()
            if is_block:
                return
        self._take(";")

    def _skip_one(self) -> None:
        """Skip a token, and all up to its closing one if it opens something."""
        open_ones = [self._take()]
        if open_ones[0] not in CLOSING:
            return
        while open_ones:
            token = self._take()
            if token in CLOSING:
                open_ones.append(token)
            elif token == CLOSING[open_ones[-1]]:
                open_ones.pop()

    def _number(self) -> int:
        sign = -1 if self._is_next("-") else 1
        if sign < 0:
            self._take("-")
        token = self._take()
        try:
            base = 8 if re.fullmatch("0[0-7]+", token) else 0
            return sign * int(token, base)
        except ValueError:
            raise CannotDecode(f"the Protobuf schema has {token[:60]} as a number") from None

    def _text(self) -> str:
        return self._take()[1:-1]

    # -- statements

    def file(self, file: FileDescriptorProto) -> FileDescriptorProto:
        """Read all of it into the descriptor."""
        file.syntax = "proto2"
        while self._next < len(self._tokens):
            match self._take():
                case ";":
                    continue
                case "syntax" | "package" | "import" as word:
                    self._heading(word, file)
                case "message":
                    self._message(file.message_type.add(), file.syntax, 1)
                case "enum":
                    self._enum(file.enum_type.add())
                case "option" | "service" | "extend":
                    self._skip_statement()
                case "edition":
                    raise CannotDecode("the Protobuf schema has an edition, not a syntax")
                case token:
                    raise CannotDecode(f"the Protobuf schema has {token[:60]} at its top")
        return file

    def _heading(self, word: str, file: FileDescriptorProto) -> None:
        """Read a statement about the whole file, which begins with this word."""
        if word == "syntax":
            self._take("=")
            file.syntax = self._text()
        elif word == "package":
            file.package = self._take()
        else:
            if self._is_next("public") or self._is_next("weak"):
                self._take()
            file.dependency.append(self._text())
        self._take(";")

    def _message(self, message: DescriptorProto, syntax: str, depth: int) -> None:
        """Read a message from its name on."""
        if depth > NESTED_MAX:
            raise CannotDecode(f"the Protobuf schema has more than {NESTED_MAX} nested messages")
        message.name = self._take()
        self._take("{")
        maps: list[DescriptorProto] = []
        while not self._is_next("}"):
            if self._is_next(";"):
                self._take()
            elif self._is_word_next("message"):
                self._take()
                self._message(message.nested_type.add(), syntax, depth + 1)
            elif self._is_word_next("enum"):
                self._take()
                self._enum(message.enum_type.add())
            elif self._is_word_next("oneof"):
                self._oneof(message, syntax, maps)
            elif any(map(self._is_word_next, ("option", "reserved", "extensions", "extend"))):
                self._skip_statement()
            else:
                self._field(message, syntax, maps)
        self._take("}")
        # The messages of maps come last: the index of a message counts those that are written.
        message.nested_type.extend(maps)
        self._mark_optional(message, syntax)

    def _mark_optional(self, message: DescriptorProto, syntax: str) -> None:
        """Give each optional field of proto3 a oneof of its own, by which it is known to be set."""
        for field in message.field if syntax == "proto3" else ():
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: DescriptorProto, syntax: str, maps: list[DescriptorProto]) -> None:
        self._take("oneof")
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._take())
        self._take("{")
        while not self._is_next("}"):
            if self._is_next(";"):
                self._take()
            elif self._is_word_next("option"):
                self._skip_statement()
            else:
                self._field(message, syntax, maps).oneof_index = index
        self._take("}")

    def _field(
        self, message: DescriptorProto, syntax: str, maps: list[DescriptorProto]
    ) -> FieldDescriptorProto:
        """Read a field from its label or its type on."""
        field = message.field.add(label=OPTIONAL)
        type_name = self._take()
        if type_name in LABELS:
            field.label = LABELS[type_name]  # type: ignore[assignment]  # an enum is a number
            field.proto3_optional = syntax == "proto3" and type_name == "optional"
            type_name = self._take()
        if type_name == "group":
            raise CannotDecode("the Protobuf schema has a group, which is not supported")
        if type_name == "map" and self._is_next("<"):
            self._map(field, maps)
        else:
            set_type(field, type_name)
            field.name = self._take()
        self._take("=")
        field.number = self._number()
        self._end_of_field()
        return field

    def _map(self, field: FieldDescriptorProto, maps: list[DescriptorProto]) -> None:
        """Read a map up to its name: a list of messages with a key and a value."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        self._take("<")
        key_type = self._take()
        self._take(",")
        value_type = self._take()
        self._take(">")
        field.name = self._take()
        entry = DescriptorProto(name="".join(map(_capital, field.name.split("_"))) + "Entry")
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", key_type), ("value", value_type)), 1):
            set_type(entry.field.add(name=name, number=number, label=OPTIONAL), type_name)
        maps.append(entry)
        field.label, field.type_name = REPEATED, entry.name  # type: ignore[assignment]  # a number

    def _enum(self, enum: EnumDescriptorProto) -> None:
        """Read an enum from its name on."""
        enum.name = self._take()
        self._take("{")
        while not self._is_next("}"):
            if self._is_next(";"):
                self._take()
            elif self._is_word_next("option"):
                self._aliases(enum)
            elif self._is_word_next("reserved"):
                self._skip_statement()
            else:
                value = enum.value.add(name=self._take())
                self._take("=")
                value.number = self._number()
                self._end_of_field()
        self._take("}")

    def _aliases(self, enum: EnumDescriptorProto) -> None:
        """Read an option; without `allow_alias` two names of one number are an error."""
        statement = self._tokens[self._next : self._next + 4]
        if statement == ["option", "allow_alias", "=", "true"]:
            enum.options.allow_alias = True
        self._skip_statement()

    def _end_of_field(self) -> None:
        if self._is_next("["):
            self._skip_one()
        self._take(";")


def set_type(field: FieldDescriptorProto, name: str) -> None:
    """Set the type of a field: a scalar, or the name of a message or enum."""
    scalar = SCALARS.get(name)
    if scalar is None:
        field.type_name = name
    else:
        field.type = scalar  # type: ignore[assignment]  # an enum is a number


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
