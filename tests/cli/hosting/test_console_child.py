"""The options of the console that a broker starts."""

from __future__ import annotations

import pytest

from kwire.cli.hosting.console import ConsoleChild


@pytest.mark.parametrize(
    ("registry_port", "options"),
    [
        (None, []),
        (0, []),  # nobody knows the port yet
        (8081, ["--registry", "http://127.0.0.1:8081"]),
    ],
)
def test_console_decodes_by_the_registry_that_is_started_with_it(
    registry_port: int | None, options: list[str]
) -> None:
    child = ConsoleChild(8080, "text", registry_port)
    assert child.options(["http://127.0.0.1:1"]) == ["--control", "http://127.0.0.1:1", *options]
