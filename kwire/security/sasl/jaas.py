"""Parses JAAS lines, the form in which Kafka's files have the secrets of a login.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";

The rules are those of Apache Kafka's JaasConfig, which uses Java's StreamTokenizer: quotes are
single or double, `\\"` within them is a quote, `/` begins a comment, and a number is a value only
in quotes.  Only the module's name and options are used; no Java runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""[\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]*
    | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)
    | "(?P<double>(?:[^"\\\r\n]|\\.)*)(?:"|(?=[\r\n])|\Z)
    | '(?P<single>(?:[^'\\\r\n]|\\.)*)(?:'|(?=[\r\n])|\Z)
    | (?P<number>[\-.0-9]+)
    | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The line is invalid; the message never has the value of an option."""


class LoginModule(NamedTuple):
    """`name` is that of a Java class, `flag` one of CONTROL_FLAGS."""

    name: str
    flag: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"<LoginModule {self.name}>"  # options are secrets


class _Token(NamedTuple):
    text: str | None
    """None for numbers and signs, for which Java's tokenizer has no text."""
    sign: str = ""


def _tokens(line: str) -> Iterator[_Token]:
    """Yield the tokens of a JAAS line; only words and quoted texts have a text."""
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup
        if kind == "word":
            yield _Token(match["word"])
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, match[kind]))
        elif kind == "number":
            yield _Token(None)
        elif kind == "sign":
            yield _Token(None, match["sign"])


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _ESCAPED.get(what, what)


def parse_modules(line: str) -> list[LoginModule]:
    """Return all modules of a line.  Raises JaasError with the messages of Apache Kafka."""
    tokens = _tokens(line)
    modules = [_module(first, tokens) for first in tokens]
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def parse_module(line: str) -> LoginModule:
    """Return the one module of a setting `sasl.jaas.config`.  Raises JaasError."""
    modules = parse_modules(line)
    if len(modules) != 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def _module(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    """One module up to its semicolon.

    Errors do not show the wrong text: it may be part of a secret that is not quoted correctly.
    """
    if first.text is None:
        raise JaasError("Login module not specified in JAAS config")
    flag = (next(tokens, _Token(None)).text or "").lower()
    if flag not in CONTROL_FLAGS:
        raise JaasError(
            f"Invalid login module control flag in JAAS config: {first.text} must be followed by "
            f"one of {', '.join(CONTROL_FLAGS)}"
        )
    options: dict[str, str] = {}
    before = flag
    for token in tokens:
        if token.sign == ";":
            return LoginModule(first.text, flag, options)
        name, value = token.text, _value(tokens)
        if name is None or value is None:
            raise JaasError(
                f"Value not specified in JAAS config: '{before}' must be followed by "
                'name="value" or a semi-colon'
            )
        options[name] = value
        before = name
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _value(tokens: Iterator[_Token]) -> str | None:
    return next(tokens, _Token(None)).text if next(tokens, _Token(None)).sign == "=" else None
