"""`partition.metadata`: which topic id a partition's folder belongs to.

version: 0
topic_id: Uq1sYyEaTeGSJzYHyyIO1A      Kafka's form of a uuid: base64 for URLs, no padding
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING

from kwire.log.error import CorruptFile

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

FILE_NAME = "partition.metadata"


def uuid_text(value: bytes) -> str:
    """Kafka's way to write a uuid: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def new_directory_id() -> str:
    """A random uuid; Kafka reserves the first hundred, which no random one ever is."""
    return uuid_text(uuid.uuid4().bytes)


def uuid_of_text(text: str) -> bytes:
    """ValueError if it is no uuid in Kafka's form."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a uuid in base64") from error
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a uuid in base64")
    return value


def read(files: Files, directory: Path) -> bytes | None:
    """The topic id, None when the file is not there.  CorruptFile if it is bad."""
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
        return uuid_of_text(fields.get("topic_id", ""))
    except ValueError as error:
        raise CorruptFile(f"{path} has no topic id: {error}") from error


def read_if_whole(files: Files, directory: Path) -> bytes | None:
    """The topic id; None where a power cut came before it was on disk."""
    try:
        return read(files, directory)
    except CorruptFile:
        return None


def write(files: Files, directory: Path, topic_id: bytes) -> None:
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    files.replace(directory / FILE_NAME, text.encode(), sync=False)  # the first flush does that
