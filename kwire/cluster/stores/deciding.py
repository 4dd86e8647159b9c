"""Committing what is decided by an image that may be another one by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from kwire.cluster.metadata.changes import Change, Conflict, Decision, decide_all
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.contract import MetadataStore


async def commit_decided(
    store: MetadataStore,
    image: Callable[[], ClusterImage],
    decisions: Sequence[Decision],
    check: Callable[[Sequence[Change]], None] | None = None,
) -> None:
    """Commit what `decisions` change, each asked anew when somebody else was faster.

    `image` gives the latest one, which follows the store; `check` may refuse what was decided, by
    what it raises.  Raises StoreError, and what a decision raises.
    """
    while decisions:
        changes, deciders = decide_all(image(), decisions)
        if check is not None:
            check(changes)
        if not changes:
            return
        try:
            await store.commit(changes)
        except Conflict as conflict:
            decisions = decisions[deciders[conflict.made] :]
            await trio.lowlevel.checkpoint()  # whoever was faster has his turn
        else:
            return
