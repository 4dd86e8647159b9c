"""Apache Kafka's program that copies records exactly once, while brokers join and leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import CompletedProcess

from kwire.conformance.apache_kafka import run
from tests.cluster.mixed.watched import WatchedCluster

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
TIMEOUT_S = 900
TRANSACTION = 10
"""Records in each transaction."""


@contextmanager
def copying(cluster: WatchedCluster, source: str, target: str, count: int) -> Iterator[Future[int]]:
    """Run Apache Kafka 4.3's program that copies `count` records of partition 0 in transactions.

    It commits the group's offsets in them, and aborts some at random.  The future gives how many
    records it has read.  The block ends after the program.
    """
    given = {
        "transactional-id": source,
        "broker-list": cluster.bootstrap,
        "input-topic": source,
        "input-partition": 0,
        "output-topic": target,
        "transaction-size": TRANSACTION,
        "max-messages": count,
        "consumer-group": f"{source}-group",
        "transaction-timeout": 20_000,
    }
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    words += ["--use-group-metadata", "--enable-random-aborts"]
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(_copied, words)
        yield job
        assert job.result(TIMEOUT_S) >= count


def _copied(words: list[str]) -> int:
    done: CompletedProcess[str] = run(COPIER, words, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    progress = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return max(int(each["consumed"]) for each in progress)
