"""`ssl.principal.mapping.rules`: maps a certificate's name to a principal (KIP-371).

    RULE:pattern/replacement/[L|U]   applies if the pattern matches the whole name
    DEFAULT                          always applies, and keeps the name

The first rule that applies counts.  Rules are separated by commas; a slash within a rule has a
backslash before it.
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
    """No rule applies to this name; the client is refused."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT; `case` is L, U, or empty."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal's name, or None if the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(partial(expand, self.replacement), name)
        if self.case:
            result = result.lower() if self.case == "L" else result.upper()
        return result


class PrincipalRules:
    """The rules of a setting; see the module.  Raises TlsError for invalid rules."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = [rule for rule_text in _split(text) for rule in _parse(rule_text)]

    def principal_name(self, distinguished_name: str) -> str:
        """Return the principal's name for a certificate's name.  Raises NoMatchingRule."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{self._text}]")


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text.strip())]


def _parse(text: str) -> list[_Rule]:
    """One rule, or none for an empty text between two commas."""
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
        raise TlsError(f"{SETTING}: {match[2]!r} is not a valid pattern: {problem}") from None
    return [_Rule(pattern, match[3], match[4])]


def expand(replacement: str, match: re.Match[str]) -> str:
    """Return the replacement with its groups, as in Java's Matcher.appendReplacement.

    `$1` and `${name}` stand for groups, `\\` quotes.  If a number is above the number of groups,
    its last digits count as text; if no digits fit, the whole reference is text.
    """
    written: list[str] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        if character == "\\" and position + 1 < len(replacement):
            written.append(replacement[position + 1])
            position += 2
        elif character == "$" and (group := _group(replacement, position, match)) is not None:
            text, position = group
            written.append(text)
        else:
            written.append(character)
            position += 1
    return "".join(written)


def _group(replacement: str, position: int, match: re.Match[str]) -> tuple[str, int] | None:
    """Return the text of the group reference at `position`, and the position after it; or None."""
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
