"""Plain HTTP requests to a registry."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

TIMEOUT_S = 120.0
JSON = "application/vnd.schemaregistry.v1+json"
RECORD = '{"type":"record","name":"%s","fields":[%s]}'


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    data: Any
    """The JSON value, or the text if it is none."""

    @property
    def code(self) -> int:
        """The error code; 0 of a success."""
        return self.data.get("error_code", 0) if isinstance(self.data, dict) else 0


class Asking:
    """Requests to one registry, over one connection.  One thread uses it."""

    def __init__(
        self,
        url: str,
        login: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`login` is a user and a password."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.headers = {"Content-Type": JSON}
        if login is not None:
            encoded = base64.b64encode(":".join(login).encode()).decode()
            self.headers["Authorization"] = f"Basic {encoded}"
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_S
            )

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, target: str, body: object = None) -> Answer:
        """Send a request.  A body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            self._connection.request(method, target, data, self.headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text)

    def get(self, target: str) -> Answer:
        """GET."""
        return self.ask("GET", target)

    def delete(self, target: str) -> Answer:
        """DELETE."""
        return self.ask("DELETE", target)

    def register(self, subject: str, schema: str, **fields: object) -> Answer:
        """Register a schema."""
        target = f"/subjects/{quote(subject, safe='')}/versions"
        return self.ask("POST", target, {"schema": schema, **fields})


def record(name: str, *fields: str) -> str:
    """An Avro record with fields that are strings; of `name?` the default is empty."""
    listed = [
        json.dumps({"name": each.rstrip("?"), "type": "string"}
                   | ({"default": ""} if each.endswith("?") else {}), separators=(",", ":"))
        for each in fields
    ]  # fmt: skip
    return RECORD % (name, ",".join(listed))
