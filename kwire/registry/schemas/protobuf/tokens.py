"""Cuts a `.proto` file into tokens, and reads values of them.

Source: Protobuf's "Language Specification" of proto2 and proto3, "Lexical Elements".
"""

from __future__ import annotations

import re
from typing import Final

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.protobuf.elements import OptionValue, Word

NESTED_MAX: Final = 30
"""Messages inside messages, and values inside values; protoc takes 32."""
SHOWN_MAX: Final = 60
"""Characters of a token that a message repeats."""
END: Final = ""
"""The token after the last one."""

TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*(?:[^*]|\*(?!/))*\*/
    | (?P<token> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \.?[A-Za-z_][\w.]*
      | \.?[0-9](?:[\w.]|(?<=[eE])[+-])* | [-+{}\[\]()<>=;,:/.] )""",
    re.VERBOSE,
)
ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
ESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
TYPE_NAME: Final = re.compile(r"\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
OCTAL: Final = re.compile(r"0[0-7]+")
DIGITS_MAX: Final = 40


class Tokens:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str) -> None:
        """Raises InvalidSchemaError for a character that no token has."""
        self._tokens: list[str] = []
        self._next = 0
        position = 0
        while position < len(text):
            found = TOKEN.match(text, position)
            if found is None:
                line = text.count("\n", 0, position) + 1
                raise InvalidSchemaError(
                    f"the Protobuf schema has {text[position]!r} in line {line:,}"
                )
            if found["token"] is not None:
                self._tokens.append(found["token"])
            position = found.end()

    def peek(self, ahead: int = 0) -> str:
        """The next token, or the one that comes so many later, without taking it."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else END

    def take(self, expected: str | None = None) -> str:
        """Take the next token, which must be `expected` if that is given."""
        token = self.peek()
        if token == END or (expected is not None and token != expected):
            raise self.unexpected("more" if expected is None else repr(expected))
        self._next += 1
        return token

    def take_if(self, token: str) -> bool:
        """Take the next token if it is this one, and say so."""
        if self.peek() != token:
            return False
        self._next += 1
        return True

    def unexpected(self, wanted: str) -> InvalidSchemaError:
        """An error that says what is there instead of what is wanted."""
        token = self.peek()
        shown = "its end" if token == END else repr(token[:SHOWN_MAX])
        return InvalidSchemaError(f"the Protobuf schema has {shown} instead of {wanted}")

    def name(self) -> str:
        """Take a name without dots."""
        if NAME.fullmatch(self.peek()) is None:
            raise self.unexpected("a name")
        return self.take()

    def type_name(self) -> str:
        """Take a name that may have dots."""
        if TYPE_NAME.fullmatch(self.peek()) is None:
            raise self.unexpected("the name of a type")
        return self.take()

    def number(self) -> int:
        """Take an integer: decimal, octal or hexadecimal, with or without a minus sign."""
        sign = -1 if self.take_if("-") else 1
        token = self.peek()
        if not token[:1].isdigit() or len(token) > DIGITS_MAX:
            raise self.unexpected("a number")
        try:
            number = int(token, 8 if OCTAL.fullmatch(token) else 0)
        except ValueError:
            raise self.unexpected("a number") from None
        self.take()
        return sign * number

    def text(self) -> str:
        """Take a text; texts that follow each other are one."""
        if self.peek()[:1] not in ('"', "'"):
            raise self.unexpected("a text")
        parts = []
        while self.peek()[:1] in ('"', "'"):
            parts.append(unescaped(self.take()[1:-1]))
        return "".join(parts)

    def value(self, depth: int = 0) -> OptionValue:
        """Take the value of an option."""
        if depth > NESTED_MAX:
            raise InvalidSchemaError(f"an option has more than {NESTED_MAX} nested values")
        token = self.peek()
        if token[:1] in ('"', "'"):
            return self.text()
        if token in ("{", "<"):
            return self._fields("}" if self.take() == "{" else ">", depth)
        if token == "[":
            return self._list(depth)
        sign = self.take() if token in ("-", "+") else ""
        if self.peek() == "." or not (self.peek()[:1] in "._" or self.peek()[:1].isalnum()):
            raise self.unexpected("a value")
        return Word(("-" if sign == "-" else "") + self.take())

    def _list(self, depth: int) -> list[OptionValue]:
        self.take("[")
        values: list[OptionValue] = []
        while not self.take_if("]"):
            values.append(self.value(depth + 1))
            if self.peek() != "]":
                self.take(",")
        return values

    def _fields(self, closing: str, depth: int) -> dict[str, OptionValue]:
        """Take the fields of a message in the form of texts, `{a: 1 b { c: 2 }}`."""
        fields: dict[str, OptionValue] = {}
        while not self.take_if(closing):
            name = self._extension_name() if self.peek() == "[" else self.type_name()
            if not self.take_if(":") and self.peek() not in ("{", "<"):
                raise self.unexpected("':'")
            value = self.value(depth + 1)
            before = fields.get(name)
            if before is None:
                fields[name] = value
            else:  # the field is repeated
                known = before if isinstance(before, list) else [before]
                fields[name] = [*known, *(value if isinstance(value, list) else [value])]
            if self.peek() in (",", ";"):
                self.take()
        return fields

    def _extension_name(self) -> str:
        self.take("[")
        name = self.type_name()
        while self.take_if("/"):
            name += f"/{self.type_name()}"
        self.take("]")
        return f"[{name}]"


def unescaped(text: str) -> str:
    """A text without the backslashes in which it is written."""
    return ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    hexadecimal, octal, short, long, other = found.groups()
    if other is not None:
        return ESCAPED.get(other, other)
    number = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise InvalidSchemaError(f"the Protobuf schema has {found[0]}, which is no character")
    return chr(number)
