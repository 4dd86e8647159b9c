"""Following the delegation tokens, where there is a secret to make them of: see `following`."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import chain

from kwire.cluster.zookeeper import token_znodes
from kwire.cluster.zookeeper.acl_following import Followed
from kwire.cluster.zookeeper.link import log
from kwire.cluster.zookeeper.merging import with_tokens
from kwire.cluster.zookeeper.notifications import purge
from kwire.metadata.changes import Change, SetToken
from kwire.metadata.tokens import DelegationToken

_DAMAGED = (ValueError, TypeError, LookupError, AttributeError)


class TokenFollower:
    """All wants the store's turn, and raises StoreError."""

    def __init__(self, store: Followed) -> None:
        self._store = store
        self._heard: set[str] = set()
        """Notifications of what has been read since."""

    async def follow(self, subjects: Set[str], *, everything: bool) -> None:
        """Read what has changed."""
        if everything:
            await self.read_all()
        elif token_znodes.CHANGES in subjects:
            await self.read_changes()

    async def read_again(self, changes: Iterable[Change]) -> None:
        """What these are about."""
        await self.read(each.token_id for each in changes if isinstance(each, SetToken))

    async def read_all(self) -> None:
        session = self._store.session
        self._heard = set(await session.children(token_znodes.CHANGES, watch=True))
        there = await session.children(token_znodes.TOKENS)
        await self.read(chain(there, self._store.image.tokens))

    async def read_changes(self) -> None:
        """Read what notifications are about that were not heard yet, and remove the oldest."""
        session, folder = self._store.session, token_znodes.CHANGES
        names = await session.children(folder, watch=True)
        new = [f"{folder}/{name}" for name in names if name not in self._heard]
        found = [each for each in await session.get_all(new) if each is not None]
        await self.read([each[0].decode("utf-8", "replace") for each in found])
        self._heard = set(names)
        if new:
            await purge(session, [f"{folder}/{name}" for name in names])

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
            except _DAMAGED as problem:
                log.warning("%s is damaged: %r", path, problem)
        store.publish(*with_tokens(store.image, found))
