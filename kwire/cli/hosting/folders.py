"""The number of brokers that `kwire serve` starts if the command line does not give it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def one_if_cluster(settings: Mapping[str, str], data: str) -> int | None:
    """1 if the data folder is that of a cluster, to serve it as with `--brokers 1`; else None.

    `data` is the folder if `settings` do not name another.
    """
    from kwire.storage.data_folder.admission import holds_cluster

    folder = settings.get("log.dirs") or settings.get("log.dir") or data
    is_cluster = "zookeeper.connect" not in settings and holds_cluster(Path(folder))
    return 1 if is_cluster else None
