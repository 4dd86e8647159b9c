"""Regular expressions that clients send, in RE2's syntax, as in Apache Kafka (RE2/J).

A broker has one event loop: an engine that backtracks would let any client block it with
`(a+)+b`.  RE2 needs time linear in the text, and refuses patterns that need more than
MEMORY_BYTES_MAX.  A pattern longer than CHARACTERS_MAX is refused before RE2 reads it.  RE2 is
imported with the first pattern, because the import takes 5 to 10 ms and few brokers need it.
"""

from __future__ import annotations

MEMORY_BYTES_MAX = 1 << 20
"""Memory of one compiled pattern and its automaton; enough for about 20,000 characters."""

CHARACTERS_MAX = 1 << 16
"""Longest pattern: RE2 reads it in about 10 ms."""


class InvalidRegex(ValueError):
    """The text is not a regular expression, or is too large; the message says which."""


class RegexPattern:
    """A compiled pattern.  The constructor raises InvalidRegex."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        """Compiles `text`.  Raises InvalidRegex if it is not valid or too long.

        RE2 matches in linear time, so a client's pattern cannot block the broker.
        """
        if len(text) > CHARACTERS_MAX:
            raise InvalidRegex(f"a pattern of {len(text)} characters; {CHARACTERS_MAX} at most")
        # Here, since most brokers get no pattern: the import would cost time at every start.
        import re2

        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.never_capture = True  # capture groups are not used
        options.log_errors = False  # RE2 would write them to stderr
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise InvalidRegex(_text(error)) from error
        finally:
            re2.purge()  # otherwise RE2 caches the last 128 patterns

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of `text`."""
        return self._compiled.fullmatch(text) is not None


def _text(error: Exception) -> str:
    """RE2's error message, which RE2 returns as bytes."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
