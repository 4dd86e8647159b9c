"""The machine answers, and does, what Apache Kafka 3.9.2 did when it was told the same story.

But for the leader epochs: where replicas come and go, Apache Kafka takes some that nobody needs.
`answers.jsonl` is written by `pytest --rewrite -m long tests/controller/cluster/test_answers.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.controller.cluster.effects import Effects
from kwire.metadata.changes import Change, CreateTopic
from kwire.metadata.election import unassigned
from kwire.metadata.image import ClusterImage, TopicImage
from kwire.settings import BrokerConfig
from kwire.testing.zookeeper import ZooKeeperProcess
from tests.controller.cluster.answers import Place, State, Story
from tests.controller.cluster.simulation import Cluster, Term
from tests.controller.cluster.zookeeper_stage import ZooKeeperStage

ANSWERS = Path(__file__).with_name("answers.jsonl")
LEADER_EPOCH = 1
"""Where it stands in what is told of a partition."""
CONFIG = BrokerConfig({"node.id": "1", "auto.leader.rebalance.enable": "false"})


class SimulatedStage:
    """See tests.controller.cluster.answers.Stage."""

    def __init__(self) -> None:
        self._cluster = Cluster(3, CONFIG)
        self._cluster.laws.unclean.update(each.to_bytes(16, "big") for each in range(99))
        self._paused: set[int] = set()
        self._made = 0
        self._work()

    @property
    def _term(self) -> Term:
        assert self._cluster.term is not None
        return self._cluster.term

    @property
    def _image(self) -> ClusterImage:
        return self._cluster.store.image

    def _work(self) -> None:
        """All that is under way happens, but for what needs a broker that stands still."""
        while True:
            before, delivered = self._image, False
            self._term.see()
            while self._term.queue:
                self._term.work()
            for broker in self._cluster.live:
                while broker not in self._paused and self._cluster.deliver(self._term, broker):
                    delivered = True
            self._join()
            if not delivered and self._image is before and not self._term.queue:
                return

    def _join(self) -> None:
        """Leaders say that their followers have caught up; who stands still stays as it is."""
        for name, topic in list(self._image.topics.items()):
            for index, known in enumerate(topic.partitions):
                following = {each for each in self._cluster.live if each not in self._paused}
                if known.leader not in self._paused:
                    self._cluster.propose_isr((name, index), [*following, *known.isr])

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        self._made += 1
        topic_id = self._made.to_bytes(16, "big")
        partitions = tuple([unassigned(tuple(each)) for each in assignment])

        def create(_: ClusterImage) -> Change:
            return CreateTopic(TopicImage(topic, topic_id, partitions))

        self._term.take(Effects(decisions=[create]))
        self._work()

    def ask(self, request: Any) -> Any:  # noqa: ANN401 - any request and its reply
        machine = self._term.machine
        question: dict[int, Callable[[Any], Effects]] = {
            43: machine.elect_leaders,
            45: machine.alter_reassignments,
            46: machine.list_reassignments,
        }
        replies: list[Any] = []
        self._term.take(question[request.API_KEY](request), replies.append)
        while not replies:
            self._term.work()
        return replies[0]

    def state(self, place: Place) -> State:
        known = self._image.topics[place[0]].partitions[place[1]]
        return State(
            known.leader,
            known.leader_epoch,
            known.replicas,
            frozenset(known.isr),
            known.adding,
            known.removing,
        )

    def settle(self, places: Sequence[Place]) -> None:
        self._work()

    def pause(self, broker: int) -> None:
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        self._paused.remove(broker)
        self._work()

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)
        self._work()

    def start(self, broker: int) -> None:
        self._cluster.start(broker)
        self._work()


def kept() -> list[Any]:
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def test_the_machine_does_what_apache_kafka_did() -> None:
    lines = [json.loads(json.dumps(line)) for line in Story(SimulatedStage()).lines()]
    for line, expected in zip(lines, kept(), strict=True):
        for place, state in expected["then"].items():
            theirs, ours = state[LEADER_EPOCH], line["then"][place][LEADER_EPOCH]
            assert 0 <= ours <= theirs, (line["asked"], place)
            line["then"][place][LEADER_EPOCH] = theirs
        assert line == expected


@pytest.mark.long
@pytest.mark.usefixtures("zookeeper_libs")
def test_apache_kafka_still_does_it(
    zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str, rewrite: bool
) -> None:
    with ZooKeeperStage(tmp_path, zookeeper.connect(f"/{unique}")) as stage:
        lines = list(Story(stage).lines())
    if rewrite:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        ANSWERS.write_text(text, encoding="utf-8")
    assert [json.loads(json.dumps(line)) for line in lines] == kept()
