"""Runs a short share group benchmark on kwire, and tests how it reads the program's reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.bench import report, shares
from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.frames import RequestFailed

PRINTED = """start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, nMsg, time
2026-11-23 07:31:50:000, 2026-11-23 07:31:55:000, 1.0, 2.0, 10.0, 100, 5000 for share consumer 2
2026-11-23 07:31:50:000, 2026-11-23 07:31:55:500, 1.0, 2.0, 10.0, 150, 5500 for share consumer 1
2026-11-23 07:31:50:000, 2026-11-23 07:31:57:000, 1.0, 2.0, 10.0, 1100, 7000
"""


def test_rate_counts_records_after_the_first_report() -> None:
    assert shares.rate_of(PRINTED) == 1_000 / 2


def test_program_without_a_final_report_has_no_rate() -> None:
    with pytest.raises(RequestFailed):
        shares.rate_of("\n".join(PRINTED.splitlines()[:-1]))


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
def test_share_members_read_all_records(tmp_path: Path) -> None:
    broker = Kwire(tmp_path / "kwire")
    with running(broker):
        series = shares.measure_series(2, [broker], rounds=1, records=20_000)
    assert min(series.values["kwire"]) > 0
    section = shares.section(1, 20_000, [series])
    assert "2 members, 6 partitions" in report.put_section("# A report\n", section, "Apache Kafka")
