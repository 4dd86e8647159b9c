"""Reads regular expressions in the syntax of RE2, which ListTransactions is given (KIP-1152).

    x . [a-z] [^a] [[:alpha:]]    characters, and classes of them
    \\d \\w \\s \\pL \\p{Lu} \\Q..\\E    the same, by name; their negations in capitals
    xy x|y (x) (?:x) (?P<n>x)     one after the other, either, groups
    x* x+ x? x{2} x{2,} x{2,5}    repetitions; a `?` behind asks for few, which is no matter here
    ^ $ \\A \\z \\b \\B               places
    (?i) (?s) (?m) (?i:x)         letters of either case, `.` is any, `^` and `$` at each line

There are no look-arounds and no references back, so that what was read can be matched in linear
time, and a repetition counts to a thousand at most.  Scripts (`\\p{Greek}`) are not known here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

REPETITIONS_MAX = 1_000
"""RE2's own limit."""
NESTING_MAX = 100
"""How deep groups may be nested; RE2 has a thousand, which nobody needs."""

Accepts = Callable[[str], bool]
"""Whether a character belongs to a class."""


class InvalidPattern(ValueError):
    """What was given is no regular expression of this syntax, or too large a one."""


class Place(Enum):
    TEXT_BEGIN = "\\A"
    TEXT_END = "\\z"
    LINE_BEGIN = "(?m)^"
    LINE_END = "(?m)$"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


@dataclass(frozen=True, slots=True)
class One:
    """A character of a class."""

    accepts: Accepts


@dataclass(frozen=True, slots=True)
class At:
    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    ways: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = One | At | Sequence | Either | Repeat

_PLACES = {
    "A": Place.TEXT_BEGIN,
    "z": Place.TEXT_END,
    "b": Place.WORD_BOUNDARY,
    "B": Place.NO_WORD_BOUNDARY,
}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def is_word(char: str) -> bool:
    """ASCII only, as all that is not `\\p`."""
    return char.isascii() and (char.isalnum() or char == "_")


_NAMED: dict[str, Accepts] = {
    "d": lambda c: "0" <= c <= "9",
    "w": is_word,
    "s": lambda c: c in "\t\n\f\r ",
}
_POSIX: dict[str, Accepts] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _NAMED["d"],
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


def parse(pattern: str) -> Node:
    """Raises InvalidPattern."""
    parser = _Parser(pattern)
    node = parser.alternatives()
    if not parser.at_end:
        raise InvalidPattern("unexpected )")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._position = 0
        self._flags: frozenset[str] = frozenset()
        self._names: set[str] = set()
        self._depth = 0

    # -- characters

    @property
    def at_end(self) -> bool:
        return self._position == len(self._text)

    def _next_is(self, text: str) -> bool:
        return self._text.startswith(text, self._position)

    def _skip(self, text: str) -> bool:
        """Pass over `text` if it is next."""
        found = self._next_is(text)
        self._position += len(text) * found
        return found

    def _take(self) -> str:
        if self.at_end:
            raise InvalidPattern("unexpected end")
        self._position += 1
        return self._text[self._position - 1]

    def _take_until(self, end: str) -> str:
        found = self._text.find(end, self._position)
        if found < 0:
            raise InvalidPattern(f"missing {end}")
        text = self._text[self._position : found]
        self._position = found + len(end)
        return text

    # -- structure

    def alternatives(self) -> Node:
        """Up to the end of the group, whose flags end with it."""
        flags = self._flags
        ways = [self._sequence()]
        while self._skip("|"):
            ways.append(self._sequence())
        self._flags = flags
        return ways[0] if len(ways) == 1 else Either(tuple(ways))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while not (self.at_end or self._next_is("|") or self._next_is(")")):
            if self._skip("\\Q"):
                parts += self._quoted()
            else:
                parts.append(self._repeated(self._part()))
        return Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        """A quotation ends with the pattern if nothing else ends it."""
        end = self._text.find("\\E", self._position)
        text = self._text[self._position :] if end < 0 else self._take_until("\\E")
        self._position = len(self._text) if end < 0 else self._position
        parts: list[Node] = [One(self._letter(char)) for char in text]
        if parts:
            parts[-1] = self._repeated(parts[-1])
        return parts

    def _repeated(self, part: Node) -> Node:
        quantifier = self._quantifier()
        if quantifier is None:
            return part
        self._skip("?")
        if self._quantifier() is not None:
            raise InvalidPattern("invalid nested repetition operator")
        return Repeat(part, *quantifier)

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self.at_end:
            return None
        char = self._text[self._position]
        if char in _QUANTIFIERS:
            self._position += 1
            return _QUANTIFIERS[char]
        return self._counted() if char == "{" else None

    def _counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}`, `{2,5}`; braces around anything else are characters."""
        end = self._text.find("}", self._position)
        least, comma, most = self._text[self._position + 1 : max(end, 0)].partition(",")
        texts = [least, most] if most else [least]
        if end < 0 or not all(map(_is_number, texts)):
            return None
        numbers = [int(text) if len(text) < 6 else REPETITIONS_MAX + 1 for text in texts]
        if numbers[0] > numbers[-1] or numbers[-1] > REPETITIONS_MAX:
            raise InvalidPattern("bad repetition operator")
        self._position = end + 1
        return numbers[0], numbers[-1] if most or not comma else None

    def _part(self) -> Node:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return One(self._class())
            case ".":
                return One(_any if "s" in self._flags else _any_of_line)
            case "^":
                return At(Place.LINE_BEGIN if "m" in self._flags else Place.TEXT_BEGIN)
            case "$":
                return At(Place.LINE_END if "m" in self._flags else Place.TEXT_END)
            case "\\":
                return self._escaped()
            case "*" | "+" | "?":
                raise InvalidPattern(f"missing argument to repetition operator: {char}")
        return One(self._letter(char))

    def _group(self) -> Node:
        flags = self._flags
        if self._skip("?P<") or self._skip("?<"):
            name = self._take_until(">")
            if not name or name in self._names or not all(map(is_word, name)):
                raise InvalidPattern("bad named group")
            self._names.add(name)
        elif self._skip("?") and not self._flags_of_group():
            return Sequence(())
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise InvalidPattern("nested too deeply")
        node = self.alternatives()
        if not self._skip(")"):
            raise InvalidPattern("missing )")
        self._depth -= 1
        self._flags = flags
        return node

    def _flags_of_group(self) -> bool:
        """Read `i`, `-s` and the like; whether a group follows and not its end."""
        adds, seen = True, False
        flags = set(self._flags)
        while (char := self._take()) not in ":)":
            if char == "-" and adds:
                adds, seen = False, False
            elif char in "imsU":
                seen = True
                (flags.add if adds else flags.discard)(char)
            else:
                raise InvalidPattern("invalid or unsupported group")
        if not (seen or adds):
            raise InvalidPattern("missing flags")
        self._flags = frozenset(flags)
        return char == ":"

    # -- classes of characters

    def _letter(self, char: str) -> Accepts:
        if "i" not in self._flags:
            return char.__eq__
        return {char, char.lower(), char.upper()}.__contains__

    def _escaped(self) -> Node:
        char = self._take()
        if char in _PLACES:
            return At(_PLACES[char])
        named = self._named(char)
        return One(named or self._letter(self._escape(char)))

    def _named(self, char: str) -> Accepts | None:
        """The class that `\\d` and the like name."""
        if char.lower() in _NAMED:
            accepts = _NAMED[char.lower()]
        elif char in "pP":
            accepts = self._unicode_class()
        else:
            return None
        return _not(accepts) if char.isupper() else accepts

    def _unicode_class(self) -> Accepts:
        name = self._take_until("}") if self._skip("{") else self._take()
        negated = name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            accepts: Accepts = _any
        elif name in _CATEGORIES:
            accepts = partial(_is_in_category, name)
        else:
            raise InvalidPattern(f"unknown character class {name}")
        return _not(accepts) if negated else accepts

    def _escape(self, char: str) -> str:
        """The one character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            digits = self._take_until("}") if self._skip("{") else self._take() + self._take()
            return _of_code(digits, 16)
        if char == "0" or (
            "1" <= char <= "7" and self._text[self._position :][:1] in set("01234567")
        ):
            while len(char) < 3 and self._text[self._position :][:1] in set("01234567"):
                char += self._take()
            return _of_code(char, 8)
        if char.isascii() and not char.isalnum():
            return char
        raise InvalidPattern(f"invalid escape sequence \\{char}")

    def _class(self) -> Accepts:
        negated = self._skip("^")
        members: list[Accepts] = []
        while not members or not self._next_is("]"):
            members.append(self._member())
        self._skip("]")

        def accepts(char: str) -> bool:
            return any(member(char) for member in members)

        return _not(accepts) if negated else accepts

    def _member(self) -> Accepts:
        if ":]" in self._text[self._position :] and self._skip("[:"):
            name = self._take_until(":]")
            accepts = _POSIX.get(name.removeprefix("^"))
            if accepts is None:
                raise InvalidPattern(f"invalid character class {name}")
            return _not(accepts) if name.startswith("^") else accepts
        char = self._take()
        if char == "\\":
            char = self._take()
            named = self._named(char)
            if named is not None:
                return named
            char = self._escape(char)
        if not self._next_is("-") or self._text.startswith("-]", self._position):
            return self._letter(char)
        self._skip("-")
        return self._range(char)

    def _range(self, first: str) -> Accepts:
        last = self._take()
        if last == "\\":
            last = self._escape(self._take())
        if last < first:
            raise InvalidPattern("bad range")
        if "i" not in self._flags:
            return lambda char: first <= char <= last
        return lambda char: any(first <= c <= last for c in (char, char.lower(), char.upper()))


_MAJOR = {
    "L": "ulmto",
    "M": "nce",
    "N": "dlo",
    "P": "cdseifo",
    "S": "mcko",
    "Z": "slp",
    "C": "cfos",
}
_CATEGORIES = {*_MAJOR, *(major + minor for major in _MAJOR for minor in _MAJOR[major])}


def _is_number(text: str) -> bool:
    """Without zeros in front."""
    return text == "0" or (text.isascii() and text.isdecimal() and text[0] != "0")


def _is_in_category(name: str, char: str) -> bool:
    return unicodedata.category(char).startswith(name)


def _any(_char: str) -> bool:
    return True


def _any_of_line(char: str) -> bool:
    return char != "\n"


def _not(accepts: Accepts) -> Accepts:
    return lambda char: not accepts(char)


def _of_code(digits: str, base: int) -> str:
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError) as error:
        raise InvalidPattern("invalid escape sequence") from error
