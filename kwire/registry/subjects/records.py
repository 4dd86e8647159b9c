"""The records of the registry's topic, in Confluent's format.

    key                                                              value
    {"keytype":"SCHEMA","subject":S,"version":N,"magic":1}           a version of a subject
    {"keytype":"CONFIG","subject":S,"magic":0}                       a config; S is null: global
    {"keytype":"MODE","subject":S,"magic":0}                         a mode; S is null: global
    {"keytype":"DELETE_SUBJECT","subject":S,"magic":0}               versions up to N are deleted
    {"keytype":"CLEAR_SUBJECT","subject":S,"magic":0}                deleted versions are forgotten
    {"keytype":"CONTEXT","tenant":"default","context":C,"magic":0}   a context exists
    {"keytype":"NOOP","magic":0}                                     see MAX_IDS

A value is JSON as well; a record without a value removes what its key names.  The topic is
compacted, so the bytes of a key have to be the same whoever writes it: no spaces, this order.
Source: records that Confluent Schema Registry 7 writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kwire.registry.schemas.kinds import Reference, SchemaKind

JsonObject = dict[str, Any]

TENANT: Final = "default"
MAX_IDS: Final = "maxIds"
"""kwire's NOOP records have the highest id of each context, so that an id is not given again after
its schema was deleted permanently.  Confluent's registry reads no value of a NOOP."""


class KeyKind(StrEnum):
    """What a record is about."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    NOOP = "NOOP"


class Key(NamedTuple):
    """The key of a record."""

    kind: KeyKind
    subject: str | None = None
    """The subject, or the context of a CONTEXT record; None for the global level."""
    version: int | None = None
    """The version of a SCHEMA record."""

    def encoded(self) -> bytes:
        """The bytes of the key."""
        fields: JsonObject = {"keytype": self.kind.value}
        if self.kind is KeyKind.CONTEXT:
            fields |= {"tenant": TENANT, "context": self.subject}
        elif self.kind is not KeyKind.NOOP:
            fields["subject"] = self.subject
        if self.kind is KeyKind.SCHEMA:
            fields["version"] = self.version
        return compact({**fields, "magic": int(self.kind is KeyKind.SCHEMA)})


NOOP: Final = Key(KeyKind.NOOP)
SCHEMA_KEY_START: Final = b'{"keytype":"SCHEMA","subject":"'
SCHEMA_KEY_END: Final = b',"magic":1}'
DECODER: Final = json.JSONDecoder()


class InvalidRecordError(Exception):
    """A record of the topic that no registry writes.  The message says what is wrong with it."""


class Write(NamedTuple):
    """A record to write; without a value it removes what the key names."""

    key: Key
    value: JsonObject | None

    def encoded_value(self) -> bytes | None:
        """The bytes of the value, or None without one."""
        return None if self.value is None else compact(self.value)


class SchemaVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    kind: str = SchemaKind.AVRO
    """A SchemaKind, or another type that a plug-in of Confluent's registry has added."""
    references: tuple[Reference, ...] = ()
    metadata: JsonObject | None = None
    rule_set: JsonObject | None = None
    deleted: bool = False
    """Whether it is deleted, but not permanently."""
    digest: bytes = b""
    """What is equal for two versions with the same schema, references, metadata and rules."""

    @property
    def key(self) -> Key:
        """The key of its record."""
        return Key(KeyKind.SCHEMA, self.subject, self.version)

    @property
    def guid(self) -> str:
        """The globally unique id of the schema, which is the same in every registry."""
        text = self.digest.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def marked_deleted(self) -> SchemaVersion:
        """The same version, deleted."""
        return self._replace(deleted=True)

    def value(self) -> JsonObject:
        """The value of its record."""
        fields: JsonObject = {"subject": self.subject, "version": self.version, "id": self.id}
        fields |= self.described()
        return {**fields, "deleted": self.deleted}

    def described(self) -> JsonObject:
        """The schema in the fields of the REST interface: `schemaType` (of Avro: none), ..."""
        fields: JsonObject = {}
        if self.kind != SchemaKind.AVRO:
            fields["schemaType"] = str(self.kind)
        if self.references:
            fields["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        if self.metadata is not None:
            fields["metadata"] = self.metadata
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set
        fields["schema"] = self.schema
        return fields


def digest_of(
    schema: str,
    references: tuple[Reference, ...],
    metadata: Mapping[str, Any] | None,
    rule_set: Mapping[str, Any] | None,
) -> bytes:
    """The MD5 digest by which equal schemas are found; GUIDs are made of it.

    Without metadata and rules it is the digest of Confluent's registry: the text, and the name,
    subject and version of each reference.  Equal digests are no proof: whoever finds a schema by
    one compares the texts.
    """
    made = hashlib.md5(schema.encode(), usedforsecurity=False)
    for each in references:
        made.update(each.name.encode() + each.subject.encode())
        made.update((each.version & 0xFFFFFFFF).to_bytes(4))
    for extra in (metadata, rule_set):
        if extra is not None:
            made.update(json.dumps(extra, sort_keys=True).encode())
    return made.digest()


def compact(fields: JsonObject) -> bytes:
    """JSON without spaces."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def read_key(data: bytes | None) -> Key | None:
    """The key of a record, or None if it is of a kind that is not known.

    Raises InvalidRecordError.
    """
    if (key := _schema_key(data or b"")) is not None:
        return key
    fields = _object(data or b"", "key")
    try:
        kind = KeyKind(str(fields.get("keytype")))
    except ValueError:
        return None
    if kind is KeyKind.NOOP:
        return NOOP
    subject = fields.get("context" if kind is KeyKind.CONTEXT else "subject")
    version = fields.get("version") if kind is KeyKind.SCHEMA else None
    is_global = kind in (KeyKind.CONFIG, KeyKind.MODE, KeyKind.CLEAR_SUBJECT)
    if not isinstance(subject, str) and not (subject is None and is_global):
        raise InvalidRecordError("the key names no subject")
    if kind is KeyKind.SCHEMA and not _is_number(version):
        raise InvalidRecordError("the key names no version")
    return Key(kind, subject, version)


def _schema_key(data: bytes) -> Key | None:
    """The key of a SCHEMA record in the form in which all registries write it, or None.

    Nearly all records have one, and to decode it as JSON takes six times as long.
    """
    if not (data.startswith(SCHEMA_KEY_START) and data.endswith(SCHEMA_KEY_END)):
        return None
    inner = data[len(SCHEMA_KEY_START) : -len(SCHEMA_KEY_END)]
    subject, _, version = inner.rpartition(b'","version":')
    if b"\\" in subject or b'"' in subject or not version.isdigit() or len(version) > 9:
        return None
    try:
        return Key(KeyKind.SCHEMA, subject.decode(), int(version))
    except UnicodeDecodeError:
        return None


def read_value(data: bytes | None) -> JsonObject | None:
    """The fields of a value; None if there is none.  Raises InvalidRecordError."""
    return _object(data, "value") if data else None


def read_version(value: JsonObject) -> SchemaVersion:
    """The version in the value of a SCHEMA record.  Raises InvalidRecordError."""
    try:
        subject, version, schema_id = value["subject"], value["version"], value["id"]
        schema = value["schema"]
        references = read_references(value.get("references"))
    except (KeyError, TypeError) as error:
        raise InvalidRecordError(f"a schema without {error}") from None
    if not (isinstance(subject, str) and isinstance(schema, str)):
        raise InvalidRecordError("a schema whose subject or text is no string")
    if not (_is_number(version) and _is_number(schema_id)):
        raise InvalidRecordError("a schema whose version or id is no number")
    metadata, rule_set = value.get("metadata"), value.get("ruleSet")
    try:
        digest = digest_of(schema, references, metadata, rule_set)
    except UnicodeEncodeError:
        raise InvalidRecordError("a schema that is no valid Unicode") from None
    kind = value.get("schemaType") or SchemaKind.AVRO
    deleted = bool(value.get("deleted"))
    return SchemaVersion(
        subject, version, schema_id, schema, kind, references, metadata, rule_set, deleted, digest
    )


def read_references(listed: object) -> tuple[Reference, ...]:
    """The references in JSON.  Raises KeyError or TypeError if they are none."""
    if not listed:
        return ()
    if not isinstance(listed, list):
        raise TypeError("references")
    return tuple(_reference(each) for each in listed)


def _reference(fields: JsonObject) -> Reference:
    name, subject, version = fields["name"], fields["subject"], fields["version"]
    if not (isinstance(name, str) and isinstance(subject, str) and _is_number(version)):
        raise TypeError("references")
    return Reference(name, subject, version)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


def _object(data: bytes, what: str) -> JsonObject:
    """The JSON object in bytes.  Raises InvalidRecordError."""
    try:
        # As json.loads, which takes half as long again for so little text.
        text = data.decode().strip()
        fields, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        raise InvalidRecordError(f"the {what} is no JSON") from None
    if end != len(text):
        raise InvalidRecordError(f"the {what} is more than one JSON value")
    if not isinstance(fields, dict):
        raise InvalidRecordError(f"the {what} is no JSON object")
    return fields
