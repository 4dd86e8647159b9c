"""Runs each row of the TLS benchmark, and writes its section into a report."""

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
    """One broker for all rows, which use different topics."""
    folder = tmp_path_factory.mktemp("encrypted")
    started = EncryptedKwire(folder / "kwire", Certificates(folder))
    with running(started):
        yield started


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.long] if number else (), id=str(row.key))
        for number, row in enumerate(encrypted.ROWS)
    ],
)
def test_tls_row_is_measured_and_reported(
    row: Row, broker: EncryptedKwire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypted, "WARM_S", 0.05)
    monkeypatch.setattr(rows, "HOT_BYTES", 4 * rows.FETCH_BYTES)  # written again for each turn
    (series,) = encrypted.measure_series(row, [broker], rounds=2, seconds=0.05)
    assert len(series.values["kwire"]) == 2
    assert min(series.values["kwire"]) > 0
    section = encrypted.section(2, 0.05, [series])
    assert row.title in report.put_section("# A report\n", section, "Apache Kafka")
