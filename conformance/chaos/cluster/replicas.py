"""Checks that the replicas of all partitions are in sync and hold the same bytes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from kwire.codecs.messages.metadata import MetadataRequest
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.wire.peer import Address

METADATA = "__cluster_metadata-0"


def out_of_sync(addresses: Sequence[Address]) -> list[str]:
    """Return the partitions that any broker reports as not in sync, and brokers that do not
    answer."""
    problems: list[str] = []
    for address in addresses:
        link = Link(address)
        try:
            problems += [f"{address[0]}: {problem}" for problem in _out_of_sync(link)]
        except Refused as refused:
            problems.append(f"{address[0]}: {refused.error}")
        finally:
            link.close()
    return problems


def _out_of_sync(link: Link) -> Iterable[str]:
    """Yield a text for each partition without a leader or with replicas out of sync."""
    reply = link.ask(MetadataRequest(topics=None))
    for topic in reply.topics:
        for partition in topic.partitions:
            in_sync, replicas = sorted(partition.isr_nodes), sorted(partition.replica_nodes)
            if in_sync != replicas or partition.leader_id not in replicas or partition.error_code:
                name = f"{topic.name}-{partition.partition_index}"
                yield f"{name} is led by {partition.leader_id}, in sync {in_sync}"


def different(data_dirs: Sequence[Path]) -> list[str]:
    """Return the partitions whose replicas do not hold the same bytes, with the size of each
    replica.

    The metadata log is left out: each broker writes it by itself, and its segments differ.
    """
    copies: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for data_dir in data_dirs:
        for folder in data_dir.iterdir():
            if folder.is_dir() and folder.name != METADATA and any(folder.glob("*.log")):
                copies[folder.name].append(_digest(folder))
    return [
        f"{name}: {[size for size, _ in digests]} bytes"
        for name, digests in sorted(copies.items())
        if len(set(digests)) > 1 or len(digests) != len(data_dirs)
    ]


def _digest(folder: Path) -> tuple[int, str]:
    """Return the size in bytes and the digest of all segments of a partition."""
    digest, size = hashlib.sha256(), 0
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        size += len(data)
        digest.update(data)
    return size, digest.hexdigest()
