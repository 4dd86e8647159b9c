"""The console of `kwire serve --console`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwire.cli.hosting.children import Child, check_extra

CONSOLE_PORT: Final = 8080
"""The port of the console, unless an option names another."""
NEEDED: Final = ("starlette", "hypercorn", "jinja2", "python_multipart", "fastavro")


def check_installed() -> None:
    """Exit with a message if the extra `console` is not installed."""
    check_extra("console", NEEDED)


class ConsoleChild(Child):
    """`kwire console` as a child process."""

    COMMAND = "console"

    def options(self, controls: Sequence[str]) -> list[str]:
        """See Child."""
        return [word for url in controls for word in ("--control", url)]
