"""What classes of Apache Kafka 4.3.1 answer to drawn cases, a line each: kept, and asked anew."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Final

from kwire.conformance import java
from kwire.conformance.apache_kafka import libs

KEPT_LINES: Final = 300
ASKED_LINES: Final = 10_000
TIMEOUT_S: Final = 600


def kept(answers: Path) -> list[str]:
    """As they were once."""
    lines = answers.read_text().splitlines()
    assert len(lines) == KEPT_LINES
    return lines


def asked(program: Path, rng: random.Random, *arguments: str) -> list[str]:
    """By a Java program, which is told a seed, how many cases it shall draw, and `arguments`."""
    command = [str(java.executable()), "-cp", f"{libs()}/*", str(program)]
    drawn = [str(rng.getrandbits(60)), str(ASKED_LINES), *arguments]
    done = subprocess.run([*command, *drawn], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == ASKED_LINES
    return lines
