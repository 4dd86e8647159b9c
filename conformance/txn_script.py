"""Scripts of transactional requests as text, for brokers and for coordinators without a broker.

Each line is one request of a named producer, with the response below it:

    init a
      NONE P1:0
    add a t:0 t:1
      NONE
    commit a
      NONE P1:1

Producer ids are named P1, P2 and so on in the order of their first appearance, so the text does not
depend on the ids.

    init NAME [v=5 timeout=60000]
    add NAME topic:partition ... [v=5]      verify NAME topic:partition ... [v=5]
    offsets NAME GROUP [v=4]
    commit NAME [v=5]    abort NAME [v=5]
    describe    list [v=2 states=A,B producers=P1,P2 longer=MS pattern=REGEX]
    wait MS

By default a producer has the id and epoch of its last response of InitProducerId or EndTxn, and a
new one requests an id.  `producer=P1 epoch=0` replaces them (`producer=-1 epoch=-1`: none), and
`id=X` replaces the script's transactional id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_transactions import ListTransactionsRequest

AnyMessage = Any
"""A request or response of any API and version."""

Arguments = dict[str, str]
Producer = tuple[int, int]
"""Producer id and epoch."""

NOBODY: Producer = (-1, -1)
BATCHED_SINCE = 4  # AddPartitionsToTxn


class TransactionTarget(Protocol):
    """A broker or a coordinator without one, to which a script sends its requests."""

    def ask(self, api: ApiKey, version: int, request: AnyMessage) -> AnyMessage:
        """Return the response, after everything that follows from the request, such as writing
        markers."""

    def wait(self, time_ms: int) -> None:
        """Let `time_ms` milliseconds pass."""


class TransactionScript:
    """Runs the lines of one script against a target."""

    def __init__(self, target: TransactionTarget, transactional_id: str) -> None:
        """Prepare scripts about one transactional id."""
        self._target = target
        self._transactional_id = transactional_id
        self._producers: dict[str, Producer] = {}
        self._names: dict[int, str] = {}
        self._commands: dict[str, Callable[[list[str], Arguments], Iterator[str]]] = {
            "init": self._init,
            "add": self._add,
            "verify": self._verify,
            "offsets": self._offsets,
            "commit": self._commit,
            "abort": self._abort,
            "describe": self._describe,
            "list": self._list,
            "wait": self._wait,
        }

    def run(self, line: str) -> list[str]:
        """Return the formatted responses to one line."""
        command, *words = line.split()
        arguments = dict(word.split("=", 1) for word in words if "=" in word)
        return list(self._commands[command]([w for w in words if "=" not in w], arguments))

    def name_producer(self, name: str, producer_id: int) -> None:
        """Use `name` for a producer id in formatted responses."""
        self._names[producer_id] = name

    # Requests

    def _init(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        """Yield the response to `init NAME`; only with `epoch=` the request has an id and epoch."""
        name = words[0]
        producer_id, epoch = self._producer(name, arguments) if "epoch" in arguments else NOBODY
        request = InitProducerIdRequest(
            transactional_id=self._id(arguments),
            transaction_timeout_ms=int(arguments.get("timeout", 60_000)),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        yield self._learn(name, self._ask(ApiKey.INIT_PRODUCER_ID, 5, arguments, request))

    def _add(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        yield self._add_or_verify(words, arguments, verify=False)

    def _verify(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        yield self._add_or_verify(words, arguments, verify=True)

    def _add_or_verify(self, words: list[str], arguments: Arguments, verify: bool) -> str:
        """Return the response to `add` or `verify`.

        Older versions have one transaction in fields of the request, newer ones have a list.
        """
        name, *places = words
        producer_id, epoch = self._producer(name, arguments)
        topics: dict[str, list[int]] = {}
        for topic, index in (place.rsplit(":", 1) for place in places):
            topics.setdefault(topic, []).append(int(index))
        named = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()]
        transactional_id = self._id(arguments)
        if int(arguments.get("v", 5)) < BATCHED_SINCE:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=named,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id, producer_id, epoch, verify, named
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        return _describe_errors(self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, arguments, request))

    def _offsets(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        """Yield the response to `offsets NAME GROUP`."""
        name, group_id = words
        request = AddOffsetsToTxnRequest(
            self._id(arguments), *self._producer(name, arguments), group_id
        )
        response = self._ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, arguments, request)
        yield ErrorCode(response.error_code).name

    def _commit(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        yield self._end(words[0], arguments, committed=True)

    def _abort(self, words: list[str], arguments: Arguments) -> Iterator[str]:
        yield self._end(words[0], arguments, committed=False)

    def _end(self, name: str, arguments: Arguments, committed: bool) -> str:
        producer_id, epoch = self._producer(name, arguments)
        request = EndTxnRequest(self._id(arguments), producer_id, epoch, committed)
        return self._learn(name, self._ask(ApiKey.END_TXN, 5, arguments, request))

    def _describe(self, _words: list[str], arguments: Arguments) -> Iterator[str]:
        """Yield the state of the transaction, or the error."""
        request = DescribeTransactionsRequest([self._id(arguments)])
        response = self._ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, arguments, request)
        state = response.transaction_states[0]
        error = ErrorCode(state.error_code)
        if error is not ErrorCode.NONE:
            yield error.name
            return
        started = " started" if state.transaction_start_time_ms != -1 else ""
        places = sorted(f" {t.topic}:{index}" for t in state.topics for index in t.partitions)
        yield (
            f"{state.transaction_state} {self._name(state.producer_id)}:{state.producer_epoch}"
            f" timeout={state.transaction_timeout_ms}{started}{''.join(places)}"
        )

    def _list(self, _words: list[str], arguments: Arguments) -> Iterator[str]:
        """Yield the listed transactions of this script; other ids of the broker are left out."""
        producers = _list_of(arguments.get("producers"))
        request = ListTransactionsRequest(
            state_filters=_list_of(arguments.get("states")),
            producer_id_filters=[self._producer_id(name) for name in producers],
            duration_filter=int(arguments.get("longer", -1)),
            transactional_id_pattern=arguments.get("pattern"),
        )
        response = self._ask(ApiKey.LIST_TRANSACTIONS, 2, arguments, request)
        mine = sorted(
            f" {state.transaction_state}/{self._name(state.producer_id)}"
            for state in response.transaction_states
            if state.transactional_id.startswith(self._transactional_id)
        )
        unknown = "".join(f" unknown={name}" for name in sorted(response.unknown_state_filters))
        yield ErrorCode(response.error_code).name + "".join(mine) + unknown

    def _wait(self, words: list[str], _arguments: Arguments) -> Iterator[str]:
        self._target.wait(int(words[0]))
        yield from ()

    # Names

    def _ask(
        self, api: ApiKey, default: int, arguments: Arguments, request: AnyMessage
    ) -> AnyMessage:
        return self._target.ask(api, int(arguments.get("v", default)), request)

    def _id(self, arguments: Arguments) -> str:
        return arguments.get("id", self._transactional_id)

    def _producer(self, name: str, arguments: Arguments) -> Producer:
        """Return the id and epoch of a request: the producer's, unless arguments replace them."""
        producer_id, epoch = self._producers.get(name, NOBODY)
        if "producer" in arguments:
            producer_id = self._producer_id(arguments["producer"])
        return producer_id, int(arguments.get("epoch", epoch))

    def _producer_id(self, name: str) -> int:
        """Return the producer id with this name; a number stands for itself."""
        ids = (producer_id for producer_id, given in self._names.items() if given == name)
        producer_id = next(ids, None)
        return int(name) if producer_id is None else producer_id

    def _name(self, producer_id: int) -> str:
        return self._names.setdefault(producer_id, f"P{len(self._names) + 1}")

    def _learn(self, name: str, response: AnyMessage) -> str:
        """Return the formatted response of InitProducerId or EndTxn; notes the producer's new id
        and epoch."""
        text = ErrorCode(response.error_code).name
        if response.error_code or response.producer_id == -1:
            return text
        self._producers[name] = (response.producer_id, response.producer_epoch)
        return f"{text} {self._name(response.producer_id)}:{response.producer_epoch}"


def _describe_errors(response: AnyMessage) -> str:
    """Return the error of all partitions, or one error for each if they differ."""
    if response.error_code:
        return "all: " + ErrorCode(response.error_code).name
    topics = response.results_by_topic_v3_and_below
    for result in response.results_by_transaction:
        topics = result.topic_results
    codes = {
        f"{topic.name}:{partition.partition_index}": ErrorCode(partition.partition_error_code)
        for topic in topics
        for partition in topic.results_by_partition
    }
    if len(set(codes.values())) <= 1:
        return "".join({code.name for code in codes.values()}) or "no partitions"
    return " ".join(f"{place}={code.name}" for place, code in sorted(codes.items()))


def _list_of(text: str | None) -> list[str]:
    return text.split(",") if text else []
