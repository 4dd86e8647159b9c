"""Tests the shares of functions in sampled stacks, and their table."""

from __future__ import annotations

import pytest

from kwire.conformance.bench.flames.shares import of_stacks, table

LOOP, SEND = "run (trio/_core/_run.py:10)", "send (kwire/server/network/outbox.py:20)"
RAW = f"{LOOP};{SEND} 3\n{LOOP};{SEND};{SEND} 1\n{LOOP} 4\n"


def test_function_has_its_own_share_and_one_with_what_it_calls() -> None:
    shares = {share.function: share[1:] for share in of_stacks(RAW)}
    assert shares == {"_core/_run.py run": (0.5, 1.0), "network/outbox.py send": (0.5, 0.5)}


def test_lines_of_one_function_are_counted_together() -> None:
    raw = "run (a/b.py:1) 1\nrun (a/b.py:2) 1\n"
    assert [share[:2] for share in of_stacks(raw)] == [("a/b.py run", 1.0)]


def test_table_has_the_largest_own_share_first() -> None:
    text = table("tiny", of_stacks("<module> (a/b.py:1) 1\n<module> (a/b.py:1);f (a/c.py:2) 3\n"))
    assert text.splitlines()[-2:] == [
        "| a/c.py f | 75.0% | 75.0% |",
        "| a/b.py &lt;module> | 25.0% | 100.0% |",
    ]


def test_line_without_a_number_of_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="number of samples: 'run'"):
        of_stacks("run\n")
