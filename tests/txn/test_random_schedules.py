"""Random schedules of transactions: requests, waits, kills and failing appends.

- Making a decision changes no transaction.
- Each request is answered once.
- Each record is a valid transition from the one before; producer ids and epochs never fall.
- A machine that replays the log, all of it or any part, has the written state, and ends each
  decided transaction once, as it was decided.
- Only the producer with the latest id and epoch can add to a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.txn.effects import Markers, TransactionEffects
from kwire.txn.limits import TransactionLimits
from kwire.txn.machine import TransactionMachine
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import (
    EMPTY,
    EPOCH_BUMP,
    LAST_EPOCH_OF_CLIENTS,
    MAY_FOLLOW,
    PREPARED,
    Transaction,
)
from tests.txn.simulation import TransactionSimulation

LIMITS = TransactionLimits(
    transactional_id_expiration_ms=600_000,
    abort_timed_out_interval_ms=10_000,
    remove_expired_interval_ms=60_000,
)
EPOCH_BUMP_SINCE = 5  # EndTxn

LAST = "whoever was told last"

ids = st.sampled_from(["x", "x", "x", "x", "x", "y"])
clients = st.sampled_from([LAST, LAST, LAST, LAST, "a", "b"])
epoch_shifts = st.sampled_from([0, 0, 0, 0, 0, 0, -1, 1])
partitions = st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), max_size=3)
times_ms = st.sampled_from([0, 1_000, 20_000, 90_000, 700_000])
failures = st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])


class PureMachine(TransactionMachine):
    """A machine that checks after each decision that nothing has changed yet."""


def _checked(name: str) -> Callable[..., TransactionEffects]:
    decide = getattr(TransactionMachine, name)

    def check(self: PureMachine, *arguments: object) -> TransactionEffects:
        before = dict(self.transactions)
        effects: TransactionEffects = decide(self, *arguments)
        assert self.transactions == before, f"{name} changed something"
        return effects

    return check


for _name in ("init_producer_id", "add_partitions", "end_txn", "markers_written", "timer_fired"):
    setattr(PureMachine, _name, _checked(_name))


class Schedule(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulation = TransactionSimulation(LIMITS, PureMachine)
        self.simulation.load()
        self.told: dict[tuple[str, str], tuple[int, int]] = {}
        """What a client was told last about an id."""
        self.ends: dict[tuple[str, int, int], bool] = {}
        """How the transaction of a producer ended whose markers have this epoch."""
        self.sent: list[tuple[TransactionRecord, Markers]] = []
        """All markers that were ever decided on, with the record that says so."""
        self.seen = 0
        """Records that were checked."""

    @initialize()
    def begin(self) -> None:
        self.start("x", "a", 60_000)

    # -- requests

    def producer(self, name: str, client: str, shift: int) -> tuple[int, int]:
        producer_id, epoch = self.told.get((name, client), (-1, -1))
        if client == LAST:
            told = [who for (other, _), who in self.told.items() if other == name]
            producer_id, epoch = max(told, default=(-1, -1))
        return producer_id, max(epoch + shift, -1)

    def learn(self, name: str, client: str, response: Any) -> None:  # noqa: ANN401 - two kinds
        if response.error_code or response.producer_id == -1:
            return
        now = self.simulation.machine.transactions[name]
        self.told[name, client] = response.producer_id, response.producer_epoch
        assert (
            max(who for (other, _), who in self.told.items() if other == name)
            == (self.told[name, client])
        ), "told less than before"
        if now.state not in PREPARED:
            assert (now.producer_id, now.producer_epoch) == self.told[name, client]

    @rule(name=ids, client=st.sampled_from("ab"), timeout_ms=st.sampled_from([5_000, 60_000]))
    def start(self, name: str, client: str, timeout_ms: int) -> None:
        request = InitProducerIdRequest(name, timeout_ms)
        before = [told for (other, _), told in self.told.items() if other == name]
        response = self.simulation.ask(ApiKey.INIT_PRODUCER_ID, 5, request)
        self.learn(name, client, response)
        if not response.error_code:
            told = self.told[name, client]
            assert all(told > other for other in before), "those before are not fenced"

    @rule(name=ids, client=clients, shift=epoch_shifts)
    def start_again(self, name: str, client: str, shift: int) -> None:
        request = InitProducerIdRequest(name, 60_000, *self.producer(name, client, shift))
        self.learn(name, client, self.simulation.ask(ApiKey.INIT_PRODUCER_ID, 5, request))

    @rule(
        name=ids,
        client=clients,
        shift=epoch_shifts,
        places=partitions,
        far=st.booleans(),
        version=st.sampled_from([4, 5]),
    )
    def add(
        self,
        name: str,
        client: str,
        shift: int,
        places: list[tuple[str, int]],
        far: bool,
        version: int,
    ) -> None:
        producer = self.producer(name, client, shift)
        topics: dict[str, list[int]] = {"far": [0]} if far else {}
        for topic, index in places:
            topics.setdefault(topic, []).append(index)
        asked = AddPartitionsToTxnTransaction(
            name, *producer, topics=[AddPartitionsToTxnTopic(t, i) for t, i in topics.items()]
        )
        api = ApiKey.ADD_PARTITIONS_TO_TXN
        response = self.simulation.ask(api, version, AddPartitionsToTxnRequest([asked]))
        codes = {
            partition.partition_error_code
            for topic in response.results_by_transaction[0].topic_results
            for partition in topic.results_by_partition
        }
        if codes == {0}:
            now = self.simulation.machine.transactions[name]
            assert (now.producer_id, now.producer_epoch) == producer
            assert now.has_all({t: frozenset(i) for t, i in topics.items()})

    @rule(
        name=ids,
        client=clients,
        shift=epoch_shifts,
        commit=st.booleans(),
        version=st.sampled_from([2, 5]),
    )
    def end(self, name: str, client: str, shift: int, commit: bool, version: int) -> None:
        producer = self.producer(name, client, shift)
        before = self.simulation.machine.transactions.get(name)
        request = EndTxnRequest(name, *producer, commit)
        response = self.simulation.ask(ApiKey.END_TXN, version, request)
        self.learn(name, client, response)
        if response.error_code:
            assert self.simulation.machine.transactions.get(name) == before
        elif version >= EPOCH_BUMP_SINCE:
            assert (response.producer_id, response.producer_epoch) > producer

    @rule(name=ids, commit=st.booleans(), version=st.sampled_from([2, 5]))
    def transact(self, name: str, commit: bool, version: int) -> None:
        self.add(name, LAST, 0, [("t", 0)], False, 5)
        self.end(name, LAST, 0, commit, version)

    # -- what else happens

    @rule(time_ms=times_ms)
    def wait(self, time_ms: int) -> None:
        self.simulation.wait(time_ms)

    @rule(error=st.none() | failures)
    def fail_appends(self, error: ErrorCode | None) -> None:
        self.simulation.append_error = error

    @rule(hold=st.booleans())
    def hold(self, hold: bool) -> None:
        self.simulation.outbox.hold = hold
        if not hold:
            self.simulation.outbox.release()

    @rule(name=ids)
    def use_up_epochs(self, name: str) -> None:
        """As if its producer had been at work for long."""
        now = self.simulation.machine.transactions.get(name)
        if now is not None and now.state is EMPTY and now.producer_epoch < LAST_EPOCH_OF_CLIENTS:
            later = now._replace(producer_epoch=LAST_EPOCH_OF_CLIENTS - 1)
            self.simulation.write(TransactionRecord(name, later))
            for who, told in self.told.items():
                if who[0] == name and told == (now.producer_id, now.producer_epoch):
                    self.told[who] = (now.producer_id, later.producer_epoch)

    @rule(data=st.data())
    def write_again(self, data: st.DataObject) -> None:
        """Markers are written twice where a coordinator did not know that they were."""
        if not self.sent:
            return
        decision, markers = data.draw(st.sampled_from(self.sent))
        records = self.simulation.records
        stands = [r for r in records if r.transactional_id == markers.transactional_id][-1:]
        before = len(records)
        self.simulation.written(markers)
        if len(records) > before:
            assert stands[0] is decision, "another transaction was completed"

    @rule(times=st.integers(1, 2))
    def kill(self, times: int) -> None:
        for _ in range(times):
            self.simulation.restart()

    @rule(data=st.data())
    def kill_earlier(self, data: st.DataObject) -> None:
        """Had it been killed at any time before, it would have ended what was decided then."""
        length = data.draw(st.integers(0, len(self.simulation.log)), label="records")
        other = TransactionSimulation(LIMITS)
        for record in self.simulation.records[:length]:
            other.write(record)
        decided = {
            name: transaction
            for name, transaction in other.machine.transactions.items()
            if transaction.state in PREPARED
        }
        other.restart()
        other.outbox.release()
        for markers in list(other.outbox.held):
            other.written(markers)
        for name, transaction in other.machine.transactions.items():
            before = decided.get(name)
            assert transaction.state not in PREPARED
            if before is not None:
                expected = before.completed(other.now_ms)
                assert transaction.state is expected.state

    # -- what holds

    @invariant()
    def records_follow_each_other(self) -> None:
        records = self.simulation.records
        last: dict[str, Transaction] = {}
        for number, record in enumerate(records):
            name, now = record.transactional_id, record.transaction
            before = last.pop(name, None)
            if now is None:
                assert before is not None, "what is not there cannot be forgotten"
                assert before.state not in PREPARED, "it was being ended"
                continue
            last[name] = now
            if before is None or number < self.seen:
                continue
            assert now.state in MAY_FOLLOW[before.state]
            assert (now.producer_id, now.producer_epoch) >= (
                before.producer_id,
                before.producer_epoch,
            )
            assert now.last_update_timestamp_ms >= before.last_update_timestamp_ms
            if now.state in PREPARED:
                self.decided(record, now)
        self.seen = len(records)

    def decided(self, record: TransactionRecord, now: Transaction) -> None:
        """In version 2 an epoch has one transaction, and that has one end."""
        name = record.transactional_id
        unfinished = self.simulation.machine.unfinished()
        self.sent += [(record, each) for each in unfinished if each.prepared is now]
        if now.client_transaction_version >= EPOCH_BUMP:
            key = (name, now.producer_id, now.producer_epoch)
            assert self.ends.setdefault(key, now.commits) == now.commits, "ended in two ways"

    @invariant()
    def the_log_says_it_all(self) -> None:
        shard = TransactionMachine(LIMITS, self.simulation.producer_ids, self.simulation.outbox)
        self.simulation.replay_into(shard)
        assert shard.transactions == {
            name: transaction._replace(last_producer_epoch=-1)
            for name, transaction in self.simulation.machine.transactions.items()
        }

    @invariant()
    def markers_are_those_of_decisions(self) -> None:
        """What waits in the outbox is unfinished, or was finished since by others."""
        unfinished = list(self.simulation.machine.unfinished())
        held: list[Markers] = self.simulation.outbox.held
        assert all(markers in held for markers in unfinished)
        for transaction in self.simulation.machine.transactions.values():
            assert transaction.producer_epoch <= LAST_EPOCH_OF_CLIENTS or (
                transaction.state in PREPARED
            )


Schedule.TestCase.settings = settings(max_examples=50, stateful_step_count=40)
test_schedules = Schedule.TestCase
