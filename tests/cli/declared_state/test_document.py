"""YAML in which nothing is something else than it seems."""

from __future__ import annotations

import pytest

from kwire.cli.declared_state.document import DeclarationError, path_text, read


def test_only_json_values_are_not_text() -> None:
    text = "{a: on, b: 0123, c: 1:30, d: 2024-01-01, e: 1_000, f: null, g: true, h: -5, i: 1.5e3}"
    assert read(text, "x").value == {
        "a": "on", "b": "0123", "c": "1:30", "d": "2024-01-01", "e": "1_000",
        "f": None, "g": True, "h": -5, "i": 1500.0,
    }  # fmt: skip


def test_names_are_text_and_json_is_parsed() -> None:
    assert read('{"2024": {"no": [1, "1"]}, true: ~}', "x").value == {
        "2024": {"no": [1, "1"]},
        "true": None,
    }


def test_anchors_and_merges_are_resolved() -> None:
    text = "a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}\nc: [*a]\nd: {<<: [*a, {r: 4}]}\n"
    assert read(text, "x").value == {
        "a": {"p": 1, "q": 2},
        "b": {"p": 1, "q": 3},
        "c": [{"p": 1, "q": 2}],
        "d": {"p": 1, "q": 2, "r": 4},
    }


def test_each_value_has_its_line_number() -> None:
    document = read(
        "topics:\n  a.b:\n    partitions: 1\n    records:\n    - 1\n    - 2\n", "f.yaml"
    )
    assert document.place(("topics", "a.b", "records", 1)) == (
        'f.yaml, line 6: topics."a.b".records[1]'
    )
    assert document.place(("topics", "a.b", "configs")).startswith("f.yaml, line 2: ")
    assert path_text(()) == ""


def test_empty_document_is_none() -> None:
    assert read("# all is commented out\n", "x").value is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", r"x, line 3: 'a' stands there twice"),
        ("a: [1\n", r"x, line 2: not YAML: .*expected ',' or '\]'"),
        ("a: 1\n---\nb: 2\n", r"x, line 2: not YAML: .*single document"),
        ("a: &a [*a]\n", r"x, line 1: an alias that stands within what it means"),
        ("a: !!python/name:os.system x\n", r"x, line 1: tag:yaml.org.*is not understood here"),
        ("a: !!int x\n", r"x, line 1: 'x' is no number"),
        ("? [a]\n: 1\n", r"x, line 1: a name is a text"),
        ("<<: 5\n", r"x, line 1: << takes what another mapping has"),
        ("a: \x07", r"x: not YAML: "),
        ("[" * 3000, r"x: not YAML: "),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(text: str, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        read(text, "x")
