"""Apache Kafka's own cleaner, in a process that lives until the tests end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from kwire.conformance.apache_kafka import source_command
from kwire.log.compaction.task import CleaningTask

SOURCE = Path(__file__).with_name("CleanLogs.java")
DEDUPE_BYTES = 10_000_000


class ApacheCleaner:
    """Cleans the log of a task in place."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            source_command(SOURCE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def clean(self, directory: Path, task: CleaningTask) -> int:
        """Clean the log; the first offset that was not cleaned."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = (
            directory,
            task.now_ms,
            task.delete_retention_ms,
            task.segment_bytes,
            task.first_dirty,
            task.upper_bound,
            DEDUPE_BYTES,
        )
        self._process.stdin.write(" ".join(map(str, request)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Apache Kafka's cleaner failed on {request}"
        return int(line.split()[0])
