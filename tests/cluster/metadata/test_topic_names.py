"""Legal topic names, and Kafka's messages for illegal ones."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.topic_names import NAME_SIZE_MAX, why_invalid

OTHERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__x", "x" * NAME_SIZE_MAX])
def test_legal_topic_name_is_accepted(name: str) -> None:
    assert why_invalid(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", f"'a b' {OTHERS}"),
        ("a\n", f"'a\n' {OTHERS}"),
        ("é", f"'é' {OTHERS}"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_illegal_topic_name_is_refused_with_kafkas_message(name: str, reason: str) -> None:
    assert why_invalid(name) == f"Topic name is invalid: {reason}"
