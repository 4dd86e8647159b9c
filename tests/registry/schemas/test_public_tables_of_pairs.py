"""Pairs of schemas from public tables get the expected types of errors."""

from __future__ import annotations

import pytest

from kwire.registry.schemas.kinds import SchemaKind, Sides
from tests.registry.schemas.pairs import pairs


@pytest.mark.parametrize("kind", SchemaKind)
def test_each_pair_of_the_table_gets_the_expected_errors(kind: SchemaKind) -> None:
    wrong = [
        f"{pair.name}: {found} instead of {pair.errors} ({pair.source})"
        for pair in pairs(kind)
        if (found := sorted(each.error_type for each in pair.reader.incompatibilities(pair.writer)))
        != pair.errors
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", SchemaKind)
def test_table_has_200_pairs_with_names_and_sources_of_both_outcomes(kind: SchemaKind) -> None:
    table = pairs(kind)
    assert len({pair.name for pair in table}) == len(table) >= 200
    assert all(pair.source for pair in table)
    compatible = sum(not pair.errors for pair in table)
    assert 50 <= compatible <= len(table) - 50


@pytest.mark.parametrize("kind", SchemaKind)
def test_each_schema_of_the_table_can_read_its_own_records(kind: SchemaKind) -> None:
    for pair in pairs(kind):
        assert pair.reader.incompatibilities(pair.reader) == [], pair.name
        assert pair.writer.incompatibilities(pair.writer) == [], pair.name


@pytest.mark.parametrize("kind", SchemaKind)
def test_each_error_of_the_table_has_a_sentence_with_both_sides_or_a_place(
    kind: SchemaKind,
) -> None:
    for pair in pairs(kind):
        for each in pair.reader.incompatibilities(pair.writer, Sides("new", "old")):
            assert "{" not in each.description
            assert "path" in each.description, each
            if each.error_type != "NAME_MISMATCH":
                assert "new" in each.description
                assert "old" in each.description
