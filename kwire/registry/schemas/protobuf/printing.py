"""Writes a `.proto` file.

The order and the spaces are those in which Confluent's registry keeps its schemas, so that a
subject does not get a second version when a registry is handed over: reserved numbers, options,
fields, oneofs, groups, extensions, messages and then enums, an empty line between two of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kwire.registry.schemas.protobuf.elements import (
    FIELD_NUMBER_MAX,
    SCALARS,
    NumberRange,
    OptionValue,
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
    Word,
)
from kwire.registry.schemas.protobuf.naming import Types

ESCAPES: Final = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", "'": "\\'", '"': '\\"',
})  # fmt: skip
LAST_OPTIONS: Final = ("default", "json_name")
"""Options of a field that are written after the others, in this order."""


def text_of(file: ProtoFile) -> str:
    """The text of a file as it was written, without comments."""
    return _Printer(None).file(file)


def normal_text_of(file: ProtoFile, types: Types) -> str:
    """The text of a file with full names of types, and sorted where the order means nothing.

    The order of messages and enums has a meaning: serializers write the index of a message.
    """
    return _Printer(types).file(file)


class _Printer:
    """Writes elements as lines.  `types` gives full names; without it nothing is changed."""

    def __init__(self, types: Types | None) -> None:
        self._types = types
        self._scope: list[str] = []

    def file(self, file: ProtoFile) -> str:
        """The text of a file."""
        head = [f'syntax = "{file.syntax}";'] if file.syntax is not None else []
        if file.package:
            head.append(f"package {file.package};")
        self._scope = file.package.split(".") if file.package else []
        imports = [
            *(f'import "{each}";' for each in self._unique(file.imports)),
            *(f'import public "{each}";' for each in self._unique(file.public_imports)),
        ]
        sections = [
            imports,
            self._option_lines(file.options),
            self._types_of(file.messages, file.enums),
            [line for each in file.extends for line in self._extend(each)],
            [line for each in file.services for line in self._service(each)],
        ]
        lines = [*head]
        for section in sections:
            if section:
                lines += ["", *section]
        return "\n".join(lines) + "\n"

    # -- messages

    def _types_of(self, messages: Iterable[ProtoMessage], enums: Iterable[ProtoEnum]) -> list[str]:
        written = [each for each in messages if self._types is None or each.map_entry is None]
        return [
            *(line for each in written for line in self._message(each)),
            *(line for each in enums for line in self._enum(each)),
        ]

    def _message(self, message: ProtoMessage) -> list[str]:
        self._scope.append(message.name)
        sections = self._message_sections(message)
        self._scope.pop()
        return _block(f"message {message.name}", sections)

    def _message_sections(self, message: ProtoMessage) -> list[list[str]]:
        fields = [each for each in message.fields if each.group is None]
        groups = [each for each in message.fields if each.group is not None]
        return [
            self._reserved(message.reserved),
            self._option_lines(message.options),
            [line for each in self._by_number(fields) for line in self._field(each)],
            [line for each in self._oneofs(message.oneofs) for line in self._oneof(each)],
            [line for each in groups for line in self._group(each)],
            [f"extensions {', '.join(map(_range, each))};" for each in message.extensions],
            [line for each in message.extends for line in self._extend(each)],
            self._types_of(message.messages, message.enums),
        ]

    def _field(self, field: ProtoField) -> list[str]:
        label, type_name = self._label_and_type(field)
        start = f"{label} {type_name}" if label else type_name
        options = [each for each in field.options if each.name not in LAST_OPTIONS]
        for name in LAST_OPTIONS:
            options += [each for each in field.options if each.name == name]
        return _with_options(f"{start} {field.name} = {field.number}", self._in_order(options))

    def _label_and_type(self, field: ProtoField) -> tuple[str | None, str]:
        if self._types is None:
            map_type = field.map_type
            label = field.label
        else:
            map_type = self._types.map_type_of(field, self._scope)
            label = None if map_type is not None else field.label
        if map_type is None:
            return label, self._type_name(field.type)
        return label, f"map<{map_type.key}, {self._type_name(map_type.value)}>"

    def _type_name(self, name: str) -> str:
        if self._types is None or name in SCALARS:
            return name
        full = self._types.full_name(name, self._scope)
        return name if full is None else f".{full}"

    def _oneof(self, oneof: ProtoOneof) -> list[str]:
        fields = [each for each in oneof.fields if each.group is None]
        groups = [each for each in oneof.fields if each.group is not None]
        sections = [
            self._option_lines(oneof.options),
            [line for each in self._by_number(fields) for line in self._field(each)],
            [line for each in groups for line in self._group(each)],
        ]
        return _block(f"oneof {oneof.name}", sections)

    def _group(self, field: ProtoField) -> list[str]:
        assert field.group is not None
        label = f"{field.label} " if field.label else ""
        self._scope.append(field.group.name)
        sections = self._message_sections(field.group)
        self._scope.pop()
        return _block(f"{label}group {field.group.name} = {field.number}", sections)

    def _extend(self, extend: ProtoExtend) -> list[str]:
        fields = [line for each in extend.fields for line in self._field(each)]
        return _block(f"extend {self._type_name(extend.name)}", [fields])

    # -- enums, services

    def _enum(self, enum: ProtoEnum) -> list[str]:
        values: Sequence[ProtoEnumValue] = enum.values
        if self._types is not None:
            values = sorted(values, key=lambda each: (each.number, each.name))
        lines = [
            *self._reserved(enum.reserved),
            *self._option_lines(enum.options),
            *(
                line
                for each in values
                for line in _with_options(
                    f"{each.name} = {each.number}", self._in_order(each.options)
                )
            ),
        ]
        return _block(f"enum {enum.name}", [lines])

    def _service(self, service: ProtoService) -> list[str]:
        rpcs = [line for each in service.rpcs for line in self._rpc(each)]
        return _block(f"service {service.name}", [self._option_lines(service.options), rpcs])

    def _rpc(self, rpc: ProtoRpc) -> list[str]:
        request = ("stream " if rpc.streams_request else "") + self._type_name(rpc.request)
        response = ("stream " if rpc.streams_response else "") + self._type_name(rpc.response)
        start = f"rpc {rpc.name} ({request}) returns ({response})"
        if not rpc.options:
            return [f"{start};"]
        return [f"{start} {{", *_indented(self._option_lines(rpc.options)), "};"]

    # -- options and ranges

    def _option_lines(self, options: list[ProtoOption]) -> list[str]:
        return [
            line
            for each in self._in_order(options)
            for line in _ended(_option(each), "option ", ";")
        ]

    def _in_order(self, options: list[ProtoOption]) -> list[ProtoOption]:
        if self._types is None:
            return options
        return [
            ProtoOption(each.name, _sorted_value(each.value))
            for each in sorted(options, key=lambda each: each.name.replace("(", ""))
        ]

    def _reserved(self, statements: list[list[Reserved]]) -> list[str]:
        if self._types is None:
            return [f"reserved {', '.join(map(_reserved, each))};" for each in statements]
        single = sorted((each for statement in statements for each in statement), key=_reserved_key)
        return [f"reserved {_reserved(each)};" for each in single]

    def _by_number(self, fields: list[ProtoField]) -> list[ProtoField]:
        return fields if self._types is None else sorted(fields, key=lambda each: each.number)

    def _oneofs(self, oneofs: list[ProtoOneof]) -> list[ProtoOneof]:
        if self._types is None:
            return oneofs
        filled = [each for each in oneofs if each.fields]
        return sorted(filled, key=lambda each: min(field.number for field in each.fields))

    def _unique(self, names: list[str]) -> list[str]:
        return names if self._types is None else sorted(set(names))


def _block(start: str, sections: Iterable[list[str]]) -> list[str]:
    """A statement with a body; an empty line is between two sections."""
    body: list[str] = []
    for section in sections:
        if section:
            body += ["", *_indented(section)] if body else _indented(section)
    return [f"{start} {{", *body, "}"] if body else [f"{start} {{}}"]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "  " for line in lines]


def _ended(lines: list[str], start: str, end: str) -> list[str]:
    """Lines with something before the first one and after the last one."""
    found = [start + lines[0], *lines[1:]]
    found[-1] += end
    return found


def _with_options(start: str, options: list[ProtoOption]) -> list[str]:
    """A field or a value, with its options in brackets: one beside it, more below it."""
    if not options:
        return [f"{start};"]
    if len(options) == 1:
        return _ended(_option(options[0]), f"{start} [", "];")
    lines = [f"{start} ["]
    for each in options[:-1]:
        lines += _indented(_ended(_option(each), "", ","))
    return [*lines, *_indented(_option(options[-1])), "];"]


def _option(option: ProtoOption) -> list[str]:
    return _ended(_value(option.value), f"{option.name} = ", "")


def _value(value: OptionValue) -> list[str]:
    if isinstance(value, Word):
        return [value]
    if isinstance(value, str):
        return [f'"{value.translate(ESCAPES)}"']
    if isinstance(value, dict):
        entries = [_ended(_value(each), f"{name}: ", "") for name, each in value.items()]
        return ["{", *_separated(entries), "}"]
    return ["[", *_separated([_value(each) for each in value]), "]"]


def _separated(entries: list[list[str]]) -> list[str]:
    """Entries with commas between them."""
    lines: list[str] = []
    for entry in entries[:-1]:
        lines += _indented(_ended(entry, "", ","))
    return [*lines, *(_indented(entries[-1]) if entries else ())]


def _sorted_value(value: OptionValue) -> OptionValue:
    if isinstance(value, dict):
        return {name: _sorted_value(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted_value(each) for each in value]
    return value


def _reserved(value: Reserved) -> str:
    return _range(value) if isinstance(value, NumberRange) else f'"{value}"'


def _reserved_key(value: Reserved) -> tuple[int, str]:
    """Numbers come before names."""
    if isinstance(value, NumberRange):
        return value.first, _range(value)
    return 2**31, value


def _range(value: NumberRange) -> str:
    if value.first == value.last:
        return str(value.first)
    last = "max" if value.last >= FIELD_NUMBER_MAX else str(value.last)
    return f"{value.first} to {last}"
