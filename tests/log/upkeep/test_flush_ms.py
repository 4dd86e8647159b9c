"""`flush.ms` counts from a log's last flush, whatever caused that flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log import LogManager
from kwire.log.upkeep.job import run_all
from tests.log.configs import DEFAULTS, log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"


def test_flush_ms_counts_from_a_flush_by_flush_messages(tmp_path: Path, append: Append) -> None:
    manager = LogManager([tmp_path], defaults=DEFAULTS, clock=lambda: NOW_MS)
    manager.load()
    log = manager.create("t", TOPIC_ID, 0, log_config(flush_ms=100))
    append(log)
    flush = log.prepare_flush(NOW_MS + 50)
    assert flush is not None
    flush.run()
    log.flushed(flush)
    append(log)
    run_all(manager.maintain(NOW_MS + 149))
    assert log.recovery_point == 1
    run_all(manager.maintain(NOW_MS + 150))
    assert log.recovery_point == 2
    manager.close()
