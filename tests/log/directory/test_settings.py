"""The manager's limits and settings."""

from __future__ import annotations

import resource
import time

import pytest

from kwire.log import Log
from kwire.log.directory.files import Files
from kwire.log.directory.manager import open_files_max, wall_clock_ms
from tests.log.directory.conftest import TOPIC_ID, MakeManager


@pytest.mark.parametrize(
    ("limit", "held"),
    [(64, 64), (129, 64), (130, 65), (1024, 512), (1 << 20, 1 << 19), (1 << 22, 1 << 19)],
)
def test_half_of_the_process_limit_of_open_files_is_for_logs(
    monkeypatch: pytest.MonkeyPatch, limit: int, held: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert open_files_max() == held


def test_default_clock_has_milliseconds_of_the_wall_clock() -> None:
    assert abs(wall_clock_ms() - time.time() * 1000) < 60_000


def test_producer_settings_apply_to_logs_created_later(manager_of: MakeManager) -> None:
    manager = manager_of()
    before = manager.create("t", TOPIC_ID, 0)
    assert before.producers.verify_transactions
    manager.update_producers(expiration_ms=5, verify_transactions=False)
    for log in (before, manager.create("t", TOPIC_ID, 1)):
        assert (log.producers.expiration_ms, log.producers.verify_transactions) == (5, False)


def test_creation_of_a_partition_needs_no_fsync(manager_of: MakeManager) -> None:
    """The first flush makes the new folder durable."""

    class Impatient(Files):
        def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
            assert not made, "something is fsynced"
            super().fsync(fd)

    made: list[Log] = []
    manager = manager_of("a", files=Impatient())
    made.append(manager.create("t", TOPIC_ID, 0))
    made.append(manager.create("t", TOPIC_ID, 1))
    made.clear()
