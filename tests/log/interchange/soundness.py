"""The problems of a data directory, and the warnings that Apache Kafka logged about it."""

from __future__ import annotations

import re
from pathlib import Path

from kwire.log.inspection.inspection import Inspector

COMPLAINT = re.compile(r"\b(WARN|ERROR|FATAL)\b|[Rr]ecovering|[Rr]ebuil|orrupt")
ALWAYS_SAID = re.compile(
    r"Reloading from producer snapshot and rebuilding producer state"  # of every log
    r"|RequestSendThread|NetworkClient"  # the controller tries the broker before it listens
    r"|__cluster_metadata"  # the node's own metadata log knows no clean stop
    r"|Performing controller activation"
    r"|apiKey=CONTROLLER_REGISTRATION"  # a node to itself, while nobody is elected yet
    r"|processExpiredBrokerHeartbeat|BrokerLifecycleManager"  # to itself, on a busy machine
    r"|EventPerformanceMonitor"  # a slow step of the controller, on a busy machine
)


def verified(data_dir: Path) -> list[str]:
    inspector = Inspector()
    inspector.log_dir(data_dir)
    assert inspector.records > 1000
    return [str(problem) for problem in inspector.problems]


def epochs_out_of_order(data_dir: Path) -> list[str]:
    """Batches whose leader epoch is not what those before it, or the checkpoint, allow."""
    inspector = Inspector()
    inspector.log_dir(data_dir)
    messages = [str(problem) for problem in inspector.problems]
    return [each for each in messages if "epoch" in each and "snapshot" not in each]


def complaints(log: str) -> list[str]:
    return [
        line for line in log.splitlines() if COMPLAINT.search(line) and not ALWAYS_SAID.search(line)
    ]
