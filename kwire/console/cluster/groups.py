"""Groups of all four kinds: the list, and one group with its members and its progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import ClientError
from kwire.client.groups import (
    SHARE,
    STREAMS,
    GroupDescription,
    Member,
    Subtopology,
    Tasks,
    describe_group,
)
from kwire.client.inspection.many_groups import (
    CLASSIC,
    CONSUMER,
    GroupPosition,
    GroupPositions,
    Listed,
    describe_groups,
    known_end_offsets,
    listed_groups,
    positions_of,
    with_lag,
)
from kwire.client.inspection.share_states import KeptShareState, RecordRange, share_states
from kwire.client.offsets import EARLIEST

TYPES: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)
TYPE_WORDS: Final[Mapping[str, str]] = {
    CLASSIC: "classic protocol: the members elect a leader, which assigns the partitions",
    CONSUMER: "consumer protocol (KIP-848): the coordinator assigns the partitions",
    SHARE: "share group (KIP-932): members share partitions and acknowledge single records",
    STREAMS: "streams group (KIP-1071): the coordinator assigns tasks of a topology",
}


@dataclass(frozen=True, slots=True)
class ListedGroupRow:
    """A group in the list.  None stands for what is unknown."""

    group_id: str
    type: str
    state: str
    coordinator_id: int
    members: int | None
    lag: int | None
    topics: Sequence[str]
    trouble: str | None = None
    """Why the group could not be described."""


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """All groups, and the brokers that did not tell theirs."""

    groups: Sequence[Listed]
    troubles: Mapping[int, str] = field(default_factory=dict)

    def count(self, group_type: str) -> int:
        """How many groups have this type."""
        return sum(group.type == group_type for group in self.groups)


def list_groups(cluster: Cluster) -> GroupsPage:
    """All groups of the cluster, sorted by id.  Raises ClientError if no broker answers."""
    found = listed_groups(cluster)
    return GroupsPage(found.groups, {node: str(error) for node, error in found.troubles.items()})


def group_rows(cluster: Cluster, groups: Sequence[Listed]) -> list[ListedGroupRow]:
    """The rows of some groups, such as those of one page, with members and lag."""
    descriptions = describe_groups(cluster, groups)
    offsets = positions_of(cluster, groups)
    positions = {name: each for name, each in offsets.items() if isinstance(each, dict)}
    partitions = {partition for own in positions.values() for partition in own}
    if partitions:
        cluster.retrying(lambda: cluster.refresh({each.topic for each in partitions}))
    ends = known_end_offsets(cluster, partitions)
    return [
        _row(listed, descriptions.get(listed.group_id), offsets.get(listed.group_id), ends)
        for listed in groups
    ]


def _row(
    listed: Listed,
    description: GroupDescription | ClientError | None,
    positions: GroupPositions | ClientError | None,
    ends: Mapping[TopicPartition, int],
) -> ListedGroupRow:
    trouble = next((str(e) for e in (description, positions) if isinstance(e, ClientError)), None)
    members, state = None, listed.state
    topics: set[str] = set()
    if isinstance(description, GroupDescription):
        members, state = len(description.members), description.state
        topics |= {each.topic for member in description.members for each in member.assignment}
    lag = None
    if isinstance(positions, dict):
        lag = total_lag(with_lag(positions, ends))
        topics |= {each.topic for each in positions}
    return ListedGroupRow(
        listed.group_id,
        listed.type,
        state,
        listed.coordinator_id,
        members,
        lag,
        sorted(topics),
        trouble,
    )


def total_lag(positions: Mapping[TopicPartition, GroupPosition]) -> int | None:
    """The lag of all partitions together, as far as it is known; None if it is for none."""
    known = [each.lag for each in positions.values() if each.lag is not None]
    return sum(known) if known else None


# -- one group


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """The progress of a group in one partition."""

    partition: TopicPartition
    offset: int | None
    """The committed offset, or the start offset of a share group."""
    start_offset: int | None
    """The offset of the first record of the log."""
    end_offset: int | None
    lag: int | None
    members: Sequence[str]
    """Ids of the members that read the partition."""
    share: KeptShareState | None = None

    @property
    def lost(self) -> int:
        """Records that were deleted before the group read them."""
        if self.offset is None or self.start_offset is None:
            return 0
        return max(0, self.start_offset - self.offset)

    @property
    def delivered(self) -> Sequence[RecordRange]:
        """The records of a share group that were delivered and are not finished."""
        return () if self.share is None else self.share.ranges


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member, its assignment, and what still changes in it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    protocol: str
    epoch: int | None
    assignment: Sequence[TopicPartition]
    adding: Sequence[TopicPartition]
    """Partitions of the target assignment that the member has not got yet."""
    revoking: Sequence[TopicPartition]
    """Partitions that the member has, and is to give up."""
    tasks: Tasks | None = None

    @property
    def by_topic(self) -> Mapping[str, Sequence[int]]:
        """The assigned partitions by topic."""
        return partitions_by_topic(self.assignment)


@dataclass(frozen=True, slots=True)
class GroupPage:
    """One group with everything that its page shows."""

    group_id: str
    type: str
    state: str
    assignor: str
    coordinator_id: int
    epoch: int | None
    assignment_epoch: int | None
    members: Sequence[MemberRow]
    partitions: Sequence[PartitionRow]
    subtopologies: Sequence[Subtopology]
    notes: Sequence[str]
    """What an operator should know of the group's state."""
    share_trouble: str | None = None
    """Why the states of a share group's records are unknown."""

    @property
    def lag(self) -> int | None:
        known = [row.lag for row in self.partitions if row.lag is not None]
        return sum(known) if known else None

    @property
    def topics(self) -> Sequence[str]:
        return sorted({row.partition.topic for row in self.partitions})

    @property
    def client_ids(self) -> Mapping[str, str]:
        """The client id of each member, by member id."""
        return {member.member_id: member.client_id for member in self.members}

    @property
    def type_words(self) -> str:
        return TYPE_WORDS.get(self.type, self.type)


def describe(cluster: Cluster, group_id: str) -> GroupPage:
    """A group of any type.  Raises ClientError, with GROUP_ID_NOT_FOUND if it does not exist."""
    group = describe_group(cluster, group_id)
    listed = Listed(group_id, group.type, group.state, "", group.coordinator_id)
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for partition in member.assignment:
            readers.setdefault(partition, []).append(member.member_id)
    positions = positions_of(cluster, [listed])[group_id]
    if isinstance(positions, ClientError):
        raise positions
    if names := {each.topic for each in (*positions, *readers)}:
        cluster.retrying(lambda: cluster.refresh(names))
    existing = {*positions, *(each for each in readers if _exists(cluster, each))}
    positions = {each: positions.get(each, GroupPosition(None)) for each in existing}
    ends = known_end_offsets(cluster, existing)
    starts = known_end_offsets(cluster, existing, timestamp=EARLIEST)
    states, share_trouble = _states(cluster, group, existing)
    rows = [
        PartitionRow(
            place,
            position.offset,
            starts.get(place),
            position.end_offset,
            position.lag,
            sorted(readers.get(place, ())),
            states.get(place),
        )
        for place, position in sorted(with_lag(positions, ends).items())
    ]
    members = [_member(member) for member in sorted(group.members, key=_client_order)]
    return GroupPage(
        group_id,
        group.type,
        group.state,
        group.assignor,
        group.coordinator_id,
        group.epoch,
        group.assignment_epoch,
        members,
        rows,
        group.subtopologies,
        notes_on(group, members, rows),
        share_trouble,
    )


def _client_order(member: Member) -> tuple[str, str]:
    return member.client_id, member.member_id


def _exists(cluster: Cluster, partition: TopicPartition) -> bool:
    """Whether the partition exists.  A task of a streams group may name one that does not."""
    topic = cluster.topics.get(partition.topic)
    return topic is not None and partition.partition < len(topic.partitions)


def _states(
    cluster: Cluster, group: GroupDescription, partitions: Iterable[TopicPartition]
) -> tuple[Mapping[TopicPartition, KeptShareState], str | None]:
    """The states of the records of a share group, or why they are unknown."""
    if group.type != SHARE:
        return {}, None
    try:
        return share_states(cluster, group.group_id, partitions), None
    except ClientError as error:  # a client needs the right CLUSTER_ACTION
        return {}, str(error)


def _member(member: Member) -> MemberRow:
    has, target = set(member.assignment), member.target
    return MemberRow(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.protocol,
        member.epoch,
        sorted(has),
        sorted(set(target) - has) if target is not None else (),
        sorted(has - set(target)) if target is not None else (),
        member.tasks,
    )


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


STATE_WORDS: Final[Mapping[str, str]] = {
    "PreparingRebalance": "The group waits for its members to join again; no member reads now.",
    "CompletingRebalance": "The members wait for the assignment of their leader.",
    "Assigning": "The coordinator computes a new target assignment.",
    "Reconciling": "Members give up and take over partitions, to reach the target assignment.",
    "NotReady": "The group cannot assign tasks: a topic of its topology is missing or differs.",
    "Dead": "The group has no members and no offsets.",
}
"""What states mean, other than Stable and Empty."""


def notes_on(
    group: GroupDescription, members: Sequence[MemberRow], rows: Sequence[PartitionRow]
) -> list[str]:
    """What an operator should know: what the group waits for, and who reads nothing."""
    notes = [STATE_WORDS[group.state]] if group.state in STATE_WORDS else []
    if (
        group.epoch is not None
        and group.assignment_epoch is not None
        and group.assignment_epoch < group.epoch
    ):
        notes.append(
            f"The target assignment is of epoch {group.assignment_epoch}; the group is at epoch"
            f" {group.epoch}."
        )
    behind = [
        member
        for member in members
        if member.epoch is not None
        and group.assignment_epoch is not None
        and member.epoch < group.assignment_epoch
    ]
    if behind:
        notes.append(
            f"{len(behind)} of {len(members)} members have not reached the target assignment:"
            f" {_some([member.client_id or member.member_id for member in behind])}."
        )
    idle = [member for member in members if not member.assignment and not _has_tasks(member)]
    if idle and group.state == "Stable":
        notes.append(
            f"{len(idle)} of {len(members)} members have nothing to read: there are more members"
            " than partitions, or they subscribe to topics that do not exist."
        )
    unread = [row for row in rows if row.lag and not row.members]
    if unread and members:
        notes.append(
            f"No member reads {_some([str(row.partition) for row in unread])}, where the group has"
            " lag."
        )
    elif unread:
        notes.append("The group has lag and no members: nobody reads.")
    lost = [row for row in rows if row.lost]
    if lost:
        notes.append(
            f"Records of {_some([str(row.partition) for row in lost])} were deleted before the"
            " group read them (retention)."
        )
    gone = [row for row in rows if row.end_offset is None]
    if gone:
        notes.append(
            f"{_some([str(row.partition) for row in gone])}: deleted, or without a leader now."
        )
    return notes


def _has_tasks(member: MemberRow) -> bool:
    tasks = member.tasks
    return tasks is not None and bool(tasks.active or tasks.standby or tasks.warmup)


SHOWN_MAX: Final = 5


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many there are beyond."""
    shown = ", ".join(names[:SHOWN_MAX])
    return shown if len(names) <= SHOWN_MAX else f"{shown} and {len(names) - SHOWN_MAX} more"
