"""A broker warns before its disks are full, once for each change."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.log import LogDir, LogManager
from kwire.storage.disk_room import INTERVAL_S, RoomWatch
from tests.log.configs import DEFAULTS

GIB = 1024**3


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | OSError]:
    """Usable bytes of a disk of 100 GiB, by the name of the log directory on it."""
    usable: dict[str, int | OSError] = {}

    def disk_usage(directory: LogDir) -> tuple[int, int]:
        found = usable.get(directory.path.name, 50 * GIB)
        if isinstance(found, OSError):
            raise found
        return 100 * GIB, found

    monkeypatch.setattr(LogDir, "disk_usage", disk_usage)
    return usable


async def test_warnings_precede_a_full_disk_and_come_once_for_each_change(
    tmp_path: Path,
    room: dict[str, int | OSError],
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    caplog.set_level(logging.INFO, "kwire.disk")

    def log_lines() -> list[tuple[str, str]]:
        found = [(each.levelname, each.getMessage()) for each in caplog.records]
        caplog.clear()
        return found

    logs = LogManager([tmp_path / "a", tmp_path / "b"], defaults=DEFAULTS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RoomWatch(logs).run)
        await trio.sleep(1)
        assert log_lines() == []
        room["b"] = 4 * GIB
        await trio.sleep(2 * INTERVAL_S)
        [(level, text)] = log_lines()
        assert level == "WARNING"
        assert f"disk of {tmp_path / 'b'} is nearly full: 4,294,967,296 of" in text
        room["b"] = 1000
        await trio.sleep(2 * INTERVAL_S)
        [(level, text)] = log_lines()
        assert level == "ERROR"
        assert f"disk of {tmp_path / 'b'} is full: 1,000 of" in text
        room["b"] = 50 * GIB
        await trio.sleep(2 * INTERVAL_S)
        [(level, text)] = log_lines()
        assert (level, "has room" in text) == ("INFO", True)
        room["a"] = OSError(errno.EIO, "made up")
        await trio.sleep(INTERVAL_S)
        [(level, text)] = log_lines()
        assert "Cannot tell how full the disk of" in text
        assert not logs.offline_dirs
        nursery.cancel_scope.cancel()
    logs.close()
