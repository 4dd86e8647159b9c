"""Parsing of `.properties` files.  The expected results are those of java.util.Properties."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.settings import ConfigError
from kwire.settings.properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a  =  b=c", {"a": "b=c"}),
        ("a = : b", {"a": ": b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# c\n! d\n \t# e\na=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\:c\\ d = e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=caf\\u00e9", {"a": "café"}),
        ("a=\xe9", {"a": "é"}),
        ("\\\nx=1", {"x": "1"}),
        ("", {}),
    ],
)
def test_parse_properties_returns_what_java_loads(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_malformed_escape_raises_config_error_with_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=r"server\.properties: Malformed \\uxxxx encoding"):
        read_properties(path)


def test_missing_file_raises_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.properties: No such file"):
        read_properties(tmp_path / "none.properties")


_PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(st.dictionaries(_PLAIN, _PLAIN))
def test_parse_properties_decodes_escaped_names_and_values(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(char):04x}" for char in text)

    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in properties.items())
    assert parse_properties(text) == properties


@given(st.text())
def test_parse_properties_of_any_text_returns_texts_or_raises_value_error(text: str) -> None:
    with suppress(ValueError):  # a broken escape
        assert all(isinstance(value, str) for value in parse_properties(text).values())
