"""Which folder `kwire serve` is to serve, and by how many brokers if nobody says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def one_if_cluster(settings: Mapping[str, str], data: str) -> int | None:
    """1 where the folder is a cluster's, which is then served as by `--brokers 1`; else None.

    `data` is the folder where `settings` name no other.
    """
    from kwire.storage.data_folder.admission import holds_cluster

    folder = settings.get("log.dirs") or settings.get("log.dir") or data
    is_cluster = "zookeeper.connect" not in settings and holds_cluster(Path(folder))
    return 1 if is_cluster else None
