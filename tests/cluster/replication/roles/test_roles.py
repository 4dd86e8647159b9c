"""Which partitions a broker leads and follows after each change of the metadata."""

from __future__ import annotations

from pathlib import Path

from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.image import NO_LEADER
from kwire.codecs.errors import ErrorCode
from tests.cluster.replication.roles.stage import EPOCH, TOPIC, TOPIC_ID, roles, state

OTHER_ID = b"o" * 16


async def test_replica_leads_if_the_metadata_name_it_the_leader(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1, epoch=3, partition_epoch=7))
        partition = stage.partition()
        assert partition.is_leader
        assert (partition.leader_epoch, partition.partition_epoch, partition.isr) == (3, 7, (1, 2))
        assert stage.led == [(0, True)]
        assert await stage.fetched_from() == []


async def test_replica_fetches_from_the_leader_in_its_registration(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2, epoch=3))
        [(leader, request)] = await stage.fetches()
        assert leader == 2
        assert request.replica_state is not None
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, EPOCH)
        assert request.topics[0].topic_id == TOPIC_ID
        assert request.topics[0].partitions[0].current_leader_epoch == 3
        assert stage.led == []


async def test_follower_fetches_from_the_new_leader_in_a_later_epoch(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2, (1, 2, 3)))
        assert await stage.fetched_from() == [2]
        stage.change(leader=3, leader_epoch=1)
        assert await stage.fetched_from() == [3]
        stage.change(leader=1, leader_epoch=2)
        assert await stage.fetched_from() == []
        assert stage.led == [(0, True)]


async def test_leader_follows_after_another_was_elected(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1))
        stage.append()
        outcomes: list[ErrorCode] = []
        stage.partition().when_replicated(1, outcomes.append)
        stage.change(leader=2, leader_epoch=1)
        assert await stage.fetched_from() == [2]
        assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert stage.led == [(0, True), (0, False)]


async def test_leader_elected_again_begins_another_epoch(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1))
        stage.append()
        stage.change(leader_epoch=1)
        assert stage.partition().log.epochs.entries == [(0, 0), (1, 1)]
        assert stage.led == [(0, True), (0, True)]


async def test_replica_without_a_leader_fetches_nothing_until_one_is_elected(
    tmp_path: Path,
) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2))
        assert await stage.fetched_from() == [2]
        stage.change(leader=NO_LEADER, leader_epoch=1, isr=())
        assert await stage.fetched_from() == []
        assert stage.partition().leader_epoch == 1
        stage.change(leader=2, leader_epoch=2, isr=(2,))
        assert await stage.fetched_from() == [2]


async def test_follower_keeps_its_fetch_when_only_the_isr_changes(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2, (1, 2, 3)))
        await wait_all_tasks_blocked()
        calls = list(stage.calls)
        stage.change(isr=(1, 2))
        await wait_all_tasks_blocked()
        assert stage.calls == calls
        assert stage.partition().isr == (1, 2)
        assert stage.partition().partition_epoch == 1


async def test_high_watermark_advances_after_the_controller_shrinks_the_isr(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1))
        stage.append()
        assert stage.partition().high_watermark == 0
        stage.change(isr=(1,))
        assert stage.partition().high_watermark == 1
        assert stage.led == [(0, True)]


async def test_state_before_the_answer_to_alter_partition_changes_nothing(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1, isr=(1,), partition_epoch=4))
        leading = stage.partition().leading
        assert leading is not None
        leading.settled((1, 2), 5)
        stage.change(partition_epoch=4, adding=(3,))
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1, 2), 5)


async def test_proposed_isr_counts_until_the_metadata_have_a_later_state(tmp_path: Path) -> None:
    """The record that the controller wrote for one proposal may come after the next proposal."""
    async with roles(tmp_path) as stage:
        stage.place(state(1, (1, 2, 3), isr=(1,)))
        leading = stage.partition().leading
        assert leading is not None
        stage.fetched_by(2, 0)
        proposed = [stage.proposed]
        leading.settled((1, 2), 1)
        stage.fetched_by(3, 0)
        proposed.append(stage.proposed)
        stage.change(isr=(1, 2), partition_epoch=1)
        proposed.append(stage.proposed)
        assert proposed == [(1, 2), (1, 2, 3), (1, 2, 3)]
        stage.append()
        stage.fetched_by(2, 1)
        assert stage.partition().high_watermark == 0
        stage.change(isr=(1, 2), partition_epoch=2)
        assert stage.proposed is None


async def test_first_other_replica_may_join_the_isr_in_the_same_leader_epoch(
    tmp_path: Path,
) -> None:
    """A reassignment adds replicas and does not begin a leader epoch."""
    async with roles(tmp_path) as stage:
        stage.place(state(1, (1,)))
        stage.append()
        assert stage.partition().high_watermark == 1
        stage.change(replicas=(1, 2), adding=(2,))
        stage.append()
        stage.fetched_by(2, 0)
        assert stage.proposed is None
        stage.fetched_by(2, 2)
        assert stage.proposed == (1, 2)


async def test_replica_that_was_removed_is_deleted(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1, (1, 2)), state(2, (1, 2)))
        for index in (0, 1):
            stage.change(index, replicas=(2, 3), leader=2, leader_epoch=1, isr=(2, 3))
            assert stage.find(index) is None
        assert stage.led == [(0, True), (0, False), (1, False)]
        assert await stage.fetched_from() == []
        assert not [path for path in (tmp_path / "a").iterdir() if path.name in ("t-0", "t-1")]


async def test_replica_that_was_added_is_created_and_follows(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2, (2, 3)))
        assert stage.find() is None
        stage.change(replicas=(2, 3, 1), adding=(1,))
        assert await stage.fetched_from() == [2]


async def test_deleted_topic_is_deleted_here(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1), state(2))
        stage.publish(stage.image.without_topics([TOPIC]))
        assert (stage.find(0), stage.find(1)) == (None, None)
        assert await stage.fetched_from() == []
        assert stage.broker.logs.logs == {}


async def test_topic_that_is_created_anew_begins_with_empty_logs(tmp_path: Path) -> None:
    """One delta can delete a topic and create another of its name."""
    async with roles(tmp_path) as stage:
        stage.place(state(1, (1,)), state(1, (1,)))
        stage.append()
        image = stage.image.without_topics([TOPIC])
        stage.image = image
        stage.place(state(1, (1,)), topic_id=OTHER_ID)
        assert stage.partition().topic_id == OTHER_ID
        assert stage.partition().log_end_offset == 0
        assert stage.find(1) is None


async def test_follower_stops_in_a_controlled_shutdown_once_others_go_on(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(2), state(3, (1, 3)), state(2, (1, 2)))
        assert sorted(await stage.fetched_from()) == [2, 3]
        stage.roles.begin_shutdown()
        stage.change(0, isr=(2,))
        stage.change(1, leader=NO_LEADER, leader_epoch=1, isr=())
        stage.change(2, adding=(3,))
        assert await stage.fetched_from() == [2]
        assert [stage.partition(index).following for index in range(3)] == [False, False, True]
