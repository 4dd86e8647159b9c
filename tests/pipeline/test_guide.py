"""The commands in the guide for newcomers work, and print what the guide shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.testing import BrokerProcess

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 1500
SERVE = "kwire serve\n"
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A Java that lives for seconds gains nothing by what it does for those that live long."""


class GuideStep(NamedTuple):
    """Commands of the guide, and what they print according to it; None where it shows nothing."""

    commands: str
    output: str | None


def steps_of_the_guide() -> Iterator[GuideStep]:
    blocks = [(language, text) for language, text in BLOCK.findall(GUIDE.read_text())]
    for number, (language, text) in enumerate(blocks):
        if language == "sh":
            after = blocks[number + 1] if number + 1 < len(blocks) else ("sh", "")
            yield GuideStep(text, after[1] if after[0] == "json" else None)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_commands_of_the_guide_print_what_it_shows(broker: BrokerProcess, tmp_path: Path) -> None:
    """The guide begins with an empty broker, so the test has its own."""
    steps = list(steps_of_the_guide())
    assert steps[0].commands == SERVE
    environment = os.environ | {
        "JDK_JAVA_OPTIONS": QUICK,
        "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    folder = tmp_path / "newcomer"
    folder.mkdir()
    for step in steps[1:]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", step.commands],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, step.commands + done.stdout + done.stderr
        if step.output is not None:
            assert done.stdout == step.output, done.stderr
    assert sum(step.output is not None for step in steps) >= 4
