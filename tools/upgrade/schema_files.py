"""The files of `codecs/schema`: which message is in which file, and the text of a file.

A request and its response, or a key and its value, share a file.  A file keeps its comments, which
belong to the line that they are above or behind.  Messages that a release no longer has keep their
files: those of brokers on ZooKeeper come from Apache Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kwire.codecs.schema_notation import snake_case
from tools.upgrade.jars import JsonSchema
from tools.upgrade.notation import KINDS, SchemaLine, message_lines

COORDINATOR_FOLDER: Final = "coordinator"
TOPICS: Final = {"kafka-metadata": "__cluster_metadata", "kafka-storage": "__remote_log_metadata"}
"""The topic of the records whose schemas an artifact has."""
KEPT: Final = {"RequestHeader": "version 0, of 3.9, is that of ControlledShutdown version 0"}
"""Messages that stay as they are, and what they have that releases since 4.0 lack."""
_KINDS: Final = ("request", "response", "key", "value", "metadata", "header", "data")
_PAIRED: Final = re.compile(r"(.+)(Request|Response|Key|Value)")
_INDENT: Final = 4


@dataclass(slots=True)
class Comments:
    """The comments of one file by the names that lead to the line they belong to."""

    head: list[str] = field(default_factory=list)
    """The comment at the beginning of the file, with its `#`."""
    above: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    behind: dict[tuple[str, ...], str] = field(default_factory=dict)


def stem_of(schema: JsonSchema) -> str:
    """The name of the file that has the message, without `.txt`."""
    kind = schema.json["type"]
    if kind in ("request", "response", "coordinator-key", "coordinator-value"):
        match = _PAIRED.fullmatch(schema.name)
        assert match is not None, schema.name
        folder = f"{COORDINATOR_FOLDER}/" if kind.startswith("coordinator") else ""
        return folder + snake_case(match[1])
    return snake_case(schema.name)


def title_of(schema: JsonSchema) -> str:
    """The first line of a file that has no comment yet."""
    kind, number = schema.json["type"], schema.json.get("apiKey")
    name = schema.name
    if kind in ("request", "response"):
        return f"# {name.removesuffix('Request').removesuffix('Response')}: API key {number}"
    if kind.startswith("coordinator"):
        name = name.removesuffix("Key").removesuffix("Value")
        return f"# {name}: record type {number} of an internal topic"
    if kind == "metadata":
        return f"# {name}: record type {number} of {TOPICS[schema.artifact]}"
    return f"# {name}"


def file_texts(schemas: Iterable[JsonSchema], existing: Mapping[str, str]) -> dict[str, str]:
    """The text of each schema file by its name without `.txt`.

    `existing` has the present texts, whose comments are kept.
    """
    grouped: dict[str, list[JsonSchema]] = {}
    for schema in schemas:
        if schema.name in KEPT:
            continue
        grouped.setdefault(stem_of(schema), []).append(schema)
    texts = {}
    for stem, group in sorted(grouped.items()):
        group.sort(key=lambda schema: _KINDS.index(_kind(schema)))
        lines = [line for schema in group if (line := message_lines(schema)) is not None]
        if lines:
            comments = read_comments(existing.get(stem, ""))
            if not comments.head:
                comments.head = [title_of(group[0])]
            texts[stem] = _text(lines, comments)
    return texts


def names_of(schemas: Iterable[JsonSchema]) -> set[str]:
    """The messages that `file_texts` writes: those with a valid version, without `KEPT`."""
    return {
        schema.name
        for schema in schemas
        if schema.name not in KEPT and message_lines(schema) is not None
    }


def _kind(schema: JsonSchema) -> str:
    kind: str = schema.json["type"]
    return KINDS.get(kind, kind)


def _text(messages: list[SchemaLine], comments: Comments) -> str:
    out = [*comments.head]
    for message in messages:
        out.append("")
        for path, line in message.walk():
            indent = " " * (_INDENT * (len(path) - 1))
            out += [f"{indent}{comment}" for comment in comments.above.get(path, ())]
            behind = comments.behind.get(path, "")
            out.append(f"{indent}{line.text}{behind and f'  {behind}'}")
    return "\n".join(out) + "\n"


def read_comments(text: str) -> Comments:
    """The comments of a schema file."""
    comments = Comments()
    waiting: list[str] = []
    path: tuple[str, ...] = ()
    for line in text.splitlines():
        content, mark, comment = line.partition("#")
        name = _name(content.strip())
        if not name:
            if mark:
                waiting.append(f"#{comment}")
            elif waiting and not path and not comments.head:
                comments.head, waiting = waiting, []
            continue
        depth = (len(content) - len(content.lstrip())) // _INDENT
        path = (*path[:depth], name)
        if waiting:
            comments.above[path] = waiting
            waiting = []
        if mark:
            comments.behind[path] = f"#{comment}"
    return comments


def _name(line: str) -> str:
    """What a line of the notation declares, as `SchemaLine.name`; empty for an empty line."""
    if line.startswith("struct "):
        return line
    head, colon, _ = line.partition(": ")
    if colon:
        return head
    return head.partition(",")[0].rpartition(" ")[2]


def lost_comments(text: str, existing: str) -> Iterator[str]:
    """The comments of the existing text that the new text has no line for."""
    kept, before = read_comments(text), read_comments(existing)
    for path, lines in before.above.items():
        if path not in kept.above:
            yield f"{'.'.join(path)}: {' '.join(lines)}"
    for path, line in before.behind.items():
        if path not in kept.behind:
            yield f"{'.'.join(path)}: {line}"


def texts_in(folder: Path) -> dict[str, str]:
    """The texts of the schema files of a folder by their names without `.txt`."""
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*.txt"))
    }


def write(folder: Path, texts: Mapping[str, str]) -> list[str]:
    """Write the texts that differ from the files on disk; return their names."""
    written = []
    for stem, text in texts.items():
        path = folder / f"{stem}.txt"
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            written.append(stem)
    return written
