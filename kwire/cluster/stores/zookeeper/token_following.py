"""TokenFollower: reads changed delegation tokens, if the broker has a secret key for them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import chain

from kwire.cluster.metadata.changes import Change, SetToken
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.zookeeper import token_znodes
from kwire.cluster.stores.zookeeper.acl_following import DAMAGED, ImageStore
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.merging import with_tokens
from kwire.cluster.stores.zookeeper.notifications import Notifications


class TokenFollower:
    """The caller holds the store's turn; all methods raise StoreError."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store
        self._notifications = Notifications(store.session, token_znodes.CHANGES)

    async def follow(self, subjects: Set[str], *, everything: bool) -> None:
        """Read the tokens named by new notifications in `subjects`, or all tokens."""
        if everything:
            await self.read_all()
        elif self._notifications.folder in subjects:
            await self._notifications.process(self._read_changed)

    async def read_again(self, changes: Iterable[Change]) -> None:
        """Read the tokens that `changes` are about."""
        await self.read(change.token_id for change in changes if isinstance(change, SetToken))

    async def read_all(self) -> None:
        """Read all tokens; skips the notifications that exist now."""
        await self._notifications.skip()
        present = await self._store.session.children(token_znodes.TOKENS)
        await self.read(chain(present, self._store.image.tokens))

    async def _read_changed(self, contents: list[tuple[str, bytes]]) -> None:
        await self.read([content.decode("utf-8", "replace") for _, content in contents])

    async def read(self, token_ids: Iterable[str]) -> None:
        """Read the tokens of `token_ids` and publish them."""
        store, wanted = self._store, list(dict.fromkeys(token_ids))
        paths = list(map(token_znodes.token_path, wanted))
        tokens: dict[str, DelegationToken | None] = {}
        for token_id, path, znode in zip(
            wanted, paths, await store.session.get_all(paths), strict=True
        ):
            try:
                tokens[token_id] = None if znode is None else token_znodes.decode_token(znode[0])
            except DAMAGED as problem:
                # The image keeps the previous token.
                log.warning("%s is damaged: %r", path, problem)
        store.publish(*with_tokens(store.image, tokens))
