"""Cases of ShareAcknowledge: each kind of acknowledgement, and refusals."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    ShareAcknowledgeRequest,
)
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import filled_topic, no_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    NO_PARTITION,
    OTHER_PARTITION,
    REJECT,
    RELEASE,
    RENEW,
    acknowledge,
    fetch,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.SHARE_ACKNOWLEDGE)


def access_request(version: int, topic_id: bytes) -> ShareAcknowledgeRequest:
    return ShareAcknowledgeRequest(GROUP, "member", 5)


def reading(stage: Stage, **settings: str) -> tuple[str, CaseTopic]:
    """Return a group whose member `a` has fetched the records of a topic, and the topic."""
    group, topic = new_group(stage, **settings), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.ask(fetch(group, "a", 0, topic))
    return group, topic


@case("each thing that is said")
def each(stage: Stage) -> None:
    """Records are released, rejected and accepted; a second acknowledgement of a record is refused.

    A fetch by another member shows which records are available again.
    """
    group, topic = reading(stage)
    for epoch, kind in enumerate((RELEASE, REJECT), 1):
        stage.send(acknowledge(group, "a", epoch, topic, (epoch - 1, epoch - 1, [kind])))
    stage.send(fetch(group, "b", 0, topic))
    stage.send(acknowledge(group, "a", 3, topic, (2, 2, [ACCEPT])))
    stage.send(acknowledge(group, "a", 4, topic, (2, 2, [ACCEPT])))


@case("what cannot be")
def wrong(stage: Stage) -> None:
    """Acknowledgements with reversed or missing offsets, wrong counts or unknown types are refused.

    So are those of a member that has not acquired the record.
    """
    group, topic = reading(stage)
    for epoch, acknowledgement in enumerate(
        (
            (1, 0, [ACCEPT]),
            (0, 1, [ACCEPT, ACCEPT, ACCEPT]),
            (0, 0, []),
            (0, 0, [9]),
            (0, 0, [-1]),
            (500, 500, [ACCEPT]),
            (0, 500, [ACCEPT]),
        ),
        1,
    ):
        stage.send(acknowledge(group, "a", epoch, topic, acknowledgement))
    stage.send(acknowledge(group, "b", 1, topic, (0, 0, [ACCEPT])))


@case("several batches")
def several(stage: Stage) -> None:
    """A request has several batches of acknowledgements, which overlap or are out of order."""
    group, topic = reading(stage)
    for epoch, acknowledgements in enumerate(
        (
            ((0, 2, [ACCEPT]), (2, 3, [ACCEPT])),
            ((2, 3, [ACCEPT]), (0, 0, [ACCEPT])),
            ((0, 0, [ACCEPT]), (3, 5, [ACCEPT, RELEASE, REJECT])),
            ((1, 2, [REJECT]),),
        ),
        1,
    ):
        stage.send(acknowledge(group, "a", epoch, topic, *acknowledgements))
    stage.send(fetch(group, "b", 0, topic))


@case("partitions that are not read")
def elsewhere(stage: Stage) -> None:
    """Acknowledgements for partitions that the member does not read, or without a topic, are
    refused."""
    group, topic = reading(stage)
    request = acknowledge(group, "a", 1, topic)
    for index in (OTHER_PARTITION, NO_PARTITION):
        batches = [AcknowledgementBatch(0, 0, [ACCEPT])]
        request.topics[0].partitions.append(AcknowledgePartition(index, batches))
    stage.send(request)
    stage.send(acknowledge(group, "a", 2, no_topic(), (0, 0, [ACCEPT])))
    stage.send(acknowledge(group, "a", 3, no_topic()))


@case("records of another member")
def of_another(stage: Stage) -> None:
    """A member cannot acknowledge records that another member has acquired."""
    group, topic = reading(stage)
    stage.send(fetch(group, "b", 0, topic))
    stage.send(acknowledge(group, "b", 1, topic, (0, 5, [ACCEPT])))
    stage.send(acknowledge(group, "a", 1, topic, (0, 5, [ACCEPT])))


@case("records that others are done with")
def done(stage: Stage) -> None:
    """Acknowledging offsets before the start offset succeeds for any member; after it, it fails."""
    group, topic = reading(stage)
    stage.send(acknowledge(group, "a", 1, topic, (0, 1, [ACCEPT]), (4, 4, [ACCEPT])))
    stage.send(fetch(group, "b", 0, topic))
    for epoch, (offset, kind) in enumerate(((0, ACCEPT), (1, REJECT), (4, ACCEPT), (2, ACCEPT)), 1):
        stage.send(acknowledge(group, "b", epoch, topic, (offset, offset, [kind])))
    stage.send(acknowledge(group, "b", 5, topic, (0, 2, [ACCEPT])))


@case("locks that are renewed", since=2)
def renewed(stage: Stage) -> None:
    """A renewal of the lock must be announced by the request; the record is then accepted."""
    group, topic = reading(stage)
    stage.send(acknowledge(group, "a", 1, topic, (0, 0, [RENEW])))
    stage.send(acknowledge(group, "a", 2, topic, (0, 0, [RENEW]), renews=True))
    stage.send(acknowledge(group, "a", 3, topic, (0, 0, [ACCEPT])))


@case("sessions")
def sessions(stage: Stage) -> None:
    """Acknowledgements with a wrong session epoch are refused; epoch 0 opens no session, -1 ends
    it. A fetch by another member shows that the end of the session releases all records."""
    group, topic = reading(stage)
    stage.send(acknowledge(group, "a", 0, topic, (0, 0, [ACCEPT])))
    stage.send(acknowledge(group, "a", 5, topic, (0, 0, [ACCEPT])))
    stage.send(acknowledge(group, "a", -1, topic, (0, 0, [ACCEPT])))
    stage.send(acknowledge(group, "a", -1, None))
    stage.send(fetch(group, "b", 0, topic))
