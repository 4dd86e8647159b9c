"""The ZooKeeper operations of each change, the versions that they name, and their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
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
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.zookeeper import acl_znodes, writing, znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.session import ZnodeOperation, ZooKeeperSession
from kwire.cluster.stores.zookeeper.writing import (
    STEP_BYTES_MAX,
    StepWriter,
    WriteStep,
    ZnodeVersions,
    applied,
    as_written,
    possible,
)
from tests.cluster.stores.zookeeper.memory import Ensemble
from tests.cluster.stores.zookeeper.stores import STATE, TOPIC, controlling

BROKER = znodes.BROKER_RESOURCE
UNBORN = PartitionImage(-1, -1, -1, (1, 2), ())
BASE = ClusterImage("").with_topics([TOPIC])
SHRUNK = replace(STATE, isr=(1,), partition_epoch=1)
PATTERN = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
READ, WRITE = (
    AccessControlEntry("User:a", "*", operation, AclPermissionType.ALLOW)
    for operation in (AclOperation.READ, AclOperation.WRITE)
)
TOPIC_PATH, CONFIG_PATH = znodes.topic_path("t"), znodes.config_path((TOPIC_RESOURCE, "t"))
FENCE = CheckVersion("/controller_epoch", 9)


def a_session() -> ZooKeeperSession:
    return ZooKeeperSession(ZooKeeperConfig("h:1"), lambda state: None, lambda path: None)


def steps_of(
    *changes: Change,
    image: ClusterImage = BASE,
    versions: ZnodeVersions | None = None,
    children: dict[str, list[str]] | None = None,
    leads: bool = True,
) -> list[WriteStep]:
    given = ZnodeVersions(topics={"t": 4}) if versions is None else versions
    writer = StepWriter(a_session(), image, given, lambda: FENCE, children or {}, leads)
    return list(writer.steps(changes))


def told_of(operation: ZnodeOperation) -> tuple[str, str, int | None]:
    """Kind, path and version of an operation."""
    kind = type(operation).__name__
    return kind, operation.path, getattr(operation, "version", None)


# -- what each is


def test_topic_creation_writes_configs_then_topic_then_states() -> None:
    change = CreateTopic(replace(TOPIC, partitions=(STATE, UNBORN)), {"a": "1"})
    (step,) = steps_of(change, image=ClusterImage(""), versions=ZnodeVersions())
    assert [told_of(each)[:2] for each in step.operations] == [
        ("CheckVersion", "/controller_epoch"),
        ("Create", CONFIG_PATH),
        ("Create", TOPIC_PATH),
        ("Create", f"{TOPIC_PATH}/partitions"),
        ("Create", f"{TOPIC_PATH}/partitions/0"),
        ("Create", f"{TOPIC_PATH}/partitions/0/state"),
    ]
    contents = [each.data for each in step.operations[1:]]
    assert contents == [
        znodes.encode_configs({"a": "1"}),
        znodes.encode_topic(change.topic),
        None,
        None,
        znodes.encode_state(STATE),
    ]
    assert step.noted == [("t", 0), ((TOPIC_RESOURCE, "t"), 0)]
    assert step.completed == [change]


def test_topic_without_states_has_no_partitions_folder() -> None:
    change = CreateTopic(replace(TOPIC, partitions=(UNBORN,)))
    (step,) = steps_of(change, image=ClusterImage(""), versions=ZnodeVersions())
    assert [each.path for each in step.operations[1:]] == [CONFIG_PATH, TOPIC_PATH]


def test_topic_creation_overwrites_leftover_configs() -> None:
    versions = ZnodeVersions(configs={(TOPIC_RESOURCE, "t"): 6})
    (step,) = steps_of(CreateTopic(TOPIC), image=ClusterImage(""), versions=versions)
    assert told_of(step.operations[1]) == ("SetData", CONFIG_PATH, 6)
    assert step.noted == [("t", 0), ((TOPIC_RESOURCE, "t"), 7)]


def test_adding_partitions_writes_the_assignment_at_its_known_version() -> None:
    (step,) = steps_of(AddPartitions("t", TOPIC.id, 2, (STATE, UNBORN)))
    grown = replace(TOPIC, partitions=(STATE, STATE, STATE, UNBORN))
    fence, assigned, *born = step.operations
    assert fence == FENCE
    assert told_of(assigned) == ("SetData", TOPIC_PATH, 4)
    assert assigned.data == znodes.encode_topic(grown)
    assert [told_of(each)[:2] for each in born] == [
        ("Create", f"{TOPIC_PATH}/partitions/2"),
        ("Create", f"{TOPIC_PATH}/partitions/2/state"),
    ]
    assert step.noted == [("t", 5)]


def test_partition_state_is_written_at_its_partition_epoch() -> None:
    now = replace(STATE, partition_epoch=5)
    image = BASE.with_topics([replace(TOPIC, partitions=(STATE, now))])
    shrunk = replace(SHRUNK, partition_epoch=6)
    (step,) = steps_of(AlterPartition("t", TOPIC.id, 1, 5, shrunk), image=image)
    fence, written = step.operations
    assert fence == FENCE
    assert told_of(written) == ("SetData", f"{TOPIC_PATH}/partitions/1/state", 5)
    assert written.data == znodes.encode_state(SHRUNK)
    assert not step.noted


@pytest.mark.parametrize(
    "moved",
    [{"replicas": (2, 1)}, {"adding": (3,)}, {"removing": (2,)}],
)
def test_commit_writes_the_assignment_once_for_all_its_partitions(
    moved: dict[str, tuple[int, ...]],
) -> None:
    state = replace(SHRUNK, **moved)  # type: ignore[arg-type]  # replicas all of them
    other = replace(TOPIC, name="u", id=b"u" * 16)
    changes = [
        AlterPartition("t", TOPIC.id, 1, 0, state),
        AlterPartition("u", other.id, 0, 0, replace(state, leader=2)),
        AlterPartition("t", TOPIC.id, 0, 0, state),
    ]
    image = BASE.with_topics([other])
    versions = ZnodeVersions(topics={"t": 4, "u": 7})
    (step,) = steps_of(*changes, image=image, versions=versions)
    assert [told_of(each) for each in step.operations] == [
        ("CheckVersion", "/controller_epoch", 9),
        ("SetData", TOPIC_PATH, 4),
        ("SetData", f"{TOPIC_PATH}/partitions/1/state", 0),
        ("SetData", znodes.topic_path("u"), 7),
        ("SetData", znodes.state_path("u", 0), 0),
        ("SetData", f"{TOPIC_PATH}/partitions/0/state", 0),
    ]
    assert step.operations[1].data == znodes.encode_topic(replace(TOPIC, partitions=(state, state)))
    assert step.noted == [("t", 5), ("u", 8)]


def test_topic_marked_for_deletion_is_not_marked_again() -> None:
    mark = MarkForDeletion("t", TOPIC.id)
    (step,) = steps_of(mark)
    assert step.operations == [FENCE, a_session().create("/admin/delete_topics/t")]
    (step,) = steps_of(mark, image=BASE.with_deleting("t"))
    assert not step.operations
    assert step.completed == [mark]


def test_topic_deletion_removes_partitions_first_and_its_mark_last() -> None:
    image = BASE.with_topics([replace(TOPIC, partitions=(STATE, UNBORN))]).with_deleting("t")
    versions = ZnodeVersions(topics={"t": 4}, configs={(TOPIC_RESOURCE, "t"): 1})
    (step,) = steps_of(
        DeleteTopic("t", TOPIC.id),
        image=image,
        versions=versions,
        children={"t": ["2", "1", "0"]},
    )
    assert [told_of(each) for each in step.operations] == [
        ("CheckVersion", "/controller_epoch", 9),
        ("Delete", f"{TOPIC_PATH}/partitions/0/state", -1),
        ("Delete", f"{TOPIC_PATH}/partitions/0", -1),
        ("Delete", f"{TOPIC_PATH}/partitions/1", -1),
        ("Delete", f"{TOPIC_PATH}/partitions/2", -1),
        ("Delete", f"{TOPIC_PATH}/partitions", -1),
        ("Delete", TOPIC_PATH, -1),
        ("Delete", CONFIG_PATH, -1),
        ("Delete", "/admin/delete_topics/t", -1),
    ]
    assert step.noted == [((TOPIC_RESOURCE, "t"), None), ("t", None)]


def test_deletion_of_a_bare_topic_removes_its_znode_alone() -> None:
    (step,) = steps_of(DeleteTopic("t", TOPIC.id))
    assert step.operations == [FENCE, a_session().delete(TOPIC_PATH)]
    assert step.noted == [("t", None)]


def test_topic_created_and_deleted_in_one_commit_leaves_nothing() -> None:
    new = replace(TOPIC, name="u", id=b"u" * 16)
    steps = steps_of(CreateTopic(new, {"a": "1"}), DeleteTopic("u", new.id))
    made: set[str] = set()
    for each in [operation for step in steps for operation in step.operations]:
        if isinstance(each, Create):
            made.add(each.path)
        if isinstance(each, Delete):
            made.remove(each.path)
    assert not made
    assert [each for step in steps for each in step.noted][-1] == ("u", None)


def test_topic_configs_are_written_if_the_topic_exists_and_announced() -> None:
    change = SetConfigs(TOPIC_RESOURCE, "t", {}, {"a": "1"})
    (step,) = steps_of(change, leads=False)
    check, written, notice = step.operations
    assert told_of(check) == ("CheckVersion", TOPIC_PATH, -1)
    assert told_of(written)[:2] == ("Create", CONFIG_PATH)
    assert written.data == znodes.encode_configs({"a": "1"})
    assert (notice.path, notice.flags) == (znodes.CONFIG_CHANGE, 2)
    assert notice.data == znodes.encode_config_change((TOPIC_RESOURCE, "t"))


def test_broker_configs_are_written_one_after_another() -> None:
    changes = [
        SetConfigs(BROKER, "1", {}, {"a": "1"}),
        SetConfigs(BROKER, "1", {"a": "1"}, {}),
    ]
    (step,) = steps_of(*changes, leads=False)
    path = znodes.config_path((BROKER, "1"))
    written = [told_of(each) for each in step.operations if each.path == path]
    assert written == [("Create", path, None), ("SetData", path, 0)]
    assert step.noted == [((BROKER, "1"), 0), ((BROKER, "1"), 1)]
    assert len(step.operations) == 4


def test_acl_znode_is_created_changed_and_deleted_with_its_last_entry() -> None:
    path = acl_znodes.acl_path(PATTERN)
    (step,) = steps_of(
        ChangeAcls(PATTERN, (READ,)),
        ChangeAcls(PATTERN, (WRITE,)),
        ChangeAcls(PATTERN, (), (READ, WRITE)),
        ChangeAcls(PATTERN, (READ,)),
    )
    written = [each for each in step.operations if each.path == path]
    assert [told_of(each) for each in written] == [
        ("Create", path, None),
        ("SetData", path, 0),
        ("Delete", path, 1),
        ("Create", path, None),
    ]
    assert [acl_znodes.decode_acls(written[at].data) for at in (0, 1, 3)] == [
        {READ},
        {READ, WRITE},
        {READ},
    ]
    assert step.noted == [(PATTERN, 0), (PATTERN, 1), (PATTERN, None), (PATTERN, 0)]
    notices = [each for each in step.operations if each.path != path]
    assert [(each.path, each.data, each.flags) for each in notices] == [
        ("/kafka-acl-changes/acl_changes_", b"TOPIC:t", 2)
    ] * 4


@pytest.mark.parametrize(("epoch", "kind"), [(-1, "Create"), (0, "SetData"), (3, "SetData")])
def test_features_are_written_at_their_feature_epoch(epoch: int, kind: str) -> None:
    features = FinalizedFeatures({"f": 1}, {}, epoch + 1)
    image = BASE.with_features(FinalizedFeatures(agreed={}, epoch=epoch))
    (step,) = steps_of(SetFeatures(epoch, features), image=image)
    (written,) = step.operations
    assert told_of(written)[:2] == (kind, "/feature")
    assert written.data == znodes.encode_feature(features)
    if kind == "SetData":
        assert written.version == epoch


def test_change_that_a_commit_cannot_make_is_refused() -> None:
    with pytest.raises(AssertionError, match="a commit cannot make"):
        steps_of(object())  # type: ignore[arg-type]  # no change


# -- steps


def test_alternating_topic_and_config_changes_are_separate_steps_with_fences_for_topics() -> None:
    steps = steps_of(
        SetConfigs(BROKER, "1", {}, {"a": "1"}),
        AlterPartition("t", TOPIC.id, 0, 0, SHRUNK),
        AlterPartition("t", TOPIC.id, 1, 0, SHRUNK),
        SetConfigs(BROKER, "2", {}, {"a": "1"}),
        SetConfigs(BROKER, "3", {}, {"a": "1"}),
    )
    assert [len(step.completed) for step in steps] == [1, 2, 2]
    assert [FENCE in step.operations for step in steps] == [False, True, False]
    assert [step.operations.count(FENCE) for step in steps] == [0, 1, 0]
    assert steps[1].operations[0] == FENCE


@pytest.mark.parametrize("over", [0, 1])
def test_step_is_filled_up_to_its_size_limit(monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    """The size of an operation is its path, its content, and 120 bytes for the rest."""
    new = replace(TOPIC, partitions=(STATE,) * 3)
    (whole,) = steps_of(CreateTopic(new), image=ClusterImage(""), versions=ZnodeVersions())
    size_bytes = sum(len(each.path) + len(each.data or b"") + 120 for each in whole.operations[1:])
    assert whole.size_bytes == size_bytes
    monkeypatch.setattr(writing, "STEP_BYTES_MAX", size_bytes - over)
    steps = steps_of(CreateTopic(new), image=ClusterImage(""), versions=ZnodeVersions())
    assert len(steps) == 1 + over
    assert sum(len(step.operations) for step in steps) == len(whole.operations) + over
    assert all(step.operations[0] == FENCE for step in steps)
    assert [step.completed for step in steps][:-1] == [[]] * over
    assert steps[-1].completed == [CreateTopic(new)]
    assert sum(step.size_bytes for step in steps) == size_bytes


def test_topic_with_very_many_partitions_is_split_into_steps() -> None:
    assert STEP_BYTES_MAX == 262_144
    new = replace(TOPIC, partitions=(STATE,) * 3_000)
    steps = steps_of(CreateTopic(new), image=ClusterImage(""), versions=ZnodeVersions())
    assert len(steps) > 2
    assert all(step.size_bytes <= STEP_BYTES_MAX for step in steps)
    assert [each.path for each in steps[0].operations[1:4]] == [
        CONFIG_PATH,
        TOPIC_PATH,
        f"{TOPIC_PATH}/partitions",
    ]
    noted = [step.noted for step in steps]
    assert noted == [[("t", 0), ((TOPIC_RESOURCE, "t"), 0)], *([[]] * (len(steps) - 1))]


# -- what can be made


def test_written_changes_have_the_versions_of_their_znodes() -> None:
    far = replace(STATE, partition_epoch=9)
    made = as_written(CreateTopic(replace(TOPIC, partitions=(far, UNBORN))))
    assert isinstance(made, CreateTopic)
    assert [each.partition_epoch for each in made.topic.partitions] == [0, -1]
    added = as_written(AddPartitions("t", TOPIC.id, 2, (far, UNBORN)))
    assert isinstance(added, AddPartitions)
    assert [each.partition_epoch for each in added.partitions] == [0, -1]
    altered = as_written(AlterPartition("t", TOPIC.id, 0, 4, far))
    assert isinstance(altered, AlterPartition)
    assert altered.state.partition_epoch == 5
    agreed = as_written(SetFeatures(3, FinalizedFeatures(agreed={}, epoch=9)))
    assert isinstance(agreed, SetFeatures)
    assert agreed.features.epoch == 4
    mark = MarkForDeletion("t", TOPIC.id)
    assert as_written(mark) is mark


def test_other_brokers_set_configs_of_topics_not_in_their_image() -> None:
    change = SetConfigs(TOPIC_RESOURCE, "t", {}, {"a": "1"})
    image = applied(ClusterImage(""), [change], knows_topics=False)
    assert image.configs_of(TOPIC_RESOURCE, "t") == {"a": "1"}
    with pytest.raises(Conflict, match="the configs of 't' have changed"):
        applied(image, [change], knows_topics=False)
    with pytest.raises(Conflict):
        applied(ClusterImage(""), [change], knows_topics=True)


def test_possible_changes_end_before_the_first_conflict() -> None:
    first = AlterPartition("t", TOPIC.id, 0, 0, replace(SHRUNK, partition_epoch=7))
    same = AlterPartition("t", TOPIC.id, 1, 0, STATE)
    mark = MarkForDeletion("t", TOPIC.id)
    made, conflict = possible(BASE, [first, same, mark], knows_topics=True)
    assert made == [replace(first, state=SHRUNK)]
    assert conflict is not None, "a partition's epoch has to grow"
    made, conflict = possible(BASE, [first, mark], knows_topics=True)
    assert len(made) == 2
    assert conflict is None
    # Each is decided by those before it.
    second = AlterPartition("t", TOPIC.id, 0, 1, replace(SHRUNK, partition_epoch=2))
    assert possible(BASE, [first, second], knows_topics=True)[1] is None


def test_versions_are_noted_by_kind_of_key() -> None:
    versions = ZnodeVersions(topics={"t": 1}, configs={(BROKER, "1"): 2}, acls={PATTERN: 3})
    versions.note([("t", 5), ((BROKER, "1"), 6), (PATTERN, 7), ("u", 0)])
    assert versions.topics == {"t": 5, "u": 0}
    assert versions.configs == {(BROKER, "1"): 6}
    assert versions.acls == {PATTERN: 7}
    versions.note([("t", None), ((BROKER, "1"), None), (PATTERN, None), ("none", None)])
    assert versions == ZnodeVersions(topics={"u": 0})


# -- a commit of several


async def test_conflict_has_the_number_of_changes_made_before_it(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "STEP_BYTES_MAX", 1)
    names = ["a", "b", "c"]
    made = [CreateTopic(replace(TOPIC, name=name, id=name.encode() * 16)) for name in names]
    async with controlling(CreateTopic(TOPIC)) as store:
        same = AlterPartition("t", TOPIC.id, 1, 0, STATE)
        with pytest.raises(Conflict) as conflict:
            await store.commit([*made, same, MarkForDeletion("t", TOPIC.id)])
        assert conflict.value.made == 3
        assert set(store.image.topics) == {"a", "b", "c", "t"}
        assert not store.image.deleting
        ensemble.put(znodes.topic_path("e"), znodes.encode_topic(replace(TOPIC, name="e")))
        more = [
            CreateTopic(TopicImage(name, name.encode() * 16, (STATE,))) for name in ("d", "e", "f")
        ]
        with pytest.raises(Conflict) as conflict:
            await store.commit(more)
        assert conflict.value.made == 1
        assert "f" not in store.image.topics


async def test_repeated_writes_keep_the_noted_versions_right(
    ensemble: Ensemble,
) -> None:
    """With a wrong version ZooKeeper would refuse the write, and the store would read again."""
    async with controlling(CreateTopic(TOPIC, {"n": "0"})) as store:
        ensemble.writes.clear()
        for number in range(3):
            await store.commit([AddPartitions("t", TOPIC.id, 2 + number, (STATE,))])
            before, after = {"n": str(number)}, {"n": str(number + 1)}
            await store.commit([SetConfigs(TOPIC_RESOURCE, "t", before, after)])
            await store.commit([ChangeAcls(PATTERN, (READ,))])
            await store.commit([ChangeAcls(PATTERN, (WRITE,))])
            await store.commit([ChangeAcls(PATTERN, (), (READ, WRITE))])
            await store.commit([AlterPartition("t", TOPIC.id, 0, number, _moved(number))])
        assert len(ensemble.writes) == 18
        assert store.versions.topics["t"] == 6
        assert isinstance(ensemble.writes[0][1], SetData)


def _moved(number: int) -> PartitionImage:
    """Changes that reverse the replicas again and again."""
    replicas = (2, 1) if number % 2 == 0 else (1, 2)
    return replace(STATE, replicas=replicas, partition_epoch=number + 1)
