"""Answers of Apache Kafka's classes to drawn cases, one per line: recorded ones, and fresh ones."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Final

from kwire.conformance.apache_kafka import source_command

KEPT_LINES: Final = 300
ASKED_LINES: Final = 10_000
TIMEOUT_S: Final = 600


def kept(answers: Path) -> list[str]:
    """The recorded answers, of Apache Kafka 4.3.1."""
    lines = answers.read_text().splitlines()
    assert len(lines) == KEPT_LINES
    return lines


def asked(program: Path, rng: random.Random, *arguments: str) -> list[str]:
    """Fresh answers of a Java program, which gets a seed, the number of cases, and `arguments`."""
    command = source_command(program, [str(rng.getrandbits(60)), str(ASKED_LINES), *arguments])
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == ASKED_LINES
    return lines
