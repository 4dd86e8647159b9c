"""Every kind of write to ZooKeeper, with another controller, another version, a lost session

The table runs on `Ensemble`, where the test acts at the very moment at which a write arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
    SetFeatures,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.contract import Fenced
from kwire.cluster.stores.zookeeper import acl_znodes, writing, znodes
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    MEMORY,
    STATE,
    TOPIC,
    Observed,
    at_rest,
    controlling,
    leading,
    opened,
)

NEW_TOPIC = TopicImage("u", b"u" * 16, (STATE, STATE))
CONFIGS = {"retention.ms": "1"}
BROKERS = znodes.BROKER_RESOURCE
UNBORN = PartitionImage(-1, -1, -1, (1, 2), ())
SHRUNK = replace(STATE, isr=(1,), partition_epoch=1)
ENTRY = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
OTHER_ENTRY = AccessControlEntry("User:b", "*", AclOperation.READ, AclPermissionType.ALLOW)
PATTERN = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
FEATURES = FinalizedFeatures(agreed={"group.version": 1}, epoch=1)


@dataclass(frozen=True)
class Write:
    """A change, the changes before it, and the znode whose version it depends on."""

    change: Change
    path: str
    before: tuple[Change, ...] = ()
    elsewhere: bytes | None = None
    """The content that another writer puts into `path`; None if it deletes the znode."""


CREATE = CreateTopic(TOPIC, CONFIGS)
TOPIC_PATH, STATE_PATH = znodes.topic_path("t"), znodes.state_path("t", 0)
DELETION = (CREATE, MarkForDeletion("t", TOPIC.id))

CONTROLLERS = {
    "create": Write(
        CreateTopic(NEW_TOPIC, CONFIGS),
        znodes.topic_path("u"),
        elsewhere=znodes.encode_topic(NEW_TOPIC),
    ),
    "add": Write(
        AddPartitions("t", TOPIC.id, 2, (STATE, STATE)),
        TOPIC_PATH,
        (CREATE,),
        znodes.encode_topic(replace(TOPIC, partitions=(STATE,) * 3)),
    ),
    "alter": Write(
        AlterPartition("t", TOPIC.id, 0, 0, SHRUNK),
        STATE_PATH,
        (CREATE,),
        znodes.encode_state(SHRUNK),
    ),
    "reassign": Write(
        AlterPartition("t", TOPIC.id, 0, 0, replace(SHRUNK, replicas=(1, 2, 3), adding=(3,))),
        TOPIC_PATH,
        (CREATE,),
        znodes.encode_topic(replace(TOPIC, partitions=(STATE,) * 3)),
    ),
    "mark": Write(MarkForDeletion("t", TOPIC.id), znodes.deletion_path("t"), (CREATE,), b""),
    "delete": Write(DeleteTopic("t", TOPIC.id), znodes.deletion_path("t"), DELETION, None),
}
"""Changes that only the controller may make."""

ANY_BROKER_CHANGES = {
    "configs": Write(
        SetConfigs(TOPIC_RESOURCE, "t", CONFIGS, {"retention.ms": "2"}),
        znodes.config_path((TOPIC_RESOURCE, "t")),
        (CREATE,),
        znodes.encode_configs({"retention.ms": "3"}),
    ),
    "acls": Write(
        ChangeAcls(PATTERN, (ENTRY,)),
        acl_znodes.acl_path(PATTERN),
        (CREATE, ChangeAcls(PATTERN, (OTHER_ENTRY,))),
        acl_znodes.encode_acls(frozenset()),
    ),
    "features": Write(
        SetFeatures(0, FEATURES),
        znodes.FEATURE,
        (),
        znodes.encode_feature(replace(FEATURES, epoch=5)),
    ),
}
"""Changes that every broker may make."""


@dataclass
class Meanwhile:
    """Acts once, when write number `at` of a store arrives, before it is made."""

    ensemble: Ensemble
    act: Callable[[MemoryLink], None]
    at: int = 0
    count: int = 0
    has_acted: trio.Event = field(default_factory=trio.Event)

    def __enter__(self) -> Meanwhile:
        self.ensemble.before_write = self._before
        return self

    def __exit__(self, *error: object) -> None:
        self.ensemble.before_write = lambda link, operations: None

    def _before(self, link: MemoryLink, operations: Sequence[Any]) -> None:
        self.count += 1
        if self.count == self.at + 1:
            self.act(link)
            self.has_acted.set()


def another_controller(ensemble: Ensemble) -> None:
    """Another broker becomes the controller: the epoch rises, and /controller names it."""
    epoch = ensemble.znode(znodes.CONTROLLER_EPOCH)
    raised = znodes.encode_controller_epoch(znodes.decode_controller_epoch(epoch.content) + 1)
    ensemble.multi(
        0,
        [
            Delete(znodes.CONTROLLER, -1),
            SetData(znodes.CONTROLLER_EPOCH, raised, -1),
            Create(znodes.CONTROLLER, znodes.encode_controller(2, 0), None, 0),
        ],
    )


def another_writer(ensemble: Ensemble, write: Write) -> None:
    if write.elsewhere is None:
        ensemble.multi(0, [Delete(write.path, -1)])
    elif write.path in ensemble.znodes:
        ensemble.multi(0, [SetData(write.path, write.elsewhere, -1)])
    else:
        ensemble.multi(0, [Create(write.path, write.elsewhere, None, 0)])


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_controller_write_is_fenced_after_another_election(
    ensemble: Ensemble, name: str
) -> None:
    write = CONTROLLERS[name]
    async with controlling(*write.before) as store:
        contents = ensemble.contents()
        meanwhile = Meanwhile(ensemble, lambda link: another_controller(ensemble))
        with meanwhile, pytest.raises(Fenced):
            await store.commit([write.change])
        assert ensemble.contents() == contents
        assert not store.is_controller
        assert not store.image.topics, "topics are the next controller's business"


@pytest.mark.parametrize("step", range(12))
async def test_each_step_with_topic_changes_is_fenced_by_the_controller_epoch(
    ensemble: Ensemble, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alternating topic and config changes, in steps of one group each."""
    monkeypatch.setattr(writing, "STEP_BYTES_MAX", 1)
    changes: list[Change] = [
        CreateTopic(NEW_TOPIC, CONFIGS),
        AlterPartition("t", TOPIC.id, 0, 0, SHRUNK),
        SetConfigs(TOPIC_RESOURCE, "t", CONFIGS, {"retention.ms": "2"}),
        AddPartitions("t", TOPIC.id, 2, (STATE,)),
        MarkForDeletion("u", NEW_TOPIC.id),
        DeleteTopic("u", NEW_TOPIC.id),
    ]
    async with controlling(CREATE) as store:
        known: dict[str, bytes] = {}

        def elected(link: MemoryLink) -> None:
            another_controller(ensemble)
            known.update(ensemble.contents())

        with Meanwhile(ensemble, elected, at=step) as meanwhile:
            if step >= 11:
                await store.commit(changes)
                assert not meanwhile.has_acted.is_set(), "the table covers all steps"
                return
            with pytest.raises(Fenced):
                await store.commit(changes)
        written = {
            path
            for path, content in ensemble.contents().items()
            if known.get(path) != content and not path.startswith("/config")
        } | {path for path in known if path not in ensemble.znodes}
        assert not written, "no topic changes once another controller is elected"


async def test_steps_with_topic_changes_begin_with_the_epoch_check(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "STEP_BYTES_MAX", 1)
    async with controlling() as store:
        ensemble.writes.clear()
        await store.commit([CREATE, CreateTopic(NEW_TOPIC, CONFIGS)])
        await store.commit([MarkForDeletion("u", NEW_TOPIC.id), DeleteTopic("u", NEW_TOPIC.id)])
        epoch = ensemble.znode(znodes.CONTROLLER_EPOCH).version
        assert len(ensemble.writes) == 3 + 3 + 4
        for operations in ensemble.writes:
            first = operations[0]
            assert isinstance(first, CheckVersion)
            assert (first.path, first.version) == (znodes.CONTROLLER_EPOCH, epoch)


@pytest.mark.parametrize("name", [*CONTROLLERS, *ANY_BROKER_CHANGES])
async def test_write_is_a_conflict_after_another_write_of_the_znode(
    ensemble: Ensemble, name: str
) -> None:
    write = (CONTROLLERS | ANY_BROKER_CHANGES)[name]
    async with controlling(*write.before) as store:
        contents: dict[str, bytes] = {}

        def wrote(link: MemoryLink) -> None:
            another_writer(ensemble, write)
            contents.update(ensemble.contents())

        with Meanwhile(ensemble, wrote):
            if name in ("reassign", "mark", "delete", "acls"):
                # The other one did the same, or left it possible: it is made on top of that.
                await store.commit([write.change])
                _has(store.image, write.change)
            else:
                with pytest.raises(Conflict):
                    await store.commit([write.change])
                assert ensemble.contents() == contents
        assert store.is_controller


@pytest.mark.parametrize("name", CONTROLLERS)
@pytest.mark.parametrize("elected", [False, True])
async def test_controller_write_is_fenced_after_its_session_ended(
    ensemble: Ensemble, name: str, elected: bool
) -> None:
    """The next session sends it again, and the epoch decides: it is made if nobody was elected."""
    write = CONTROLLERS[name]
    async with controlling(*write.before) as store:
        contents = ensemble.contents()

        def expire(link: MemoryLink) -> None:
            if elected:
                another_controller(ensemble)
            ensemble.expire(link)

        with Meanwhile(ensemble, expire), pytest.raises(Fenced):
            await store.commit([write.change])
        assert (ensemble.contents() == contents) is elected
        assert not store.image.topics
        assert await store.campaign() is not elected
        if not elected:
            _has(store.image, write.change)


@pytest.mark.parametrize("name", ANY_BROKER_CHANGES)
async def test_unfenced_write_is_made_once_by_the_next_session(
    ensemble: Ensemble, name: str
) -> None:
    write = ANY_BROKER_CHANGES[name]
    async with controlling(*write.before) as store:
        known = ensemble.znodes.get(write.path)
        next_version = 0 if known is None else known.version + 1
        with Meanwhile(ensemble, ensemble.expire) as meanwhile:
            await store.commit([write.change])
            assert meanwhile.count == 2
        assert ensemble.znode(write.path).version == next_version
        async with opened(MEMORY, 2, has_acls=True) as other:
            assert await other.campaign()
            _has(other.image, write.change)


@pytest.mark.parametrize("name", [*CONTROLLERS, *ANY_BROKER_CHANGES])
async def test_write_with_a_lost_reply_is_made_once(ensemble: Ensemble, name: str) -> None:
    write = (CONTROLLERS | ANY_BROKER_CHANGES)[name]
    async with controlling(*write.before) as store:

        def lose(link: MemoryLink) -> None:
            link.loses_next_reply = True

        ensemble.writes.clear()
        with Meanwhile(ensemble, lose) as meanwhile:
            await store.commit([write.change])
            assert meanwhile.has_acted.is_set()
        written = [each for each in ensemble.writes if any(op.path == write.path for op in each)]
        assert len(written) == 1
        _has(store.image, write.change)


def _has(image: ClusterImage, change: Change) -> None:
    match change:
        case SetConfigs(resource, name, _, configs):
            assert image.configs_of(resource, name) == configs
        case ChangeAcls(pattern, added):
            assert set(added) <= image.acls_on(pattern)
        case SetFeatures(_, features):
            assert image.features.agreed == features.agreed
        case CreateTopic(topic, configs):
            assert image.topics[topic.name].id == topic.id
            assert image.configs_of(TOPIC_RESOURCE, topic.name) == configs
        case AddPartitions(name, _, first, partitions):
            assert len(image.topics[name].partitions) == first + len(partitions)
        case AlterPartition(name, _, index, _, state):
            assert image.topics[name].partitions[index] == state
        case MarkForDeletion(name):
            assert name in image.deleting
        case DeleteTopic(name):
            assert name not in image.topics
            assert name not in image.deleting


# -- killed between two steps


async def _killed(ensemble: Ensemble, write: Write, step: int) -> bool:
    """Kill the controller before it makes step number `step`; False if it has no such step."""
    has_died = False
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def lead() -> None:
            async with controlling(*write.before) as store:
                with Meanwhile(ensemble, ensemble.kill, at=step) as meanwhile:
                    async with trio.open_nursery() as waiting:

                        async def stop() -> None:
                            nonlocal has_died
                            await meanwhile.has_acted.wait()
                            has_died = True
                            waiting.cancel_scope.cancel()

                        waiting.start_soon(stop)
                        await store.commit([write.change])
                        waiting.cancel_scope.cancel()
            done.set()

        nursery.start_soon(lead)
        await done.wait()
    return has_died


@pytest.mark.parametrize("name", ["create", "add", "delete"])
async def test_change_interrupted_between_steps_is_finished_by_the_next_controller(
    ensemble: Ensemble, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash leaves no topic without configs, and no partition of a deleted topic."""
    monkeypatch.setattr(writing, "STEP_BYTES_MAX", 1)
    write = CONTROLLERS[name]
    topic = "u" if name == "create" else "t"
    steps = 0
    while True:
        ensemble.__init__()  # type: ignore[misc]  # the next ZooKeeper of this test
        if not await _killed(ensemble, write, steps):
            break
        async with opened(MEMORY, 2, has_acls=True) as other:
            await leading(other, 2)
            await _finish(other, topic, deletes=name == "delete", configs=CONFIGS)
        left = [path for path in ensemble.znodes if topic in path.split("/")]
        if name == "delete":
            assert not left
        elif left:
            states = [path for path in left if path.endswith("/state")]
            count = len(
                znodes.decode_topic(ensemble.znode(znodes.topic_path(topic)).content).assignments
            )
            assert len(states) == count
        steps += 1
    assert steps == {"create": 3, "add": 3, "delete": 3}[name]


async def _finish(store: Observed, name: str, *, deletes: bool, configs: dict[str, str]) -> None:
    """Make the changes that `kwire.cluster.controller` decides for the state that it reads."""
    topic = store.image.topics.get(name)
    if topic is None:
        assert name not in store.image.deleting
        return
    assert store.image.configs_of(TOPIC_RESOURCE, name) == configs
    if deletes:
        assert name in store.image.deleting, "what is half gone must still be marked"
        await store.commit([DeleteTopic(name, topic.id)])
        return
    for index, state in enumerate(topic.partitions):
        if state.partition_epoch < 0:
            first = replace(STATE, partition_epoch=0)
            await store.commit([AlterPartition(name, topic.id, index, -1, first)])


# -- what others wrote before


async def test_concurrently_written_configs_are_a_conflict_and_get_into_the_image(
    ensemble: Ensemble,
) -> None:
    async with at_rest() as store, at_rest(2) as other:
        await store.commit([SetConfigs(BROKERS, "1", {}, {"a": "1"})])
        await other.shows(lambda image: bool(image.configs_of(BROKERS, "1")))
        ensemble.put(
            znodes.config_path((BROKERS, "1")), znodes.encode_configs({"a": "1", "b": "2"})
        )
        image = await other.read_configs([(BROKERS, "1"), (BROKERS, "9")])
        assert image.configs_of(BROKERS, "1") == {"a": "1", "b": "2"}
        assert not image.configs_of(BROKERS, "9")


async def test_topic_deletion_removes_a_partition_folder_added_meanwhile(
    ensemble: Ensemble,
) -> None:
    """Another client added the folder of a partition that the image lacks."""
    create = CreateTopic(TOPIC, {"a": "1"})
    async with controlling(create, MarkForDeletion("t", TOPIC.id)) as store:
        ensemble.put(znodes.partition_path("t", 2), b"")
        image = await store.commit([DeleteTopic("t", TOPIC.id)])
        assert "t" not in image.topics
        assert not image.configs
        assert not [path for path in ensemble.znodes if "t" in path.split("/")]


async def test_topics_deleted_together_are_each_removed_with_their_own_partitions(
    ensemble: Ensemble,
) -> None:
    bare = replace(NEW_TOPIC, name="bare", id=b"b" * 16, partitions=(UNBORN,))
    async with controlling(CreateTopic(TOPIC), CreateTopic(bare), CreateTopic(NEW_TOPIC)) as store:
        assert store.image.topics["bare"].partitions == (UNBORN,)
        assert znodes.partitions_path("bare") not in ensemble.znodes
        gone = [DeleteTopic(each.name, each.id) for each in (TOPIC, bare, NEW_TOPIC)]
        await store.commit(gone)
        assert not ensemble.znode(znodes.TOPICS).children
