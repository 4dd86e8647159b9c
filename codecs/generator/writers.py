"""Generates functions that write a struct in one layout, the counterpart of `readers.py`."""

from __future__ import annotations

from kwire.codecs.generator.readers import Module
from kwire.codecs.generator.source import LINE_MAX, CodeSource
from kwire.codecs.generator.types import (
    FORMATS,
    INT_ARRAYS,
    default_value,
    is_optional,
    is_set,
)
from kwire.codecs.schema_notation import MessageSchema, SchemaField, StructSchema


def writer_body(
    module: Module, message: MessageSchema, struct: StructSchema, version: int, many: bool
) -> str:
    """Return the body of `(out, item)`, or with `many` of `(out, items)`, which writes no count."""
    writer = _Writer(module, message, struct, version)
    if not many:
        writer.write_struct()
        return writer.source.text()
    with writer.source.block("for item in items:"):
        writer.write_struct()
    return writer.source.text()


def tags_body(module: Module, message: MessageSchema, struct: StructSchema, version: int) -> str:
    """The body of `(out, item)` that writes the tagged fields of which at least one may be set."""
    writer = _Writer(module, message, struct, version)
    writer.write_tags()
    return writer.source.text()


class _Writer:
    def __init__(
        self, module: Module, message: MessageSchema, struct: StructSchema, version: int
    ) -> None:
        """Begin the body of the writer of `struct` in one version; it is built in `source`.

        `out` is the variable that the generated code writes to.
        """
        self.module = module
        self.message = message
        self.struct = struct
        self.version = version
        self.flexible = message.is_flexible(version)
        self.source = CodeSource(indent=1)
        self.out = "out"
        self.pending: list[tuple[str, str]] = []  # format and expression of fixed-size values

    def write_struct(self) -> None:
        """Add the body of the function that writes the struct: untagged fields, then tags.

        A flexible struct without tagged fields ends with the byte 0, their count.
        """
        self._refuse_absent()
        present = [field for field in self.struct.fields if self.version in field.versions]
        start = len(self.source.lines)
        for field in present:
            if field.tag is None:
                self._write(field)
        tagged = [field for field in present if field.tag is not None]
        if self.flexible and tagged:
            self._write_tags_or_zero(tagged)
        elif self.flexible:
            self.pending.append(("x", ""))
        self._flush()
        if len(self.source.lines) == start:
            self.source.add("pass")

    def _refuse_absent(self) -> None:
        """Add lines that raise if a field is set which this version lacks.

        Fields that the schema calls ignorable are left out silently.
        """
        for field in self.struct.fields:
            if self.version in field.versions or field.ignorable:
                continue
            self._add_if([field])
            self.source.indent += 1
            self.source.add(f"raise {self.module.use('refuse')}({self._label(field)})")
            self.source.indent -= 1

    def _label(self, field: SchemaField) -> str:
        return f'"{self.struct.name}.{field.attribute}"'

    def _write_tags_or_zero(self, tagged: list[SchemaField]) -> None:
        """Emit the call of a separate function that writes tagged fields, which are rarely set."""
        fixed = self.pending
        writer = self.module.tags_writer(self.message, self.struct, self.version)
        self._add_if(tagged)
        self.source.indent += 1
        self._flush()
        self.source.add(f"{writer}(out, item)")
        self.source.indent -= 1
        self.pending = [*fixed, ("x", "")]
        with self.source.block("else:"):
            self._flush()

    def _add_if(self, fields: list[SchemaField]) -> None:
        """Emit the first line of a block that runs if any of the fields is not at its default."""
        conditions = [
            is_set(field, f"item.{field.attribute}", self.module.names) for field in fields
        ]
        if any("ZERO_UUID" in condition for condition in conditions):
            self.module.use("ZERO_UUID")
        if len(conditions) == 1:
            self.source.add(f"if {conditions[0]}:")
            return
        alternatives = [f"({each})" if " " in each else each for each in conditions]
        line = f"if {' or '.join(alternatives)}:"
        if 4 * self.source.indent + len(line) <= LINE_MAX:
            self.source.add(line)
            return
        self.source.add("if (")
        self.source.indent += 1
        self.source.add(alternatives[0])
        for alternative in alternatives[1:]:
            self.source.add(f"or {alternative}")
        self.source.indent -= 1
        self.source.add("):")

    def write_tags(self) -> None:
        """Add the body of the function that writes the tagged fields, in the order of their tags.

        A field with its default value is not sent.
        """
        source = self.source
        source.add("tags: list[tuple[int, Frame]] = []")
        present = [field for field in self.struct.fields if self.version in field.versions]
        tagged = [field for field in present if field.tag is not None]
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            self._add_if([field])
            source.indent += 1
            source.add("body = Frame()")
            self.out = "body"
            if default_value(field, self.module.names) == "None":  # then a set value is not None
                self._write_present(field, f"item.{field.attribute}", not field.rigid)
            else:
                self._write(field)
            self._flush()
            self.out = "out"
            source.add(f"tags.append(({field.tag}, body))")
            source.indent -= 1
        source.add(f"{self.module.use('put_tags')}(out, tags)")

    def _flush(self) -> None:
        """Add one call that packs all pending values of fixed size, if there are any.

        The format "x" is the zero byte of an empty tag section; alone it needs no struct.
        """
        if not self.pending:
            return
        codes = "".join(code for code, _ in self.pending)
        values = [value for _, value in self.pending if value]
        self.pending = []
        if not values:
            assert codes == "x"
            self.source.add(f"{self.out}.append(0)")
        else:
            self.source.call(f"{self.out} += {self.module.pack(codes)}(", values, ")")

    def _write(self, field: SchemaField) -> None:
        """Add the lines that write the field with its length or null; scalars are only
        collected."""
        compact = self.flexible and not field.rigid
        value = f"item.{field.attribute}"
        nullable = field.is_nullable(self.version)
        if field.type in FORMATS and not field.is_array:
            self.pending.append((FORMATS[field.type], value))
            return
        if not nullable:
            if is_optional(field):
                self._flush()
                with self.source.block(f"if {value} is None:"):
                    self.source.add(f"raise {self.module.use('is_null')}({self._label(field)})")
            self._write_present(field, value, compact)
            return
        self._flush()
        with self.source.block(f"if {value} is None:"):
            self._write_null(field, compact)
        with self.source.block("else:"):
            self._write_present(field, value, compact)
            self._flush()

    def _write_null(self, field: SchemaField, compact: bool) -> None:
        """Add the line that writes null: 0 if compact or tagged, else -1 in the length's size.

        A nested struct has a marker of one byte. The number 92 is a backslash: the generated code
        has an escape for the byte 255.
        """
        if field.struct is not None and not field.is_array:
            self.source.add(f"{self.out}.append({0 if field.tag is not None else 255})")
        elif compact:
            self.source.add(f"{self.out}.append(0)")
        else:
            size = 2 if field.type == "string" and not field.is_array else 4
            self.source.add(f'{self.out} += b"{chr(92)}xff" * {size}')

    def _write_present(self, field: SchemaField, value: str, compact: bool) -> None:
        """Add the lines that write a value that is not null, its length first.

        `compact` lengths are varints (flexible versions), others have a fixed size.
        """
        if field.is_array:
            self._write_array(field, value, compact)
        elif field.struct is not None:
            self._flush()
            if field.is_nullable(self.version):
                self.source.add(f"{self.out}.append(1)")
            writer = self.module.writer(self.message, field.struct, self.version, False)
            self.source.add(f"{writer}({self.out}, {value})")
        elif field.type == "string":
            self.source.add(f"value = {value}.encode()")
            self._write_length("len(value)", "h", compact, "put_string_length")
            self.source.add(f"{self.out} += value")
        elif field.type == "bytes":
            self._write_length(f"len({value})", "i", compact, "put_varint")
            self.source.add(f"{self.out} += {value}")
        else:
            self._flush()
            put = self.module.use("put_compact_records" if compact else "put_records")
            self.source.add(f"{put}({self.out}, {value})")

    def _write_length(self, length: str, codes: str, compact: bool, long: str) -> None:
        """Add the lines that write a length; `codes` is its format if it is not compact.

        A compact length is a varint of the length plus 1: one byte below 128, else the function
        `long` writes it.
        """
        if not compact:
            self.pending.append((codes, length))
            self._flush()
            return
        self._flush()
        self.source.add(f"n = {length} + 1")
        with self.source.block("if n < 128:"):
            self.source.add(f"{self.out}.append(n)")
        with self.source.block("else:"):
            self.source.add(f"{self.module.use(long)}({self.out}, n)")

    def _write_array(self, field: SchemaField, value: str, compact: bool) -> None:
        """Add the lines that write an array: its length, then its elements by one call.

        `compact` lengths are varints (flexible versions), others have a fixed size.
        """
        self._write_length(f"len({value})", "i", compact, "put_varint")
        if field.struct is not None:
            writer = self.module.writer(self.message, field.struct, self.version, True)
        elif field.type == "string":
            writer = self.module.use("put_compact_strings" if compact else "put_strings")
        elif field.type == "uuid":
            writer = self.module.use("put_uuids")
        else:
            writer = self.module.use(f"put_{INT_ARRAYS[field.type]}")
        self.source.add(f"{writer}({self.out}, {value})")
