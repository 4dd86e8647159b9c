"""How a store follows ACLs and delegation tokens that other brokers write, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.serialization import Create, Delete, SetData
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import ChangeAcls, Conflict, SetToken
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper import acl_znodes, notifications, token_znodes
from kwire.cluster.stores.zookeeper.notifications import CHANGES_KEPT_S
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import at_rest

READ, WRITE = (
    AccessControlEntry("User:a", "*", operation, AclPermissionType.ALLOW)
    for operation in (AclOperation.READ, AclOperation.WRITE)
)
TOPIC = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
OTHER = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "u")
PREFIX = ResourcePattern(ResourceType.GROUP, PatternType.PREFIXED, "g")
TOKEN = DelegationToken("t", "User:a", "User:r", ("User:b",), 1, 3, 2)
LATER = replace(TOKEN, expiry_ms=3)


def write_notice(ensemble: Ensemble, pattern: ResourcePattern) -> str:
    return ensemble.put_next(acl_znodes.change_path(pattern), acl_znodes.encode_change(pattern))


def put_acls(ensemble: Ensemble, pattern: ResourcePattern, *entries: AccessControlEntry) -> None:
    ensemble.put(acl_znodes.acl_path(pattern), acl_znodes.encode_acls(entries))


def has(pattern: ResourcePattern, *entries: AccessControlEntry) -> Callable[[ClusterImage], bool]:
    """A check that an image has exactly these entries on a pattern."""
    return lambda image: image.acls_on(pattern) == {*entries}


# -- lists


async def test_acl_changed_by_another_broker_is_read_after_its_notification(
    ensemble: Ensemble,
) -> None:
    async with at_rest(has_acls=True) as store:
        for pattern in (TOPIC, PREFIX):
            put_acls(ensemble, pattern, READ)
            await wait_all_tasks_blocked()
            assert not store.image.acls_on(pattern), "nobody watches the lists"
            write_notice(ensemble, pattern)
            await store.shows(has(pattern, READ))
        put_acls(ensemble, TOPIC, READ, WRITE)
        write_notice(ensemble, TOPIC)
        await store.shows(lambda image: image.acls_on(TOPIC) == {READ, WRITE})
        ensemble.drop(acl_znodes.acl_path(TOPIC))
        write_notice(ensemble, TOPIC)
        image = await store.shows(lambda image: not image.acls_on(TOPIC))
        assert image.acls_on(PREFIX) == {READ}
        # Each is known by its version, and what is gone by being gone.
        await store.commit([ChangeAcls(TOPIC, (WRITE,)), ChangeAcls(PREFIX, (WRITE,))])
        assert acl_znodes.decode_acls(ensemble.znode(acl_znodes.acl_path(PREFIX)).content) == {
            READ,
            WRITE,
        }


async def test_starting_broker_reads_all_acls(ensemble: Ensemble) -> None:
    async with at_rest(has_acls=True) as first:
        await first.commit([ChangeAcls(TOPIC, (READ,)), ChangeAcls(PREFIX, (WRITE,))])
        async with at_rest(2, has_acls=True) as second:
            assert dict(second.image.acls.items()) == {TOPIC: {READ}, PREFIX: {WRITE}}
            await second.commit([ChangeAcls(TOPIC, (WRITE,)), ChangeAcls(PREFIX, (), (WRITE,))])
            await first.shows(lambda image: image.acls_on(TOPIC) == {READ, WRITE})
            await first.shows(lambda image: not image.acls_on(PREFIX))
        assert acl_znodes.acl_path(PREFIX) not in ensemble.znodes


async def test_acl_deleted_while_disconnected_is_removed_from_the_image(ensemble: Ensemble) -> None:
    async with at_rest(has_acls=True) as store:
        await store.commit([ChangeAcls(TOPIC, (READ,))])
        link = ensemble.links[store.session.id]
        link.suspend()
        ensemble.drop(acl_znodes.acl_path(TOPIC))
        put_acls(ensemble, OTHER, WRITE)
        link.resume()
        image = await store.shows(lambda image: image.acls_on(OTHER) == {WRITE})
        assert not image.acls_on(TOPIC)


async def test_damaged_acl_keeps_its_previous_entries_and_stops_a_starting_broker(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    path = acl_znodes.acl_path(TOPIC)
    async with at_rest(has_acls=True) as store:
        await store.commit([ChangeAcls(TOPIC, (READ, WRITE))])
        ensemble.put(path, b"[]")
        damaged = ensemble.put_next("/kafka-acl-changes/acl_changes_", b"damaged")
        write_notice(ensemble, TOPIC)
        put_acls(ensemble, OTHER, WRITE)
        write_notice(ensemble, OTHER)
        image = await store.shows(lambda image: image.acls_on(OTHER) == {WRITE})
        assert image.acls_on(TOPIC) == {READ, WRITE}
        reason = f"{path} in ZooKeeper cannot be decoded as an access control list: "
        assert f"{reason}" in caplog.text
        assert "; the previous list still applies." in caplog.text
        assert f"{damaged} is damaged: " in caplog.text
        refused = pytest.RaisesExc(StoreError, match=path)
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            async with at_rest(2, has_acls=True):
                pass
        # It is in nobody's way: the next who changes it writes it anew.
        await store.commit([ChangeAcls(TOPIC, (), (READ,))])
        assert acl_znodes.decode_acls(ensemble.znode(path).content) == {WRITE}


async def test_acl_change_is_applied_on_top_of_a_concurrent_change(
    ensemble: Ensemble,
) -> None:
    async with at_rest(has_acls=True) as store:
        await store.commit([ChangeAcls(TOPIC, (READ,))])
        other = READ._replace(principal="User:other")
        put_acls(ensemble, TOPIC, READ, other)
        await store.commit([ChangeAcls(TOPIC, (WRITE,))])
        assert store.image.acls_on(TOPIC) == {READ, WRITE, other}


async def test_store_without_authorizer_reads_no_acls(ensemble: Ensemble) -> None:
    async with at_rest() as store:
        assert not [path for path in ensemble.znodes if "acl" in path or "token" in path]
        assert not store.image.acls


async def test_first_acl_of_a_type_creates_its_missing_folder(
    ensemble: Ensemble,
) -> None:
    async with at_rest() as store:
        await store.commit([ChangeAcls(PREFIX, (READ,))])
        assert acl_znodes.acl_path(PREFIX) in ensemble.znodes


# -- notices


@pytest.mark.parametrize(("age_s", "stays"), [(CHANGES_KEPT_S, True), (CHANGES_KEPT_S + 1, False)])
async def test_notification_is_deleted_after_15_minutes(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, age_s: int, stays: bool
) -> None:
    now = SimpleNamespace(time=lambda: 5_000)
    monkeypatch.setattr(notifications, "time", now)
    ensemble.now_ms = lambda: 5_000_000
    async with at_rest(has_acls=True) as store:
        put_acls(ensemble, TOPIC, READ)
        old = [write_notice(ensemble, TOPIC) for _ in range(3)]
        await store.shows(lambda image: image.acls_on(TOPIC) == {READ})
        await wait_all_tasks_blocked()
        now.time = lambda: 5_000 + age_s
        ensemble.now_ms = lambda: (5_000 + age_s) * 1_000
        put_acls(ensemble, TOPIC, WRITE)
        young = write_notice(ensemble, TOPIC)
        await store.shows(lambda image: image.acls_on(TOPIC) == {WRITE})
        await wait_all_tasks_blocked()
        there = [path for path in ensemble.znodes if path.startswith("/kafka-acl-changes/")]
        assert there == ([*old, young] if stays else [young])


async def test_old_notifications_are_checked_up_to_the_first_young_one(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(time=lambda: 5_000)
    monkeypatch.setattr(notifications, "time", now)
    ensemble.now_ms = lambda: 5_000_000
    async with at_rest(has_acls=True) as store:
        for entry in (READ, WRITE):
            put_acls(ensemble, TOPIC, entry)
            write_notice(ensemble, TOPIC)
            await store.shows(has(TOPIC, entry))
            await wait_all_tasks_blocked()
        asked: list[str] = []
        exists = store.session.exists

        async def noting(path: str, watch: bool = False) -> Any:  # noqa: ANN401 - a stat
            asked.append(path)
            return await exists(path, watch)

        monkeypatch.setattr(store.session, "exists", noting)
        put_acls(ensemble, TOPIC, READ)
        last = write_notice(ensemble, TOPIC)
        await wait_all_tasks_blocked()
        first = sorted(path for path in ensemble.znodes if path.startswith("/kafka-acl-changes/"))
        assert asked == first[:1]
        # What only goes is no news: nothing is looked at for it.
        asked.clear()
        ensemble.drop(last)
        await wait_all_tasks_blocked()
        assert not asked


async def test_each_notification_is_read_once(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_rest(has_acls=True) as store:
        read: list[str] = []
        get_all = store.session.get_all

        async def noting(paths: Sequence[str], watch: bool = False) -> Any:  # noqa: ANN401 - as found
            read.extend(paths)
            return await get_all(paths, watch)

        monkeypatch.setattr(store.session, "get_all", noting)
        written = []
        for entry in (READ, WRITE):
            put_acls(ensemble, TOPIC, entry)
            written.append(write_notice(ensemble, TOPIC))
            await store.shows(has(TOPIC, entry))
        notices = [path for path in read if "acl_changes_" in path]
        assert notices == written
        # Those that were there when all was read are passed over.
        link = ensemble.links[store.session.id]
        link.suspend()
        write_notice(ensemble, TOPIC)
        link.resume()
        await wait_all_tasks_blocked()
        assert [path for path in read if "acl_changes_" in path] == written


async def test_old_notification_removed_by_another_broker_is_no_error(
    ensemble: Ensemble,
) -> None:
    ensemble.now_ms = lambda: 0
    async with at_rest(has_acls=True) as store:

        def remove(link: MemoryLink, operations: Sequence[Any]) -> None:
            path = operations[0].path
            if isinstance(operations[0], Delete) and path in ensemble.znodes:
                ensemble.drop(path)

        ensemble.before_write = remove
        for entry in (READ, WRITE):
            put_acls(ensemble, TOPIC, entry)
            write_notice(ensemble, TOPIC)
            write_notice(ensemble, TOPIC)
            await store.shows(has(TOPIC, entry))
        await wait_all_tasks_blocked()
        assert not ensemble.znode("/kafka-acl-changes").children


# -- tokens


async def test_token_changed_by_another_broker_is_read_after_its_notification(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    path = token_znodes.token_path("t")
    async with at_rest(has_tokens=True) as store:
        ensemble.put(path, token_znodes.encode_token(TOKEN))
        await wait_all_tasks_blocked()
        assert not store.image.tokens, "nobody watches the tokens"
        ensemble.put_next(token_znodes.CHANGE, b"t")
        await store.shows(lambda image: image.tokens.get("t") == TOKEN)
        ensemble.put(path, b"damaged")
        ensemble.put(token_znodes.token_path("u"), token_znodes.encode_token(LATER))
        for token_id in (b"t", b"\xff", b"u"):
            ensemble.put_next(token_znodes.CHANGE, token_id)
        image = await store.shows(lambda image: "u" in image.tokens)
        assert image.tokens["t"] == TOKEN, "what it said before holds"
        assert f"{path} is damaged: " in caplog.text
        ensemble.drop(path)
        ensemble.put_next(token_znodes.CHANGE, b"t")
        await store.shows(lambda image: "t" not in image.tokens)


async def test_token_znode_is_created_changed_and_deleted(ensemble: Ensemble) -> None:
    path = token_znodes.token_path("t")
    async with at_rest(has_tokens=True) as store, at_rest(2, has_tokens=True) as other:
        ensemble.writes.clear()
        await store.commit([SetToken("t", None, TOKEN)])
        await other.shows(lambda image: image.tokens.get("t") == TOKEN)
        await other.commit([SetToken("t", TOKEN, LATER)])
        await store.shows(lambda image: image.tokens.get("t") == LATER)
        async with at_rest(3, has_tokens=True) as third:
            assert dict(third.image.tokens.items()) == {"t": LATER}
        await store.commit([SetToken("t", LATER, None)])
        await other.shows(lambda image: not image.tokens)
        written = [each[0] for each in ensemble.writes]
        assert [type(each) for each in written] == [Create, SetData, Delete]
        assert [each.path for each in written] == [path] * 3
        assert [each.version for each in written[1:]] == [-1, -1]
        contents = [written[0].data, written[1].data]
        assert contents == [token_znodes.encode_token(each) for each in (TOKEN, LATER)]
        assert {each[1].data for each in ensemble.writes} == {b"t"}


async def test_concurrently_created_token_is_a_conflict_and_gets_into_the_image(
    ensemble: Ensemble,
) -> None:
    async with at_rest(has_tokens=True) as store:
        ensemble.put(token_znodes.token_path("t"), token_znodes.encode_token(LATER))
        with pytest.raises(Conflict):
            await store.commit([SetToken("t", None, TOKEN)])
        assert store.image.tokens["t"] == LATER


async def test_token_deleted_while_disconnected_is_removed_from_the_image(
    ensemble: Ensemble,
) -> None:
    async with at_rest(has_tokens=True) as store:
        await store.commit([SetToken("t", None, TOKEN)])
        link = ensemble.links[store.session.id]
        link.suspend()
        ensemble.drop(token_znodes.token_path("t"))
        other = replace(TOKEN, id="u")
        ensemble.put(token_znodes.token_path("u"), token_znodes.encode_token(other))
        link.resume()
        image = await store.shows(lambda image: "u" in image.tokens)
        assert dict(image.tokens.items()) == {"u": other}
