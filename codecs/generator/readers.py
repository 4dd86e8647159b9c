"""Generates functions that read a struct in one layout.

A reader is straight-line code: one `unpack_from` reads the fixed-size fields up to the next length,
and then the value of that length is read.  The count of tagged fields, nearly always 0, is read
with the fields before it.
"""

from __future__ import annotations

from typing import Protocol

from kwire.codecs.generator.source import LINE_MAX, CodeSource, format_size
from kwire.codecs.generator.types import (
    FORMATS,
    INT_ARRAYS,
    default_value,
    python_type,
    size_min,
)
from kwire.codecs.schema_notation import (
    ClassNames,
    MessageSchema,
    SchemaField,
    StructSchema,
    snake_case,
)

# Variables of a reader.  A field with such a name is read into a variable of another name.
_RESERVED = frozenset({"data", "pos", "end", "count", "items", "n", "stop", "tags", "tag", "size"})


class Module(Protocol):
    """The interface between a function body and the module that is being generated."""

    names: ClassNames

    def use(self, name: str) -> str: ...
    def unpack(self, codes: str) -> str: ...
    def pack(self, codes: str) -> str: ...
    def reader(
        self, message: MessageSchema, struct: StructSchema, version: int, many: bool
    ) -> str: ...
    def writer(
        self, message: MessageSchema, struct: StructSchema, version: int, many: bool
    ) -> str: ...
    def tags_writer(self, message: MessageSchema, struct: StructSchema, version: int) -> str: ...


def reader_body(
    module: Module, message: MessageSchema, struct: StructSchema, version: int, many: bool
) -> str:
    """Return the body of a function `(data, pos, end) -> (struct, pos)`.

    With `many`, the function is `(data, pos, end, count) -> (list of structs, pos)`.
    """
    name = module.names.of(struct)
    reader = _ReaderSource(module, message, struct, version)
    source = reader.source
    if not many:
        arguments = reader.read_struct()
        source.call(f"return {name}(", arguments, "), pos")
        return source.text()
    # An empty struct counts as a byte, as in Kafka.  Otherwise a count alone could use up memory.
    least = max(1, size_min(message, struct, version))
    needed = "count" if least == 1 else f"count * {least}"
    limit = module.use("ELEMENTS_MAX")
    with source.block(f"if not 0 <= {needed} <= end - pos or count > {limit}:"):
        source.add(f'raise {module.use("bad_count")}("{name}", count, end - pos)')
    source.add(f"items: list[{name}] = []")
    with source.block("for _ in range(count):"):
        arguments = reader.read_struct()
        source.call(f"items.append({name}(", arguments, "))")
    source.add("return items, pos")
    return source.text()


class _ReaderSource:
    def __init__(
        self, module: Module, message: MessageSchema, struct: StructSchema, version: int
    ) -> None:
        """Begin the body of the reader of `struct` in one version; it is built in `source`."""
        self.module = module
        self.message = message
        self.struct = struct
        self.version = version
        self.flexible = message.is_flexible(version)
        self.source = CodeSource(indent=1)
        self.pending: list[tuple[str, str]] = []  # format and variable of fixed-size values

    def read_struct(self) -> list[str]:
        """Emit the reading of all fields.  Returns the arguments of the constructor."""
        present = [field for field in self.struct.fields if self.version in field.versions]
        for field in present:
            if field.tag is None:
                self._read(field, declared=False)
        if self.flexible:
            self.pending.append(("B", "tags"))
            self._flush()
            self._read_tags([field for field in present if field.tag is not None])
        self._flush()
        fields = list(self.struct.fields)
        while fields and fields[-1] not in present:
            fields.pop()
        return [_variable(field) if field in present else self._default(field) for field in fields]

    def _default(self, field: SchemaField) -> str:
        value = default_value(field, self.module.names)
        return self.module.use(value) if value == "ZERO_UUID" else value

    def _label(self, field: SchemaField) -> str:
        return f'"{self.struct.name}.{field.attribute}"'

    def _flush(self) -> None:
        """Emit the reading of all pending fixed-size values."""
        if not self.pending:
            return
        codes = "".join(code for code, _ in self.pending)
        variables = [variable for _, variable in self.pending]
        self.pending = []
        if codes == "B":
            self.source.add(f"{variables[0]} = data[pos]")
            self.source.add("pos += 1")
            return
        unpack = self.module.unpack(codes)
        if len(variables) == 1:
            self.source.add(f"({variables[0]},) = {unpack}(data, pos)")
        else:
            line = f"{', '.join(variables)} = {unpack}(data, pos)"
            if 4 * self.source.indent + len(line) <= LINE_MAX:
                self.source.add(line)
            else:
                self.source.call("(", variables, f") = {unpack}(data, pos)")
        self.source.add(f"pos += {format_size(codes)}")

    def _read(self, field: SchemaField, declared: bool) -> None:
        """Emit the reading of one field.  `declared` says that its variable has a type already."""
        compact = self.flexible and not field.rigid
        if field.is_array:
            self._read_length("B" if compact else "i", "length_tail")
            self._read_array(field, compact, declared)
        elif field.struct is not None:
            self._read_nested(field, declared)
        elif field.type in FORMATS:
            self.pending.append((FORMATS[field.type], _variable(field)))
        elif field.type == "string":
            self._read_length("B" if compact else "h", "string_length_tail")
            self._read_sized(field, compact, declared)
        else:
            self._read_length("B" if compact else "i", "length_tail")
            self._read_sized(field, compact, declared)

    def _read_length(self, codes: str, tail: str) -> None:
        """Add the lines that read a length into `n`; `tail` reads the rest of a varint.

        `codes` is the format of the length; "B" is the first byte of a varint.
        """
        self.pending.append((codes, "n"))
        self._flush()
        if codes == "B":
            with self.source.block("if n > 127:"):
                self.source.add(f"n, pos = {self.module.use(tail)}(data, pos, n)")

    def _declare_none(self, field: SchemaField, declared: bool) -> None:
        annotation = "" if declared else f": {python_type(field, self.module.names)}"
        self.source.add(f"{_variable(field)}{annotation} = None")

    def _read_array(self, field: SchemaField, compact: bool, declared: bool) -> None:
        """Add the lines that read an array whose length is in `n`.

        A compact length is the count plus 1, and 0 is null. `declared` says that the variable has
        its default already.
        """
        count = "n - 1" if compact else "n"
        line = f"{_variable(field)}, pos = {self._array_reader(field, compact)}({{}}, {count})"
        line = line.format("data, pos, end")
        if not field.is_nullable(self.version):
            self.source.add(line)
            return
        self._declare_none(field, declared)
        with self.source.block("if n:" if compact else "if n >= 0:"):
            self.source.add(line)

    def _array_reader(self, field: SchemaField, compact: bool) -> str:
        """Return the name of the function that reads the elements of the array."""
        if field.struct is not None:
            return self.module.reader(self.message, field.struct, self.version, True)
        if field.type == "string":
            return self.module.use("read_compact_strings" if compact else "read_strings")
        if field.type == "uuid":
            return self.module.use("read_uuids")
        return self.module.use(f"read_{INT_ARRAYS[field.type]}")

    def _read_nested(self, field: SchemaField, declared: bool) -> None:
        """Add the lines that read a nested struct.

        A nullable one has a marker before it: a varint in a tagged field, else a byte, which is
        negative for null.
        """
        assert field.struct is not None
        reader = self.module.reader(self.message, field.struct, self.version, False)
        line = f"{_variable(field)}, pos = {reader}(data, pos, end)"
        if not field.is_nullable(self.version):
            self._flush()
            self.source.add(line)
        elif field.tag is not None:  # its marker is a varint
            self._read_length("B", "varint_tail")
            self._declare_none(field, declared)
            with self.source.block("if n > 0:"):
                self.source.add(line)
        else:
            self.pending.append(("b", "n"))
            self._flush()
            self._declare_none(field, declared)
            with self.source.block("if n >= 0:"):
                self.source.add(line)

    def _read_sized(self, field: SchemaField, compact: bool, declared: bool) -> None:
        """Emit the reading of a string, bytes or records of the length `n`."""
        source = self.source
        length = "n - 1" if compact else "n"
        fault = f"{self.module.use('bad_length')}({self._label(field)}, {length}, end - pos)"
        value = {
            "string": f'str(data[pos:stop], "utf-8", {self.module.use("UTF8_ERRORS")})',
            "bytes": "bytes(data[pos:stop])",
            "records": "memoryview(data)[pos:stop]",
        }[field.type]
        if field.is_nullable(self.version):
            self._declare_none(field, declared)
            with source.block("if n:" if compact else "if n >= 0:"):
                source.add(f"stop = pos + {length}")
                with source.block("if stop > end:"):
                    source.add(f"raise {fault}")
                source.add(f"{_variable(field)} = {value}")
                source.add("pos = stop")
        else:
            source.add(f"stop = pos + {length}")
            with source.block("if not pos <= stop <= end:"):
                source.add(f"raise {fault}")
            source.add(f"{_variable(field)} = {value}")
            source.add("pos = stop")

    def _read_tags(self, tagged: list[SchemaField]) -> None:
        """Emit the reading of `tags` tagged fields.

        Kafka accepts them in any order, and uses the last of two with the same tag.  The size of a
        known tag is not checked against its content.
        """
        source, use = self.source, self.module.use
        if not tagged and not any(field.tag is not None for field in self.struct.fields):
            with source.block("if tags:"):
                source.add(f"pos = {use('skip_tags')}(data, pos, end, tags)")
            return
        for field in tagged:
            annotation = python_type(field, self.module.names)
            source.add(f"{_variable(field)}: {annotation} = {self._default(field)}")
        with source.block("if tags:"):
            source.add(f"tags, pos = {use('tag_count')}(data, pos, end, tags)")
            with source.block("for _ in range(tags):"):
                source.add(f"tag, size, pos = {use('read_tag')}(data, pos)")
                self._read_one_tag(tagged)

    def _read_one_tag(self, tagged: list[SchemaField]) -> None:
        """Add the branches that read a field by its tag.

        A tag that the struct has only in other versions is refused; an unknown tag is skipped.
        """
        source, use = self.source, self.module.use
        branch = "if"
        for field in tagged:
            with source.block(f"{branch} tag == {field.tag}:"):
                self._read(field, declared=True)
                self._flush()
            branch = "elif"
        for field in self.struct.fields:
            if field.tag is not None and field not in tagged:
                with source.block(f"{branch} tag == {field.tag}:"):
                    source.add(f'raise {use("bad_tag")}("{self.struct.name}", tag)')
                branch = "elif"
        with source.block("else:"):
            source.add(f"pos = {use('skip_tag')}(pos, end, size)")


def _variable(field: SchemaField) -> str:
    name = snake_case(field.name)
    return f"{name}_" if name in _RESERVED else name
