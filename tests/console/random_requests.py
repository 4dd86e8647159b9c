"""Requests to a console, drawn at random: right ones, nearly right ones, and wrong ones."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from kwire.console.app import site_pages
from kwire.console.site import FOLDER
from tests.console import hostile
from tests.console.lively import GROUPS, TOPICS

FIELD = re.compile(r"""\bname="([\w.-]+)"|query\.get\("([\w.-]+)"|form\.get\("([\w.-]+)\"""")
"""A field of a form, or a parameter of a URL, in a template or a module of the console."""
PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")

NUMBERS = ("0", "1", "-1", "007", "1e9", "NaN", "9" * 30, "2147483648", "-9223372036854775809", "½")
WORDS = (
    "earliest", "latest", "json", "text", "hex", "avro", "true", "on", "all", "topic", "literal",
    "2026-11-26T12:00", "2026-11-26T12:00:00Z", "PT5M", "1h", "value.id == 3", "key contains 'a'",
    "((((", "[1, 2", '{"a": 1}', "a" * 5_000, "SCRAM-SHA-256", "User:alice", "read", "allow",
)  # fmt: skip
ESCAPES = ("%", "%zz", "%00", "%ff", "%c0%80", "%F0%9F%A6%89", "%2e%2e", "%2f", "+", "%0d%0aX:%20y")


@dataclass(frozen=True)
class DrawnRequest:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None

    def __str__(self) -> str:
        return f"{self.method} {self.target[:300]} {self.headers} {(self.body or b'')[:300]!r}"


def field_names() -> list[str]:
    """The names of all fields and parameters that templates and modules of the console have."""
    names = {"q", "sort", "page", "per", "notice", "token", "back", "theme"}
    files = [*Path(FOLDER).rglob("*.html"), *Path(FOLDER).rglob("*.py")]
    for file in files:
        for groups in FIELD.findall(file.read_text()):
            names.update(name for name in groups if name)
    return sorted(names)


class RequestSource:
    """Draws requests."""

    def __init__(self, rng: random.Random, origin: str) -> None:
        """`origin` is the console's, which changes must name."""
        self._rng = rng
        self._origin = origin
        self._pages = site_pages()
        self._fields = field_names()
        self._values: Sequence[str] = (
            *TOPICS, *GROUPS, *hostile.NAMES, *hostile.PAYLOADS.values(), *NUMBERS, *WORDS,
            "no-such-topic", "", "1", "kwire", "..",
        )  # fmt: skip

    def draw(self) -> DrawnRequest:
        """The next request."""
        rng = self._rng
        page = rng.choice(self._pages)
        method = rng.choice(page.methods) if rng.random() < 0.9 else rng.choice(("GET", "POST"))
        path = PARAMETER.sub(lambda _: quote(self._value(), safe=""), page.path)
        if rng.random() < 0.05:
            path = self._mutated(path)
        query = self._pairs(4)
        target = path + (f"?{query}" if query else "")
        if rng.random() < 0.05:
            target = self._mutated(target)
        headers: dict[str, str] = {}
        body = None
        if method == "POST":
            headers["Origin"] = self._origin
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = self._pairs(8).encode()
            if rng.random() < 0.1:
                body = rng.randbytes(rng.randrange(200))
                headers["Content-Type"] = rng.choice(
                    ("multipart/form-data; boundary=x", "multipart/form-data", "application/json",
                     "application/x-www-form-urlencoded; charset=utf-16", "")
                )  # fmt: skip
        if rng.random() < 0.2:
            name = rng.choice(("Cookie", "Accept", "Range", "If-Modified-Since", "Last-Event-ID"))
            headers[name] = rng.choice(
                ("kwire-theme=dark", "kwire-theme=\x7f", "bytes=0-", "bytes=5-1,-", "text/plain",
                 "application/json", "*/*", "a=b; c", '"\\', "-5")
            )  # fmt: skip
        return DrawnRequest(method, target[:12_000], headers, body)

    def _value(self) -> str:
        rng = self._rng
        value = rng.choice(self._values)
        if rng.random() < 0.05:
            value = "".join(
                chr(rng.choice((rng.randrange(256), 0x202E, 0x1F989))) for _ in range(9)
            )
        return value

    def _pairs(self, at_most: int) -> str:
        count = self._rng.randrange(at_most + 1)
        return urlencode([(self._rng.choice(self._fields), self._value()) for _ in range(count)])

    def _mutated(self, target: str) -> str:
        """The target with something in it that breaks a rule of URLs, but not a line."""
        place = self._rng.randrange(1, len(target) + 1)
        return target[:place] + self._rng.choice(ESCAPES) + target[place:]
