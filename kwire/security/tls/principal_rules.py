"""`ssl.principal.mapping.rules`: from a certificate's name to a principal (KIP-371).

    RULE:pattern/replacement/[L|U]   the first whose pattern is the whole name
    DEFAULT                          the name as it is

Rules are separated by commas; a slash within a rule has a backslash before it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from kwire.security.tls.error import TlsError

SETTING = "ssl.principal.mapping.rules"

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\$(\d+)")
_NAMED_REFERENCE = re.compile(r"\$\{(\w+)\}")
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?![=!])")
"""Java's `(?<name>`, which Python writes `(?P<name>`."""


class NoMatchingRule(Exception):
    """No rule is about this name: its owner may not come in."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT; `case` is L, U, or empty."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The principal's name; None where the rule is not about `name`."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(partial(expand, self.replacement), name)
        if self.case:
            result = result.lower() if self.case == "L" else result.upper()
        return result


class PrincipalRules:
    """See the module.  Raises TlsError for rules that cannot be read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = [rule for each in _split(text) for rule in _parse(each)]

    def principal_name(self, distinguished_name: str) -> str:
        """Raises NoMatchingRule."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{self._text}]")


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text.strip())]


def _parse(text: str) -> list[_Rule]:
    """One rule, or none where there is nothing between two commas."""
    match = _PARSER.match(text)
    assert match is not None  # the last alternative takes anything
    if match.end() != len(text):
        raise TlsError(
            f"{SETTING}: Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`"
        )
    if match[1] is not None:
        return [_Rule()]
    if match[2] is None:
        return []
    try:
        pattern = re.compile(_NAMED_GROUP.sub("(?P<", match[2]))
    except re.error as problem:
        raise TlsError(f"{SETTING}: {match[2]!r} is no pattern: {problem}") from None
    return [_Rule(pattern, match[3], match[4])]


def expand(replacement: str, match: re.Match[str]) -> str:
    """As Java's Matcher.appendReplacement: `$1` and `${name}` are groups, `\\` quotes.

    A number above that of the groups is read as fewer digits, and as plain text if none fits.
    """
    written: list[str] = []
    position = 0
    while position < len(replacement):
        each = replacement[position]
        if each == "\\" and position + 1 < len(replacement):
            written.append(replacement[position + 1])
            position += 2
        elif each == "$" and (found := _group(replacement, position, match)) is not None:
            text, position = found
            written.append(text)
        else:
            written.append(each)
            position += 1
    return "".join(written)


def _group(replacement: str, position: int, match: re.Match[str]) -> tuple[str, int] | None:
    """What the reference at `position` stands for, and where the text goes on."""
    named = _NAMED_REFERENCE.match(replacement, position)
    if named is not None and named[1] in match.re.groupindex:
        return match[named[1]] or "", named.end()
    numbered = _REFERENCE.match(replacement, position)
    if numbered is None:
        return None
    digits = numbered[1]
    while digits and int(digits) > match.re.groups:
        digits = digits[:-1]
    if not digits:
        return None
    return match[int(digits)] or "", position + 1 + len(digits)
