"""The generated files are up to date, and the schema parser names each fault."""

from __future__ import annotations

import pytest

from kwire.codecs.generator.__main__ import differing_files
from kwire.codecs.schema_notation import (
    SchemaError,
    VersionRange,
    load,
    parse,
    schema_names,
    snake_case,
)

EXAMPLE = """
# a comment
request 7 ExampleRequest, versions 2-5, flexible 4+
    Name: string?3+ = null
    Count: int32 = -1, 3+, tag 0, ignorable  # another
    Topics: []Topic, 2-4
        Ids: []int32?
            # nothing
    Shared: Pair
    More: []Pair, 5
    struct Pair
        Key: string, rigid
"""


@pytest.mark.slow
def test_generated_files_are_up_to_date() -> None:
    assert differing_files() == []


def test_schema_notation_is_parsed() -> None:
    (message,) = parse(EXAMPLE, "example.txt")
    assert (message.kind, message.number, message.name) == ("request", 7, "ExampleRequest")
    assert (message.versions, message.flexible_since) == (VersionRange(2, 5), 4)
    name, count, topics, shared, more = message.body.fields
    assert (name.nullable, name.default, name.versions) == (
        VersionRange(3, 5),
        "null",
        VersionRange(2, 5),
    )
    assert (count.versions, count.tag, count.ignorable) == (VersionRange(3, 5), 0, True)
    assert topics.is_array
    assert topics.struct is message.structs["Topic"]
    assert topics.struct.fields[0].versions == VersionRange(2, 4)
    assert topics.struct.fields[0].is_nullable(2)
    assert shared.struct is more.struct is message.structs["Pair"]
    assert message.structs["Pair"].fields[0].rigid


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("      Odd: int32", "wrong indentation"),
        ("                Deep: int32", "wrong indentation"),
        ("            Deep: int32", "string has no fields"),
        ("    Count int32", "not of the form Name: type"),
        ("    Name: string", "a second field of that name"),
        ("    A: int32, 1-3", "versions 1-3 are not within 2-5"),
        ("    A: int32, 6+", "not within 2-5"),
        ("    A: int32, 5-4", "not within 2-5"),
        ("    A: int32, sometimes", "neither a range of versions nor an attribute"),
        ("    A: Nothing", "A is of the unknown type Nothing"),
        ("    struct Pair", "a second definition of Pair"),
        ("question Example, versions 0", "not of the form kind"),
        ("request 1 Example, versions 0+", "a message needs a last version"),
    ],
)
def test_schema_notation_reports_faults(line: str, fault: str) -> None:
    with pytest.raises(SchemaError, match=fault) as caught:
        parse(f"{EXAMPLE}{line}\n", "example.txt")
    assert str(caught.value).startswith("example.txt:")


def test_all_schemas_are_valid() -> None:
    messages = [message for name in schema_names() for message in load(name)]
    assert len(messages) == 286
    assert len({message.name for message in messages}) == 286


def test_camel_case_names_become_snake_case() -> None:
    names = ["PartitionIndex", "V3AndBelowTopics", "KRaftVersion", "memberId", "ISR"]
    assert [snake_case(name) for name in names] == [
        "partition_index",
        "v3_and_below_topics",
        "kraft_version",
        "member_id",
        "isr",
    ]
