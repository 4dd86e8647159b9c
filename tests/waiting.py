"""Waiting for what is not so at once, for however long a busy machine takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from kazoo.client import KazooClient

from kwire.client.errors import ClientError

PATIENCE_S = 120.0


def until(condition: Callable[[], object], what: str) -> None:
    """Ask again and again; brokers may refuse in between."""
    deadline = time.monotonic() + PATIENCE_S
    seen: object = None
    while time.monotonic() < deadline:
        try:
            seen = condition()
        except (ClientError, KafkaException) as refusal:
            seen = refusal
        else:
            if seen:
                return
        time.sleep(0.1)
    raise AssertionError(f"not {what} in {PATIENCE_S} s: {seen!r}")


@contextmanager
def zookeeper_client(connect: str) -> Iterator[KazooClient]:
    """A client of ZooKeeper whose session lasts while this machine stands still for a while."""
    client = KazooClient(connect, timeout=PATIENCE_S)
    client.start(timeout=PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()
