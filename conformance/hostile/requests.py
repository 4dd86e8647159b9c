"""Generates valid requests with random values from the schemas of the messages.

Values are chosen so that many requests pass the first checks: names from a small pool that the
broker knows, short waiting times, small numbers of partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from struct import pack

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.batches import Compression, Record, TimestampType, build
from kwire.codecs.messages import request_class
from kwire.codecs.messages.produce import ProduceRequest
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import EncodeError, Message
from kwire.codecs.schema_notation import SchemaField, StructSchema, load, schema_names

VersionRange = tuple[int, int]

TOPICS = tuple(f"hostile-{number}" for number in range(6))
_GROUPS = tuple(f"hostile-group-{number}" for number in range(4))
_STRANGE_NAMES = (
    "",
    ".",
    "..",
    "../../up",
    "a b",
    "nul\0",
    "caf\u00e9 \U00010348",
    "n" * 249,
    "n" * 250,
    "x" * 5000,
    "hostile.0",
)
_WORDS = (
    "consumer",
    "range",
    "uniform",
    "member-1",
    "GROUP",
    "127.0.0.1",
    "rack-1",
    "kwire",
    "1.0",
)
_CONFIGS = (
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "segment.bytes",
    "no.such.config",
)
_CONFIG_VALUES = ("1000", "compact", "delete", "-1", "true", "", "9" * 30)
_INTERNAL_TOPIC = "__consumer_offsets"

_SIZES_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}

_SMALL_INTS: Mapping[str, Sequence[int]] = {
    # Waits and lifetimes must be short, so that the test need not wait for its own requests.
    "max_wait_ms": (0, 1, 20),
    "timeout_ms": (0, 1, 20, 1000),
    "rebalance_timeout_ms": (1, 20),
    "session_timeout_ms": (6000, 10_000, 1),
    "transaction_timeout_ms": (1, 1000, 60_000),
    # A broker may create what a request asks for, so the numbers are small.
    "num_partitions": (-1, 0, 1, 3),
    "count": (1, 2, 4),
    "replication_factor": (-1, 1, 1, 2),
    # Mostly values that exist.
    "acks": (-1, 0, 1, 1, 2),
    "replica_id": (-1, -1, -1, 0, 1),
    "partition": (0, 0, 0, 1, 2, -1),
    "partition_index": (0, 0, 0, 1, 2, -1),
    "partition_indexes": (0, 1, 2, 7),
    "min_bytes": (0, 1, 1000),
    "max_bytes": (0, 1, 1000, 1 << 20, (1 << 31) - 1),
    "partition_max_bytes": (0, 1, 1000, 1 << 20, (1 << 31) - 1),
    "generation_id": (-1, 0, 1),
    "generation_id_or_member_epoch": (-1, 0, 1),
    "current_leader_epoch": (-1, -1, 0, 1),
    "resource_type": (2, 2, 4, 0, 32),
    "isolation_level": (0, 1, 0, 1, 7),
    "key_type": (0, 1, 2, 9),
}

LEFT_OUT = frozenset({ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.UNREGISTER_BROKER})
"""APIs that are not sent.

A valid request may slow down all other clients, or remove the broker from its cluster.
"""

_KEEPS_INTERNAL_TOPICS = frozenset({ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS})


@cache
def _schemas() -> dict[int, StructSchema]:
    """Return the schema of each request's body, by API key."""
    bodies: dict[int, StructSchema] = {}
    for name in schema_names():
        for message in load(name):
            if message.kind == "request" and message.number is not None:
                bodies[message.number] = message.body
    return bodies


@dataclass(slots=True)
class ValidRequest:
    """The frame of a valid request, with the fields that are needed to read its response."""

    frame: bytes
    api_key: int
    version: int
    correlation_id: int
    is_answered: bool


class RequestMaker:
    """Generates valid requests within `served`, the broker's versions by API key."""

    def __init__(
        self,
        rng: random.Random,
        served: Mapping[int, VersionRange],
        topic_ids: Sequence[bytes],
    ) -> None:
        """Choose the API keys and versions that the broker serves and this project can encode.

        The topic ids include the empty one, 16 zero bytes.
        """
        self._rng = rng
        self._topic_ids = [*topic_ids, bytes(16)]
        self._correlation_id = 0
        self._choices = [
            (key, version)
            for key, (low, high) in sorted(served.items())
            if key in _schemas() and key not in LEFT_OUT
            for version in range(
                max(low, request_class(key).MIN_VERSION),
                min(high, request_class(key).MAX_VERSION) + 1,
            )
        ]
        assert self._choices, "the broker serves nothing that is known here"

    def draw(self) -> ValidRequest:
        """Return a request of a random API and version; all versions are equally likely."""
        return self.request(*self._rng.choice(self._choices))

    def all(self) -> list[ValidRequest]:
        """Return one request of every API and version."""
        return [self.request(key, version) for key, version in self._choices]

    def request(self, api_key: int, version: int) -> ValidRequest:
        """Return a request of this API and version with random values."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._rng.choice(("hostile", "", None, "h" * 300)),
        ).encode(request_header_version(api_key, version))
        message = self._message(api_key, version)
        body = message.encode(version)
        frame = pack(">i", len(header) + len(body)) + header + body
        is_answered = not (isinstance(message, ProduceRequest) and message.acks == 0)
        return ValidRequest(frame, api_key, version, self._correlation_id, is_answered)

    def _message(self, api_key: int, version: int) -> Message:
        """Return a message with random fields; a field that cannot be encoded keeps its default."""
        message_class = request_class(api_key)
        message = message_class()
        for field in _schemas()[api_key].fields:
            self._fill(message, field, api_key, version)
            try:
                message.encode(version)
            except EncodeError:  # for example, a field that excludes another one
                default: Message = message_class()
                setattr(message, field.attribute, getattr(default, field.attribute))
        return message

    def _fill(self, target: object, field: SchemaField, api_key: int, version: int) -> None:
        """Give a field a random value, null or 0 to 3 elements, if this version has the field.

        Half of the tagged fields are left out.
        """
        if version not in field.versions or (field.tag is not None and self._rng.random() < 0.5):
            return
        if field.is_nullable(version) and self._rng.random() < 0.15:
            value: object = None
        elif field.is_array:
            count = self._rng.choice((0, 1, 1, 1, 2, 3))
            value = [self._value(target, field, api_key, version) for _ in range(count)]
        else:
            value = self._value(target, field, api_key, version)
        setattr(target, field.attribute, value)

    def _value(self, owner: object, field: SchemaField, api_key: int, version: int) -> object:
        """Return a random value for a field or for one element of it."""
        if field.struct is not None:
            nested: object = _struct_class(owner, field.struct.name)()
            for inner in field.struct.fields:
                self._fill(nested, inner, api_key, version)
            return nested
        if field.type in _SIZES_BITS or field.type in _UNSIGNED_BITS:
            return self._integer(field)
        draw: Callable[[], object] = {
            "bool": lambda: self._rng.random() < 0.5,
            "float64": self._rng.random,
            "uuid": lambda: self._rng.choice([*self._topic_ids, self._rng.randbytes(16)]),
            "string": lambda: self._string(field, api_key),
            "bytes": lambda: self._rng.randbytes(self._rng.choice((0, 1, 30, 300))),
            "records": self._records,
        }[field.type]
        return draw()

    def _integer(self, field: SchemaField) -> int:
        """Return a random integer: plausible ones for known fields, else limits and small
        numbers."""
        rng = self._rng
        known = _SMALL_INTS.get(field.attribute)
        if known is not None:
            return rng.choice(known)
        if field.type in _UNSIGNED_BITS:
            return rng.choice((0, 1, (1 << _UNSIGNED_BITS[field.type]) - 1))
        bits = _SIZES_BITS[field.type]
        limit = 1 << bits - 1
        return rng.choice((0, 0, 1, 1, -1, -2, 5, 100, limit - 1, -limit))

    def _string(self, field: SchemaField, api_key: int) -> str:
        """Return a random string: mostly a name that fits the field, in a tenth a strange one."""
        rng = self._rng
        name = field.attribute
        chance = rng.random()
        if chance < 0.1:
            return rng.choice(_STRANGE_NAMES)
        if "group" in name:
            return rng.choice(_GROUPS)
        if "config" in name:
            return rng.choice(_CONFIGS)
        if name == "value":
            return rng.choice(_CONFIG_VALUES)
        if name in {"name", "topic", "topic_names", "topics", "topic_name", "resource_name"}:
            if chance < 0.15 and api_key not in _KEEPS_INTERNAL_TOPICS:
                return _INTERNAL_TOPIC
            return rng.choice(_CONFIGS if chance > 0.9 else TOPICS)
        return rng.choice((*_WORDS, *_GROUPS, *TOPICS))

    def _records(self) -> bytes | None:
        """Return a random batch of records, in a twentieth null, empty or arbitrary bytes."""
        rng = self._rng
        if rng.random() < 0.05:
            return rng.choice((b"", None, rng.randbytes(100)))
        count = rng.choice((1, 1, 3, 50))
        idempotent = rng.random() < 0.3
        records = [
            Record(0, rng.choice((1_700_000_000_000, -1, 0)), rng.choice((None, b"key")), b"value")
            for _ in range(count)
        ]
        return bytes(
            build(
                records,
                compression=rng.choice(tuple(Compression)),
                timestamp_type=rng.choice((*[TimestampType.CREATE_TIME] * 9, *TimestampType)),
                producer_id=rng.choice((0, 1, 1000)) if idempotent else -1,
                producer_epoch=rng.choice((0, 1)) if idempotent else -1,
                base_sequence=rng.choice((0, 1, 2)) if idempotent else -1,
                transactional=rng.random() < 0.1,
                control=rng.random() < 0.05,
            )
        )


@cache
def _class_of(module: str, name: str) -> type[object]:
    """Return the generated class of a struct in this module."""
    loaded = import_module(module)
    # If request and response define a struct differently, the request's is called Request<Name>.
    struct: type[object] = getattr(loaded, f"Request{name}", None) or getattr(loaded, name)
    return struct


def _struct_class(owner: object, name: str) -> type[object]:
    """Return the generated class of struct `name` in the module of `owner`'s class."""
    return _class_of(type(owner).__module__, name)
