"""Cases of ShareFetch: sessions, acquired records of several members, and acknowledgements."""

from __future__ import annotations

import time

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.share_fetch import FetchPartition, ForgottenTopic, ShareFetchRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import batch, fill, filled_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    NO_PARTITION,
    RELEASE,
    RENEW,
    acknowledge,
    fetch,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage

LONG_MS = 120_000
"""The longest time until a member's records are available to others."""

case = Cases(ApiKey.SHARE_FETCH)


def access_request(version: int, topic_id: bytes) -> ShareFetchRequest:
    return ShareFetchRequest(GROUP, "member", 5)


@case("a record is for one member")
def once(stage: Stage) -> None:
    """A record that one member has acquired is not delivered to another member."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic))
    stage.send(fetch(group, "a", 1))
    stage.send(fetch(group, "b", 0, topic))
    stage.send(fetch(group, "b", 1))


@case("sessions")
def sessions(stage: Stage) -> None:
    """A share session begins with epoch 0, counts its epochs and ends with -1; others are
    refused."""
    group, topic = new_group(stage), stage.topic()
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 1, topic))
    stage.send(fetch(group, "a", -1, topic))
    stage.send(fetch(group, "a", 0, topic, (0, 0, [1])))
    stage.send(fetch(group, "a", 0, topic))
    stage.send(fetch(group, "a", 2))
    stage.send(fetch(group, "a", 1))
    stage.send(fetch(group, "a", 2))
    stage.send(fetch(group, "a", -1))
    stage.send(fetch(group, "a", 3))


@case("who ends its session gives back what it has")
def given_back(stage: Stage) -> None:
    """The end of a share session (epoch -1) releases its records for other members."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic))
    stage.send(fetch(group, "a", -1))
    stage.send(fetch(group, "b", 0, topic))


@case("who is cut off gives back what it has")
def cut_off(stage: Stage) -> None:
    """The end of a connection releases the records of its share session.

    Another member waits for them, and gives them back; its responses are not compared, because
    Apache Kafka may let a fetch that waits since before the release wait to its end.
    """
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic), on="a")
    stage.close_connection("a")
    epoch, until = 0, time.monotonic() + LONG_MS / 1000
    while not stage.ask(fetch(group, "b", epoch, topic)).responses:
        assert time.monotonic() < until, "the records of who was cut off are not given back"
        epoch += 1
    stage.ask(fetch(group, "b", -1))
    stage.send(fetch(group, "c", 0, topic))


@case("what is said on the way")
def said(stage: Stage) -> None:
    """Acknowledgements that come with a fetch are applied before it; max_records=0 fetches
    nothing."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic, max_records=1))
    stage.send(fetch(group, "a", 1, topic, (0, 1, [ACCEPT]), max_records=1))
    stage.send(fetch(group, "a", 2, topic, (500, 500, [ACCEPT]), max_records=0))
    stage.send(fetch(group, "a", 3, topic, (2, 4, [RELEASE]), max_records=0))
    stage.send(fetch(group, "a", -1, topic, (5, 5, [ACCEPT])))


@case("locks that are renewed", since=2)
def renewed(stage: Stage) -> None:
    """A renewal extends the lock of acquired records; such a request must not fetch anything.

    The request with the default limits is therefore refused first.
    """
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic, max_records=1))
    renew = (0, 1, [RENEW])
    stage.send(fetch(group, "a", 1, topic, renew, is_renew_ack=True))
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    stage.send(fetch(group, "a", 1, topic, renew, is_renew_ack=True, **nothing))
    stage.send(fetch(group, "a", 2, topic, renew, **nothing))
    stage.send(fetch(group, "a", 3, topic, (0, 1, [ACCEPT]), is_renew_ack=True, **nothing))


@case("no more records than asked for", since=2)
def strict(stage: Stage) -> None:
    """In acquire mode 1 (strict) max_records also cuts within batches."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic, max_records=4, share_acquire_mode=1))
    stage.send(fetch(group, "a", 1, max_records=1, share_acquire_mode=1))
    stage.send(fetch(group, "a", 2, max_records=1, share_acquire_mode=1))


@case("records told of in runs")
def runs(stage: Stage) -> None:
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic, batch_size=2))


@case("partitions that come and go")
def places(stage: Stage) -> None:
    """A share session gets a missing partition, forgets all partitions and gets one again."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic))
    request = fetch(group, "a", 1, topic, max_wait_ms=0)
    request.topics[0].partitions.append(FetchPartition(NO_PARTITION))
    stage.send(request)
    forgotten = [ForgottenTopic(topic.id, [0, NO_PARTITION])]
    stage.send(fetch(group, "a", 2, forgotten_topics_data=forgotten))
    stage.send(fetch(group, "a", 3))
    stage.send(fetch(group, "a", 4, topic))


@case("a group that never had a heartbeat")
def unheard_of(stage: Stage) -> None:
    """A member that has not joined the group fetches and acknowledges."""
    group, topic = new_group(stage), filled_topic(stage)
    stage.send(fetch(group, "a", 0, topic))
    stage.send(fetch(group, "a", 1))
    stage.send(acknowledge(group, "a", 2, topic, (0, 0, [ACCEPT])))


@case("a topic id that there is not")
def unknown_topic(stage: Stage) -> None:
    """A share session gets a topic id that does not exist; the other topic is read nevertheless."""
    group, topic = new_group(stage), stage.topic()
    join_until_assigned(stage, group, "a", topic)
    unknown = CaseTopic("none", b"no such topic id", 1)
    request = fetch(group, "a", 0, unknown)
    stage.send(request)
    request.topics += fetch(group, "a", 0, topic).topics
    stage.send(request)
    stage.send(fetch(group, "a", 1, topic, (0, 0, [ACCEPT])))
    stage.send(acknowledge(group, "a", 2, unknown, (0, 0, [ACCEPT])))
    forgotten = [ForgottenTopic(unknown.id, [0])]
    stage.send(fetch(group, "a", 3, forgotten_topics_data=forgotten))
    fill(stage, topic, batch(stage, b"now"))
    stage.send(fetch(group, "a", 4))


@case("a reply that waits, and one that does not")
def waits(stage: Stage) -> None:
    """Fetches whose minimum of bytes is not reached, is reached, and is 0.

    The last one could wait for 60 s, but must be answered at once.
    """
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic, min_bytes=10_000))
    stage.send(fetch(group, "a", 1, min_bytes=1))
    stage.send(fetch(group, "a", 2, min_bytes=0, max_wait_ms=60_000))


@case("records that were delivered often enough")
def archived(stage: Stage) -> None:
    """A record is archived after two deliveries, so that the next fetch has the record after it."""
    group = new_group(stage, share_delivery_count_limit="2")
    topic = filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    for epoch in (0, 2, 4, 6):
        stage.send(fetch(group, "a", epoch, None if epoch else topic, max_records=1))
        stage.send(acknowledge(group, "a", epoch + 1, topic, (0, 0, [RELEASE])))


@case("records that nobody can work on")
def suspected(stage: Stage) -> None:
    """Records that are released repeatedly are delivered in smaller and smaller batches."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    epoch = 0
    while True:
        response = stage.send(fetch(group, "a", epoch, None if epoch else topic))
        runs = [
            (run.first_offset, run.last_offset, [RELEASE])
            for topic_response in response.responses
            for run in topic_response.partitions[0].acquired_records
        ]
        if not runs:
            break
        stage.ask(acknowledge(group, "a", epoch + 1, topic, *runs))
        epoch += 2


@case("as many on their way as there may be")
def full(stage: Stage) -> None:
    """Batches of 60 records are fetched until the limit of 100 acquired records is reached.

    Another member gets nothing then; an acknowledgement makes room.
    """
    group = new_group(stage, share_partition_max_record_locks="100")
    topic = stage.topic()
    batches = [batch(stage, *(b"%d" % n for n in range(60))) for _ in range(3)]
    fill(stage, topic, *batches)
    join_until_assigned(stage, group, "a", topic)
    for epoch in range(3):
        stage.send(fetch(group, "a", epoch, None if epoch else topic, max_records=1))
    stage.send(fetch(group, "b", 0, topic))
    stage.send(fetch(group, "a", 3, topic, (0, 59, [ACCEPT])))


@case("no more than there is room for")
def room(stage: Stage) -> None:
    """The limit counts records; released records go to any member and do not count again."""
    _share_room(stage, "a", "b", "c")


@case("no more than asked for and than there is room for", since=2)
def strict_room(stage: Stage) -> None:
    _share_room(stage, "a", "b", "c", acquire_mode=1)


def _share_room(stage: Stage, *members: str, acquire_mode: int = 0) -> None:
    """Have three members fetch from a partition of which at most 100 records may be acquired.

    Released and accepted records make room; batches have 25 records and fetches ask for 60.
    """
    group = new_group(stage, share_partition_max_record_locks="100")
    topic = stage.topic()
    fill(stage, topic, *[batch(stage, *(b"%d" % n for n in range(25))) for _ in range(8)])
    for member in members:
        join_until_assigned(stage, group, member, topic)
    for member in members:
        stage.send(fetch(group, member, 0, topic, max_records=60, share_acquire_mode=acquire_mode))
    back = (10, 19, [RELEASE])
    stage.send(acknowledge(group, members[0], 1, topic, back))
    stage.send(fetch(group, members[1], 1, max_records=60, share_acquire_mode=acquire_mode))
    stage.send(acknowledge(group, members[0], 2, topic, (0, 9, [ACCEPT]), (20, 29, [RELEASE])))
    stage.send(fetch(group, members[2], 1, max_records=60, share_acquire_mode=acquire_mode))
    stage.send(fetch(group, members[2], 2, max_records=60, share_acquire_mode=acquire_mode))


case.requests(
    {
        "no group": lambda stage: fetch(stage.name("g"), "m", 0, group_id=None),
        "no member": lambda stage: fetch(stage.name("g"), "m", 0, member_id=None),
        "a session that is not there": lambda stage: fetch(stage.name("g"), "m", 4),
    }
)
