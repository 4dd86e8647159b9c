"""Regular expressions that clients choose: RE2's, as Apache Kafka's are (RE2/J).

A broker has one loop, and an engine that backtracks would let any client stop it with `(a+)+b`.
RE2 takes time linear in the text, and refuses patterns that need more than MEMORY_BYTES_MAX; one
that is longer than CHARACTERS_MAX is not even read.  It is imported when the first pattern comes,
which costs 5 to 10 ms: hardly a broker sees one.
"""

from __future__ import annotations

MEMORY_BYTES_MAX = 1 << 20
"""Of one compiled pattern and its automaton: some 20,000 characters to match."""

CHARACTERS_MAX = 1 << 16
"""Of a pattern: what RE2 reads in some 10 ms."""


class InvalidPattern(ValueError):
    """It is no regular expression, or one that is too large; the message says which."""


class Pattern:
    """Raises InvalidPattern."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise InvalidPattern(f"a pattern of {len(text)} characters; {CHARACTERS_MAX} at most")
        import re2

        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.never_capture = True  # nobody asks for groups
        options.log_errors = False  # on its own, to stderr
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise InvalidPattern(_text(error)) from error
        finally:
            re2.purge()  # or it would remember the last 128 that anybody has sent

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` is matched."""
        return self._compiled.fullmatch(text) is not None


def _text(error: Exception) -> str:
    """RE2 gives its sentence as bytes."""
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
