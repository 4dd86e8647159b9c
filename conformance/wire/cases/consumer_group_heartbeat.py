"""Cases of ConsumerGroupHeartbeat: joining, reconciling, fencing, leaving, static members,
subscriptions by pattern."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.conformance.access.requests import GROUP, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import migration
from kwire.conformance.wire.cases.build import commit, create_empty_group, filled_topic
from kwire.conformance.wire.cases.consumer_group import (
    heartbeat,
    join,
    new_group,
    owning,
    start_handover,
    until_assigned,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.CONSUMER_GROUP_HEARTBEAT)


def access_request(version: int, topic_id: bytes) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(GROUP, "member", 1, subscribed_topic_names=[TOPIC])


case.include(migration.case)


@case("one member")
def alone(stage: Stage) -> None:
    """The only member joins, confirms its partitions, sends a full heartbeat, rejoins and leaves.

    Two heartbeats follow from the member that has left.
    """
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.send(join(group, "m", topic))
    stage.send(heartbeat(group, "m", 2, owning(topic, 0, 1, 2)))
    stage.send(heartbeat(group, "m", 2, topic_partitions=None))
    whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic.name]}
    stage.send(heartbeat(group, "m", 2, owning(topic, 0, 1, 2), **whole))
    stage.send(join(group, "m", topic))
    stage.send(heartbeat(group, "m", -1))
    stage.send(heartbeat(group, "m", -1))
    stage.send(heartbeat(group, "m", 2))


@case("epochs that are not the member's")
def epochs(stage: Stage) -> None:
    """Heartbeats with an epoch that is ahead, old or of no member are refused or tolerated.

    The previous epoch is accepted if the partitions are still those of that epoch.
    """
    topic, group = stage.topic(partitions=2), new_group(stage)
    stage.ask(join(group, "m", topic))
    for epoch in (3, 5):
        stage.send(heartbeat(group, "m", epoch, owning(topic, 0, 1)))
    stage.ask(join(group, "other", topic))
    stage.ask(heartbeat(group, "m", 2, owning(topic, 0)))
    stage.send(heartbeat(group, "m", 2, owning(topic, 0)))
    stage.send(heartbeat(group, "m", 2, owning(topic, 0, 1)))
    stage.send(heartbeat(group, "m", 2, topic_partitions=None))
    stage.send(heartbeat(group, "nobody", 2))


@case("partitions that go from one member to another")
def reconciling(stage: Stage) -> None:
    """A partition goes to the second member only after the first member has released it."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.send(join(group, "first", topic))
    stage.send(join(group, "second", topic))
    stage.send(heartbeat(group, "second", 3))
    stage.send(heartbeat(group, "first", 2, owning(topic, 0, 1, 2)))
    stage.send(heartbeat(group, "first", 2, topic_partitions=None))
    stage.send(heartbeat(group, "second", 3))
    stage.send(heartbeat(group, "first", 2, owning(topic, 0)))
    stage.send(heartbeat(group, "first", 2, owning(topic)))
    stage.send(heartbeat(group, "second", 3))
    stage.send(heartbeat(group, "second", -1))
    stage.send(heartbeat(group, "first", 3))


@case("a member that leaves while it is to give up")
def leaving_in_between(stage: Stage) -> None:
    """A member leaves before it has released its partitions; the other one gets them."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    start_handover(stage, group, topic)
    stage.send(heartbeat(group, "first", -1))
    stage.send(heartbeat(group, "second", 3))


@case("other topics than before")
def subscriptions(stage: Stage) -> None:
    """The assignment follows the subscribed topics, including a missing topic and no topic."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    other = stage.topic("other", 1)
    stage.send(join(group, "m", topic, "gone"))
    names = [topic.name, other.name]
    stage.send(heartbeat(group, "m", 2, owning(topic, 0, 1), subscribed_topic_names=names))
    names = [other.name]
    stage.send(heartbeat(group, "m", 3, owning(topic, 0, 1), subscribed_topic_names=names))
    stage.send(heartbeat(group, "m", 3, owning(other, 0)))
    stage.send(heartbeat(group, "m", 4, owning(other, 0), subscribed_topic_names=[]))
    stage.send(heartbeat(group, "m", 4))


@case("members with different topics and an assignor of their own")
def different(stage: Stage) -> None:
    """Members with different topics get their partitions from the assignor that most of them
    want."""
    one, two, group = stage.topic("one", 4), stage.topic("two", 2), new_group(stage)
    stage.send(join(group, "a", one, two, server_assignor="range"))
    stage.send(join(group, "b", two, server_assignor="range"))
    stage.send(join(group, "c", one, server_assignor="uniform"))
    stage.send(heartbeat(group, "a", 2))
    stage.send(heartbeat(group, "b", 3))
    stage.send(heartbeat(group, "c", 4))


@case("static members")
def static(stage: Stage) -> None:
    """A static member is replaced, leaves for a while (epoch -2), returns, and leaves for good
    (-1)."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    stage.send(join(group, "a", topic, instance_id="i"))
    stage.send(join(group, "b", topic, instance_id="i"))
    stage.send(heartbeat(group, "b", 2, instance_id="i"))
    stage.send(heartbeat(group, "a", 2, instance_id="j"))
    stage.send(heartbeat(group, "a", -2, instance_id="i"))
    stage.send(heartbeat(group, "a", 2, instance_id="i"))
    stage.send(join(group, "b", topic, instance_id="i"))
    stage.send(heartbeat(group, "a", 2, instance_id="i"))
    stage.send(heartbeat(group, "a", -1, instance_id="i"))
    stage.send(heartbeat(group, "b", -1, instance_id="i"))
    stage.send(heartbeat(group, "b", -1, instance_id="i"))


@case("a pattern", since=1)
def pattern(stage: Stage) -> None:
    """A member that subscribes by a regular expression gets its partitions, then ends the
    pattern."""
    topic, group = stage.topic("match", 2), new_group(stage)
    regex = f"{topic.name[:-5]}ma.*"
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
    stage.send(join(group, "m", **fields))
    epoch = until_assigned(stage, group, "m", **fields)
    stage.send(heartbeat(group, "m", epoch, owning(topic, 0, 1)))
    stage.send(heartbeat(group, "m", epoch, owning(topic, 0, 1), subscribed_topic_regex=""))


@case("patterns that are none", since=1)
def bad_patterns(stage: Stage) -> None:
    """Regular expressions that are invalid, and an empty one, are refused."""
    group = new_group(stage)
    for regex in ("(a", "[", "a**", ""):
        fields = {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
        stage.send(join(group, "m", **fields))


@case("in the place of a classic group")
def classic(stage: Stage) -> None:
    """A member of the consumer protocol joins an empty classic group and one with offsets only."""
    topic, other, group = stage.topic(), stage.topic("u"), new_group(stage)
    create_empty_group(stage, group)
    stage.send(heartbeat(group, "m", 2))
    stage.send(heartbeat(group, "m", -1))
    stage.send(join(group, "m", topic))
    simple = new_group(stage, "simple")
    stage.ask(commit(simple, filled_topic(stage)))
    stage.send(join(simple, "m", other))


def _invalid(**fields: object):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a maker
    """Return a maker of a joining heartbeat with these fields in place of valid ones."""
    return lambda stage: join(
        str(fields.get("group_id", stage.name("g"))),
        str(fields.get("member_id", "m")),
        "t",
        **{name: value for name, value in fields.items() if name not in ("group_id", "member_id")},
    )


case.requests(
    {
        "a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", 2),
        "leaving a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", -1),
        "the empty group": _invalid(group_id=""),
        "no member id and an epoch": lambda stage: heartbeat(stage.name("g"), "", 2),
        "an empty instance id": _invalid(instance_id=""),
        "an empty rack": _invalid(rack_id=""),
        "no rebalance timeout": _invalid(rebalance_timeout_ms=-1),
        "partitions that it owns when it joins": lambda stage: join(
            stage.name("g"), "m", "t", topic_partitions=[owning(stage.shared_topic("own"), 0)]
        ),
        "nothing said of what it owns when it joins": _invalid(topic_partitions=None),
        "no topics": _invalid(subscribed_topic_names=None),
        "an epoch of -3": lambda stage: heartbeat(stage.name("g"), "m", -3),
        "an epoch of -2 without an instance id": lambda stage: heartbeat(stage.name("g"), "m", -2),
        "an unknown assignor": _invalid(server_assignor="x"),
    }
)
