"""Every message at every version is read as written, and damaged bytes raise DecodeError."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.codecs import primitives
from kwire.codecs.messages import MODULES, message_class
from kwire.codecs.primitives import DecodeError, EncodeError
from kwire.codecs.schema_notation import ClassNames, MessageSchema, SchemaField, StructSchema, load

VECTORS = Path(__file__).parent / "data" / "vectors.jsonl.gz"

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    # lengths of one, two and three bytes as a varint, and the longest string there is
    "string": st.text(max_size=3) | st.sampled_from(["é" * 80, "x" * 127, "y" * 0x7FFF]),
    "bytes": st.binary(max_size=3) | st.sampled_from([b"b" * 127, b"c" * 20_000]),
    "records": st.binary(max_size=3) | st.sampled_from([b"r" * 4096, b"s" * 4097]),
}


@cache
def schema(name: str) -> tuple[MessageSchema, ClassNames]:
    messages = load(MODULES[name].replace(".", "/"))
    return next(each for each in messages if each.name == name), ClassNames(messages)


@cache
def message_strategy(name: str, version: int) -> st.SearchStrategy[primitives.Message]:
    message, names = schema(name)
    module = import_module(message_class(name).__module__)

    def of_struct(struct: StructSchema) -> st.SearchStrategy[Any]:
        fields = {
            field.attribute: of_field(field) for field in struct.fields if version in field.versions
        }
        return st.builds(getattr(module, names.of(struct)), **fields)

    def of_field(field: SchemaField) -> st.SearchStrategy[Any]:
        values = SCALARS[field.type] if field.struct is None else of_struct(field.struct)
        if field.is_array:
            values = st.lists(values, max_size=2)
            if field.type in ("int8", "int32", "string"):
                values |= st.sampled_from([[7] * 200 if field.type != "string" else ["s"] * 200])
        elif field.struct is not None and field.tag is not None and field.nullable is None:
            # None stands for a struct of defaults, which is not sent
            empty = getattr(module, names.of(field.struct))()
            return values.map(lambda value: None if value == empty else value)
        return values | st.none() if field.is_nullable(version) else values

    return of_struct(message.body)


@pytest.mark.parametrize("name", sorted(MODULES))
@settings(max_examples=3)
@given(data=st.data())
def test_message_of_every_version_is_read_as_written(name: str, data: st.DataObject) -> None:
    cls = message_class(name)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        message = data.draw(message_strategy(name, version), label=f"version {version}")
        encoded = message.encode(version)
        before, after = b"\xff" * 3, b"\xfe" * 3
        decoded, end = cls.read(memoryview(before + encoded + after), version, len(before))
        assert decoded == message
        assert end == len(before) + len(encoded)
        assert cls.decode(bytearray(encoded), version) == message


@cache
def samples() -> list[tuple[str, int, bytes]]:
    """Name, version and bytes of a message with content of every version: the longest up to 300
    bytes, or the shortest.
    """
    best: dict[tuple[str, int], bytes] = {}
    with gzip.open(VECTORS) as file:
        for line in file:
            vector = json.loads(line)
            key, data = (vector["message"], vector["version"]), bytes.fromhex(vector["hex"])
            kept = best.get(key)
            if kept is None or (len(kept) < len(data) <= 300) or len(data) < len(kept) > 300:
                best[key] = data
    return [(name, version, data) for (name, version), data in best.items()]


KRAFT_RECORDS = {
    (name, version)
    for name, versions in {
        "AccessControlEntryRecord": 1,
        "ClientQuotaRecord": 1,
        "ConfigRecord": 1,
        "DelegationTokenRecord": 1,
        "FeatureLevelRecord": 1,
        "PartitionChangeRecord": 3,
        "PartitionRecord": 3,
        "ProducerIdsRecord": 1,
        "RemoveAccessControlEntryRecord": 1,
        "RemoveDelegationTokenRecord": 1,
        "RemoveTopicRecord": 1,
        "RemoveUserScramCredentialRecord": 1,
        "TopicRecord": 1,
        "UserScramCredentialRecord": 1,
    }.items()
    for version in range(versions)
}
"""Read from Apache Kafka's metadata log, by tests/log/interchange."""


def test_recorded_samples_cover_every_version() -> None:
    versions = {(name, version) for name, version, _ in samples()}
    assert (
        versions
        >= {(name, version) for name in MODULES for version in schema(name)[0].versions.all()}
        - {("RequestHeader", 0), ("TransactionLogValue", 0)}
        - KRAFT_RECORDS
    )  # the vectors lack them


@pytest.mark.slow
def test_message_truncated_at_any_byte_raises_decode_error() -> None:
    for name, version, data in samples():
        cls = message_class(name)
        view = memoryview(data)
        for size in range(len(data)):
            with pytest.raises(DecodeError):
                cls.decode(view[:size], version)


def mutations(data: bytes, rng: random.Random) -> Iterator[bytes]:
    for _ in range(10):
        mutated = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated) or 1)
            kind = rng.randrange(4)
            if kind == 0:
                mutated[at : at + 1] = rng.randbytes(1)
            elif kind == 1:
                mutated[at : at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])
            elif kind == 2:
                mutated[at : at + 1] = rng.choice([b"\xff\xff\xff\xff\x07", b"\xff" * 5, b"\x80\0"])
            else:
                del mutated[at : at + rng.randint(1, 3)]
        yield bytes(mutated)


@pytest.mark.slow
def test_mutated_bytes_decode_or_raise_decode_error(rng: random.Random) -> None:
    decoded = 0
    refused: set[str] = set()
    for name, version, data in samples():
        cls = message_class(name)
        for mutated in mutations(data, rng) if data else ():
            try:
                message = cls.decode(mutated, version)
            except DecodeError:
                continue
            decoded += 1
            try:
                message.encode(version)
            except EncodeError as error:
                refused.add(str(error).rpartition(": ")[2])
    assert decoded > 1000
    # U+FFFD takes more bytes than what it stands for
    assert all(each.startswith("a string of ") for each in refused)


BIG = [b"\x7f\xff\xff\xff", b"\x0f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\x7f"]


LIED_TO = ("Produce", "Fetch", "Metadata", "OffsetFetch", "JoinGroup")


def distinct_versions(cls: type[primitives.Message]) -> set[int]:
    """The lowest and highest version, and those on either side of the change of encoding."""
    flexible = cls.MAX_VERSION if cls.FLEXIBLE_SINCE is None else cls.FLEXIBLE_SINCE
    return {cls.MIN_VERSION, max(flexible - 1, cls.MIN_VERSION), flexible, cls.MAX_VERSION}


@pytest.mark.slow
@pytest.mark.parametrize("api", LIED_TO)
def test_false_count_allocates_no_memory(api: str) -> None:
    """The versions between have the same encoding and some of the fields."""
    for name in (f"{api}Request", f"{api}Response"):
        assert_false_counts_take_no_memory(name, distinct_versions(message_class(name)))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("api", LIED_TO)
def test_false_count_allocates_no_memory_in_any_version(api: str) -> None:
    for name in (f"{api}Request", f"{api}Response"):
        cls = message_class(name)
        assert_false_counts_take_no_memory(name, {*range(cls.MIN_VERSION, cls.MAX_VERSION + 1)})


def assert_false_counts_take_no_memory(name: str, versions: set[int]) -> None:
    cls = message_class(name)
    looked_at = {version: data for each, version, data in samples() if each == name}
    tracemalloc.start()
    try:
        for version in sorted(versions):
            data = looked_at[version]
            padded = data + bytes(100)
            for at in range(len(data)):
                for big in BIG:
                    with_lie = padded[:at] + big + padded[at + len(big) :]
                    tracemalloc.reset_peak()
                    before, _ = tracemalloc.get_traced_memory()
                    with suppress(DecodeError):
                        cls.decode(with_lie, version)
                    peak = tracemalloc.get_traced_memory()[1] - before
                    assert peak < 100_000 + 100 * len(with_lie), (name, version, at, big)
    finally:
        tracemalloc.stop()
