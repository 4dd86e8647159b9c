"""A console in a process of its own, for tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit


class ConsoleOfTests:
    """`kwire console` on a free port, until the end of a `with` block.

    At the end it must have ended well, and its log must have no traceback.
    """

    def __init__(self, bootstrap: str, folder: Path, *options: str) -> None:
        """`folder` gets the log; `options` are further ones of `kwire console`."""
        self.log_path = folder / "console.log"
        self.url = ""
        """The URL that the console printed, with its token if it has one."""
        self._command = [
            sys.executable, "-m", "kwire", "console", "-b", bootstrap, "--port", "0",
            "--exit-on-eof", *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`, whatever host it listens on."""
        return f"127.0.0.1:{urlsplit(self.url).port}"

    def __enter__(self) -> ConsoleOfTests:
        with self.log_path.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        found = re.search(r"http://\S+", self._process.stdout.readline())
        assert found, self.log_path.read_text()
        self.url = found[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.communicate(timeout=60)
        log = self.log_path.read_text()
        print(log)  # shown with a test that failed
        assert self._process.returncode == 0 or kind, log
        assert "Traceback" not in log, log
