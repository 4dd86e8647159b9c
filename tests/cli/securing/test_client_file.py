"""What commands make of a file of client properties."""

from __future__ import annotations

import pytest

from kwire.cli.app import bootstrap_of

PROPERTIES = {"bootstrap.servers": "file:1"}


@pytest.mark.parametrize(
    ("given", "properties", "bootstrap"),
    [
        ("line:1", PROPERTIES, "line:1"),
        (None, PROPERTIES, "file:1"),
        (None, {}, "localhost:9092"),
        (None, {"bootstrap.servers": " "}, "localhost:9092"),
    ],
)
def test_bootstrap_of_the_command_line_wins_over_file_and_default(
    given: str | None, properties: dict[str, str], bootstrap: str
) -> None:
    assert bootstrap_of(given, properties) == bootstrap
