"""What `kwire serve` runs beside the broker: the console, the registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside_a_broker(what: str, folder: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """The address of the console or the registry of a broker that ends with the block.

    `what` is `console` or `registry`.  The log is the file `log` in the folder.
    """
    log_file = folder / "log"
    command = [sys.executable, "-m", "kwire.cli", "serve", "--port=0", f"--{what}=0"]
    with (
        log_file.open("w") as log,
        subprocess.Popen(
            [*command, "--data", str(folder / "data"), "--exit-on-eof", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
        ) as serving,
    ):  # fmt: skip
        assert serving.stdin is not None
        assert serving.stdout is not None
        try:
            line = serving.stdout.readline()
            assert line.startswith(f"kwire {what}: http://127.0.0.1:"), log_file.read_text()
            yield line.split()[-1]
        finally:
            serving.stdin.close()
        assert serving.stdout.read() == "", "both have closed it"
    assert serving.returncode == 0, log_file.read_text()
