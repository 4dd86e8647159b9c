"""Recorded messages: values are drawn for each version, and known damage is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.schema_notation import MessageSchema, parse
from kwire.conformance.apache_kafka import VERSION, libs
from tools.upgrade import __main__ as command
from tools.upgrade import vectors
from tools.upgrade.drawing import Drawing, Size
from tools.upgrade.matrix import MatrixFailed, matrix_lines
from tools.upgrade.vectors import SIZES, all_schemas, damaged_messages, random_messages, read, write

EXAMPLE = """
data Example, versions 0-1, flexible 1+
    Byte: int8
    Port: uint16, 1+
    Share: float64
    Name: string?
    Id: uuid
    Data: bytes
    On: bool
    Rows: []Row?1+
        Numbers: []int32
"""


@pytest.fixture
def example() -> MessageSchema:
    (schema,) = parse(EXAMPLE, "example.txt")
    return schema


def test_empty_message_has_zeros_and_nulls_and_the_fields_of_its_version(
    example: MessageSchema,
) -> None:
    zeros = {"byte": 0, "share": 0.0, "name": None, "id": "A" * 22, "data": "", "on": False}
    assert Drawing(example, 0, "s").message(Size.EMPTY) == {**zeros, "rows": []}
    assert Drawing(example, 1, "s").message(Size.EMPTY) == {**zeros, "port": 0, "rows": None}


def test_message_at_the_edge_has_the_lowest_or_highest_numbers(example: MessageSchema) -> None:
    drawing = Drawing(example, 1, "s")
    found = [drawing.message(Size.EDGE) for _ in range(50)]
    assert {each["byte"] for each in found if isinstance(each, dict)} == {-128, 127}
    assert {each["port"] for each in found if isinstance(each, dict)} == {0, 65535}


def test_same_seed_draws_the_same_values(example: MessageSchema) -> None:
    one, same, other = (list(_some(example, seed)) for seed in ("a", "a", "b"))
    assert one == same != other


def _some(schema: MessageSchema, seed: str) -> list[object]:
    drawing = Drawing(schema, 1, seed)
    return [drawing.message(size) for size in SIZES]


def test_each_version_of_a_message_is_drawn_ten_times(example: MessageSchema) -> None:
    lines = list(random_messages([example]))
    assert [line["version"] for line in lines] == [0] * 10 + [1] * 10
    assert all(line["message"] == "Example" for line in lines)


def test_known_damage_is_kept_and_new_messages_are_damaged_twice() -> None:
    whole = [{"message": name, "version": 0, "hex": "0102ff"} for name in ("Old", "New")]
    known = [{"message": "Old", "version": 0, "hex": "07", "refused": "why"}]
    assert list(damaged_messages(whole, known)) == [
        {"message": "Old", "version": 0, "hex": "07"},
        {"message": "New", "version": 0, "hex": "0102"},
        {"message": "New", "version": 0, "hex": "01fdff"},
    ]


def test_written_lines_are_read_again_and_the_file_is_always_the_same(tmp_path: Path) -> None:
    lines = [{"message": "é漢", "version": 1, "hex": ""}]
    one, other = tmp_path / "one.gz", tmp_path / "other.gz"
    write(one, lines)
    write(other, lines)
    assert read(one) == lines
    assert one.read_bytes() == other.read_bytes()
    assert read(tmp_path / "none.gz") == []


@pytest.mark.java
@pytest.mark.long
def test_recorded_messages_are_those_that_the_reference_makes() -> None:
    """Those of the schemas that the reference has; the others need the jars of 3.9.2."""
    recorded = read(Path("tests/codecs/data") / vectors.VECTORS)
    schemas = [each for each in all_schemas() if each.kind in ("metadata", "key", "value")]
    names = {schema.name for schema in schemas}
    found = vectors.ask_kafka(libs(VERSION), random_messages(schemas))
    assert found == [line for line in recorded if line["message"] in names]


# -- the matrix


def test_matrix_lists_the_cells_that_are_not_green() -> None:
    cell = {"api_key": 1, "api": "Fetch", "version": 4, "state": "green", "why": "", "cases": []}
    case = {"name": "a case", "state": "red"}
    red = cell | {"version": 5, "state": "red", "why": "1 of 2", "cases": [case, cell]}
    grey = cell | {"version": 6, "state": "grey", "why": "no case"}
    assert matrix_lines("9.0", [cell, red, grey])[1:] == [
        "## The wire matrix against 9.0",
        "",
        "3 versions of API keys, 2 not green.",
        "",
        "- red: 1 Fetch version 5 (1 of 2)",
        "  - a case",
        "- grey: 1 Fetch version 6 (no case)",
    ]


def test_matrix_is_added_to_the_list_and_a_failed_one_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_matrix(version: str, folder: Path, root: Path) -> list[str]:
        if version == "9.1":
            raise MatrixFailed("no node")
        return ["", f"## {version}"]

    monkeypatch.setattr(command, "run_matrix", run_matrix)
    target = tmp_path / "list.md"
    target.write_text("# A list\n")
    assert command.print_matrix("9.0", tmp_path, target)
    assert not command.print_matrix("9.1", tmp_path, target)
    assert target.read_text() == "# A list\n\n## 9.0\n"
    assert capsys.readouterr().err == "FAILED: no node\n"
