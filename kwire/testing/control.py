"""Asking a broker's control (`kwire serve --control`) from Python."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 30.0


class ControlError(RuntimeError):
    """The control refuses, or cannot be reached; the message says why."""


class ControlUnanswered(ControlError):
    """The connection was lost before there was an answer."""


def said(**fields: object) -> dict[str, Any]:
    """Those that are said at all, for a request's body."""
    return {name: value for name, value in fields.items() if value is not None}


class ControlClient:
    """The control at an address, as `http://127.0.0.1:9644`; each question has its connection."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            split = urlsplit(address if "//" in address else f"//{address}")
            host, port = split.hostname, split.port
        except ValueError as problem:
            raise ControlError(f"{address!r} is no address: {problem}") from None
        if host is None or port is None:
            raise ControlError(f"{address!r} is no address, as http://127.0.0.1:9644 is")
        self._host = host
        self.port = port

    def at_port(self, port: int) -> ControlClient:
        """The control at another port of the same machine."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return ControlClient(f"http://{host}:{port}")

    def get(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        return self.ask("GET", path)

    def post(self, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        return self.ask("POST", path, body)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of the answer, None without any.  Raises ControlError."""
        link = http.client.HTTPConnection(self._host, self.port, timeout=TIMEOUT_S)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            link.connect()
        except OSError as problem:
            raise ControlError(f"no answer from {self.address}: {_reason(problem)}") from None
        except UnicodeError:  # of IDNA: a label is empty, too long, or not to be written so
            raise ControlError(f"{self.address!r} names no host") from None
        try:
            link.request(method, path, None if body is None else json.dumps(body), headers)
            reply = link.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as problem:
            reason = _reason(problem)
            raise ControlUnanswered(f"no answer from {self.address}: {reason}") from None
        finally:
            link.close()
        answer = json.loads(text) if text else None
        if reply.status >= 400:
            said = answer.get("error") if isinstance(answer, dict) else answer
            raise ControlError(f"{said or reply.reason}")
        return answer


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(reason).lower()
