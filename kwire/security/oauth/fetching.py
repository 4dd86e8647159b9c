"""Fetches the content of a URL or of a file.  Everything here blocks: call it in a thread."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kwire.security.tls.context import client_context
from kwire.security.tls.options import read_options

TIMEOUT_S: Final = 20.0
"""Timeout to connect, and between two reads of a response; jose4j's."""
SIZE_BYTES_MAX: Final = 512 * 1024
"""Size limit of a response; jose4j's."""

SCHEMES: Final = ("file", "http", "https")


class CannotFetch(Exception):
    """The content cannot be fetched.  The message omits the URL, which may hold a secret."""


def tls_of(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS of the `ssl.*` options in a JAAS line, or None for the system's.  Raises TlsError."""
    if not any(name.startswith("ssl.") for name in options):
        return None
    return client_context(read_options(options))


def path_of(url: str) -> Path | None:
    """The path of a `file:` URL, or None for other URLs."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def fetch(url: str, tls: ssl.SSLContext | None = None) -> bytes:
    """Return the content of `url`.  Raises CannotFetch."""
    file = path_of(url)
    if file is None:
        return ask(urllib.request.Request(url, headers={"Accept": "application/json"}), tls)
    try:
        return file.read_bytes()
    except OSError as problem:
        raise CannotFetch(problem.strerror or str(problem)) from None


def ask(request: urllib.request.Request, tls: ssl.SSLContext | None = None) -> bytes:
    """Return the body of the server's response.  Raises CannotFetch."""
    try:
        return _answer(request, tls)
    except urllib.error.HTTPError as problem:
        problem.close()
        raise CannotFetch(f"it answers {problem.code} {problem.reason}") from None
    except urllib.error.URLError as problem:
        raise CannotFetch(str(problem.reason)) from None
    except (OSError, HTTPException, ValueError) as problem:
        raise CannotFetch(getattr(problem, "strerror", None) or str(problem)) from None


def _answer(request: urllib.request.Request, tls: ssl.SSLContext | None) -> bytes:
    """Return the body of the response; raises CannotFetch if it is too long."""
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=tls) as answer:
        data: bytes = answer.read(SIZE_BYTES_MAX + 1)
    if len(data) > SIZE_BYTES_MAX:
        raise CannotFetch(f"it answers more than {SIZE_BYTES_MAX} bytes")
    return data
