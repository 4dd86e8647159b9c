"""A sequence of elections and reassignments that any cluster of three brokers can run.

`answers.jsonl` records how Apache Kafka 3.9.2 answered it.  Tests run it on the controller machine
in the simulated cluster, and on brokers of kwire.  Broker 1 is the controller throughout.  A line
has the request or event, the errors or partitions of the answer, and the states of its partitions
once the cluster is idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

TopicPartition = tuple[str, int]
PREFERRED, UNCLEAN = 0, 1
TIMEOUT_MS = 30_000
LEADER_EPOCH = 1
"""The index of the leader epoch in State.as_list."""


@dataclass(frozen=True)
class State:
    """The state of a partition in the store; the order of the ISR does not matter."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def as_list(self) -> list[object]:
        return [
            self.leader, self.leader_epoch, list(self.replicas), sorted(self.isr),
            list(self.adding), list(self.removing),
        ]  # fmt: skip


class Stage(Protocol):
    """A cluster of the brokers 1, 2 and 3, of which 1 is the controller."""

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None: ...

    def ask(self, request: Any) -> Any:  # noqa: ANN401 - any request and its reply
        """The response of the controller."""

    def state(self, topic_partition: TopicPartition) -> State: ...

    def settle(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Return once all running brokers have nothing left to do, before the next line."""

    def pause(self, broker: int) -> None:
        """Pause a broker; the cluster does not notice yet."""

    def resume(self, broker: int) -> None: ...

    def kill(self, broker: int) -> None:
        """Kill a broker, and wait until the cluster notices."""

    def start(self, broker: int) -> None: ...


Line = dict[str, object]


class Story:
    """The sequence; `lines` runs it once and yields what happened."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._topics: dict[str, int] = {}

    def _create(self, topic: str, *assignment: list[int]) -> Line:
        self._topics[topic] = len(assignment)
        self._stage.create(topic, assignment)
        return self._told(f"create {topic} {assignment}", None, [topic])

    def _pause(self) -> Line:
        self._stage.pause(3)
        return self._told("broker 3 stands still", None, list(self._topics))

    def _resume(self) -> Line:
        self._stage.resume(3)
        return self._told("broker 3 goes on", None, list(self._topics))

    def _kill(self) -> Line:
        self._stage.kill(3)
        return self._told("broker 3 is gone", None, list(self._topics))

    def _start(self) -> Line:
        self._stage.start(3)
        return self._told("broker 3 is back", None, list(self._topics))

    def _told(self, asked: str, answer: object, topics: Sequence[str]) -> Line:
        topic_partitions = [
            (topic, index) for topic in topics for index in range(self._topics.get(topic, 0))
        ]
        self._stage.settle(topic_partitions)
        states = {
            f"{topic_partition[0]}-{topic_partition[1]}": self._stage.state(
                topic_partition
            ).as_list()
            for topic_partition in topic_partitions
        }
        return {"asked": asked, "answer": answer, "then": states}

    def _elect(self, kind: int, wanted: Mapping[str, Sequence[int]] | None) -> Line:
        topics = None
        if wanted is not None:
            topics = [TopicPartitions(name, list(each)) for name, each in wanted.items()]
        response = self._stage.ask(ElectLeadersRequest(kind, topics, TIMEOUT_MS))
        errors = {
            f"{result.topic}-{each.partition_id}": each.error_code
            for result in response.replica_election_results
            for each in result.partition_result
        }
        asked = f"{('preferred', 'unclean')[kind]} {_text(wanted)}"
        answer = [response.error_code, dict(sorted(errors.items()))]
        return self._told(asked, answer, list(wanted or self._topics))

    def _reassign(self, wanted: Mapping[str, Mapping[int, Sequence[int] | None]]) -> Line:
        topics = [
            ReassignableTopic(
                name,
                [
                    ReassignablePartition(index, None if replicas is None else list(replicas))
                    for index, replicas in its.items()
                ],
            )
            for name, its in wanted.items()
        ]
        response = self._stage.ask(AlterPartitionReassignmentsRequest(TIMEOUT_MS, True, topics))
        errors = {
            f"{topic.name}-{each.partition_index}": each.error_code
            for topic in response.responses
            for each in topic.partitions
        }
        answer = [response.error_code, dict(sorted(errors.items()))]
        return self._told(f"reassign {_text(wanted)}", answer, list(wanted))

    def _list(self, wanted: Mapping[str, Sequence[int]] | None = None) -> Line:
        topics = None
        if wanted is not None:
            topics = [
                ListPartitionReassignmentsTopics(name, list(its)) for name, its in wanted.items()
            ]
        response = self._stage.ask(ListPartitionReassignmentsRequest(TIMEOUT_MS, topics))
        found = {
            f"{topic.name}-{each.partition_index}": [
                each.replicas,
                each.adding_replicas,
                each.removing_replicas,
            ]
            for topic in response.topics
            for each in topic.partitions
        }
        answer = [response.error_code, dict(sorted(found.items()))]
        return self._told(f"list {_text(wanted)}", answer, [])

    def lines(self) -> Iterator[Line]:
        yield from self._refused()
        yield from self._moved()
        yield from self._under_way()
        yield from self._without_a_broker()

    def _refused(self) -> Iterator[Line]:
        yield self._create("t", [1, 2], [2, 1])
        yield self._create("t1", [1])
        yield self._elect(PREFERRED, {"t": [0, 1, 2], "n": [0]})
        yield self._elect(UNCLEAN, {"t": [0]})
        yield self._elect(PREFERRED, None)
        for replicas in ([], [1, 1], [-1], [9], [1, 9], None):
            yield self._reassign({"t": {0: replicas}})
        yield self._reassign({"t": {3: [1]}, "n": {0: [1]}})
        yield self._list()

    def _moved(self) -> Iterator[Line]:
        yield self._reassign({"t1": {0: [1, 2]}})
        yield self._reassign({"t1": {0: [3]}})
        yield self._reassign({"t1": {0: [3]}})
        yield self._reassign({"t": {0: [2, 1], 1: [2, 1, 3]}, "t1": {0: [3, 2, 1]}})
        yield self._elect(PREFERRED, {"t": [0, 1], "t1": [0]})
        yield self._elect(PREFERRED, {"t": [0]})
        yield self._reassign({"t": {0: [2, 3], 1: [2]}, "t1": {0: [1]}})

    def _under_way(self) -> Iterator[Line]:
        """Broker 3 is paused: what needs it does not end."""
        yield self._create("u", [1, 2])
        yield self._create("u1", [2], [1])
        yield self._pause()
        yield self._reassign({"u": {0: [3, 2]}, "u1": {0: [2, 3], 1: [3]}})
        yield self._list()
        yield self._list({"u": [0, 1], "u1": [1], "t": [0], "n": [0]})
        yield self._elect(PREFERRED, {"u": [0], "u1": [0, 1]})
        yield self._elect(UNCLEAN, {"u": [0], "u1": [0, 1]})
        yield self._reassign({"u": {0: [3, 2]}, "u1": {0: [3, 1], 1: [1, 2]}})
        yield self._list()
        yield self._reassign({"u": {0: None}, "u1": {0: None, 1: None}})
        yield self._list()
        yield self._reassign({"u": {0: [1, 3]}, "u1": {0: [3, 2]}})
        yield self._resume()
        yield self._list({"u": [0], "u1": [0]})
        yield self._elect(PREFERRED, {"u": [0], "u1": [0]})

    def _without_a_broker(self) -> Iterator[Line]:
        """Broker 3 is gone, and with it the logs that it alone had."""
        yield self._create("v", [3, 2], [2, 3])
        yield self._create("v1", [3])
        yield self._kill()
        yield self._elect(PREFERRED, {"v": [0, 1], "v1": [0]})
        yield self._elect(UNCLEAN, {"v": [0, 1], "v1": [0]})
        yield self._elect(UNCLEAN, None)
        yield self._reassign({"v": {0: [2, 3], 1: [1, 3]}, "v1": {0: [3, 1]}})
        yield self._list()
        yield self._reassign({"v": {0: [2], 1: [3]}})
        yield self._elect(UNCLEAN, {"v1": [0]})
        yield self._reassign({"v1": {0: [1]}})
        yield self._list()
        yield self._start()
        yield self._elect(PREFERRED, {"v": [0, 1], "v1": [0]})
        yield self._list()


def _text(wanted: object) -> str:
    return "all" if wanted is None else str(wanted)
