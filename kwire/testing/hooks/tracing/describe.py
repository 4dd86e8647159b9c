"""A message as JSON has it: fields by Kafka's names, records as their batches, no secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from kwire.codecs.batches import CorruptBatch, iter_batches
from kwire.codecs.errors import error_codes_in, error_name
from kwire.codecs.primitives import Message, Records, Struct
from kwire.codecs.uuids import uuid_text

SECRETS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields that are not shown: passwords and tokens."""
HIDDEN: Final = "(hidden)"
LONG: Final = frozenset({"subscription_metadata", "metrics"})
"""Fields that are long and say nothing here."""
LEFT_OUT: Final = "(left out)"
SECRET_WORDS: Final = ("password", "secret", "jaas", "key.passwd")
"""A config of such a name has a value that is not shown."""


def described(message: Struct) -> dict[str, Any]:
    """The message, its fields named as in Kafka's documentation; what is empty is left out."""
    found = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if value is None or value == []:
            continue
        found[_camel(name)] = _hidden(message, name) or _value(name, value)
    return found


def _hidden(message: Struct, name: str) -> str | None:
    if name in LONG:
        return LEFT_OUT
    return HIDDEN if _is_secret(message, name) else None


def _is_secret(message: Struct, name: str) -> bool:
    if name == "value":
        of = str(getattr(message, "name", "")).lower()
        return any(word in of for word in SECRET_WORDS)
    return name in SECRETS


def has_secrets(message: Struct) -> bool:
    """Whether there is something in a message that is not shown because nobody may know it."""
    for name in message.__slots__:
        value = getattr(message, name)
        if value and _is_secret(message, name):
            return True
        inner = value if isinstance(value, list) else [value]
        if any(has_secrets(each) for each in inner if isinstance(each, Struct)):
            return True
    return False


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - of any field
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
        is_id = len(data) == 16 and name.endswith(("_id", "_ids"))
        return uuid_text(data) if is_id else base64.b64encode(data).decode()
    return value


def _batches(records: Records) -> Iterator[dict[str, Any]]:
    """What the headers of the batches say; what is no batch is told by its size."""
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
    """The names of all errors that a response tells, as they come."""
    return (error_name(code) for code in error_codes_in(message) if code)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
