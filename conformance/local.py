"""Brokers that a run starts for itself, with the same settings."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.ending import end
from kwire.testing.ports import free_port

START_TIMEOUT_S = 120.0
POLL_S = 0.02

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""Of both: nobody waits for members who do not come."""


class NotStarted(RuntimeError):
    """The broker ended or does not listen; the message ends with what it said."""


@contextlib.contextmanager
def apache(directory: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """Apache Kafka, one node, with `more` settings; its address."""
    with ApacheKafka(directory, settings=SETTINGS | dict(more or {})) as node:
        yield node.bootstrap


@contextlib.contextmanager
def kwire(directory: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """`kwire serve` of this installation, with `more` settings; its address."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings = (
        SETTINGS
        | dict(more or {})
        | {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(directory / "data"),
        }
    )
    sets = [f"--set={name}={value}" for name, value in settings.items()]
    log_file = directory / "broker.log"
    with open(log_file, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "serve", *sets],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, port, log_file)
        yield f"127.0.0.1:{port}"
    finally:
        end(process)


def _wait(process: subprocess.Popen[bytes], port: int, log_file: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(POLL_S)
    raise NotStarted(f"kwire did not start:\n{log_file.read_text(errors='replace')[-3000:]}")
