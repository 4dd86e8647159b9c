"""A small registry for tests of its clients: the REST interface over HTTP, in one process.

It keeps what is registered, and judges nothing: a test says what is incompatible.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]


@dataclass
class Version:
    """One version of a subject."""

    subject: str
    number: int
    schema_id: int
    body: dict[str, Any]
    is_deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "version": self.number,
            "id": self.schema_id,
            "guid": guid_of(self.schema_id),
            **self.body,
        }


def guid_of(schema_id: int) -> str:
    return str(uuid.UUID(int=schema_id))


def refused(status: int, code: int, message: str) -> Answer:
    return status, {"error_code": code, "message": message}


@dataclass
class RegistryDouble:
    """The state of the registry, and what a test may set."""

    url: str = ""
    versions: list[Version] = field(default_factory=list)
    configs: dict[str, Any] = field(
        default_factory=lambda: {"": {"compatibilityLevel": "BACKWARD"}}
    )
    modes: dict[str, str] = field(default_factory=lambda: {"": "READWRITE"})
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """Why a subject takes no other schema."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request, in the order in which they came."""
    logins: set[str | None] = field(default_factory=set)
    answers: dict[str, Callable[[], Answer]] = field(default_factory=dict)
    """What is answered at a path in place of the rest."""

    def of(self, subject: str, *, deleted: bool = False) -> list[Version]:
        return [
            each
            for each in self.versions
            if each.subject == subject and (deleted or not each.is_deleted)
        ]

    # -- requests: each returns status and body

    def register(self, subject: str, body: dict[str, Any]) -> Answer:
        known = next((each for each in self.of(subject) if each.body == body), None)
        if known is not None:
            return 200, {"id": known.schema_id}
        if self.of(subject) and subject in self.reasons:
            return refused(409, 409, "; ".join(self.reasons[subject]))
        same = next((each.schema_id for each in self.versions if each.body == body), None)
        schema_id = same or 1 + max((each.schema_id for each in self.versions), default=0)
        number = 1 + max((each.number for each in self.of(subject, deleted=True)), default=0)
        self.versions.append(Version(subject, number, schema_id, body))
        return 200, {"id": schema_id}

    def look_up(self, subject: str, body: dict[str, Any]) -> Answer:
        if not self.of(subject):
            return refused(404, 40401, f"Subject '{subject}' not found.")
        for each in self.of(subject):
            if each.body == body:
                return 200, each.as_json()
        return refused(404, 40403, "Schema not found")

    def version(self, subject: str, number: str, deleted: bool) -> Answer:
        found = self.of(subject, deleted=deleted)
        if not found:
            return refused(404, 40401, f"Subject '{subject}' not found.")
        if number == "latest":
            return 200, found[-1].as_json()
        for each in found:
            if str(each.number) == number:
                return 200, each.as_json()
        return refused(404, 40402, f"Version {number} not found.")

    def by_id(self, schema_id: int) -> Answer:
        for each in self.versions:
            if each.schema_id == schema_id:
                return 200, each.body
        return refused(404, 40403, f"Schema {schema_id} not found")

    def delete(self, subject: str, number: str | None, permanent: bool) -> Answer:
        found = self.of(subject, deleted=permanent)
        chosen = [each for each in found if number in (None, str(each.number))]
        if not chosen:
            return refused(404, 40401, f"Subject '{subject}' not found.")
        for each in chosen:
            if not permanent:
                each.is_deleted = True
            elif each.is_deleted:
                self.versions.remove(each)
            else:
                return refused(404, 40405, f"Subject '{subject}' was not deleted first")
        numbers = [each.number for each in chosen]
        return 200, numbers if number is None else numbers[0]

    def answer(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any,  # noqa: ANN401 - JSON
    ) -> Answer:
        parts = [unquote(each) for each in path.strip("/").split("/")]
        if parts[0] in ("config", "mode"):
            return self.setting(method, parts, query, body)
        deleted = query.get("deleted") == "true"
        match (method, *parts):
            case ("GET", "schemas", "types"):
                return 200, ["JSON", "PROTOBUF", "AVRO"]
            case ("GET", "contexts"):
                return 200, ["."]
            case ("GET", "subjects" | "schemas"):
                return self.listed(parts[0], query.get("subjectPrefix", ""), deleted)
            case ("GET", "schemas", *rest):
                return self.of_schemas(rest)
            case ("GET", "subjects", subject, "versions", *rest):
                return self.of_versions(subject, rest, deleted)
            case _:
                return self.changed(method, parts, query, body)

    def listed(self, what: str, prefix: str, deleted: bool) -> Answer:
        named = sorted({each.subject for each in self.versions if deleted or not each.is_deleted})
        named = [each for each in named if each.startswith(prefix)]
        if what == "subjects":
            return 200, named
        return 200, [self.of(each, deleted=deleted)[-1].as_json() for each in named]

    def of_schemas(self, parts: list[str]) -> Answer:
        match parts:
            case ["ids", number]:
                return self.by_id(int(number))
            case ["guids", guid]:
                return self.by_id(uuid.UUID(guid).int)
            case ["ids", number, "versions"]:
                return 200, [
                    {"subject": each.subject, "version": each.number}
                    for each in self.versions
                    if each.schema_id == int(number)
                ]
        return refused(404, 404, "HTTP 404 Not Found")

    def of_versions(self, subject: str, parts: list[str], deleted: bool) -> Answer:
        match parts:
            case []:
                numbers = [each.number for each in self.of(subject, deleted=deleted)]
                return (200, numbers) if numbers else refused(404, 40401, "not found")
            case [number]:
                return self.version(subject, number, deleted)
            case [number, "referencedby"]:
                return 200, [
                    each.schema_id
                    for each in self.versions
                    for reference in each.body.get("references", ())
                    if (reference["subject"], str(reference["version"])) == (subject, number)
                ]
        return refused(404, 404, "HTTP 404 Not Found")

    def changed(
        self,
        method: str,
        parts: list[str],
        query: dict[str, str],
        body: Any,  # noqa: ANN401 - JSON
    ) -> Answer:
        permanent = query.get("permanent") == "true"
        match (method, *parts):
            case ("POST", "subjects", subject, "versions"):
                return self.register(subject, body)
            case ("POST", "subjects", subject):
                return self.look_up(subject, body)
            case ("POST", "compatibility", "subjects", subject, "versions", *_):
                reasons = self.reasons.get(subject, [])
                return 200, {"is_compatible": not reasons, "messages": reasons}
            case ("DELETE", "subjects", subject):
                return self.delete(subject, None, permanent)
            case ("DELETE", "subjects", subject, "versions", number):
                return self.delete(subject, number, permanent)
        return refused(404, 404, "HTTP 404 Not Found")

    def setting(
        self,
        method: str,
        parts: list[str],
        query: dict[str, str],
        body: Any,  # noqa: ANN401 - JSON
    ) -> Answer:
        kept: dict[str, Any] = self.configs if parts[0] == "config" else self.modes
        subject = parts[1] if len(parts) > 1 else ""
        if method == "PUT":
            kept[subject] = body["mode"] if parts[0] == "mode" else body
            return 200, body
        if subject not in kept and query.get("defaultToGlobal") == "true":
            subject = ""
        if subject not in kept:
            return refused(404, 40408, "not configured")
        found = kept.pop(subject) if method == "DELETE" else kept[subject]
        return 200, {"mode": found} if parts[0] == "mode" else found


class _Server(ThreadingHTTPServer):
    def __init__(self, double: RegistryDouble) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.double = double
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        size = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        double = self.server.double
        with self.server.lock:
            double.requests.append((self.command, parts.path))
            double.logins.add(self.headers["Authorization"])
            own = double.answers.get(parts.path)
            if own is not None:
                status, found = own()
            else:
                status, found = double.answer(self.command, parts.path, query, body)
        encoded = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        if re.fullmatch("3..", str(status)):
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def registry_double() -> Iterator[RegistryDouble]:
    """A registry that serves until the end of the block."""
    double = RegistryDouble()
    with _Server(double) as server:
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
