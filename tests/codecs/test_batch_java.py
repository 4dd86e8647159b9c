"""golden/batches.tsv is what golden/WriteBatches.java writes with the present Apache Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kwire.conformance import apache_kafka

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
def test_golden_batches_equal_those_of_java() -> None:
    command = apache_kafka.source_command(GOLDEN / "WriteBatches.java")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == (GOLDEN / "batches.tsv").read_text()
