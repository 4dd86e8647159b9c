"""A schema registry over HTTP, with the API of Confluent's registry, Karapace and Apicurio.

A schema never changes, so each is requested once.  A failure is remembered for a while, so that a
page of records asks once and not for each of them.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kwire.console.decoding import proto_text
from kwire.console.decoding.avro import AvroSchema, avro_schema
from kwire.console.decoding.problem import CannotDecode
from kwire.console.decoding.protobuf import (
    descriptors_of,
    file_descriptor,
    message_at,
    message_indexes,
    well_known,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

TIMEOUT_S: Final = 5.0
ANSWER_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
SCHEMAS_MAX: Final = 1000
FAILURE_KEPT_S: Final = 30.0
REFERENCES_MAX: Final = 200
"""Schemas that one schema refers to, directly or not."""


@dataclass
class RegisteredSchema:
    """A schema of a registry, with those that it refers to."""

    kind: str
    """`AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    """JSON of Avro and JSON Schema; of Protobuf the serialized descriptor in base64, or the text
    of the schema."""
    references: list[tuple[str, str]] = field(default_factory=list)
    """Name and text of the schemas that it refers to, those first that others need."""
    _avro: AvroSchema | None = None
    _messages: dict[tuple[int, ...], Descriptor] = field(default_factory=dict)

    def avro(self) -> AvroSchema:
        """The Avro schema.  Raises CannotDecode if it is invalid."""
        if self._avro is None:
            named: dict[str, Any] = {}
            for _, text in self.references:
                avro_schema(text, named)
            self._avro = avro_schema(self.text, named)
        return self._avro

    def message(self, body: bytes) -> tuple[Descriptor, bytes]:
        """The type of the message in a record, and the bytes of the message."""
        indexes, start = message_indexes(body)
        key = tuple(indexes)
        if key not in self._messages:
            files = [
                _file_of(text, name) for name, text in self.references if name not in well_known()
            ]
            own = _file_of(self.text, "the-schema.proto")
            self._messages[key] = message_at(descriptors_of([*files, own])[-1], indexes)
        return self._messages[key], body[start:]


def _file_of(text: str, name: str) -> FileDescriptorProto:
    """The descriptor of a Protobuf schema, from a serialized one in base64 or from its text."""
    try:
        serialized = base64.b64decode(text, validate=True)
    except ValueError:  # a registry that does not know format=serialized
        return proto_text.file_of(text, name)
    return file_descriptor(serialized, name)


@dataclass
class _Failure:
    message: str
    until_s: float


class SchemaRegistry:
    """Gets schemas by their id.  Threads may share it."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`url` may have a user and a password.  Raises ValueError if it is no HTTP URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of the registry is like http://localhost:8081, not {url!r}")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        address = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._clock = clock
        self._lock = threading.Lock()
        self._schemas: OrderedDict[int, RegisteredSchema | _Failure] = OrderedDict()

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id.  Raises CannotDecode if the registry does not give it."""
        with self._lock:
            found = self._schemas.get(schema_id)
            if isinstance(found, _Failure) and found.until_s < self._clock():
                found = None
            if found is None:
                found = self._schemas[schema_id] = self._requested(schema_id)
            self._schemas.move_to_end(schema_id)
            while len(self._schemas) > SCHEMAS_MAX:
                self._schemas.popitem(last=False)
        if isinstance(found, _Failure):
            raise CannotDecode(found.message)
        return found

    def _requested(self, schema_id: int) -> RegisteredSchema | _Failure:
        try:
            answer = self._get(f"/schemas/ids/{schema_id}?format=serialized")
            kind = str(answer.get("schemaType", "AVRO"))
            references: dict[str, str] = {}
            for name, text in self._references(answer, set()):
                references.setdefault(name, text)
            return RegisteredSchema(kind, str(answer["schema"]), list(references.items()))
        except CannotDecode as problem:
            return _Failure(f"schema {schema_id}: {problem}", self._clock() + FAILURE_KEPT_S)

    def _references(
        self, answer: dict[str, Any], seen: set[tuple[str, int]]
    ) -> Iterator[tuple[str, str]]:
        """Name and text of the schemas that a schema refers to, the innermost first."""
        for each in answer.get("references") or ():
            name, subject, version = each["name"], each["subject"], each["version"]
            if (subject, version) in seen or len(seen) >= REFERENCES_MAX:
                continue
            seen.add((subject, version))
            path = f"/subjects/{quote(subject, safe='')}/versions/{int(version)}?format=serialized"
            inner = self._get(path)
            yield from self._references(inner, seen)
            yield str(name), str(inner["schema"])

    def _get(self, path: str) -> dict[str, Any]:
        """The JSON object at a path.  Raises CannotDecode."""
        request = urllib.request.Request(self._base + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                body = response.read(ANSWER_SIZE_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise CannotDecode(f"the registry answers with status {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise CannotDecode(f"the registry does not answer: {reason}") from None
        if len(body) > ANSWER_SIZE_BYTES_MAX:
            raise CannotDecode("the registry's answer is too large")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise CannotDecode("the registry's answer is not JSON") from None
        if not isinstance(answer, dict) or "schema" not in answer:
            raise CannotDecode("the registry's answer has no schema")
        return answer
