"""Cases of StreamsGroupHeartbeat: joining with a topology, tasks, fencing, leaving."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kwire.conformance.access.requests import GROUP, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.consumer_group import join as join_consumer_group
from kwire.conformance.wire.cases.streams_group import (
    configure,
    copying,
    counting,
    heartbeat,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.STREAMS_GROUP_HEARTBEAT)


def access_request(version: int, topic_id: bytes) -> StreamsGroupHeartbeatRequest:
    """Return a member's first heartbeat with a topology that reads one topic."""
    return StreamsGroupHeartbeatRequest(
        GROUP,
        "member",
        0,
        rebalance_timeout_ms=1000,
        topology=Topology(0, [Subtopology("0", [TOPIC])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )


@case("tasks that move to another member")
def moving(stage: Stage) -> None:
    """A task goes to the second member only after the first member has released it.

    Heartbeats are repeated in the meantime, and sent by a member that has left.
    """
    topic, group = stage.topic(partitions=2), new_group(stage)
    topology = copying(topic)
    response = stage.send(join(group, "first", topology))
    stage.send(heartbeat(group, "first", response.member_epoch, ("0", [0, 1])))
    response = stage.send(join(group, "second", topology))
    stage.send(heartbeat(group, "first", 2, ("0", [0, 1])))
    stage.send(heartbeat(group, "first", 2, ("0", [0, 1])))
    stage.send(heartbeat(group, "second", response.member_epoch))
    stage.send(heartbeat(group, "first", 2, active_tasks=None, standby_tasks=None,
                         warmup_tasks=None))  # fmt: skip
    stage.send(heartbeat(group, "first", 2, ("0", [0])))
    stage.send(heartbeat(group, "first", 2, ("0", [1])))
    stage.send(heartbeat(group, "second", 3))
    stage.send(heartbeat(group, "second", 3))
    stage.send(heartbeat(group, "second", -1))
    stage.send(heartbeat(group, "second", -1))
    stage.send(heartbeat(group, "first", 3, ("0", [0])))
    stage.send(heartbeat(group, "first", 4, ("0", [0])))


@case("internal topics that are made")
def internal_topics(stage: Stage) -> None:
    """The broker creates the internal topics of a topology, then assigns the tasks."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    request = join(group, "m", counting(stage, topic))
    stage.send(request)
    epoch = join_until_assigned(stage, request)
    stage.send(heartbeat(group, "m", epoch, ("0", [0, 1]), ("1", [0, 1])))
    stage.send(join(group, "m", counting(stage, topic)))


@case("standbys")
def standbys(stage: Stage) -> None:
    """A member gets a standby task once the group is configured to have one replica.

    The heartbeats are repeated because the new assignment takes more than one.
    """
    topic, group = stage.topic(partitions=1), new_group(stage)
    topology = counting(stage, topic)
    join_until_assigned(stage, join(group, "first", topology))
    response = stage.send(join(group, "second", topology))
    configure(stage, group, **{"streams.num.standby.replicas": "1"})
    response = stage.send(heartbeat(group, "second", response.member_epoch))
    for _ in range(3):
        response = stage.send(heartbeat(group, "second", response.member_epoch))


@case("source topics that are missing, and come")
def missing_source_topics(stage: Stage) -> None:
    """A member waits while source topics are missing, and gets its tasks after their creation."""
    group, name = new_group(stage), stage.name("t")
    response = stage.send(join(group, "m", copying(name, "a-gone", "b-gone", "c-gone")))
    stage.send(heartbeat(group, "m", response.member_epoch))
    other = new_group(stage, "h")
    response = stage.send(join(other, "m", copying(name)))
    stage.topic()
    stage.await_cluster_changes()
    stage.send(heartbeat(other, "m", response.member_epoch))


@case("a source topic that grows")
def growing(stage: Stage) -> None:
    """A source topic is deleted while a member has its task; the member's next heartbeats show
    it."""
    topic, group = stage.topic(partitions=1), new_group(stage)
    response = stage.send(join(group, "m", copying(topic)))
    stage.delete_and_wait(topic)
    stage.await_cluster_changes()
    stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0])))
    stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0])))
    stage.send(heartbeat(group, "m", response.member_epoch))


@case("topics that cannot be joined")
def copartitioning(stage: Stage) -> None:
    """Topics that must have equal numbers of partitions do not: two sources, and a changelog."""
    first, second = stage.topic("one", 1), stage.topic("two", 2)
    topology = copying(first, second)
    topology.subtopologies[0].copartition_groups = [CopartitionGroup([0, 1])]
    stage.send(join(new_group(stage), "m", topology))
    changelog = stage.topic("log", 3)
    topology = copying(first)
    topology.subtopologies[0].state_changelog_topics = [TopicInfo(changelog.name)]
    stage.send(join(new_group(stage, "h"), "m", topology))


@case("topologies that make no sense")
def senseless(stage: Stage) -> None:
    """Topologies with a loop, without sources, with internal or invalid topic names, or with a
    pattern. Each is sent in the first heartbeat of a member."""
    topic, group = stage.topic(), new_group(stage)
    r = [TopicInfo("r")]
    loop = Subtopology("0", repartition_sink_topics=["r"], repartition_source_topics=r)
    stage.send(join(group, "m", Topology(0, [loop])))
    unfed = copying(topic)
    unfed.subtopologies[0].repartition_source_topics = r
    stage.send(join(group, "m", unfed))
    idle = Subtopology("0", state_changelog_topics=[TopicInfo("c")])
    stage.send(join(group, "m", Topology(0, [idle])))
    counted = copying(topic)
    counted.subtopologies[0].state_changelog_topics = [TopicInfo("c", 3)]
    stage.send(join(group, "m", counted))
    stage.send(join(group, "m", copying("__consumer_offsets", topic, "__transaction_state")))
    stage.send(join(group, "m", copying("a b", topic, "c/d")))
    pattern = copying(topic)
    pattern.subtopologies[0].source_topic_regex = ["t.*"]
    stage.send(join(group, "m", pattern))


@case("topologies that differ")
def topologies(stage: Stage) -> None:
    """Members join with other topologies: another one in the same epoch, a newer and an older
    epoch."""
    topic, group = stage.topic(), new_group(stage)
    stage.send(join(group, "first", copying(topic, epoch=1)))
    stage.send(join(group, "other", copying(topic, "gone", epoch=1)))
    stage.send(join(group, "newer", copying(topic, epoch=2)))
    response = stage.send(join(group, "older", copying("gone", epoch=0)))
    stage.send(heartbeat(group, "older", response.member_epoch))


@case("the first assignment, which waits")
def delayed(stage: Stage) -> None:
    """Members of a group that delays its first assignment (by 10 minutes) get no tasks."""
    group, topic = stage.name("g"), stage.topic()
    configure(stage, group, **{"streams.initial.rebalance.delay.ms": "600000"})
    response = stage.send(join(group, "first", copying(topic)))
    stage.send(heartbeat(group, "first", response.member_epoch))
    stage.send(join(group, "second", copying(topic)))


@case("assignments that are some time apart")
def apart(stage: Stage) -> None:
    """The second member gets its tasks only when the assignment interval, 15 s, has passed.

    The heartbeats within that time show the first assignment.
    """
    group, topic = stage.name("g"), stage.topic(partitions=2)
    configure(
        stage,
        group,
        **{"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "15000"},
    )
    response = stage.send(join(group, "first", copying(topic)))
    stage.send(join(group, "second", copying(topic)))
    stage.send(heartbeat(group, "first", response.member_epoch, ("0", [0, 1])))


@case("epochs that are not the member's")
def epochs(stage: Stage) -> None:
    """Heartbeats with epochs that are old, ahead, invalid or of no member.

    The topic does not exist, so that there are no tasks.
    """
    group = new_group(stage)
    stage.ask(join(group, "m", copying("gone")))
    stage.ask(join(group, "other", copying("gone")))
    for epoch in (2, 3, 1, 9, -2):
        stage.send(heartbeat(group, "m", epoch))
    stage.send(heartbeat(group, "m", 2, ("0", [0])))
    stage.send(heartbeat(group, "nobody", 2))


@case("tasks that cannot be")
def wrong_tasks(stage: Stage) -> None:
    """A member reports tasks that do not exist, or only a part of its three lists of tasks."""
    topic, group = stage.topic(), new_group(stage)
    response = stage.send(join(group, "m", copying(topic)))
    stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0, 7])))
    stage.send(heartbeat(group, "m", response.member_epoch, ("9", [0])))
    stage.send(heartbeat(group, "m", response.member_epoch, ("0", [-1])))
    standby = [TaskIds("0", [3])]
    stage.send(heartbeat(group, "m", response.member_epoch, standby_tasks=standby))
    stage.send(heartbeat(group, "m", response.member_epoch, warmup_tasks=[TaskIds("0", [0])]))
    stage.send(heartbeat(group, "m", response.member_epoch, standby_tasks=None))


@case("what a member says of itself")
def metadata(stage: Stage) -> None:
    """A member changes its client tags, rack and process id, one after the other."""
    topic, group = stage.topic(), new_group(stage)
    response = stage.send(join(group, "m", copying(topic)))
    tags = [KeyValue("zone", "a"), KeyValue("cluster", "b")]
    response = stage.send(
        heartbeat(group, "m", response.member_epoch, ("0", [0]), client_tags=tags)
    )
    response = stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0]), rack_id="r"))
    response = stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0]), process_id="p"))
    stage.send(heartbeat(group, "m", response.member_epoch, ("0", [0]), process_id="p"))


@case("endpoints")
def endpoints(stage: Stage) -> None:
    """Members report their endpoints for interactive queries and get those of the others.

    A member that names the current endpoint epoch gets no list.
    """
    topic, group = stage.topic(partitions=2), new_group(stage)
    first = stage.send(join(group, "first", copying(topic), user_endpoint=Endpoint("h", 1)))
    stage.send(
        heartbeat(
            group,
            "first",
            first.member_epoch,
            ("0", [0, 1]),
            endpoint_information_epoch=first.endpoint_information_epoch,
        )
    )
    second = stage.send(
        join(
            group,
            "second",
            copying(topic),
            user_endpoint=Endpoint("i", 2),
            endpoint_information_epoch=-1,
        )
    )
    epoch = second.endpoint_information_epoch
    stage.send(heartbeat(group, "first", 2, ("0", [0, 1]), endpoint_information_epoch=epoch))
    stage.send(heartbeat(group, "first", 2, ("0", [0]), endpoint_information_epoch=epoch))


@case("members of one process, with the same endpoint")
def one_endpoint(stage: Stage) -> None:
    """Two members have the same endpoint, and one moves to another and takes its endpoint away."""
    topic, narrow, group = stage.topic("t", 3), stage.topic("n", 1), new_group(stage)
    topology, endpoint = copying(topic, narrow), Endpoint("h", 1)
    process = "p"
    for member in ("first", "second"):
        stage.send(join(group, member, topology, user_endpoint=endpoint, process_id=process))
    stage.send(heartbeat(group, "first", 2, ("0", [0, 1, 2]), endpoint_information_epoch=-1))
    stage.send(heartbeat(group, "first", 2, ("0", [0, 1]), endpoint_information_epoch=-1))
    stage.send(heartbeat(group, "second", 3, endpoint_information_epoch=-1))
    moved = Endpoint("i", 2)
    stage.send(heartbeat(group, "second", 3, user_endpoint=moved, endpoint_information_epoch=-1))
    stage.send(join(group, "second", topology, process_id=process, endpoint_information_epoch=-1))


@case("client tags that the group is spread over")
def rack_aware(stage: Stage) -> None:
    """Members with all, some and none of the tags of the group's setting, which then changes."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    configure(stage, group, **{"streams.rack.aware.assignment.tags": "zone, rack"})
    zone, rack = KeyValue("zone", "a"), KeyValue("rack", "b")
    stage.send(join(group, "all", copying(topic), client_tags=[zone, rack]))
    stage.send(join(group, "some", copying(topic), client_tags=[zone]))
    stage.send(join(group, "none", copying(topic)))
    configure(stage, group, **{"streams.rack.aware.assignment.tags": "zone"})
    stage.send(heartbeat(group, "none", 3))
    stage.send(heartbeat(group, "some", 3))


@case("what the group's settings say to members")
def settings(stage: Stage) -> None:
    topic, group = stage.topic(), new_group(stage)
    values = {"streams.task.offset.interval.ms": "20000", "streams.acceptable.recovery.lag": "7"}
    configure(stage, group, **values)
    stage.send(join(group, "m", copying(topic)))


@case("offsets of tasks that a member reports")
def task_offsets(stage: Stage) -> None:
    """A member reports offsets, none, a part of them, and those of a task twice."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    epoch = stage.send(join(group, "m", copying(topic))).member_epoch
    one, other = TaskOffset("0", 1, 5), TaskOffset("0", 0, 7)
    request = StreamsGroupDescribeRequest([group])
    for offsets, end_offsets in (
        ([one, other], [one]),
        (None, None),
        (None, []),
        ([one, one], None),
        ([TaskOffset("9", 9, 9)], None),
    ):
        reporting = heartbeat(group, "m", epoch, ("0", [0, 1]))
        reporting.task_offsets, reporting.task_end_offsets = offsets, end_offsets
        stage.send(reporting)
        stage.send(request)


@case("standbys that take over")
def takeover(stage: Stage) -> None:
    """The member with an active task leaves, and the one with its standby gets it."""
    topic, group = stage.topic(partitions=1), new_group(stage)
    configure(stage, group, **{"streams.num.standby.replicas": "1"})
    topology = counting(stage, topic)
    epoch = join_until_assigned(stage, join(group, "first", topology))
    response = stage.ask(join(group, "second", topology))
    for _ in range(2):
        response = stage.ask(heartbeat(group, "second", response.member_epoch))
    owned = ("0", [0]), ("1", [0])
    for _ in range(2):
        response = stage.send(heartbeat(group, "first", epoch + 1, *owned))
    stage.send(heartbeat(group, "first", -1))
    response = stage.send(join(group, "second", topology))
    for _ in range(2):
        response = stage.send(heartbeat(group, "second", response.member_epoch))
    response = stage.send(join(group, "first", topology))
    for _ in range(2):
        response = stage.send(heartbeat(group, "first", response.member_epoch))
        stage.send(StreamsGroupDescribeRequest([group]))


@case("static members")
def static(stage: Stage) -> None:
    """A static member leaves for a while, and comes back with another id."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    topology, request = copying(topic), StreamsGroupDescribeRequest([group])
    stage.send(join(group, "first", topology, instance_id="i"))
    stage.send(join(group, "second", topology, instance_id="j"))
    stage.send(heartbeat(group, "first", 2, ("0", [0]), instance_id="i"))
    stage.send(heartbeat(group, "first", 2, instance_id="unknown"))
    stage.send(heartbeat(group, "second", 2, instance_id="j"))
    stage.send(heartbeat(group, "first", -2, instance_id="i"))
    stage.send(request)
    stage.send(heartbeat(group, "first", 2, instance_id="i"))
    back = stage.send(join(group, "back", topology, instance_id="i"))
    stage.send(request)
    stage.send(heartbeat(group, "back", back.member_epoch, ("0", [0]), instance_id="i"))
    stage.send(heartbeat(group, "back", -1, instance_id="i"))
    stage.send(heartbeat(group, "second", -1))
    stage.send(request)


@case("others in the place of a static member")
def other_instances(stage: Stage) -> None:
    """Members that are not away, or not the same, send an instance id in each kind of heartbeat.

    The member itself sends nothing after them: in Apache Kafka it has lost its tasks by then.
    """
    topic, group = stage.topic(), new_group(stage)
    stage.send(join(group, "first", copying(topic), instance_id="i"))
    stage.send(join(group, "other", copying(topic), instance_id="i"))
    for epoch in (2, -1, -2):
        stage.send(heartbeat(group, "other", epoch, instance_id="i"))
    stage.send(StreamsGroupDescribeRequest([group]))


@case("the last member, which leaves")
def emptied(stage: Stage) -> None:
    topic, group = stage.topic(), new_group(stage)
    request = StreamsGroupDescribeRequest([group])
    for member in ("first", "second"):
        stage.ask(join(group, member, copying(topic)))
    for member in ("first", "second"):
        stage.send(heartbeat(group, member, -1))
        stage.send(request)
    stage.send(join(group, "third", copying(topic)))


@case("a shutdown of the application")
def shutdown(stage: Stage) -> None:
    """A member asks for the shutdown of the application; the others are told to shut down.

    The request is forgotten once the group is empty.
    """
    topic, group = stage.topic(), new_group(stage)
    response = stage.send(join(group, "first", copying(topic)))
    stage.send(join(group, "second", copying(topic)))
    owned = "0", [0]
    epoch = response.member_epoch
    stage.send(heartbeat(group, "first", epoch, owned, shutdown_application=True))
    stage.send(heartbeat(group, "first", -1))
    stage.send(join(group, "second", copying(topic)))
    stage.send(heartbeat(group, "second", -1))
    stage.send(join(group, "third", copying(topic)))


@case("a shutdown by who leaves")
def leaving(stage: Stage) -> None:
    """A member that leaves asks for the shutdown of the application; another one joins then."""
    group = new_group(stage)
    stage.send(join(group, "m", copying("gone")))
    stage.send(heartbeat(group, "m", -1, shutdown_application=True))
    stage.send(join(group, "n", copying("gone")))


@case("a group of another kind")
def classic(stage: Stage) -> None:
    """A streams member joins a classic group and a consumer group, which do not allow it."""
    group = stage.name("g")
    create_stable_group(stage, group)
    stage.send(join(group, "m", copying("t")))
    stage.send(heartbeat(group, "m", 2))
    stage.send(heartbeat(group, "m", -1))
    consumer = stage.name("h")
    stage.ask(join_consumer_group(consumer, "m", "t"))
    stage.send(join(consumer, "m", copying("t")))


case.requests(
    {
        "a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", 2),
        "leaving a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", -1),
        "the empty group": lambda stage: join("", "m", copying("t")),
        "no member id": lambda stage: join(stage.name("g"), "", copying("t")),
        "an empty rack": lambda stage: join(stage.name("g"), "m", copying("t"), rack_id=""),
        "an instance id": lambda stage: join(stage.name("g"), "m", copying("t"), instance_id="i"),
        "no topology": lambda stage: join(stage.name("g"), "m", None),
        "a topology later": lambda stage: heartbeat(stage.name("g"), "m", 2, topology=copying("t")),
        "no rebalance timeout": lambda stage: join(
            stage.name("g"), "m", copying("t"), rebalance_timeout_ms=-1
        ),
        "tasks at once": lambda stage: join(
            stage.name("g"), "m", copying("t"), active_tasks=[TaskIds("0", [0])]
        ),
        "no tasks named": lambda stage: join(
            stage.name("g"), "m", copying("t"), standby_tasks=None
        ),
        "offsets of tasks": lambda stage: join(
            stage.name("g"), "m", copying("t"), task_offsets=[TaskOffset("0", 0, 0)]
        ),
        "end offsets of tasks": lambda stage: join(
            stage.name("g"), "m", copying("t"), task_end_offsets=[]
        ),
        "an epoch of -2": lambda stage: heartbeat(stage.name("g"), "m", -2),
        "an epoch of -3": lambda stage: heartbeat(stage.name("g"), "m", -3),
        "a topology of nothing": lambda stage: join(stage.name("g"), "m", Topology(0, [])),
    }
)
