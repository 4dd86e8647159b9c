"""Checks of a word count with exactly-once processing.

`words` {} -> {counts: {word: its number of records}}: at the end. `counted` {} -> {updates: {word:
[1, 2, ...]}}: the counts that a reader of committed records saw, in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History


# The updates of a word are 1, 2 and so on, up to its number of records.
def each_word_is_counted_once(history: History) -> Iterator[Violation]:
    """Yield the words whose counts are not 1, 2, ... up to the number of their records."""
    written = {
        word: count for each in history.operations("words")
        for word, count in each.result.get("counts", {}).items()
    }  # fmt: skip
    for look in history.operations("counted"):
        updates = look.result.get("updates", {})
        for word in sorted(written.keys() | updates.keys()):
            expected, seen = written.get(word, 0), updates.get(word, [])
            if seen != list(range(1, expected + 1)):
                wrong = next((n for n, count in enumerate(seen, 1) if count != n), len(seen) + 1)
                yield Violation(
                    "miscounted",
                    f"{word} is written {expected} times, update {wrong} of {len(seen)} is wrong:"
                    f" {seen[wrong - 2 : wrong + 2]}",
                )


COUNT_CHECKS = (each_word_is_counted_once,)
