"""Requests to coordinators and leaders on other brokers, and the results of their responses."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.remote_markers import PARTITIONS_MAX, RemoteMarker, RemoteMarkers
from kwire.coordinators.runtime.remote_transactions import (
    TRANSACTIONS_MAX,
    PartitionErrors,
    PartitionsQuery,
    RemoteTransactions,
)
from kwire.storage.partitions.txn_marker import TxnMarker


class Others:
    """All other brokers: they answer as they are told to, an exception by raising it."""

    def __init__(self, answer: object, version: int = 5) -> None:
        self.answer = answer
        self.version = version
        self.asked: list[tuple[int, Role, Any]] = []
        self.options: list[dict[str, object]] = []

    @property
    def peers(self) -> Peers:
        return cast("Peers", self)

    def peer(self, broker_id: int, role: Role) -> Other:
        return Other(self, broker_id, role)


class Other:
    def __init__(self, others: Others, broker_id: int, role: Role) -> None:
        self._others = others
        self._whom = broker_id, role

    async def version_for(self, request: object) -> int:
        await trio.lowlevel.checkpoint()
        assert isinstance(request, AddPartitionsToTxnRequest)
        return self._others.version

    async def call(self, request: Any, **options: object) -> object:  # noqa: ANN401 - as Peer's
        await trio.lowlevel.checkpoint()
        self._others.asked.append((*self._whom, request))
        self._others.options.append(options)
        answer = self._others.answer
        if isinstance(answer, Exception):
            raise answer
        return answer


AWAY = PeerError("broker 2", "it is not to be reached")

# -- questions to coordinators


def question(name: str, *, adds: bool = False, **partitions: set[int]) -> PartitionsQuery:
    number = ord(name[0])
    frozen = {topic: frozenset(indexes) for topic, indexes in partitions.items()}
    return PartitionsQuery(name, number, number + 1, frozen, adds, Promise())


def result(name: str, **topics: dict[int, ErrorCode]) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        name,
        [
            AddPartitionsToTxnTopicResult(
                topic, [AddPartitionsToTxnPartitionResult(*each) for each in errors.items()]
            )
            for topic, errors in topics.items()
        ],
    )


async def told(others: Others, *questions: PartitionsQuery) -> list[PartitionErrors]:
    """What is answered to questions that are asked of broker 2 at once."""
    async with trio.open_nursery() as nursery:
        remote = RemoteTransactions(others.peers, nursery)
        for each in questions:
            remote.ask(2, each)
    assert all(each.answer.resolved for each in questions)
    return [each.answer.value for each in questions]


async def test_queries_about_transactions_share_a_request_and_get_their_own_results() -> None:
    none, concurrent = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
    response = AddPartitionsToTxnResponse(
        results_by_transaction=[
            result("b", t={1: ErrorCode.INVALID_TXN_STATE}, u={0: none}),
            result("a", t={2: none, 0: concurrent}),
        ]
    )
    others = Others(response)
    found = await told(others, question("a", t={2, 0}), question("b", adds=True, u={0}, t={1}))
    assert found == [
        {("t", 2): none, ("t", 0): concurrent},
        {("u", 0): none, ("t", 1): ErrorCode.INVALID_TXN_STATE},
    ]
    topic = AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        [
            AddPartitionsToTxnTransaction("a", 97, 98, True, [topic("t", [0, 2])]),
            AddPartitionsToTxnTransaction("b", 98, 99, False, [topic("u", [0]), topic("t", [1])]),
        ]
    )
    assert others.asked == [(2, Role.VERIFICATION, request)]


async def test_queries_about_one_transaction_go_in_separate_requests() -> None:
    """An answer names the transaction, and not which question it is to."""
    others = Others(AddPartitionsToTxnResponse())
    await told(others, question("a", t={0}), question("a", t={1}), question("b", t={2}))
    asked = [
        [(each.transactional_id, each.topics[0].partitions) for each in request.transactions]
        for _, _, request in others.asked
    ]
    assert asked == [[("a", [0]), ("b", [2])], [("a", [1])]]


async def test_request_holds_at_most_transactions_max() -> None:
    others = Others(AddPartitionsToTxnResponse())
    questions = [question(f"{number}", t={0}) for number in range(TRANSACTIONS_MAX + 1)]
    await told(others, *questions)
    assert [len(request.transactions) for _, _, request in others.asked] == [TRANSACTIONS_MAX, 1]


async def test_partition_missing_in_a_response_is_a_network_exception() -> None:
    response = AddPartitionsToTxnResponse(
        results_by_transaction=[result("a", t={0: ErrorCode.NONE})]
    )
    missing = ErrorCode.NETWORK_EXCEPTION
    assert await told(Others(response), question("a", t={0, 1}), question("b", t={0})) == [
        {("t", 0): ErrorCode.NONE, ("t", 1): missing},
        {("t", 0): missing},
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_top_level_error_applies_to_each_partition(
    error: ErrorCode, expected: ErrorCode
) -> None:
    response = AddPartitionsToTxnResponse(
        error_code=error, results_by_transaction=[result("a", t={0: ErrorCode.NONE})]
    )
    questions = [question("a", t={0}, u={1}), question("b", t={3})]
    assert await told(Others(response), *questions) == [
        {("t", 0): expected, ("u", 1): expected},
        {("t", 3): expected},
    ]


async def test_unreachable_coordinator_is_a_network_exception_for_each_partition() -> None:
    error = ErrorCode.NETWORK_EXCEPTION
    questions = [question("a", t={0}, u={1}), question("b", t={3})]
    assert await told(Others(AWAY), *questions) == [
        {("t", 0): error, ("u", 1): error},
        {("t", 3): error},
    ]


@pytest.mark.parametrize(("version", "is_asked"), [(3, False), (4, True), (5, True)])
async def test_coordinator_below_version_4_gets_no_query(version: int, is_asked: bool) -> None:
    others = Others(AddPartitionsToTxnResponse(), version)
    answers = await told(others, question("a", t={0}), question("b", t={1}))
    assert bool(others.asked) == is_asked
    error = ErrorCode.NETWORK_EXCEPTION if is_asked else ErrorCode.NONE
    assert answers == [{("t", 0): error}, {("t", 1): error}]


# -- markers

MARKER = TxnMarker(7, 3, 5, commit=True, transaction_version=2)
OTHER = TxnMarker(8, 4, 6, commit=False, transaction_version=1)


class Settled:
    """Who sends markers, and is told what came of them."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, ErrorCode]] = []
        self.is_coordinator = True

    def marker(self, marker: TxnMarker, topic: str, partition: int) -> RemoteMarker:
        return RemoteMarker(
            marker, topic, partition, lambda *each: self.told.append(each), self._is_wanted
        )

    def _is_wanted(self) -> bool:
        return self.is_coordinator


async def settled(others: Others, *markers: RemoteMarker) -> None:
    async with trio.open_nursery() as nursery:
        remote = RemoteMarkers(others.peers, nursery, request_timeout_ms=700)
        for each in markers:
            remote.send(2, each)


def written(producer_id: int, **topics: dict[int, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic, [WritableTxnMarkerPartitionResult(*each) for each in errors.items()]
            )
            for topic, errors in topics.items()
        ],
    )


async def test_markers_share_a_request_and_get_their_own_results() -> None:
    none, moved = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = WriteTxnMarkersResponse(
        [written(8, t={0: moved}), written(7, u={1: none}, t={0: none, 4: moved})]
    )
    others, sender = Others(response), Settled()
    await settled(
        others,
        sender.marker(MARKER, "t", 4),
        sender.marker(OTHER, "t", 0),
        sender.marker(MARKER, "u", 1),
        sender.marker(MARKER, "t", 0),
    )
    request = WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=7,
                producer_epoch=3,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic("t", [4, 0]), WritableTxnMarkerTopic("u", [1])],
                coordinator_epoch=5,
                transaction_version=2,
            ),
            WritableTxnMarker(
                producer_id=8,
                producer_epoch=4,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic("t", [0])],
                coordinator_epoch=6,
                transaction_version=1,
            ),
        ]
    )
    assert others.asked == [(2, Role.TXN_MARKERS, request)]
    assert sender.told == [("t", 4, moved), ("t", 0, moved), ("u", 1, none), ("t", 0, none)]


async def test_marker_request_times_out_after_the_other_brokers_timeout() -> None:
    others = Others(WriteTxnMarkersResponse())
    await settled(others, Settled().marker(MARKER, "t", 0))
    assert others.options == [{"timeout_ms": 700 + 5000}]


async def test_two_markers_of_one_producer_go_in_separate_requests() -> None:
    """An answer names the producer, and not which marker it is to."""
    others, sender = Others(WriteTxnMarkersResponse()), Settled()
    later = MARKER._replace(producer_epoch=4)
    await settled(others, *(sender.marker(each, "t", 0) for each in (MARKER, later, OTHER)))
    asked = [
        [(each.producer_id, each.producer_epoch) for each in request.markers]
        for _, _, request in others.asked
    ]
    assert asked == [[(7, 3), (8, 4)], [(7, 4)]]


async def test_marker_request_holds_at_most_partitions_max() -> None:
    others, sender = Others(WriteTxnMarkersResponse()), Settled()
    markers = [sender.marker(MARKER, "t", index) for index in range(PARTITIONS_MAX + 1)]
    await settled(others, *markers)
    counts = [len(request.markers[0].topics[0].partition_indexes) for *_, request in others.asked]
    assert counts == [PARTITIONS_MAX, 1]


async def test_marker_missing_in_a_response_is_an_unknown_server_error() -> None:
    others, sender = Others(WriteTxnMarkersResponse([written(7, t={0: ErrorCode.NONE})])), Settled()
    await settled(others, *(sender.marker(MARKER, "t", index) for index in (0, 1)))
    assert sender.told == [("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.UNKNOWN_SERVER_ERROR)]


async def test_markers_for_an_unreachable_broker_are_network_exceptions() -> None:
    sender = Settled()
    await settled(Others(AWAY), *(sender.marker(MARKER, "t", index) for index in (0, 1)))
    assert sender.told == [("t", index, ErrorCode.NETWORK_EXCEPTION) for index in (0, 1)]


async def test_markers_of_a_resigned_coordinator_are_not_sent() -> None:
    others = Others(WriteTxnMarkersResponse([written(8, t={0: ErrorCode.NONE})]))
    resigned, other = Settled(), Settled()
    resigned.is_coordinator = False
    await settled(others, resigned.marker(MARKER, "t", 0), other.marker(OTHER, "t", 0))
    [(_, _, request)] = others.asked
    assert [each.producer_id for each in request.markers] == [8]
    assert (resigned.told, other.told) == ([], [("t", 0, ErrorCode.NONE)])
    others.asked.clear()
    await settled(others, resigned.marker(MARKER, "t", 0))
    assert others.asked == [], "there is nothing to be said"
