"""Recorded messages: values, and the bytes that Apache Kafka's own encoder makes of them.

`KafkaMessages.java` encodes and decodes.  Messages that a release no longer has, those of brokers
on ZooKeeper, go through the last release that has them.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from kwire.codecs.schema_notation import MessageSchema, load, schema_names
from kwire.conformance import java
from kwire.conformance.apache_kafka import QUICK_JVM
from tools.upgrade.drawing import Drawing, Size

PROGRAM: Final = Path(__file__).with_name("KafkaMessages.java")
FOLDER: Final = Path("tests/codecs/data")
VECTORS, DAMAGED = "vectors.jsonl.gz", "damaged.jsonl.gz"
SIZES: Final = (Size.EMPTY, Size.LONG, Size.LONG, Size.EDGE, *[Size.SHORT] * 6)
"""How much each of the messages of one version holds."""
SEED: Final = "upgrade"
TIMEOUT_S: Final = 600

Line: TypeAlias = Mapping[str, Any]


class NotEncoded(RuntimeError):
    """Apache Kafka cannot encode what the schema says.  The text names the first such message."""


def all_schemas() -> list[MessageSchema]:
    """The schemas of all messages in the repository."""
    return [message for name in schema_names() for message in load(name)]


def random_messages(schemas: Iterable[MessageSchema]) -> Iterator[Line]:
    """Random values of each message and version: one message for each of `SIZES`."""
    for schema in schemas:
        for version in schema.versions.all():
            drawing = Drawing(schema, version, SEED)
            for size in SIZES:
                values = drawing.message(size)
                yield {"message": schema.name, "version": version, "json": values}


def ask_kafka(libs: Path, lines: Iterable[Line]) -> list[Line]:
    """Let `KafkaMessages.java` encode the values, or decode the bytes, of some lines.

    `libs` is the folder of the jars that it uses.  Raises NotEncoded.
    """
    command = [str(java.executable()), *QUICK_JVM, "-cp", f"{libs}/*", str(PROGRAM)]
    given = "".join(f"{json.dumps(line)}\n" for line in lines)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise NotEncoded(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask_both(libs: Path, older_libs: Path, names: set[str], lines: Sequence[Line]) -> list[Line]:
    """Do the same, but with the jars in `older_libs` for messages that are not in `names`."""
    now = [line for line in lines if line["message"] in names]
    earlier = [line for line in lines if line["message"] not in names]
    return [*ask_kafka(libs, now), *ask_kafka(older_libs, earlier)]


def damaged_messages(whole: Iterable[Line], known: Iterable[Line]) -> Iterator[Line]:
    """The damaged bytes in `known`, and two for each message and version that has none there.

    The first of the two lacks the last byte.  In the second, the byte in the middle is changed.
    """
    recorded: dict[tuple[str, int], list[str]] = {}
    for line in known:
        recorded.setdefault((line["message"], line["version"]), []).append(line["hex"])
    for line in whole:
        name, version, data = line["message"], line["version"], bytes.fromhex(line["hex"])
        middle = len(data) // 2
        changed = data[:middle] + bytes(255 - byte for byte in data[middle : middle + 1])
        new = [data[:-1].hex(), (changed + data[middle + 1 :]).hex()]
        for text in recorded.get((name, version), new):
            yield {"message": name, "version": version, "hex": text}


def read(path: Path) -> list[Line]:
    """The lines of a recorded file; none if there is no such file."""
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write lines to a compressed file.  The same lines make the same bytes."""
    text = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())


def record(root: Path, libs: Path, older_libs: Path, names: set[str]) -> dict[str, int]:
    """Write all recorded messages; return how many lines each file has.

    `names` are the messages of the release in `libs`.
    """
    schemas = all_schemas()
    vectors = ask_both(libs, older_libs, names, list(random_messages(schemas)))
    damage = list(
        damaged_messages(
            vectors[SIZES.index(Size.SHORT) :: len(SIZES)], read(root / FOLDER / DAMAGED)
        )
    )
    found = {VECTORS: vectors, DAMAGED: ask_both(libs, older_libs, names, damage)}
    for name, lines in found.items():
        write(root / FOLDER / name, lines)
    return {name: len(lines) for name, lines in found.items()}
