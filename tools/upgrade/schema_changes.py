"""What has changed in the message schemas between two releases, as items of the work list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.codecs.schema_notation import snake_case
from tools.upgrade.facts import BROKER, Api
from tools.upgrade.item import COMMENTS, FIELDS, Item
from tools.upgrade.jars import JsonSchema
from tools.upgrade.notation import SchemaLine, message_lines
from tools.upgrade.release import Release
from tools.upgrade.serving import Serving, Status

_API_KINDS = ("request", "response")


class _Field(NamedTuple):
    """A field of a message: its line in the notation, and where it is."""

    line: SchemaLine
    path: str
    """The names of the structs above it and its own, joined by dots."""

    @property
    def text(self) -> str:
        """The line in the notation, with the path in place of the name."""
        _, _, rest = self.line.text.partition(": ")
        return f"{self.path}: {rest}{', map key' if self.line.is_map_key else ''}"

    @property
    def form(self) -> str:
        """All that the line says except the name."""
        return self.text.partition(": ")[2]


def schema_items(before: Release, after: Release, serving: Serving) -> Iterator[Item]:
    """The items about messages and fields, then those about the comments of schemas."""
    old = {schema.name: schema for schema in before.schemas}
    new = {schema.name: schema for schema in after.schemas}
    statuses = _Statuses(after, serving)
    for name in sorted(old.keys() - new.keys()):
        yield Item(FIELDS, f"{name} is gone", Status.TO_DO)
    for name in sorted(new):
        if name not in old:
            yield _new_message(new[name], statuses)
        else:
            yield from _changed_fields(old[name], new[name], statuses)
    for name in sorted(new):
        details = list(_new_comments(old.get(name), new[name]))
        if details:
            yield Item(COMMENTS, name, *statuses.message(new[name]), details)


class _Statuses:
    """The status of messages and fields: whether kwire has them."""

    def __init__(self, release: Release, serving: Serving) -> None:
        """`release` is the one that has the messages."""
        self._apis: dict[int, Api] = {api.key: api for api in release.facts.apis}
        self._serving = serving

    def message(self, schema: JsonSchema) -> tuple[Status, str]:
        """Whether kwire has a message in its newest version, and why."""
        if schema.json["type"] not in _API_KINDS:
            used = schema.name in self._serving.identifiers
            return (Status.SERVED, "") if used else (Status.TO_DO, "no code uses it")
        api = self._apis.get(schema.json["apiKey"])
        return self._version(api, api.stable if api else 0)

    def field(self, schema: JsonSchema, line: SchemaLine) -> tuple[Status, str]:
        """Whether kwire has a field from its first version on, and why."""
        if schema.json["type"] in _API_KINDS:
            api = self._apis.get(schema.json["apiKey"])
            status, note = self._version(api, line.versions.first)
        else:
            status, note = self.message(schema)
        name = snake_case(line.name)
        if status is Status.SERVED and name not in self._serving.identifiers:
            return Status.TO_DO, f"no code names {name}"
        return status, note

    def _version(self, api: Api | None, version: int) -> tuple[Status, str]:
        """Whether kwire serves a version of an API key."""
        if api is None:
            return Status.TO_DO, "no such API key"
        if BROKER not in api.listeners:
            return Status.GATED, "for controllers"
        if version > api.stable:
            return Status.GATED, "unstable version"
        served = self._serving.version(api.key, version)
        return (Status.SERVED if served else Status.TO_DO), ""


def _new_message(schema: JsonSchema, statuses: _Statuses) -> Item:
    line = message_lines(schema)
    if line is None:
        return Item(FIELDS, f"{schema.name} has no valid version", Status.GATED)
    status, note = statuses.message(schema)
    details = [field.text for field in _fields(line)]
    return Item(FIELDS, f"new message: {line.text}", status, note, details)


def _changed_fields(old: JsonSchema, new: JsonSchema, statuses: _Statuses) -> Iterator[Item]:
    """The items about the fields of one message that both releases have."""
    before, after = message_lines(old), message_lines(new)
    if before is None or after is None:
        if after is not before:
            yield Item(FIELDS, f"{new.name}: its valid versions changed", Status.TO_DO)
        return
    if before.text != after.text and new.json["type"] not in _API_KINDS:
        yield Item(FIELDS, f"{before.text} → {after.text}", *statuses.message(new))
    known = {field.path: field for field in _fields(before)}
    present = {field.path: field for field in _fields(after)}
    gone = {path: field for path, field in known.items() if path not in present}
    for path, field in present.items():
        status = statuses.field(new, field.line)
        former = known.get(path) or _renamed(gone, field)
        if former is None:
            yield Item(FIELDS, f"{new.name}: new {field.text}", *status)
        elif former.path != path:
            del gone[former.path]
            yield Item(FIELDS, f"{new.name}: {former.path} is renamed {field.text}", *status)
        elif former.text != field.text:
            text = f"{new.name}: {former.text} → {field.form}"
            yield Item(FIELDS, text, *status)
    for field in gone.values():
        yield Item(FIELDS, f"{new.name}: {field.text} is gone", *statuses.message(new))


def _renamed(gone: dict[str, _Field], field: _Field) -> _Field | None:
    """Return the only field of the same struct that is gone and differs by its name alone."""
    struct = field.path.rpartition(".")[0]
    same = [
        each
        for each in gone.values()
        if each.form == field.form and each.path.rpartition(".")[0] == struct
    ]
    return same[0] if len(same) == 1 else None


def _fields(message: SchemaLine) -> Iterator[_Field]:
    """The fields of a message and of its structs; those of a shared struct are below its name."""
    for path, line in message.walk():
        if len(path) > 1 and not line.name.startswith("struct "):
            yield _Field(line, ".".join(path[1:]).removeprefix("struct "))


def _new_comments(old: JsonSchema | None, new: JsonSchema) -> Iterator[str]:
    """The new comments of a schema, and the descriptions of fields that are new or changed."""
    known = set(old.comments) if old is not None else set()
    yield from (comment for comment in new.comments if comment not in known)
    lines = message_lines(new)
    before = message_lines(old) if old is not None else None
    abouts = {field.path: field.line.about for field in _fields(before)} if before else {}
    for field in _fields(lines) if lines is not None else ():
        if field.line.about and abouts.get(field.path) != field.line.about:
            yield f"{field.path}: {field.line.about}"
