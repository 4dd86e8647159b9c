"""The format that all records of `__consumer_offsets` share.

Layout (Apache Kafka's; its tools and other brokers read these bytes):

    key    int16 record type, then the key's fields
    value  int16 version, then the value's fields; a null value deletes the key's entry
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

from kwire.codecs.primitives import Message

VERSION = struct.Struct(">h")
VALUE_PREFIX = [VERSION.pack(version) for version in range(8)]
"""By version."""


class UnreadableRecord(ValueError):
    """A record of a known type that is damaged or in an unknown version."""


def version_of(value: bytes, kind: type[Message]) -> int:
    """The version of a value.  Raises UnreadableRecord if it is unknown."""
    # A value begins with its version, an int16.
    if len(value) < 2:
        raise UnreadableRecord(f"{kind.__name__} of {len(value)} bytes")
    version: int = VERSION.unpack_from(value)[0]
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise UnreadableRecord(f"{kind.__name__} of unknown version {version}")
    return version


KEY_VERSION = 0
VALUE_VERSION = 0

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)


@dataclass(slots=True)
class KeyedRecord(Generic[K, V]):
    """A record whose key and value are written as version 0; value None is a tombstone.

    A type of records is a subclass `Name(KeyedRecord[Key, Value])` with its type number.
    """

    key: K
    value: V | None

    TYPE: ClassVar[int]
    KEY: ClassVar[type[Any]]
    VALUE: ClassVar[type[Any]]
    """KEY and VALUE are the classes in the brackets of the base class."""
    __orig_bases__: ClassVar[tuple[Any, ...]]

    def __init_subclass__(cls) -> None:
        super(KeyedRecord, cls).__init_subclass__()  # super() fails with slots=True
        cls.KEY, cls.VALUE = get_args(cls.__orig_bases__[0])

    @classmethod
    def of(cls, *key: str, value: V) -> Self:
        """Return the record with these fields of the key and this value."""
        return cls(cls.KEY(*key), value)

    @classmethod
    def tombstone(cls, *key: str) -> Self:
        """Return the record that deletes the entry with these fields of the key."""
        return cls(cls.KEY(*key), None)

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value as bytes; the value is None for a tombstone."""
        key = VERSION.pack(self.TYPE) + self.key.encode(KEY_VERSION)
        if self.value is None:
            return key, None
        return key, VALUE_PREFIX[VALUE_VERSION] + self.value.encode(VALUE_VERSION)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> Self:
        """Return the record from its key and value as bytes; a null value is a tombstone.

        Raises DecodeError, UnreadableRecord.
        """
        return cls(
            cls.KEY.decode(key, KEY_VERSION, VERSION.size),
            None
            if value is None
            else cls.VALUE.decode(value, version_of(value, cls.VALUE), VERSION.size),
        )
