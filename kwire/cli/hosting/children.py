"""Commands that run beside a broker as child processes, and end with it.

Each is a process of its own, so that its requests take no time of the broker's loop.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import say

if TYPE_CHECKING:
    import subprocess

STOP_S: Final = 5.0

log = logging.getLogger("kwire.serve")


def check_extra(extra: str, needed: Sequence[str]) -> None:
    """Exit with a message if a module of the extra is not installed."""
    missing = [name for name in needed if not _is_installed(name)]
    if missing:
        from kwire.client.extras import how_to_install

        say(
            f"kwire: the {extra} needs {', '.join(missing)}, which is not installed: "
            f"{how_to_install(extra)}"
        )
        raise SystemExit(EXIT_FAILURE)


def _is_installed(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package of a module in a package
        return False


class Child:
    """A command of kwire as a child process."""

    COMMAND: ClassVar[str]
    """The name of the command."""

    def __init__(self, port: int, log_format: str) -> None:
        """`port` is the command's; 0 chooses a free one.  `log_format` is that of the broker."""
        self._port = port
        self._log_format = log_format
        self.client_file: Path | None = None
        """The client properties with which it logs in, if it has to."""
        self._process: subprocess.Popen[bytes] | None = None

    def options(self, controls: Sequence[str]) -> list[str]:
        """Further options; `controls` are the addresses of the brokers' controls."""
        return []

    def start(self, bootstrap: str, controls: Sequence[str] = ()) -> None:
        """Start it, unless it runs.  It prints its address itself."""
        if self._process is not None and self._process.poll() is None:
            return
        command = [
            sys.executable, "-m", "kwire.cli", self.COMMAND, "-b", bootstrap,
            "--port", str(self._port), "--log-format", self._log_format, "--exit-on-eof",
            *self.options(controls),
        ]  # fmt: skip
        if self.client_file is not None:
            command += ["--command-config", str(self.client_file)]
        import subprocess

        # Its standard input ends when this process ends, however that happens.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def stop(self) -> None:
        """Stop it, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        import subprocess

        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop within %g s: killing it", self.COMMAND, STOP_S)
            process.kill()
            process.wait()


def control_urls(first_port: int | None, brokers: int = 1) -> list[str]:
    """The addresses of the brokers' controls, at consecutive ports; none if the first is chosen
    by the system, since nobody knows it then."""
    if not first_port:
        return []
    return [f"http://127.0.0.1:{first_port + number}" for number in range(brokers)]
