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

    def __init__(self, port: int, log_format: str, registry_port: int | None = None) -> None:
        """`registry_port` is that of a registry on this machine, whose schemas decode records; 0 is
        not known yet, and stands for none."""
        super().__init__(port, log_format)
        self._registry_port = registry_port

    def options(self, controls: Sequence[str]) -> list[str]:
        """See Child."""
        found = [word for url in controls for word in ("--control", url)]
        if self._registry_port:
            found += ["--registry", f"http://127.0.0.1:{self._registry_port}"]
        return found
