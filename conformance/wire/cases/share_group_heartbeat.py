"""Cases of ShareGroupHeartbeat: joining, assignments, fencing, leaving."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.conformance.access.requests import GROUP, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.share_group import heartbeat, join, join_until_assigned, new_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.SHARE_GROUP_HEARTBEAT)


def access_request(version: int, topic_id: bytes) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(GROUP, "member", 1, None, [TOPIC])


@case("members that share partitions")
def sharing(stage: Stage) -> None:
    """Members of a share group get the same partitions, and leave; a second leave is refused."""
    group, topic = new_group(stage), stage.topic()  # the assignment of several depends on its id
    epoch = join_until_assigned(stage, group, "first", topic)
    stage.send(heartbeat(group, "first", epoch))
    stage.send(heartbeat(group, "first", epoch, [topic.name]))
    stage.send(join(group, "first", topic))
    response = stage.send(join(group, "second", topic))
    stage.send(heartbeat(group, "second", response.member_epoch))
    stage.send(heartbeat(group, "first", epoch))
    stage.send(heartbeat(group, "first", response.member_epoch))
    stage.send(heartbeat(group, "second", -1))
    stage.send(heartbeat(group, "second", -1))
    stage.send(heartbeat(group, "first", response.member_epoch))


@case("epochs that are not the member's")
def epochs(stage: Stage) -> None:
    """Heartbeats with epochs that are old, ahead, invalid or of no member.

    The topic does not exist, so that the assignment stays empty.
    """
    group = new_group(stage)
    stage.ask(join(group, "m", "gone"))
    stage.ask(join(group, "other", "gone"))
    for epoch in (2, 3, 1, 9, -2):
        stage.send(heartbeat(group, "m", epoch))
    stage.send(heartbeat(group, "nobody", 2))


@case("other topics than before")
def subscriptions(stage: Stage) -> None:
    """A member changes its subscription to a missing topic, then to no topic."""
    group, topic = new_group(stage), stage.topic(partitions=2)
    epoch = join_until_assigned(stage, group, "m", topic)
    stage.send(heartbeat(group, "m", epoch, ["gone"]))
    stage.send(heartbeat(group, "m", epoch, []))


@case("a group of another kind")
def classic(stage: Stage) -> None:
    """A share member joins a classic group, which refuses it."""
    group = stage.name("g")
    create_stable_group(stage, group)
    stage.send(join(group, "m", "t"))
    stage.send(heartbeat(group, "m", 2))
    stage.send(heartbeat(group, "m", -1))


case.requests(
    {
        "a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", 2),
        "leaving a group that is not there": lambda stage: heartbeat(stage.name("g"), "m", -1),
        "the empty group": lambda stage: join("", "m", "t"),
        "no member id": lambda stage: join(stage.name("g"), "", "t"),
        "a long member id": lambda stage: join(stage.name("g"), "m" * 37, "t"),
        "an empty rack": lambda stage: heartbeat(stage.name("g"), "m", 0, ["t"], ""),
        "no topics": lambda stage: heartbeat(stage.name("g"), "m", 0),
        "an empty list of topics": lambda stage: heartbeat(stage.name("g"), "m", 0, []),
        "an epoch of -2": lambda stage: heartbeat(stage.name("g"), "m", -2),
    }
)
