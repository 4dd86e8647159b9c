"""Counts of words, exactly once.

`words` {} -> {counts: {word: how often it is in its topic}}: at the end.
`counted` {} -> {updates: {word: [1, 2, ...]}}: what a reader of committed records saw, in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History


def each_word_is_counted_once(history: History) -> Iterator[Violation]:
    written = {
        word: count for each in history.operations("words")
        for word, count in each.answered.get("counts", {}).items()
    }  # fmt: skip
    for look in history.operations("counted"):
        updates = look.answered.get("updates", {})
        for word in sorted(written.keys() | updates.keys()):
            expected, found = written.get(word, 0), updates.get(word, [])
            if found != list(range(1, expected + 1)):
                wrong = next((n for n, each in enumerate(found, 1) if each != n), len(found) + 1)
                yield Violation(
                    "miscounted",
                    f"{word} is written {expected} times, update {wrong} of {len(found)} is wrong:"
                    f" {found[wrong - 2 : wrong + 2]}",
                )


COUNT_CHECKS = (each_word_is_counted_once,)
