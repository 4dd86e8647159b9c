"""HTTP requests and replies, and the host names of a local client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

JSON: Final = "application/json"

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
"""Host names that a local client uses.  A web page whose name resolves to this machine (DNS
rebinding) makes the browser send another name, and is refused."""


class HttpReply(NamedTuple):
    """An HTTP response.

    `body` is bytes that are sent as they are, or what is sent as JSON, or None for no body.
    """

    status: int
    body: Any = None
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    """Headers besides those of the body and the connection."""


class HttpError(Exception):
    """The request fails with an HTTP status; the message becomes the field `error`."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def reply(self) -> HttpReply:
        return HttpReply(self.status, {"error": str(self)})


class HttpRequest(NamedTuple):
    """An HTTP request, with the parts that the handlers use."""

    method: str
    target: str
    """Path and query as they were sent; h11 lets ASCII through alone."""
    headers: Mapping[str, str]
    """The headers by their names in small letters; the last counts if one is repeated."""
    body: bytes = b""

    @property
    def host(self) -> str:
        """The header Host."""
        return self.headers.get("host", "")

    @property
    def content_type(self) -> str:
        """The header Content-Type."""
        return self.headers.get("content-type", "")

    @property
    def accept(self) -> str:
        """The header Accept."""
        return self.headers.get("accept", "")

    @property
    def path(self) -> str:
        """The path without a slash at its end, except for `/`.  Raises HttpError."""
        return self._parts.path.rstrip("/") or "/"

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; the last value counts if a parameter is repeated.

        Raises HttpError.
        """
        return {name: values[-1] for name, values in self.queries.items()}

    @property
    def queries(self) -> dict[str, list[str]]:
        """All values of the query parameters.  Raises HttpError."""
        try:
            return parse_qs(self._parts.query, keep_blank_values=True)
        except ValueError as problem:  # too many parameters
            raise HttpError(400, str(problem)) from None

    @property
    def _parts(self) -> SplitResult:
        try:
            return urlsplit(self.target)
        except ValueError as problem:  # a bracket without its other half
            raise HttpError(400, str(problem)) from None


Answer = Callable[[HttpRequest], Awaitable[HttpReply]]
"""Returns the response to a request.  An exception closes the connection and is logged."""

Refuse = Callable[[int, str], HttpReply]
"""Returns the response of the server itself with a status and a reason."""

Admit = Callable[[HttpRequest], HttpReply | None]
"""Returns the response to a request whose body is not read, or None to read it."""


def check_local(host: str) -> None:
    """Raise HttpError 403 if the Host header is not that of a client on this machine."""
    name = host.rpartition(":")[0] if host.count(":") == 1 else host
    if name not in LOCAL_NAMES and not host.startswith("[::1]"):
        raise HttpError(403, f"the Host header must name localhost, not {host or 'nothing'}")
