"""Converts a message to JSON: fields by Kafka's names, batches without records, no secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from kwire.codecs.batches import CorruptBatch, iter_batches
from kwire.codecs.errors import error_codes_in, error_name
from kwire.codecs.primitives import Message, Records, Struct
from kwire.codecs.uuids import uuid_text

SECRETS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields with passwords or tokens, whose values are hidden."""
HIDDEN: Final = "(hidden)"
LONG: Final = frozenset({"subscription_metadata", "metrics"})
"""Long binary fields, whose values are left out."""
LEFT_OUT: Final = "(left out)"
SECRET_WORDS: Final = ("password", "secret", "jaas", "key.passwd")
"""The value of a config is hidden if its name contains one of these words."""


def described(message: Struct) -> dict[str, Any]:
    """The message with the field names of Kafka's documentation; empty fields are left out."""
    fields = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if value is None or value == []:
            continue
        fields[_camel(name)] = _hidden(message, name) or _value(name, value)
    return fields


def _hidden(message: Struct, name: str) -> str | None:
    """The text that replaces a field's value, or None if the value is shown."""
    if name in LONG:
        return LEFT_OUT
    return HIDDEN if _is_secret(message, name) else None


def _is_secret(message: Struct, name: str) -> bool:
    """Whether a field must not be shown: it is a secret, or the value of a config with a secret
    name."""
    if name == "value":
        config_name = str(getattr(message, "name", "")).lower()
        return any(word in config_name for word in SECRET_WORDS)
    return name in SECRETS


def has_secrets(message: Struct) -> bool:
    """Whether a message contains a secret that `described` hides."""
    for name in message.__slots__:
        value = getattr(message, name)
        if value and _is_secret(message, name):
            return True
        inner = value if isinstance(value, list) else [value]
        if any(has_secrets(each) for each in inner if isinstance(each, Struct)):
            return True
    return False


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return the value of a field as JSON: error codes by name, record batches without records,
    UUIDs and other bytes as text."""
    if isinstance(value, Struct):
        return described(value)
    if isinstance(value, list):
        return [_value(name, each) for each in value]
    if name == "records":
        return list(_batches(value))
    if name.endswith("error_code"):
        return error_name(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        # A UUID has 16 bytes; ids of other lengths are shown as base64.
        is_id = len(data) == 16 and name.endswith(("_id", "_ids"))
        return uuid_text(data) if is_id else base64.b64encode(data).decode()
    return value


def _batches(records: Records) -> Iterator[dict[str, Any]]:
    """The headers of the batches; of data that is not a whole batch, only the size."""
    data = records if isinstance(records, bytes | bytearray | memoryview) else records.read()
    end = 0
    try:
        for start, header in iter_batches(data):
            end = start + header.size_bytes
            yield {
                "baseOffset": header.base_offset,
                "records": header.records_count,
                "sizeBytes": header.size_bytes,
                "compression": header.compression.name.lower(),
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "baseSequence": header.base_sequence,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
            }
    except CorruptBatch as problem:
        yield {"sizeBytes": len(data) - end, "unreadable": str(problem)}
        return
    if end < len(data):  # as a Fetch response may end in the middle of a batch
        yield {"sizeBytes": len(data) - end, "isCutShort": True}


def errors_in(message: Message | Struct) -> Iterator[str]:
    """The names of all errors in a response, in the order of its fields."""
    return (error_name(code) for code in error_codes_in(message) if code)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
