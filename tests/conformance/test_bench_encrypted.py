"""The rows inside TLS do their work, and what was measured is written in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.bench import encrypted, report
from kwire.conformance.bench.brokers import running
from kwire.conformance.bench.rows import Row
from kwire.conformance.certificates import Certificates

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("row", encrypted.ROWS, ids=lambda row: str(row.key))
def test_each_row(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted, "WARM_S", 0.05)
    broker = encrypted.EncryptedKwire(tmp_path / "kwire", Certificates(tmp_path))
    with running(broker):
        (series,) = encrypted.measured(row, [broker], rounds=2, seconds=0.05)
    assert len(series.values["kwire"]) == 2
    assert min(series.values["kwire"]) > 0
    made = encrypted.section(2, 0.05, [series])
    assert row.title in report.put_section("# A report\n", made, "Apache Kafka")
