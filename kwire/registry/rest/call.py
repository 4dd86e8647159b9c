"""One request to the registry, with its path, its parameters and its body."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl, unquote

from kwire.registry.rest.forwarding import FORWARDED
from kwire.registry.subjects.errors import RegistryError, invalid_version
from kwire.registry.subjects.names import (
    CONTEXT_START,
    DEFAULT_CONTEXT,
    SubjectName,
    normal_name,
    whole_context,
)
from kwire.registry.subjects.state import Filter

if TYPE_CHECKING:
    from kwire.registry.service import RegistryService
    from kwire.server.http.messages import HttpRequest

LATEST: Final = "latest"
FORMAT: Final = "format"
"""The parameter of the query that says how schemas are written."""
VERSION_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Text:
    """An answer that is sent as it is, and not as a JSON value."""

    text: str


@dataclass
class Call:
    """A request."""

    service: RegistryService
    request: HttpRequest
    context: str = DEFAULT_CONTEXT
    """The context before the path: `/contexts/{context}/subjects`."""
    names: dict[str, str] = field(default_factory=dict)
    """The parameters of the path."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """The parameters of the query."""

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters of the query, the first value of each."""
        return dict(reversed(self.pairs))

    @property
    def is_forwarded(self) -> bool:
        """Whether another instance has sent the request on; it is not sent on again."""
        return FORWARDED in self.request.headers

    def flag(self, name: str) -> bool:
        """Whether a parameter is `true`."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A number in the query.  Raises RegistryError (404, as Confluent's registry)."""
        text = self.query.get(name)
        return default if text is None else _number(text)

    @property
    def schema_id(self) -> int:
        """The id in the path."""
        return _number(self.names["id"])

    @property
    def version(self) -> int | None:
        """The version in the path; None for `latest` and -1.  Raises RegistryError."""
        text = self.names["version"]
        if text == LATEST:
            return None
        try:
            number = int(text) if len(text) < 20 else 0
        except ValueError:
            number = 0
        if number == -1:
            return None
        if not 1 <= number <= VERSION_MAX:
            raise invalid_version(text[:100])
        return number

    @property
    def level(self) -> str:
        """The subject or context of a config or mode; empty for the global level."""
        name = self.names.get("subject", "")
        return self._in_context(name) if name else whole_context(self.context)

    @property
    def subject(self) -> str:
        """The subject in the path; that for which it stands, if it is an alias."""
        return self.service.registry.resolved_alias(self._in_context(self.names["subject"]))

    @property
    def subject_hint(self) -> str:
        """The subject in the query, which says where an id is looked for."""
        return self._in_context(self.query.get("subject", ""))

    @property
    def prefix(self) -> str:
        """What subjects in a list begin with."""
        prefix = self.query.get("subjectPrefix")
        if prefix is None:
            return ":*:" if self.context == DEFAULT_CONTEXT else whole_context(self.context)
        return self._in_context(prefix)

    @property
    def which(self) -> Filter:
        """Which versions are listed, by `deleted` and `deletedOnly`."""
        if self.flag("deletedOnly"):
            return Filter.DELETED
        return Filter.ALL if self.flag("deleted") else Filter.LIVE

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that `offset` and `limit` name."""
        start, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[start:] if limit < 0 else found[start : start + limit]

    def fields(self) -> dict[str, Any]:
        """The JSON object in the body.  Raises RegistryError."""
        body = self.request.body
        if not body:
            raise RegistryError(422, "the request needs a body")
        try:
            fields = json.loads(body, parse_constant=_refuse)
            if b"\\u" in body:
                # Half of a surrogate pair can be written in JSON, but is no text.
                json.dumps(fields, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise RegistryError(400, "the body is no valid JSON") from None
        if not isinstance(fields, dict):
            raise RegistryError(400, "the body is no JSON object")
        return fields

    def _in_context(self, name: str) -> str:
        """A name with the context before the path, unless it has one itself."""
        if name.startswith((CONTEXT_START, ":*:")) or self.context == DEFAULT_CONTEXT:
            return normal_name(name)
        return SubjectName(self.context, name).text


def split_target(target: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The parts of a path, and the parameters of a query, decoded.  Raises RegistryError.

    A subject may have a slash, which is `%2F` in the path.
    """
    path, _, query = target.partition("?")
    path = path.strip("/")
    try:
        parts = [unquote(part, errors="strict") for part in path.split("/")] if path else []
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict") if query else []
    except ValueError:
        raise RegistryError(400, "the URL is no valid UTF-8") from None
    return parts, pairs


def context_name(text: str) -> str:
    """A context as the registry names it: `.lab`, also for `lab` and `:.lab:`."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"


def _number(text: str) -> int:
    """A number of 32 bits in a URL.  Raises RegistryError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise RegistryError(404, "HTTP 404 Not Found")
    number = int(text)
    if abs(number) > VERSION_MAX:
        raise RegistryError(404, "HTTP 404 Not Found")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
