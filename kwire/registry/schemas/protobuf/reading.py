"""Reads a `.proto` file of proto2 or proto3.

Source: Protobuf's "Language Specification" of proto2 and proto3.  Comments are passed over.
Editions are refused, as by Confluent's registry.
"""

from __future__ import annotations

from typing import Final

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.protobuf.elements import (
    FIELD_NUMBER_MAX,
    LABELS,
    MapType,
    NumberRange,
    ProtoEnum,
    ProtoEnumValue,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
    ProtoRpc,
    ProtoService,
    Reserved,
)
from kwire.registry.schemas.protobuf.tokens import END, NESTED_MAX, Tokens

ENUM_NUMBER_MAX: Final = 2**31 - 1
NUMBERS_AND_TEXTS: Final = tuple("0123456789\"'")
"""The first characters of tokens that no name has."""


def file_of(text: str) -> ProtoFile:
    """The file of a text.  Raises InvalidSchemaError."""
    return _FileReader(Tokens(text)).file()


class _FileReader:
    """Reads statements, one after the other."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def file(self) -> ProtoFile:
        """Read all of it."""
        found = ProtoFile()
        tokens = self._tokens
        while tokens.peek() != END:
            match tokens.take():
                case ";":
                    continue
                case "syntax" | "package" | "import" as word:
                    self._heading(word, found)
                case "option":
                    found.options.append(self._option_statement())
                case "message":
                    found.messages.append(self._message(1))
                case "enum":
                    found.enums.append(self._enum())
                case "extend":
                    found.extends.append(self._extend(1))
                case "service":
                    found.services.append(self._service())
                case "edition":
                    raise InvalidSchemaError(
                        "the Protobuf schema has an edition; proto2 and proto3 are supported"
                    )
                case token:
                    raise InvalidSchemaError(
                        f"the Protobuf schema has {token[:60]!r} outside of messages"
                    )
        return found

    def _heading(self, word: str, found: ProtoFile) -> None:
        """Read a statement about the whole file, which begins with this word."""
        tokens = self._tokens
        if word == "syntax":
            tokens.take("=")
            syntax = tokens.text()
            if syntax not in ("proto2", "proto3"):
                raise InvalidSchemaError(f'the syntax "{syntax[:60]}" is not supported')
            found.syntax = syntax
        elif word == "package":
            found.package = tokens.type_name()
        elif tokens.take_if("public"):
            found.public_imports.append(tokens.text())
        else:
            tokens.take_if("weak")
            found.imports.append(tokens.text())
        tokens.take(";")

    # -- messages

    def _message(self, depth: int) -> ProtoMessage:
        """Read a message from its name on."""
        found = ProtoMessage(self._tokens.name())
        self._body(found, depth)
        return found

    def _body(self, found: ProtoMessage, depth: int) -> None:
        """Read the statements of a message."""
        if depth > NESTED_MAX:
            raise InvalidSchemaError(
                f"the Protobuf schema has more than {NESTED_MAX} nested messages"
            )
        tokens = self._tokens
        tokens.take("{")
        while not tokens.take_if("}"):
            if tokens.take_if(";"):
                continue
            if self._is_word_next():
                self._statement(tokens.take(), found, depth)
            else:
                found.fields.append(self._field(depth))

    def _statement(self, word: str, found: ProtoMessage, depth: int) -> None:
        """Read a statement of a message that is no field, from the second token on."""
        match word:
            case "message":
                found.messages.append(self._message(depth + 1))
            case "enum":
                found.enums.append(self._enum())
            case "oneof":
                found.oneofs.append(self._oneof(depth))
            case "extend":
                found.extends.append(self._extend(depth))
            case "option":
                found.options.append(self._option_statement())
            case "reserved":
                found.reserved.append(self._reserved(FIELD_NUMBER_MAX))
            case "extensions":
                found.extensions.append(self._extensions())

    def _is_word_next(self) -> bool:
        """Whether the next token begins a statement, and is no type of a field.

        `message Foo {` begins a message, and `message foo = 1;` is a field of the type `message`.
        """
        tokens = self._tokens
        match tokens.peek():
            case "message" | "enum" | "oneof" | "extend":
                return tokens.peek(2) == "{"
            case "reserved" | "extensions":
                return tokens.peek(1)[:1] in NUMBERS_AND_TEXTS
            case word:
                return word == "option"

    def _oneof(self, depth: int) -> ProtoOneof:
        tokens = self._tokens
        found = ProtoOneof(tokens.name())
        tokens.take("{")
        while not tokens.take_if("}"):
            if tokens.take_if(";"):
                continue
            if tokens.take_if("option"):
                found.options.append(self._option_statement())
            else:
                found.fields.append(self._field(depth))
        return found

    def _extend(self, depth: int) -> ProtoExtend:
        tokens = self._tokens
        found = ProtoExtend(tokens.type_name())
        tokens.take("{")
        while not tokens.take_if("}"):
            if not tokens.take_if(";"):
                found.fields.append(self._field(depth))
        return found

    def _field(self, depth: int) -> ProtoField:
        """Read a field from its label or its type on."""
        tokens = self._tokens
        label = None
        if tokens.peek() in LABELS and tokens.peek(1) != "=":
            label = tokens.take()
        if tokens.peek() == "group" and tokens.peek(1)[:1].isupper():
            return self._group(label, depth)
        map_type = self._map() if tokens.peek() == "map" and tokens.peek(1) == "<" else None
        type_name = "" if map_type else tokens.type_name()
        found = ProtoField(tokens.name(), self._field_number(), label, type_name, map_type)
        found.options = self._options()
        tokens.take(";")
        return found

    def _field_number(self) -> int:
        self._tokens.take("=")
        number = self._tokens.number()
        if not 1 <= number <= FIELD_NUMBER_MAX:
            raise InvalidSchemaError(f"a field cannot have the number {number}")
        return number

    def _map(self) -> MapType:
        tokens = self._tokens
        tokens.take("map")
        tokens.take("<")
        key = tokens.type_name()
        tokens.take(",")
        value = tokens.type_name()
        tokens.take(">")
        return MapType(key, value)

    def _group(self, label: str | None, depth: int) -> ProtoField:
        self._tokens.take("group")
        name = self._tokens.name()
        group = ProtoMessage(name)
        found = ProtoField(name.lower(), self._field_number(), label, name, group=group)
        found.options = self._options()
        self._body(group, depth + 1)
        return found

    # -- enums, services

    def _enum(self) -> ProtoEnum:
        """Read an enum from its name on."""
        tokens = self._tokens
        found = ProtoEnum(tokens.name())
        tokens.take("{")
        while not tokens.take_if("}"):
            if tokens.take_if(";"):
                continue
            if tokens.peek() == "option" and tokens.peek(1) != "=":
                tokens.take()
                found.options.append(self._option_statement())
            elif tokens.peek() == "reserved" and tokens.peek(1) != "=":
                tokens.take()
                found.reserved.append(self._reserved(ENUM_NUMBER_MAX))
            else:
                found.values.append(self._enum_value())
        return found

    def _enum_value(self) -> ProtoEnumValue:
        tokens = self._tokens
        name = tokens.name()
        tokens.take("=")
        number = tokens.number()
        if not -ENUM_NUMBER_MAX - 1 <= number <= ENUM_NUMBER_MAX:
            raise InvalidSchemaError(f"a value of an enum cannot have the number {number}")
        found = ProtoEnumValue(name, number, self._options())
        tokens.take(";")
        return found

    def _service(self) -> ProtoService:
        tokens = self._tokens
        found = ProtoService(tokens.name())
        tokens.take("{")
        while not tokens.take_if("}"):
            if tokens.take_if(";"):
                continue
            if tokens.take_if("option"):
                found.options.append(self._option_statement())
            else:
                found.rpcs.append(self._rpc())
        return found

    def _rpc(self) -> ProtoRpc:
        tokens = self._tokens
        tokens.take("rpc")
        name = tokens.name()
        streams_request, request = self._rpc_type()
        tokens.take("returns")
        streams_response, response = self._rpc_type()
        found = ProtoRpc(name, request, response, streams_request, streams_response)
        if not tokens.take_if("{"):
            tokens.take(";")
            return found
        while not tokens.take_if("}"):
            if not tokens.take_if(";"):
                tokens.take("option")
                found.options.append(self._option_statement())
        return found

    def _rpc_type(self) -> tuple[bool, str]:
        """Whether there is a stream, and of which type it is."""
        tokens = self._tokens
        tokens.take("(")
        is_stream = tokens.peek() == "stream" and tokens.peek(1) != ")" and tokens.take_if("stream")
        type_name = tokens.type_name()
        tokens.take(")")
        return is_stream, type_name

    # -- options and ranges

    def _option_statement(self) -> ProtoOption:
        found = self._option()
        self._tokens.take(";")
        return found

    def _option(self) -> ProtoOption:
        name = self._option_name()
        self._tokens.take("=")
        return ProtoOption(name, self._tokens.value())

    def _option_name(self) -> str:
        """Read a name such as `deprecated`, `(my.option)` or `(my.option).of.parts`."""
        tokens = self._tokens
        parts = []
        while True:
            if tokens.take_if("("):
                parts.append(f"({tokens.type_name()})")
                tokens.take(")")
            else:
                parts.append(tokens.type_name())
            if not (tokens.take_if(".") or tokens.peek()[:1] == "."):
                return "".join(parts)
            if tokens.peek()[:1] != ".":
                parts.append(".")

    def _options(self) -> list[ProtoOption]:
        """Read the options of a field in brackets, if there are any."""
        tokens = self._tokens
        found: list[ProtoOption] = []
        if not tokens.take_if("["):
            return found
        while True:
            found.append(self._option())
            if tokens.take_if("]"):
                return found
            tokens.take(",")

    def _reserved(self, highest: int) -> list[Reserved]:
        tokens = self._tokens
        found: list[Reserved] = []
        while True:
            is_text = tokens.peek()[:1] in ('"', "'")
            found.append(tokens.text() if is_text else self._range(highest))
            if tokens.take_if(";"):
                return found
            tokens.take(",")

    def _extensions(self) -> list[NumberRange]:
        tokens = self._tokens
        found = [self._range(FIELD_NUMBER_MAX)]
        while tokens.take_if(","):
            found.append(self._range(FIELD_NUMBER_MAX))
        self._options()  # declarations of extensions, which only a compiler checks
        tokens.take(";")
        return found

    def _range(self, highest: int) -> NumberRange:
        tokens = self._tokens
        first = tokens.number()
        last = first
        if tokens.take_if("to"):
            last = highest if tokens.take_if("max") else tokens.number()
        lowest = 1 if highest == FIELD_NUMBER_MAX else -highest - 1
        if not lowest <= first <= last <= highest:
            raise InvalidSchemaError(f"{first} to {last} is no range of numbers")
        return NumberRange(first, last)
