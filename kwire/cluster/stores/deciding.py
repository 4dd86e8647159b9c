"""Commits decisions: repeats a decision when the image has changed before its commit."""

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
    """Commit the changes that `decisions` make to the image.

    If another commit comes first and conflicts, the decisions that are left decide again by the new
    image.  `image` returns the store's latest image.  `check` may refuse the changes by raising an
    exception.  Raises StoreError, and what a decision raises.
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
            await trio.lowlevel.checkpoint()  # lets the task of the faster commit go on
        else:
            return
