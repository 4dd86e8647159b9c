"""Names of subjects, with and without contexts."""

from __future__ import annotations

import pytest

from kwire.registry.subjects.names import in_context_of, is_valid, normal_name, split_name


@pytest.mark.parametrize(
    ("text", "context", "subject"),
    [
        ("orders", ".", "orders"),
        ("a:b", ".", "a:b"),
        (":.lab:orders", ".lab", "orders"),
        (":.lab:a:b", ".lab", "a:b"),
        (":.lab:", ".lab", ""),
        (":.lab", ".lab", ""),
        (":.:orders", ".", "orders"),
    ],
)
def test_name_is_split_into_context_and_subject(text: str, context: str, subject: str) -> None:
    assert split_name(text) == (context, subject)


def test_name_in_the_default_context_loses_its_prefix() -> None:
    assert normal_name(":.:orders") == "orders"
    assert normal_name(":.lab:orders") == ":.lab:orders"


def test_reference_without_context_is_in_that_of_the_referring_schema() -> None:
    assert in_context_of(":.lab:orders", "address") == ":.lab:address"
    assert in_context_of(":.lab:orders", ":.:address") == "address"
    assert in_context_of("orders", ":.lab:address") == ":.lab:address"


@pytest.mark.parametrize("name", ["", "a\nb", "a\x7f", "__GLOBAL", "__EMPTY", ":.lab:"])
def test_name_without_subject_or_with_control_characters_is_invalid(name: str) -> None:
    assert not is_valid(name)


@pytest.mark.parametrize("name", ["a/b", "ä ö", ":.lab:a", "😀"])
def test_name_of_other_characters_is_valid(name: str) -> None:
    assert is_valid(name)
