"""AclFollower: reads changed access control lists, if the broker has an authorizer.

A list that cannot be decoded is not ignored, because it may deny something: a starting broker stops
with an error, a running one keeps the previous list.  Apache Kafka's AclAuthorizer does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import partial
from itertools import chain
from typing import Final, Protocol

from kwire.cluster.metadata.acls import NO_ENTRIES, AccessControlEntry, PatternType, ResourcePattern
from kwire.cluster.metadata.changes import Change, ChangeAcls
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper import acl_znodes
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.merging import with_acls
from kwire.cluster.stores.zookeeper.notifications import Notifications
from kwire.cluster.stores.zookeeper.session import ZooKeeperSession
from kwire.cluster.stores.zookeeper.writing import ZnodeVersions

DAMAGED: Final = (ValueError, TypeError, LookupError, AttributeError)
"""Exceptions of the decoders of znodes."""


class ImageStore(Protocol):
    """What a follower needs of its store (kwire.cluster.stores.zookeeper.store)."""

    session: ZooKeeperSession
    versions: ZnodeVersions

    @property
    def image(self) -> ClusterImage:
        """The latest image."""

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """Make `after`, the result of `changes`, the image."""


class AclFollower:
    """See the module.  The caller holds the store's turn; all methods raise StoreError."""

    def __init__(self, store: ImageStore) -> None:
        """Each pattern type (literal, prefixed) has its own folder of notifications."""
        self._store = store
        self._notifications = {
            pattern_type: Notifications(store.session, folder)
            for pattern_type, folder in acl_znodes.FOLDERS.items()
        }
        self._is_loaded = False

    async def follow(self, subjects: Set[str], *, everything: bool) -> None:
        """Reads the access lists that new notifications in `subjects` name, or all lists."""
        if everything:
            await self.read_all()
            return
        for pattern_type, notifications in self._notifications.items():
            if notifications.folder in subjects:
                await notifications.process(partial(self._read_changed, pattern_type))

    async def read_again(self, changes: Iterable[Change]) -> None:
        """Read the lists that `changes` are about."""
        patterns = [change.pattern for change in changes if isinstance(change, ChangeAcls)]
        await self.read(dict.fromkeys(patterns))

    async def read_all(self) -> None:
        """Read all lists; skips the notifications that exist now."""
        for notifications in self._notifications.values():
            await notifications.skip()
        paths = [*acl_znodes.TYPE_PATHS]
        names = await self._store.session.children_of_all(paths)
        present = [
            ResourcePattern(*acl_znodes.TYPE_PATHS[path], name)
            for path, children in zip(paths, names, strict=True)
            for name in children
        ]
        # A pattern of the image that is not present any more has lost its last entry.
        await self.read(dict.fromkeys(chain(present, self._store.image.acls)))
        self._is_loaded = True

    async def _read_changed(
        self, pattern_type: PatternType, contents: list[tuple[str, bytes]]
    ) -> None:
        """Reads the access lists of the patterns that the notifications name.

        `contents` has path and content of each.  A damaged one is logged and skipped.
        """
        changed: dict[ResourcePattern, None] = {}
        for path, content in contents:
            try:
                changed[acl_znodes.decode_change(content, pattern_type)] = None
            except DAMAGED as problem:
                log.warning("%s is damaged: %r", path, problem)
        await self.read(changed)

    async def read(self, patterns: Iterable[ResourcePattern]) -> None:
        """Read the lists of `patterns` and publish them."""
        store, wanted = self._store, list(patterns)
        paths = list(map(acl_znodes.acl_path, wanted))
        entries: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        for pattern, path, znode in zip(
            wanted, paths, await store.session.get_all(paths), strict=True
        ):
            if znode is None:
                entries[pattern] = NO_ENTRIES
                store.versions.acls.pop(pattern, None)
                continue
            store.versions.acls[pattern] = znode[1].version
            try:
                entries[pattern] = acl_znodes.decode_acls(znode[0])
            except DAMAGED as problem:
                self._not_decoded(path, problem)
        store.publish(*with_acls(store.image, entries))

    def _not_decoded(self, path: str, problem: Exception) -> None:
        """Handles a damaged access list: raises StoreError while loading, else logs it.

        Without a previous list the broker would run without these rights, so it does not start.
        """
        message = f"{path} in ZooKeeper cannot be decoded as an access control list: {problem!r}"
        if not self._is_loaded:
            raise StoreError(message)
        log.error("%s; the previous list still applies.", message)
