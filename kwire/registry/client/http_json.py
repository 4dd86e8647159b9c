"""JSON over HTTP: one request, one answer."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from kwire.registry.client.errors import RegistryRefused, RegistryUnreachable

TIMEOUT_S: Final = 5.0
ANSWER_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
ERROR_SIZE_BYTES_MAX: Final = 64 * 1024
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send the password to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - the library's own
        """Return None, which makes the redirect an error."""


class HttpJson:
    """Sends requests to the first of some addresses that answers.  Threads may share it."""

    def __init__(
        self,
        urls: str,
        *,
        context: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`urls` are separated by commas; each may have a user and a password, which win over
        `login`.  Raises ValueError if one is no HTTP URL."""
        self._bases = [_base(url.strip(), login) for url in urls.split(",")]
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=context)
        )

    @property
    def address(self) -> str:
        """The first address, without a password."""
        return self._bases[0][0]

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON
        query: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """The JSON of the answer.  Raises RegistryUnreachable, or RegistryRefused for an error."""
        target = f"{path}?{urlencode(query)}" if query else path
        problem: RegistryUnreachable | None = None
        for base, headers in self._bases:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(base + target, data, headers, method=method)
            if data is not None:
                request.add_header("Content-Type", MEDIA_TYPE)
            try:
                return self._answer(request)
            except RegistryUnreachable as error:
                problem = error
        assert problem is not None, "there is at least one address"
        raise problem

    def _answer(self, request: urllib.request.Request) -> Any:  # noqa: ANN401 - JSON
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                body = response.read(ANSWER_SIZE_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryUnreachable(f"the registry does not answer: {reason}") from None
        if len(body) > ANSWER_SIZE_BYTES_MAX:
            raise RegistryUnreachable("the registry's answer is too large")
        try:
            return json.loads(body) if body else None
        except (ValueError, RecursionError):
            raise RegistryUnreachable("the registry's answer is not JSON") from None


def _refused(error: urllib.error.HTTPError) -> RegistryRefused:
    """The registry's error, if the body is JSON of one."""
    try:
        told = json.loads(error.read(ERROR_SIZE_BYTES_MAX))
        return RegistryRefused(error.code, int(told["error_code"]), str(told.get("message", "")))
    except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError, RecursionError):
        return RegistryRefused(error.code, error.code, "")


def _base(url: str, login: tuple[str, str] | None) -> tuple[str, dict[str, str]]:
    """An address without a path's end, and the headers of each request to it.

    Raises ValueError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of the registry is like http://localhost:8081, not {url!r}")
    if parts.username is not None:
        login = unquote(parts.username), unquote(parts.password or "")
    headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
    if login is not None:
        token = base64.b64encode(":".join(login).encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", "")), headers
