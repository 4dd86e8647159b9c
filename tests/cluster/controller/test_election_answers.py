"""ElectLeaders, balancing and automatic elections: the leaders and the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.controller import deletion, elections
from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.elections import PREFERRED, UNCLEAN
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.state import ControllerState
from kwire.cluster.metadata.changes import AlterPartition, CreateTopic, MarkForDeletion, SetConfigs
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kwire.settings import BrokerConfig, ConfigResourceType
from tests.cluster.controller import laws
from tests.cluster.controller.simulation import Host
from tests.cluster.controller.test_controller_decisions import (
    LED,
    PARTITION,
    changes,
    controller_state,
    reply,
)

ELSEWHERE = replace(LED, leader=2)
"""Led by another than its preferred leader."""
LOST = replace(LED, leader=NO_LEADER, isr=(3,))
"""Of which the only one in sync is away."""
NEVER = unassigned_partition((2, 3))
"""Which nobody has led yet."""
NOT_NEEDED = "Leader election not needed for topic partition."


def elect(
    state: ControllerState, kind: int, wanted: dict[str, list[int]] | None
) -> tuple[list[AlterPartition], ElectLeadersResponse]:
    topics = None
    if wanted is not None:
        topics = [TopicPartitions(name, indexes) for name, indexes in wanted.items()]
    effects = elections.elect_leaders(state, ElectLeadersRequest(kind, topics))
    made = changes(state, effects)
    return made, reply(state, effects)


def led(made: list[AlterPartition]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.index, each.state.leader) for each in made]


def marked(state: ControllerState, name: str = "t") -> ControllerState:
    state.image = MarkForDeletion(name, state.image.topics[name].id).apply_to(state.image)
    return state


def with_topic(state: ControllerState, name: str, *partitions: PartitionImage) -> ControllerState:
    topic = TopicImage(name, name.encode() * 16, partitions)
    state.image = CreateTopic(topic).apply_to(state.image)
    for index, partition in enumerate(partitions):
        state.add_to_indexes((name, index), partition)
    return state


# -- by an administrator


def test_elect_leaders_answers_each_partition_in_request_order() -> None:
    state = with_topic(
        controller_state(LED, ELSEWHERE, replace(ELSEWHERE, isr=(2,))), "s", ELSEWHERE
    )
    made, answer = elect(state, PREFERRED, {"t": [2, 1, 0, 3], "s": [0], "n": [1]})
    assert led(made) == [("t", 1, 1), ("s", 0, 1)]
    assert answer == ElectLeadersResponse(
        error_code=ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                "t",
                [
                    PartitionResult(
                        2,
                        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                        "The preferred leader was not available.",
                    ),
                    PartitionResult(1, ErrorCode.NONE, None),
                    PartitionResult(0, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED),
                    PartitionResult(
                        3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-3"
                    ),
                ],
            ),
            ReplicaElectionResult("s", [PartitionResult(0, ErrorCode.NONE, None)]),
            ReplicaElectionResult(
                "n",
                [PartitionResult(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as n")],
            ),
        ],
    )


def test_elect_leaders_for_all_omits_partitions_that_need_no_election() -> None:
    state = with_topic(controller_state(LED, ELSEWHERE, replace(ELSEWHERE, isr=(2,))), "s", LED)
    made, answer = elect(state, PREFERRED, None)
    assert led(made) == [("t", 1, 1)]
    results = {
        each.topic: {its.partition_id: its.error_code for its in each.partition_result}
        for each in answer.replica_election_results
    }
    assert results == {
        "t": {1: ErrorCode.NONE, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE},
        "s": {},
    }


def test_unclean_election_is_refused_if_no_replica_can_lead() -> None:
    state = controller_state(replace(LOST, replicas=(3,)), LOST, LED, away=3)
    made, answer = elect(state, UNCLEAN, {"t": [0, 1, 2]})
    assert led(made) == [("t", 1, 1)]
    [topic] = answer.replica_election_results
    assert topic.partition_result == [
        PartitionResult(
            0,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        ),
        PartitionResult(1, ErrorCode.NONE, None),
        PartitionResult(2, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED),
    ]


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_election_of_a_new_partition_gives_it_its_first_leader(
    kind: int,
) -> None:
    [change], _ = elect(controller_state(NEVER), kind, {"t": [0]})
    assert (change.partition_epoch, change.state.leader, change.state.isr) == (-1, 2, (2, 3))
    assert (change.state.leader_epoch, change.state.recovering) == (0, False)


def test_preferred_leader_with_a_failed_disk_or_shutting_down_is_not_elected() -> None:
    state = controller_state(ELSEWHERE, ELSEWHERE)
    state.offline[1] = {PARTITION}
    assert led(elect(state, PREFERRED, {"t": [0, 1]})[0]) == [("t", 1, 1)]
    state.shutting_down.add(1)
    assert led(elect(state, PREFERRED, {"t": [1]})[0]) == []


def test_election_of_a_deleted_topic_is_refused() -> None:
    made, answer = elect(marked(controller_state(ELSEWHERE)), PREFERRED, {"t": [0]})
    assert made == []
    [topic] = answer.replica_election_results
    assert topic.partition_result == [
        PartitionResult(0, ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    ]


def test_unknown_election_type_is_refused_for_every_partition_and_the_request() -> None:
    state = controller_state(LED)
    request = ElectLeadersRequest(2, [TopicPartitions("t", [0, 4]), TopicPartitions("n", [1])])
    effects = elections.elect_leaders(state, request)
    assert effects.decisions == []
    refusal = (ErrorCode.INVALID_REQUEST, "Unknown election type 2")
    assert effects.reply == ElectLeadersResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ReplicaElectionResult(
                "t", [PartitionResult(0, *refusal), PartitionResult(4, *refusal)]
            ),
            ReplicaElectionResult("n", [PartitionResult(1, *refusal)]),
        ],
    )
    effects = elections.elect_leaders(state, ElectLeadersRequest(2, None))
    assert effects.reply == ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)


# -- who has none


@pytest.mark.parametrize(
    ("partition", "leader"),
    [
        (NEVER, 2),
        (LED, None),
        (replace(LED, leader=3), 1),
        (replace(LED, leader=NO_LEADER), 1),
        (LOST, None),
    ],
)
def test_leaderless_partition_gets_a_live_leader(
    partition: PartitionImage, leader: int | None
) -> None:
    state = controller_state(partition, away=3)
    made = changes(
        state, ControllerEffects(decisions=elections.leader_elections(state, [PARTITION]))
    )
    assert [each.state.leader for each in made] == ([] if leader is None else [leader])
    if made:
        assert made[0].state.controller_epoch == 9
        assert 3 not in made[0].state.isr


def test_leader_that_shuts_down_leads_until_it_has_left() -> None:
    state = controller_state(LED)
    state.shutting_down.add(1)
    assert (
        changes(state, ControllerEffects(decisions=elections.leader_elections(state, [PARTITION])))
        == []
    )


@pytest.mark.parametrize(
    ("given", "by_default", "leader"),
    [
        (None, "true", 1),
        (None, "false", None),
        ("true", "false", 1),
        (" TRUE ", "false", 1),
        ("false", "true", None),
    ],
)
def test_out_of_sync_replica_leads_if_topic_or_broker_allows_unclean_election(
    given: str | None, by_default: str, leader: int | None
) -> None:
    state = controller_state(LOST, away=3)
    config = BrokerConfig({"node.id": "1", laws.UNCLEAN: by_default})
    state.settings = Host(1, config, config)
    if given is not None:
        change = SetConfigs(ConfigResourceType.TOPIC, "t", {}, {laws.UNCLEAN: given})
        state.image = change.apply_to(state.image)
    made = changes(
        state, ControllerEffects(decisions=elections.leader_elections(state, [PARTITION]))
    )
    assert [(each.state.leader, each.state.isr, each.state.recovering) for each in made] == (
        [] if leader is None else [(leader, (leader,), True)]
    )


def test_leaders_are_elected_in_partition_order_without_deleted_partitions() -> None:
    state = controller_state(NEVER, NEVER)
    made = changes(
        state,
        ControllerEffects(
            decisions=elections.leader_elections(state, [("t", 1), PARTITION, ("n", 0)])
        ),
    )
    assert [each.index for each in made] == [0, 1]


def test_partition_of_a_deleted_topic_gets_a_leader_only_while_reassigned() -> None:
    led_by_nobody = replace(LED, leader=NO_LEADER)
    adding, removing = replace(led_by_nobody, adding=(3,)), replace(led_by_nobody, removing=(3,))
    state = marked(controller_state(led_by_nobody, adding, removing))
    topic_partitions = [("t", index) for index in range(3)]
    made = changes(
        state, ControllerEffects(decisions=elections.leader_elections(state, topic_partitions))
    )
    assert [each.index for each in made] == [1, 2]


# -- by the clock


def test_balancing_counts_preferred_partitions_for_each_broker() -> None:
    """Ten partitions prefer broker 1, two broker 2; each lacks one."""
    twos = replace(LED, replicas=(2, 1, 3))
    state = controller_state(*[LED] * 9, ELSEWHERE, replace(twos, leader=2), twos)
    assert led(changes(state, elections.balance_leaders(state))) == [("t", 11, 2)]


def test_balancing_elects_only_brokers_that_can_lead() -> None:
    state = controller_state(ELSEWHERE, NEVER, replace(ELSEWHERE, isr=(2, 3)), ELSEWHERE)
    state.offline[1] = {("t", 3)}
    effects = elections.balance_leaders(state)
    assert len(effects.decisions) == 1
    assert led(changes(state, effects)) == [("t", 0, 1)]


def test_balancing_elects_in_the_order_of_brokers_and_partitions() -> None:
    twos = replace(LED, replicas=(2, 1, 3), leader=3)
    state = controller_state(twos, ELSEWHERE, twos, ELSEWHERE)
    made = changes(state, elections.balance_leaders(state))
    assert led(made) == [("t", 1, 1), ("t", 3, 1), ("t", 0, 2), ("t", 2, 2)]


def test_balancing_skips_partitions_of_a_deleted_topic() -> None:
    state = marked(controller_state(ELSEWHERE))
    deletion.note_marked_topics(state)
    assert elections.balance_leaders(state).decisions == []


def test_balancing_runs_after_five_seconds_and_then_every_interval() -> None:
    config = BrokerConfig({"node.id": "1", "leader.imbalance.check.interval.seconds": "7"})
    machine = ClusterController(Host(1, config, config), controller_state(LED).image)
    assert machine.start().timers == [("balancing", 5000)]
    assert machine.timer_fired("balancing").timers == [("balancing", 7000)]


def test_disabled_balancing_sets_no_timer() -> None:
    config = BrokerConfig({"node.id": "1", "auto.leader.rebalance.enable": "false"})
    machine = ClusterController(Host(1, config, config), controller_state(LED).image)
    assert machine.start().timers == []


def test_elections_requested_in_the_store_elect_preferred_leaders() -> None:
    machine = ClusterController(
        controller_state(LED).settings, controller_state(ELSEWHERE, LED, ELSEWHERE).image
    )
    machine.start()
    effects = machine.preferred_elections_requested([("t", 2), ("t", 1), ("n", 0)])
    assert led(changes(machine.state, effects)) == [("t", 2, 1)]
    assert effects.then is None
