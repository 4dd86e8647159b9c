"""Following the delegation tokens, where there is a secret to make them of: see `following`."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import chain

from kwire.cluster.metadata.changes import Change, SetToken
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.zookeeper import token_znodes
from kwire.cluster.stores.zookeeper.acl_following import DAMAGED, Followed
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.merging import with_tokens
from kwire.cluster.stores.zookeeper.notifications import Notifications


class TokenFollower:
    """All wants the store's turn, and raises StoreError."""

    def __init__(self, store: Followed) -> None:
        self._store = store
        self._told = Notifications(store.session, token_znodes.CHANGES)

    async def follow(self, subjects: Set[str], *, everything: bool) -> None:
        """Read what has changed."""
        if everything:
            await self.read_all()
        elif self._told.folder in subjects:
            await self._told.hear(self._read_changed)

    async def read_again(self, changes: Iterable[Change]) -> None:
        """What these are about."""
        await self.read(each.token_id for each in changes if isinstance(each, SetToken))

    async def read_all(self) -> None:
        await self._told.pass_over()
        there = await self._store.session.children(token_znodes.TOKENS)
        await self.read(chain(there, self._store.image.tokens))

    async def _read_changed(self, told: list[tuple[str, bytes]]) -> None:
        await self.read([content.decode("utf-8", "replace") for _, content in told])

    async def read(self, token_ids: Iterable[str]) -> None:
        """Publish what is there now of these."""
        store, wanted = self._store, list(dict.fromkeys(token_ids))
        paths = list(map(token_znodes.token_path, wanted))
        found: dict[str, DelegationToken | None] = {}
        for token_id, path, each in zip(
            wanted, paths, await store.session.get_all(paths), strict=True
        ):
            try:
                found[token_id] = None if each is None else token_znodes.decode_token(each[0])
            except DAMAGED as problem:
                log.warning("%s is damaged: %r", path, problem)
        store.publish(*with_tokens(store.image, found))
