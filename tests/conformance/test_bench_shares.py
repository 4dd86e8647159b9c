"""The program that measures share groups: shortly, on kwire alone; and what it makes of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.bench import report, shares
from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.frames import BrokerRefused

PRINTED = """start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, nMsg, time
2026-11-23 07:31:50:000, 2026-11-23 07:31:55:000, 1.0, 2.0, 10.0, 100, 5000 for share consumer 2
2026-11-23 07:31:50:000, 2026-11-23 07:31:55:500, 1.0, 2.0, 10.0, 150, 5500 for share consumer 1
2026-11-23 07:31:50:000, 2026-11-23 07:31:57:000, 1.0, 2.0, 10.0, 1100, 7000
"""


def test_what_comes_before_the_first_report_does_not_count() -> None:
    assert shares.rate_of(PRINTED) == 1_000 / 2


def test_a_program_that_does_not_end_has_no_rate() -> None:
    with pytest.raises(BrokerRefused):
        shares.rate_of("\n".join(PRINTED.splitlines()[:-1]))


@pytest.mark.java
@pytest.mark.slow
def test_members_read(tmp_path: Path) -> None:
    broker = Kwire(tmp_path / "kwire")
    with running(broker):
        series = shares.measured(2, [broker], rounds=1, records=20_000)
    assert min(series.values["kwire"]) > 0
    made = shares.section(1, 20_000, [series])
    assert "2 members, 6 partitions" in report.put_section("# A report\n", made, "Apache Kafka")
