"""Whether the copies of all partitions are in sync and hold the same bytes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from kwire.codecs.messages.metadata import MetadataRequest
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.wire.peer import Address


def out_of_sync(addresses: Sequence[Address]) -> list[str]:
    """What is not as it should be, by any broker's word: empty once all copies are in sync."""
    found: list[str] = []
    for address in addresses:
        link = Link(address)
        try:
            found += [f"{address[0]}: {each}" for each in _out_of_sync(link)]
        except Refused as refused:
            found.append(f"{address[0]}: {refused.error}")
        finally:
            link.close()
    return found


def _out_of_sync(link: Link) -> Iterable[str]:
    reply = link.ask(MetadataRequest(topics=None))
    for topic in reply.topics:
        for each in topic.partitions:
            in_sync, replicas = sorted(each.isr_nodes), sorted(each.replica_nodes)
            if in_sync != replicas or each.leader_id not in replicas or each.error_code:
                name = f"{topic.name}-{each.partition_index}"
                yield f"{name} is led by {each.leader_id}, in sync {in_sync}"


def different(data_dirs: Sequence[Path]) -> list[str]:
    """The partitions whose copies do not hold the same bytes, with the size of each."""
    copies: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for data_dir in data_dirs:
        for folder in data_dir.iterdir():
            if folder.is_dir() and any(folder.glob("*.log")):
                copies[folder.name].append(_digest(folder))
    return [
        f"{name}: {[size for size, _ in found]} bytes"
        for name, found in sorted(copies.items())
        if len(set(found)) > 1 or len(found) != len(data_dirs)
    ]


def _digest(folder: Path) -> tuple[int, str]:
    """How many bytes the segments hold together, and their digest."""
    digest, size = hashlib.sha256(), 0
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        size += len(data)
        digest.update(data)
    return size, digest.hexdigest()
