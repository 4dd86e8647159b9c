"""Reads a declaration from its file, and the passwords and records that it refers to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kwire.cli.declared_state.document import DeclarationError, Document, read
from kwire.cli.declared_state.reading import declared_by
from kwire.cli.declared_state.state import (
    Declared,
    Inline,
    Secret,
    SecretSource,
    Seed,
    SeedFile,
    SeedFormat,
)
from kwire.cli.text.records import BadLine, NewRecord, from_json


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declared state, and the folder of the files that it names."""

    declared: Declared
    folder: Path


def load(source: Path | Mapping[str, object]) -> Declaration:
    """The declaration in a file or a mapping.  Its records are checked, too.

    Raises DeclarationError, or OSError if a file cannot be read.
    """
    if isinstance(source, Mapping):
        declaration = Declaration(declared_by(Document(source)), Path())
    else:
        try:
            text = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as problem:
            raise DeclarationError(f"{source}: not UTF-8: {problem}") from None
        declaration = Declaration(declared_by(read(text, str(source))), source.parent)
    for topic in (declaration.declared.topics or {}).values():
        for seed in topic.seeds:
            check_seed(seed, declaration.folder)
    return declaration


def check_seed(seed: Seed, folder: Path) -> None:
    """Raise DeclarationError if a record is invalid."""
    for _ in records_of(seed, folder):
        pass


def password_of(secret: Secret, folder: Path) -> str:
    """The password.  Raises DeclarationError, whose message does not show it."""
    if secret.source is SecretSource.TEXT:
        return secret.said
    if secret.source is SecretSource.ENV:
        password = os.environ.get(secret.said, "")
        where = f"the environment has no {secret.said}"
    else:
        path = folder / secret.said
        try:
            password = path.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as problem:
            raise DeclarationError(f"{path}: {problem}") from None
        where = f"the first line of {path} is empty"
    if not password:
        raise DeclarationError(f"no password: {where}")
    return password


def records_of(seed: Seed, folder: Path) -> Iterator[NewRecord]:
    """The records of a seed, one by one.  Raises DeclarationError or OSError."""
    if isinstance(seed, Inline):
        yield _record(json.dumps(seed.record, ensure_ascii=False), seed.where)
    elif seed.format is SeedFormat.CSV:
        yield from _rows(seed, folder / seed.path)
    else:
        yield from _lines(seed, folder / seed.path)


def _record(line: str, where: str) -> NewRecord:
    """Parses a record in JSON.  Raises DeclarationError with the place `where` if it is invalid."""
    try:
        return from_json(line.encode("utf-8", "surrogatepass"), keep_partition=True)
    except BadLine as problem:
        raise DeclarationError(f"{where}: {problem}") from None


def _lines(seed: SeedFile, path: Path) -> Iterator[NewRecord]:
    """Yield the records of a file with one JSON record, or one JSON value, per line.  Empty lines
    are skipped.  Raises DeclarationError with the number of a wrong line."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            if seed.format is SeedFormat.VALUES:
                try:
                    line = json.dumps({"value": json.loads(line)})
                except ValueError as problem:
                    raise DeclarationError(f"{where}: not JSON: {problem}") from None
            yield _record(line, where)


def _rows(seed: SeedFile, path: Path) -> Iterator[NewRecord]:
    """The records of a CSV file.  The value of each is an object of its columns, all text."""
    import csv

    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        columns = rows.fieldnames or ()
        if seed.key is not None and seed.key not in columns:
            raise DeclarationError(f"{path} has no column {seed.key!r}: {', '.join(columns)}")
        for row in rows:
            if None in row or None in row.values():
                raise DeclarationError(
                    f"{path}, line {rows.line_num}: not as many columns as the head"
                )
            key = {} if seed.key is None else {"key": row[seed.key]}
            yield _record(json.dumps({**key, "value": row}), f"{path}, line {rows.line_num}")
