"""Compatibility levels look in the right directions, at the right versions."""

from __future__ import annotations

import pytest

from kwire.registry.schemas.kinds import Incompatibility, ParsedSchema
from kwire.registry.schemas.levels import (
    SHOWN_CHARACTERS_MAX,
    CompatibilityLevel,
    conflict,
    incompatibilities,
    messages,
)
from tests.registry.schemas.pairs import avro, json_schema

Level = CompatibilityLevel


def record(*fields: str) -> ParsedSchema:
    """A record of ints; a field whose name begins with a capital letter has a default."""
    return avro(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": name, "type": "int", **({"default": 0} if name.isupper() else {})}
                for name in fields
            ],
        }
    )


PLAIN, MORE, FEWER = record("a"), record("a", "b"), record()
OPTIONAL = record("a", "B")


@pytest.mark.parametrize(
    ("level", "new", "old", "is_compatible"),
    [
        ("NONE", MORE, PLAIN, True),
        ("NONE", PLAIN, MORE, True),
        ("BACKWARD", MORE, PLAIN, False),
        ("BACKWARD", PLAIN, MORE, True),
        ("BACKWARD", OPTIONAL, PLAIN, True),
        ("FORWARD", MORE, PLAIN, True),
        ("FORWARD", PLAIN, MORE, False),
        ("FULL", MORE, PLAIN, False),
        ("FULL", PLAIN, MORE, False),
        ("FULL", OPTIONAL, PLAIN, True),
        ("FULL", PLAIN, OPTIONAL, True),
    ],
)
def test_level_looks_in_its_directions(
    level: str, new: ParsedSchema, old: ParsedSchema, is_compatible: bool
) -> None:
    for name in (level, f"{level}_TRANSITIVE") if level != "NONE" else (level,):
        assert (incompatibilities(Level(name), new, [old]) == []) is is_compatible


def test_level_that_does_not_exist_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="SIDEWAYS"):
        messages("SIDEWAYS", PLAIN, [])


def test_only_transitive_levels_look_at_versions_before_the_latest() -> None:
    earlier = [PLAIN, MORE]  # MORE is the latest
    assert incompatibilities(Level.BACKWARD, MORE, earlier) == []
    assert [e.error_type for e in incompatibilities(Level.BACKWARD_TRANSITIVE, MORE, earlier)] == [
        "READER_FIELD_MISSING_DEFAULT_VALUE"
    ]


def test_conflict_is_with_the_latest_version_of_those_that_conflict() -> None:
    found = conflict(Level.BACKWARD_TRANSITIVE, MORE, [FEWER, PLAIN, MORE])
    assert found is not None
    assert found.position == 1
    assert len(found.backward) == 1
    assert found.forward == []


@pytest.mark.parametrize("level", Level)
def test_first_version_of_a_subject_agrees_with_every_level(level: Level) -> None:
    assert incompatibilities(level, PLAIN, []) == []
    assert messages(level, PLAIN, []) == []


def test_schema_of_another_kind_is_in_conflict() -> None:
    [found] = incompatibilities(Level.BACKWARD, json_schema({}), [PLAIN])
    assert found.message == "Incompatible because of different schema type"


def test_messages_have_the_form_of_confluents_answers() -> None:
    missing = (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path"
        " '/fields/1' in the new schema has no default value and is missing in the old schema',"
        " additionalInfo:'b'}"
    )
    assert messages(Level.BACKWARD, MORE, [(7, PLAIN)]) == [
        missing,
        "{oldSchemaVersion: 7}",
        f"{{oldSchema: '{PLAIN.canonical}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_messages_of_level_full_name_the_old_schema_once_after_the_backward_reasons() -> None:
    both_ways = messages(Level.FULL, record("a", "b"), [(1, record("a", "c"))])
    assert [line.split(":")[0] for line in both_ways] == [
        "{errorType",
        "{errorType",
        "{oldSchemaVersion",
        "{oldSchema",
        "{validateFields",
    ]
    assert "in the old schema has no default" in both_ways[0]
    assert "in the new schema has no default" in both_ways[1]


def test_message_of_a_json_schema_has_double_quotes_and_no_more_information() -> None:
    found = Incompatibility("TYPE_CHANGED", "It changed")
    assert found.message == '{errorType:"TYPE_CHANGED", description:"It changed"}'


def test_message_repeats_only_the_beginning_of_a_long_schema() -> None:
    long = record(*(f"a{number}" for number in range(1000)))
    lines = messages(Level.BACKWARD, record("b"), [(1, long)])
    assert len(lines[2]) < SHOWN_CHARACTERS_MAX + 100
    assert lines[2].startswith("{oldSchema: <truncated to 10240 characters> '{")
