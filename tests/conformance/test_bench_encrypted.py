"""The rows inside TLS do their work, and what was measured is written in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.conformance.bench import encrypted, report, rows
from kwire.conformance.bench.brokers import running
from kwire.conformance.bench.encrypted import EncryptedKwire
from kwire.conformance.bench.rows import Row
from kwire.conformance.certificates import Certificates

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedKwire]:
    """One broker for all rows, each of which has topics of its own."""
    folder = tmp_path_factory.mktemp("encrypted")
    started = EncryptedKwire(folder / "kwire", Certificates(folder))
    with running(started):
        yield started


@pytest.mark.parametrize("row", encrypted.ROWS, ids=lambda row: str(row.key))
def test_each_row(row: Row, broker: EncryptedKwire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted, "WARM_S", 0.05)
    monkeypatch.setattr(rows, "HOT_BYTES", 4 * rows.FETCH_BYTES)  # filled again for each turn
    (series,) = encrypted.measured(row, [broker], rounds=2, seconds=0.05)
    assert len(series.values["kwire"]) == 2
    assert min(series.values["kwire"]) > 0
    made = encrypted.section(2, 0.05, [series])
    assert row.title in report.put_section("# A report\n", made, "Apache Kafka")
