"""Client of a broker's HTTP control (`kwire serve --control`)."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 30.0


class ControlError(RuntimeError):
    """The control refused a request or cannot be reached; the message says why."""


class ControlUnanswered(ControlError):
    """The connection was lost before the response arrived: the request may have been executed."""


def given_fields(**fields: object) -> dict[str, Any]:
    """A request body of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


class ControlClient:
    """Client of the control at an address such as `http://127.0.0.1:9644`.

    Each request opens a connection of its own.
    """

    def __init__(self, address: str) -> None:
        """`address` is HOST:PORT or a URL such as http://127.0.0.1:9644.  Raises ControlError if it
        is neither; does not connect."""
        self.address = address
        try:
            split = urlsplit(address if "//" in address else f"//{address}")
            host, port = split.hostname, split.port
        except ValueError as problem:
            raise ControlError(f"{address!r} is not an address: {problem}") from None
        if host is None or port is None:
            raise ControlError(f"{address!r} is not an address such as http://127.0.0.1:9644")
        self._host = host
        self.port = port

    def at_port(self, port: int) -> ControlClient:
        """Client of the control at another port of the same host."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return ControlClient(f"http://{host}:{port}")

    def get(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        return self.ask("GET", path)

    def post(self, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        return self.ask("POST", path, body)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        """Send a request; returns the decoded JSON of the response, None if it has no body.

        Raises ControlError.
        """
        connection = http.client.HTTPConnection(self._host, self.port, timeout=TIMEOUT_S)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.connect()
        except OSError as problem:
            raise ControlError(f"no answer from {self.address}: {_reason(problem)}") from None
        except UnicodeError:  # IDNA rejects a label: it is empty, too long or has a wrong character
            raise ControlError(f"{self.address!r} does not name a host") from None
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as problem:
            reason = _reason(problem)
            raise ControlUnanswered(f"no answer from {self.address}: {reason}") from None
        finally:
            connection.close()
        content = json.loads(text) if text else None
        if response.status >= 400:
            message = content.get("error") if isinstance(content, dict) else content
            raise ControlError(f"{message or response.reason}")
        return content


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(reason).lower()
