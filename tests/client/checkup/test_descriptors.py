"""The limit of open files, from /proc and as findings."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest

from kwire.client.checkup.descriptors import Descriptors, descriptor_findings, descriptors_of
from kwire.client.checkup.finding import CheckGrade
from kwire.testing.hosting.ports import free_port


@pytest.mark.parametrize(
    ("found", "replicas", "grades"),
    [
        (Descriptors(79, 100), 0, [CheckGrade.NOTE]),
        (Descriptors(80, 100), 0, [CheckGrade.RISK]),
        (Descriptors(80, 1000), 100, []),
        (Descriptors(80, 1000), 300, [CheckGrade.NOTE]),
        (None, 0, [CheckGrade.UNCHECKED]),
    ],
)
def test_open_files_are_compared_with_the_limit_and_with_the_replicas(
    found: Descriptors | None, replicas: int, grades: list[CheckGrade]
) -> None:
    assert [each.grade for each in descriptor_findings(1, found, replicas)] == grades


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux has /proc")
def test_descriptors_are_those_of_the_process_that_listens_on_the_port() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        found = descriptors_of(port)
        assert found is not None
        assert found.limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert found.opened >= 3
    assert descriptors_of(port) is None


def test_descriptors_are_unknown_without_proc(tmp_path: Path) -> None:
    assert descriptors_of(9092, tmp_path) is None


def test_descriptors_of_a_made_up_proc(tmp_path: Path) -> None:
    """Port 9092 is 2384 in hexadecimal; a process of another user has no readable fd."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp6").write_text(
        "  sl  local_address rem_address st tx_queue tr tm->when retrnsmt uid timeout inode\n"
        "   0: 0000:2384 0000:0000 01 0:0 00:0 0 0 0 41 1 0 20 0 0 10 0\n"
        "   1: 0000:2384 0000:0000 0A 0:0 00:0 0 0 0 42 1 0 20 0 0 10 0\n"
    )
    (tmp_path / "6").mkdir()
    process = tmp_path / "7"
    (process / "fd").mkdir(parents=True)
    os.symlink("socket:[42]", process / "fd" / "3")
    os.symlink("/dev/null", process / "fd" / "4")
    (process / "limits").write_text("Limit  Soft Hard Units\nMax open files  1024  4096  files\n")
    assert descriptors_of(9092, tmp_path) == Descriptors(2, 1024)
    assert descriptors_of(9093, tmp_path) is None
