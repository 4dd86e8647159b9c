r"""From a filter expression to a function of a record.

    expression = term { "or" term }
    term       = factor { "and" factor }
    factor     = "not" factor | "(" expression ")" | comparison
    comparison = operand [ sign operand | ["not"] "in" "(" literals ")"
                         | "is" ["not"] ("null" | "absent") ]
    sign       = "=" "==" "!=" "<>" "<" "<=" ">" ">=" "contains" "starts" "ends" "matches" "~"
    operand    = literal | root { "." name | "[" string or index "]" }
    root       = "key" "value" "header" "headers" "partition" "offset" "timestamp" "size"
    literal    = number | string | "true" | "false" | "null"

An operand alone is true if it is there, and neither null nor false.  Two values are compared as
numbers if both are numbers, or texts that are; else as texts.  A comparison with something that is
absent is false, except `!=` and `is null`.  `timestamp` is compared with milliseconds, or with a
time such as "2026-11-26T12:00" in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import re2

from kwire.console.filtering.facts import (
    ABSENT,
    Absent,
    RecordFacts,
    as_number,
    as_text,
    at_path,
)
from kwire.console.filtering.tokens import BadExpression, FilterToken, tokens
from kwire.registry.schemas.values.data import Data

Test = Callable[[RecordFacts], bool]
Read = Callable[[RecordFacts], "Data | Absent"]

DEPTH_MAX: Final = 30
"""Parentheses and `not` within each other."""
REGEX_MEMORY_BYTES_MAX: Final = 1024 * 1024
NUMBERS: Final = ("partition", "offset", "timestamp", "size")
PARTS: Final = ("key", "value")
ROOTS: Final = (*PARTS, "header", "headers", *NUMBERS)
ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
TEXTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "contains": lambda text, part: part in text,
    "starts": lambda text, part: text.startswith(part),
    "ends": lambda text, part: text.endswith(part),
}
SAME_IN_JSON: Final = re.compile(r"[\w.@-]*[a-df-zA-DF-Z][\w.@-]*", re.ASCII)
"""Texts that any JSON has as they are, but for escapes by number.  One letter is none of a number,
since 1e3 is the text 1000.0."""
EQUAL: Final = ("=", "==")
UNEQUAL: Final = ("!=", "<>")


class Needle(NamedTuple):
    """A text that the key or the value of each wanted record has, if these are plain text.

    Who has the bytes of many records can skip those that lack one."""

    text: str
    may_be: tuple[str, ...] = ()
    """Regular expressions; what has one of them may have the text in another way of writing."""


JSON_ESCAPE: Final = r"\\u"
"""The start of a character that JSON writes by its number, as in `\\u0041`."""
EXPONENT: Final = r"[0-9][eE]"
"""The exponent of a number: 1e3 is 1000."""


class Expression(NamedTuple):
    """A filter expression that can be used."""

    text: str
    test: Test
    """Whether a record is wanted."""
    needles: tuple[Needle, ...]


class Operand(NamedTuple):
    """A side of a comparison."""

    read: Read
    root: str
    """The root of its path; empty for a literal."""
    is_whole: bool
    """Whether it is the whole key or value."""
    literal: Data | None
    position: int


class Tested(NamedTuple):
    """A part of the expression."""

    test: Test
    needles: tuple[Needle, ...] = ()


def parsed(text: str) -> Expression:
    """The expression that a text has.  Raises BadExpression."""
    parser = ExpressionParser(tokens(text))
    found = parser.whole()
    return Expression(text, found.test, found.needles)


class ExpressionParser:
    """Reads tokens from left to right, with one function for each rule of the grammar."""

    def __init__(self, given: list[FilterToken]) -> None:
        """`given` ends with a token of kind `end`."""
        self._given = given
        self._at = 0
        self._depth = 0

    def whole(self) -> Tested:
        """The whole expression."""
        found = self._expression()
        if self._next.kind != "end":
            raise self._unexpected("and, or, or the end")
        return found

    @property
    def _next(self) -> FilterToken:
        return self._given[self._at]

    def _take(self) -> FilterToken:
        token = self._given[self._at]
        self._at += token.kind != "end"
        return token

    def _takes(self, *texts: str) -> bool:
        """Whether the next token is a word or sign of these; then it is taken."""
        is_one = self._next.kind in ("word", "sign") and self._next.text in texts
        self._at += is_one
        return is_one

    def _unexpected(self, wanted: str) -> BadExpression:
        token = self._next
        found = f"{token.text[:40]!r}" if token.kind != "end" else "the end"
        return BadExpression(f"{wanted} is expected, not {found}", token.position)

    def _expression(self) -> Tested:
        terms = [self._term()]
        while self._takes("or", "||"):
            terms.append(self._term())
        if len(terms) == 1:
            return terms[0]
        tests = tuple(term.test for term in terms)
        return Tested(lambda record: any(test(record) for test in tests))

    def _term(self) -> Tested:
        factors = [self._factor()]
        while self._takes("and", "&&"):
            factors.append(self._factor())
        if len(factors) == 1:
            return factors[0]
        tests = tuple(factor.test for factor in factors)
        needles = tuple(needle for factor in factors for needle in factor.needles)
        return Tested(lambda record: all(test(record) for test in tests), needles)

    def _factor(self) -> Tested:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadExpression("the expression is nested too deeply", self._next.position)
        try:
            if self._takes("not", "!"):
                test = self._factor().test
                return Tested(lambda record: not test(record))
            if self._takes("("):
                found = self._expression()
                if not self._takes(")"):
                    raise self._unexpected(")")
                return found
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Tested:
        left = self._operand()
        position = self._next.position
        if self._takes("is"):
            is_negated = self._takes("not")
            if self._takes("absent"):
                return Tested(lambda record: (left.read(record) is ABSENT) != is_negated)
            if not self._takes("null"):
                raise self._unexpected("null or absent")
            return Tested(null_test(left.read, is_negated))
        is_negated = self._takes("not")
        if self._takes("in"):
            return Tested(self._in_list(left, is_negated))
        if is_negated:
            raise self._unexpected("in")
        sign = self._next.text
        if self._takes(*EQUAL, *UNEQUAL, *ORDERS, *TEXTS):
            return compared(left, sign, self._operand())
        if self._takes("matches", "~"):
            return Tested(self._matching(left))
        if self._next.kind in ("name", "string", "number"):
            raise self._unexpected("an operation such as = or contains")
        if not left.root:
            raise BadExpression("a literal alone is no condition", position)
        return Tested(lambda record: is_true(left.read(record)))

    def _in_list(self, left: Operand, is_negated: bool) -> Test:
        if not self._takes("("):
            raise self._unexpected("(")
        tests = [compared(left, "=", self._literal()).test]
        while self._takes(","):
            tests.append(compared(left, "=", self._literal()).test)
        if not self._takes(")"):
            raise self._unexpected(")")
        return lambda record: any(test(record) for test in tests) != is_negated

    def _matching(self, left: Operand) -> Test:
        pattern = self._take()
        if pattern.kind != "string":
            self._at -= pattern.kind != "end"
            raise self._unexpected("a regular expression in quotes")
        options = re2.Options()
        options.max_mem = REGEX_MEMORY_BYTES_MAX
        options.log_errors = False
        try:
            # RE2 takes time in proportion to the text, whatever the expression is.
            found = re2.compile(pattern.text, options)
        except re2.error as error:
            reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            raise BadExpression(f"the regular expression: {reason}", pattern.position) from None

        def matches(record: RecordFacts) -> bool:
            text = as_text(left.read(record))
            return text is not None and found.search(text) is not None

        return matches

    def _literal(self) -> Operand:
        operand = self._operand()
        if operand.root:
            raise BadExpression("a list has literals only", operand.position)
        return operand

    def _operand(self) -> Operand:
        token = self._next
        if token.kind in ("number", "string") or token.text in ("true", "false", "null"):
            self._take()
            value = literal_of(token)
            return Operand(lambda _: value, "", False, value, token.position)
        if token.kind != "name" or token.text not in ROOTS:
            raise self._unexpected(f"one of {', '.join(ROOTS)}, or a literal")
        self._take()
        path = self._path()
        return Operand(
            reader(token, path), token.text, token.text in PARTS and not path, None, token.position
        )

    def _path(self) -> tuple[str | int, ...]:
        """The names and indexes after a root."""
        path: list[str | int] = []
        while True:
            if self._takes("."):
                token = self._take()
                if token.kind not in ("name", "word"):
                    self._at -= token.kind != "end"
                    raise self._unexpected("a name")
                path.append(token.text)
            elif self._takes("["):
                token = self._take()
                is_index = token.kind == "number" and token.text.lstrip("-").isdigit()
                if token.kind != "string" and not (is_index and len(token.text) < 10):
                    self._at -= token.kind != "end"
                    raise self._unexpected("an index or a name in quotes")
                path.append(int(token.text) if is_index else token.text)
                if not self._takes("]"):
                    raise self._unexpected("]")
            else:
                return tuple(path)


def literal_of(token: FilterToken) -> Data:
    """The value of a literal."""
    if token.kind == "string":
        return token.text
    if token.kind == "number":
        is_whole = token.text.lstrip("-").isdigit() and len(token.text) <= 40
        return int(token.text) if is_whole else float(token.text)
    return {"true": True, "false": False, "null": None}[token.text]


def reader(root: FilterToken, path: tuple[str | int, ...]) -> Read:
    """The function that reads a path of a record.  Raises BadExpression for one that none has."""
    name = root.text
    if name in NUMBERS:
        if path:
            raise BadExpression(f"{name} has no fields", root.position)
        attribute = {"timestamp": "timestamp_ms", "size": "size_bytes"}.get(name, name)
        return lambda record: getattr(record, attribute)
    if name in PARTS:
        if path:
            return lambda record: at_path(record.data(name), path)
        return lambda record: None if record.is_null(name) else record.text(name)
    if len(path) != 1 or not isinstance(path[0], str):
        raise BadExpression('a header has a name: header.trace, header["a b"]', root.position)
    header = path[0]
    return lambda record: record.header(header)


def is_true(value: Data | Absent) -> bool:
    """Whether an operand alone is true: not absent, null or false."""
    return value is not ABSENT and value is not None and value is not False


def null_test(read: Read, is_negated: bool) -> Test:
    """Whether a value is null, or not.  What is absent counts as null."""

    def test(record: RecordFacts) -> bool:
        value = read(record)
        return (value is None or value is ABSENT) != is_negated

    return test


def compared(left: Operand, sign: str, right: Operand) -> Tested:
    """The comparison of two operands."""
    if "timestamp" in (left.root, right.root):
        left, right = with_time(left), with_time(right)
    read_left, read_right = left.read, right.read
    if sign in TEXTS:
        operation = TEXTS[sign]

        def has_text(record: RecordFacts) -> bool:
            text, part = as_text(read_left(record)), as_text(read_right(record))
            return text is not None and part is not None and operation(text, part)

        return Tested(has_text, needles_of(left, right, is_equal=False))
    if sign in ORDERS:
        order = ORDERS[sign]
        return Tested(lambda record: ordered(order, read_left(record), read_right(record)))
    if sign in UNEQUAL:
        return Tested(lambda record: not equal(read_left(record), read_right(record)))
    return Tested(
        lambda record: equal(read_left(record), read_right(record)),
        needles_of(left, right, is_equal=True),
    )


def needles_of(left: Operand, right: Operand, *, is_equal: bool) -> tuple[Needle, ...]:
    """The text that the bytes of a record have if a comparison with a literal is true."""
    literal = right.literal
    if left.root not in PARTS:
        return ()
    if isinstance(literal, int) and not isinstance(literal, bool) and is_equal:
        # A number has the digits of an equal one, unless it has an exponent.
        return (Needle(str(abs(literal)), (JSON_ESCAPE, EXPONENT)),)
    if not isinstance(literal, str) or not literal or as_number(literal) is not None:
        return ()
    if left.is_whole:
        return (Needle(literal),)
    return (Needle(literal, (JSON_ESCAPE,)),) if SAME_IN_JSON.fullmatch(literal) else ()


def equal(left: Data | Absent, right: Data | Absent) -> bool:
    """Whether two values are equal: as numbers if both can be, else as texts."""
    if left is ABSENT or right is ABSENT:
        return False
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right or (as_text(left) == as_text(right) and left is not None)
    numbers = as_number(left), as_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] == numbers[1]
    return as_text(left) == as_text(right)


def ordered(order: Callable[[Any, Any], bool], left: Data | Absent, right: Data | Absent) -> bool:
    """Whether two values are in an order: as numbers if both can be, else as texts."""
    numbers = as_number(left), as_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return order(*numbers)
    if isinstance(left, str) and isinstance(right, str):
        return order(left, right)
    return False


def with_time(operand: Operand) -> Operand:
    """The operand as a time in ms, if it is a literal text.  Raises BadExpression."""
    if not isinstance(operand.literal, str):
        return operand
    time_ms = time_of(operand.literal)
    if time_ms is None:
        raise BadExpression('a time is like "2026-11-26T12:00", in UTC', operand.position)
    return operand._replace(read=lambda _: time_ms, literal=time_ms)


def time_of(text: str) -> int | None:
    """The ms since 1970 of a time in ISO format, in UTC unless it names a zone; else None."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
