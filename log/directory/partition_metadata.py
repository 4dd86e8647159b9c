"""`partition.metadata`: the topic id of a partition's folder.

version: 0
topic_id: Uq1sYyEaTeGSJzYHyyIO1A      Kafka's form of a uuid: base64 for URLs, no padding
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kwire.codecs.uuids import random_uuid, uuid_bytes, uuid_text
from kwire.log.error import CorruptFile

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

FILE_NAME = "partition.metadata"


def new_directory_id() -> str:
    return uuid_text(random_uuid(os.urandom))


def read(files: Files, directory: Path) -> bytes | None:
    """Return the topic id, None if the file does not exist; raises CorruptFile."""
    path = directory / FILE_NAME
    try:
        lines = files.read(path).decode().splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{path} is not text") from error
    fields = dict(line.partition(": ")[::2] for line in lines)
    if not any(lines):
        return None  # a power cut before anything of the log was on disk
    if fields.get("version") != "0":
        raise CorruptFile(f"{path} has no version 0")
    try:
        return uuid_bytes(fields.get("topic_id", ""))
    except ValueError as error:
        raise CorruptFile(f"{path} has no topic id: {error}") from error


def read_if_whole(files: Files, directory: Path) -> bytes | None:
    """The topic id; None if the file is missing or damaged, as after a power cut."""
    try:
        return read(files, directory)
    except CorruptFile:
        return None


def content(topic_id: bytes) -> bytes:
    """The file."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def write(files: Files, directory: Path, topic_id: bytes) -> None:
    files.replace(directory / FILE_NAME, content(topic_id), sync=False)  # the first flush does that
