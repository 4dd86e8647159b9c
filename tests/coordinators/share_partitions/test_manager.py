"""The share partitions of a broker: when they are dropped, and the errors of missing ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from kwire.cluster.metadata.features import SHARE_VERSION, FinalizedFeatures
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import write_share_group_state
from kwire.codecs.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from kwire.codecs.messages.write_share_group_state import WriteShareGroupStateResponse
from kwire.coordinators.share.partition import AcknowledgementRefused
from kwire.coordinators.share.questions import ReadState, WriteState
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import ShareSession
from kwire.coordinators.share.state import ShareStateWrite
from kwire.coordinators.share_partitions.acknowledging import acknowledge, are_valid
from kwire.coordinators.share_partitions.limits import ShareSettingsCache
from kwire.coordinators.share_partitions.manager import ShareManager
from kwire.coordinators.share_partitions.remote_states import REQUEST_FORMS, RemoteStates, _answers
from kwire.coordinators.share_partitions.state_requests import is_empty_request
from kwire.settings import BrokerConfig
from kwire.settings.resources import ConfigResourceType

KNOWN, UNKNOWN = b"k" * 16, b"u" * 16


class Led:
    """A share partition that counts what it is asked."""

    is_current = True
    has_dead_letters = False

    def __init__(self, key: ShareKey, partition: object) -> None:
        self.key = key
        self.partition = partition
        self.is_stopped = False
        self.released: list[str] = []

    def stop(self) -> None:
        self.is_stopped = True

    def release(self, member_id: str) -> None:
        self.released.append(member_id)


class Managed:
    """A manager with share partitions of two groups."""

    def __init__(self) -> None:
        partition = object()
        metadata = SimpleNamespace(topic_name=lambda topic_id: "t" if topic_id == KNOWN else None)
        hosted = SimpleNamespace(get=lambda name, index: partition if index == 0 else None)
        node: Any = SimpleNamespace(settings=None, metadata=metadata, hosted=hosted)
        self.manager = ShareManager.__new__(ShareManager)
        self.manager._node = node
        self.sessions: dict[tuple[str, str], ShareSession] = {}
        self.manager.sessions = cast("Any", self)
        self.led = {group: Led(ShareKey(group, KNOWN, 0), partition) for group in ("a", "b")}
        self.manager._led = {led.key: cast("Any", led) for led in self.led.values()}

    # -- the parts of ShareSessions

    def begin(self, group_id: str, member_id: str) -> ShareSession:
        session: Any = SimpleNamespace(places=[(KNOWN, 0)])
        self.sessions[group_id, member_id] = session
        return cast("ShareSession", session)

    def is_current(self, member: tuple[str, str], session: ShareSession) -> bool:
        return self.sessions.get(member) is session

    def end(self, member: tuple[str, str]) -> None:
        del self.sessions[member]

    def of_group(self, group_id: str) -> list[ShareSession]:
        return [session for key, session in self.sessions.items() if key[0] == group_id]


def test_share_partitions_of_a_group_are_dropped_with_its_last_session() -> None:
    managed = Managed()
    first, second = managed.begin("a", "m"), managed.begin("a", "n")
    managed.begin("b", "m")
    managed.manager.disconnected(("a", "m"), first)
    assert (managed.led["a"].released, managed.led["a"].is_stopped) == (["m"], False)
    managed.manager.disconnected(("a", "n"), second)
    assert (managed.led["a"].released, managed.led["a"].is_stopped) == (["m", "n"], True)
    assert list(managed.manager._led) == [managed.led["b"].key]
    assert (managed.led["b"].released, managed.led["b"].is_stopped) == ([], False)


def test_share_partition_with_dead_letters_is_dropped_once_they_are_written() -> None:
    managed = Managed()
    session = managed.begin("a", "m")
    managed.led["a"].has_dead_letters = True
    managed.manager.disconnected(("a", "m"), session)
    assert not managed.led["a"].is_stopped
    managed.led["a"].has_dead_letters = False
    managed.manager._drop_unread("a")
    assert managed.led["a"].is_stopped


def test_share_partition_led_elsewhere_is_dropped_with_its_dead_letters() -> None:
    managed = Managed()
    session = managed.begin("a", "m")
    managed.led["a"].has_dead_letters, managed.led["a"].is_current = True, False
    managed.manager.disconnected(("a", "m"), session)
    assert managed.led["a"].is_stopped


def test_end_of_an_earlier_connection_releases_nothing() -> None:
    managed = Managed()
    earlier = managed.begin("a", "m")
    managed.begin("a", "m")
    managed.manager.disconnected(("a", "m"), earlier)
    assert (managed.led["a"].released, managed.led["a"].is_stopped) == ([], False)


def test_missing_partition_of_a_known_topic_and_an_unknown_topic_have_different_errors() -> None:
    manager = Managed().manager
    assert manager.error_for_missing((KNOWN, 9)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert manager.error_for_missing((UNKNOWN, 0)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert manager.hosts((KNOWN, 0))
    assert not manager.hosts((KNOWN, 9))
    assert not manager.hosts((UNKNOWN, 0))


def test_partition_is_refused_unless_this_broker_leads_it() -> None:
    managed = Managed()
    led = managed.led["a"]
    managed.manager._node.hosted = cast(
        "Any", SimpleNamespace(get=lambda name, index: led.partition if index < 2 else None)
    )
    for is_leader, error in ((True, None), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        led.partition = SimpleNamespace(is_leader=is_leader)
        assert managed.manager.refusal(ShareKey("a", KNOWN, 0)) is error
    missing = managed.manager.refusal(ShareKey("a", KNOWN, 2))
    assert missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_refused_acknowledgement_has_its_error_and_message() -> None:
    def refuse(member_id: str, batches: object, done: object) -> None:
        raise AcknowledgementRefused(ErrorCode.INVALID_RECORD_STATE, "not acquired")

    led = SimpleNamespace(acknowledge=refuse)
    shares: Any = SimpleNamespace(find=lambda key: led)
    batch: Any = SimpleNamespace(first_offset=0, last_offset=0, acknowledge_types=[1])
    (outcome,) = await acknowledge(shares, ("g", "m"), [((KNOWN, 0), [batch])], 1, renews=False)
    assert outcome == (ErrorCode.INVALID_RECORD_STATE, "not acquired")


def test_answer_of_another_broker_has_its_error_and_message() -> None:
    results = [
        PartitionResult(0, ErrorCode.FENCED_LEADER_EPOCH, "too old"),
        PartitionResult(1, ErrorCode.NONE, None, state_epoch=3, start_offset=5),
    ]
    response = ReadShareGroupStateResponse([ReadStateResult(KNOWN, results)])
    answers = _answers(REQUEST_FORMS[ReadState], "g", response)
    refused, read = (answers[ShareKey("g", KNOWN, index)] for index in range(2))
    assert refused == (ErrorCode.FENCED_LEADER_EPOCH, "too old", None)
    assert (read.error, read.message) == (ErrorCode.NONE, None)
    assert read.state is not None
    assert (read.state.state_epoch, read.state.start_offset) == (3, 5)


async def test_requests_about_one_share_partition_are_sent_one_after_another() -> None:
    """A response names the partition only, so a message has one request about it."""
    sent: list[Any] = []

    async def call(request: Any) -> WriteShareGroupStateResponse:  # noqa: ANN401 - any request
        sent.append(request)
        await trio.lowlevel.checkpoint()
        results = [
            write_share_group_state.PartitionResult(0),
            write_share_group_state.PartitionResult(1),
        ]
        return WriteShareGroupStateResponse(
            [write_share_group_state.WriteStateResult(KNOWN, results)]
        )

    peers: Any = SimpleNamespace(peer=lambda broker_id, role: SimpleNamespace(call=call))
    written = ShareStateWrite(1, 1, 0, 0, [])
    async with trio.open_nursery() as nursery:
        remote = RemoteStates(peers, nursery)
        promises = [
            remote.ask(7, WriteState(ShareKey("g", KNOWN, index), written)) for index in (0, 0, 1)
        ]
        answers = [await promise.wait() for promise in promises]
    assert [answer.error for answer in answers] == [ErrorCode.NONE] * 3
    asked = [[part.partition for part in request.topics[0].partitions] for request in sent]
    assert asked == [[0, 1], [0]]


def test_delivery_settings_are_made_again_only_when_a_setting_has_changed() -> None:
    overrides = {"share.record.lock.duration.ms": "20000"}
    node: Any = SimpleNamespace(config=BrokerConfig({"node.id": "1"}))
    of_groups = {(ConfigResourceType.GROUP, "g"): overrides}
    metadata: Any = SimpleNamespace(
        image=SimpleNamespace(configs=of_groups, features=FinalizedFeatures())
    )
    settings = ShareSettingsCache(node, metadata)
    first = settings.of("g")
    assert first.limits.lock_ms == 20_000
    assert settings.of("g") is first
    of_groups[ConfigResourceType.GROUP, "g"] = {"share.record.lock.duration.ms": "30000"}
    assert settings.of("g").limits.lock_ms == 30_000
    second = settings.of("g")
    node.config = BrokerConfig({"node.id": "1", "group.share.delivery.count.limit": "7"})
    assert settings.of("g") is not second
    assert settings.of("g").limits.max_deliveries == 7


@pytest.mark.parametrize(("level", "has_topic"), [(0, False), (1, False), (2, True)])
def test_group_has_a_dead_letter_topic_from_share_version_2_on(level: int, has_topic: bool) -> None:
    configs = {(ConfigResourceType.GROUP, "g"): {"errors.deadletterqueue.topic.name": "dlq.t"}}
    image = SimpleNamespace(configs=configs, features=FinalizedFeatures({SHARE_VERSION: 1}))
    node: Any = SimpleNamespace(config=BrokerConfig({"node.id": "1"}))
    settings = ShareSettingsCache(node, cast("Any", SimpleNamespace(image=image)))
    assert not settings.of("g").limits.has_dead_letter_topic
    image.features = FinalizedFeatures({SHARE_VERSION: level})
    assert settings.of("g").limits.has_dead_letter_topic is has_topic
    assert not settings.of("other").limits.has_dead_letter_topic


def topics(*partitions: int) -> Any:  # noqa: ANN401 - topics with so many partitions each
    return [
        SimpleNamespace(topic_id=KNOWN, partitions=[SimpleNamespace(partition=0)] * count)
        for count in partitions
    ]


@pytest.mark.parametrize(
    ("group_id", "partitions", "is_empty"),
    [("g", (1, 2), False), ("", (1,), True), ("g", (), True), ("g", (1, 0), True)],
    ids=["complete", "without a group", "without topics", "a topic without partitions"],
)
def test_request_is_empty_if_any_part_of_it_is_missing(
    group_id: str, partitions: tuple[int, ...], is_empty: bool
) -> None:
    assert is_empty_request(group_id, topics(*partitions)) is is_empty


@pytest.mark.parametrize(
    ("batches", "valid"),
    [
        ([(0, 5, [1]), (6, 7, [1, 2])], True),
        ([(0, 5, [1]), (5, 6, [1])], True),
        ([(0, 5, [1]), (4, 6, [1])], False),
        ([(3, 2, [1])], False),
        ([(0, 1, [1, 1, 1])], False),
        ([(0, 0, [])], False),
        ([(0, 0, [-1])], False),
    ],
    ids=[
        "in order",
        "begins at the last offset",
        "overlaps",
        "ends before it begins",
        "too many types",
        "no type",
        "an unknown type",
    ],
)
def test_acknowledgements_are_valid_in_offset_order_with_known_types(
    batches: list[tuple[int, int, list[int]]], valid: bool
) -> None:
    given: Any = [
        SimpleNamespace(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in batches
    ]
    assert are_valid(given, 1, renews=False) is valid


@pytest.mark.parametrize(
    ("kind", "version", "renews", "valid"),
    [(3, 1, False, True), (4, 1, True, False), (4, 2, True, True), (4, 2, False, False)],
    ids=["reject", "renew in version 1", "renew", "renew without IsRenewAck"],
)
def test_renewal_needs_version_2_and_its_flag(
    kind: int, version: int, renews: bool, valid: bool
) -> None:
    given: Any = [SimpleNamespace(first_offset=0, last_offset=0, acknowledge_types=[kind])]
    assert are_valid(given, version, renews=renews) is valid
