"""Following the access control lists, where there is an authorizer: see `following`.

A list that cannot be understood is not passed over, for it may deny something: without it no broker
starts, and one that runs keeps the list it had.  So Apache Kafka's AclAuthorizer has it, too.
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
from kwire.cluster.stores.zookeeper.session import Session
from kwire.cluster.stores.zookeeper.writing import Versions

DAMAGED: Final = (ValueError, TypeError, LookupError, AttributeError)
"""What decoding a znode raises that does not say what it is to say."""


class Followed(Protocol):
    """What the follower is to its store (kwire.cluster.stores.zookeeper.store)."""

    session: Session
    versions: Versions

    @property
    def image(self) -> ClusterImage:
        """As of now."""

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """The image is `after`, by changes of what these are about."""


class AclFollower:
    """See the module.  All wants the store's turn, and raises StoreError."""

    def __init__(self, store: Followed) -> None:
        self._store = store
        self._told = {
            pattern_type: Notifications(store.session, folder)
            for pattern_type, folder in acl_znodes.FOLDERS.items()
        }
        self._is_loaded = False

    async def follow(self, subjects: Set[str], *, everything: bool) -> None:
        """Read what has changed."""
        if everything:
            await self.read_all()
            return
        for pattern_type, told in self._told.items():
            if told.folder in subjects:
                await told.hear(partial(self._read_changed, pattern_type))

    async def read_again(self, changes: Iterable[Change]) -> None:
        """What these are about."""
        listed = [each.pattern for each in changes if isinstance(each, ChangeAcls)]
        await self.read(dict.fromkeys(listed))

    async def read_all(self) -> None:
        for told in self._told.values():
            await told.pass_over()
        paths = [*acl_znodes.TYPE_PATHS]
        names = await self._store.session.children_of_all(paths)
        there = [
            ResourcePattern(*acl_znodes.TYPE_PATHS[path], name)
            for path, found in zip(paths, names, strict=True)
            for name in found
        ]
        await self.read(dict.fromkeys(chain(there, self._store.image.acls)))
        self._is_loaded = True

    async def _read_changed(self, pattern_type: PatternType, told: list[tuple[str, bytes]]) -> None:
        changed: dict[ResourcePattern, None] = {}
        for path, content in told:
            try:
                changed[acl_znodes.decode_change(content, pattern_type)] = None
            except DAMAGED as problem:
                log.warning("%s is damaged: %r", path, problem)
        await self.read(changed)

    async def read(self, patterns: Iterable[ResourcePattern]) -> None:
        """Publish what is there now of these."""
        store, wanted = self._store, list(patterns)
        paths = list(map(acl_znodes.acl_path, wanted))
        found: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        for pattern, path, each in zip(
            wanted, paths, await store.session.get_all(paths), strict=True
        ):
            if each is None:
                found[pattern] = NO_ENTRIES
                store.versions.acls.pop(pattern, None)
                continue
            store.versions.acls[pattern] = each[1].version
            try:
                found[pattern] = acl_znodes.decode_acls(each[0])
            except DAMAGED as problem:
                self._not_understood(path, problem)
        store.publish(*with_acls(store.image, found))

    def _not_understood(self, path: str, problem: Exception) -> None:
        said = f"{path} in ZooKeeper is no access control list that can be understood: {problem!r}"
        if not self._is_loaded:
            raise StoreError(said)
        log.error("%s; what it said before holds", said)
