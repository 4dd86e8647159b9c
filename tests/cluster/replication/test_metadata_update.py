"""How UpdateMetadata changes a broker's metadata image, and the delta of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
)
from kwire.cluster.replication.metadata_update import LEADER_DURING_DELETE, delta_of_update
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kwire.codecs.primitives import ZERO_UUID

ID, OTHER_ID = b"t" * 16, b"u" * 16
UNTOLD = PartitionImage(NO_LEADER, -1, -1, (), ())


def state(index: int, leader: int = 1, epoch: int = 5) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name="t",
        partition_index=index,
        controller_epoch=9,
        leader=leader,
        leader_epoch=epoch,
        isr=[1],
        zk_version=7,
        replicas=[1, 2],
        offline_replicas=[2],
    )


def led(leader: int = 1, epoch: int = 5) -> PartitionImage:
    """The image of the partition `state`."""
    return PartitionImage(leader, epoch, 7, (1, 2), (1,), (2,), controller_epoch=9)


def update_request(
    *states: UpdateMetadataPartitionState,
    topic_id: bytes = ID,
    brokers: tuple[UpdateMetadataBroker, ...] = (),
    controller_id: int = 3,
) -> UpdateMetadataRequest:
    topics = [UpdateMetadataTopicState("t", topic_id, list(states))] if states else []
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=9,
        topic_states=topics,
        live_brokers=list(brokers),
    )


def after(image: ClusterImage, request: UpdateMetadataRequest) -> ClusterImage:
    return delta_of_update(image, request).applied_to(image)


EMPTY = ClusterImage("cluster")


def partitions(image: ClusterImage) -> tuple[PartitionImage, ...]:
    return image.topics["t"].partitions


# -- topics


def test_new_topic_gets_the_partitions_of_the_request() -> None:
    delta = delta_of_update(EMPTY, update_request(state(0), state(1, leader=2, epoch=6)))
    assert delta.topics["t"].id == ID
    assert delta.topics["t"].partitions == (led(), led(2, 6))
    assert (delta.deleted, delta.partitions) == ({}, {"t": (0, 1)})


def test_update_of_an_old_version_is_applied_by_topic_name() -> None:
    """Before version 5 partitions are not grouped by topic; before version 7 topics have no id."""
    request = update_request()
    request.ungrouped_partition_states = [state(1), state(0, leader=2)]
    image = after(EMPTY, request)
    assert (image.topics["t"].id, partitions(image)) == (ZERO_UUID, (led(2), led()))


def test_topics_and_partitions_not_in_the_request_are_kept() -> None:
    image = after(EMPTY, update_request(state(0), state(1)))
    delta = delta_of_update(image, update_request(state(1, leader=2, epoch=6)))
    assert (delta.deleted, delta.partitions) == ({}, {"t": (1,)})
    assert partitions(delta.applied_to(image)) == (led(), led(2, 6))


def test_update_with_known_states_changes_no_topic() -> None:
    image = after(EMPTY, update_request(state(0)))
    delta = delta_of_update(image, update_request(state(0)))
    assert (delta.deleted, delta.topics, delta.partitions) == ({}, {}, {})


def test_partition_not_named_yet_has_no_leader() -> None:
    image = after(EMPTY, update_request(state(2)))
    assert partitions(image) == (UNTOLD, UNTOLD, led())
    image = after(image, update_request(state(0)))
    assert partitions(image) == (led(), UNTOLD, led())


def test_update_without_a_topic_id_keeps_the_known_id() -> None:
    image = after(EMPTY, update_request(state(0)))
    delta = delta_of_update(image, update_request(state(1), topic_id=ZERO_UUID))
    assert (delta.deleted, delta.topics["t"].id) == ({}, ID)
    assert delta.topics["t"].partitions == (led(), led())


def test_update_with_another_topic_id_replaces_the_topic() -> None:
    image = after(EMPTY, update_request(state(0), state(1)))
    delta = delta_of_update(image, update_request(state(0, leader=2), topic_id=OTHER_ID))
    assert (delta.deleted, delta.topics["t"].id) == ({"t": ID}, OTHER_ID)
    assert delta.topics["t"].partitions == (led(2),)


def test_topic_is_deleted_after_all_its_partitions_are() -> None:
    image = after(EMPTY, update_request(state(0), state(1)))
    delta = delta_of_update(image, update_request(state(0, leader=LEADER_DURING_DELETE)))
    assert delta.deleted == {}
    image = delta.applied_to(image)
    assert partitions(image) == (UNTOLD, led())
    delta = delta_of_update(image, update_request(state(1, leader=LEADER_DURING_DELETE)))
    assert (delta.deleted, delta.topics) == ({"t": ID}, {})
    assert "t" not in delta.applied_to(image).topics


def test_deleted_last_partitions_are_removed_from_the_topic() -> None:
    image = after(EMPTY, update_request(state(0), state(1), state(2)))
    delta = delta_of_update(
        image,
        update_request(
            state(2, leader=LEADER_DURING_DELETE), state(1, leader=LEADER_DURING_DELETE)
        ),
    )
    assert (delta.topics["t"].partitions, delta.partitions) == ((led(),), {"t": ()})


def test_deletion_of_an_unknown_topic_changes_nothing() -> None:
    delta = delta_of_update(EMPTY, update_request(state(0, leader=LEADER_DURING_DELETE)))
    assert (delta.deleted, delta.topics) == ({}, {})


def test_negative_partition_number_is_ignored() -> None:
    assert partitions(after(EMPTY, update_request(state(-1, leader=2), state(0)))) == (led(),)


# -- brokers and the controller


def broker(broker_id: int, protocol: int = 0, rack: str | None = "a") -> UpdateMetadataBroker:
    endpoint = UpdateMetadataEndpoint(9000 + broker_id, "host", "INSIDE", protocol)
    return UpdateMetadataBroker(broker_id, endpoints=[endpoint], rack=rack)


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "PLAINTEXT"), (1, "SSL"), (2, "SASL_PLAINTEXT"), (3, "SASL_SSL"), (4, "4"), (-1, "-1")],
)
def test_live_broker_has_its_endpoints_and_rack(number: int, name: str) -> None:
    image = after(EMPTY, update_request(brokers=(broker(1, number),)))
    assert image.brokers[1] == BrokerImage(1, (Endpoint("INSIDE", "host", 9001, name),), "a")


def test_listener_without_a_name_gets_the_name_of_its_protocol() -> None:
    """Before version 3 listeners have no names."""
    unnamed = UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(9001, "host", "", 1)])
    image = after(EMPTY, update_request(brokers=(unnamed,)))
    assert image.brokers[1].endpoints == (Endpoint("SSL", "host", 9001, "SSL"),)


def test_broker_of_the_first_version_has_one_plain_endpoint() -> None:
    oldest = UpdateMetadataBroker(1, v0_host="host", v0_port=9001)
    image = after(EMPTY, update_request(brokers=(oldest,)))
    assert image.brokers[1].endpoints == (Endpoint("PLAINTEXT", "host", 9001),)


def brokers_of(delta: ClusterDelta) -> dict[int, bool]:
    """For each changed broker, whether it is alive."""
    return {broker_id: broker is not None for broker_id, broker in delta.brokers.items()}


def test_brokers_not_in_the_request_are_removed() -> None:
    image = after(EMPTY, update_request(brokers=(broker(1), broker(2))))
    delta = delta_of_update(image, update_request(brokers=(broker(2), broker(3))))
    assert brokers_of(delta) == {1: False, 3: True}
    assert sorted(delta.applied_to(image).brokers) == [2, 3]
    delta = delta_of_update(image, update_request(brokers=(broker(1), broker(2, rack="b"))))
    assert brokers_of(delta) == {2: True}


def test_update_keeps_the_epoch_of_a_known_broker() -> None:
    image = after(EMPTY, update_request(brokers=(broker(1),)))
    image = image.with_broker(replace(image.brokers[1], epoch=77))
    image = after(image, update_request(brokers=(broker(1, rack="b"),)))
    assert (image.brokers[1].epoch, image.brokers[1].rack) == (77, "b")


@pytest.mark.parametrize(("controller", "known"), [(3, 3), (0, 0), (-1, NO_CONTROLLER)])
def test_update_sets_the_controller_of_the_image(controller: int, known: int) -> None:
    image = after(EMPTY, update_request(controller_id=controller))
    assert (image.controller_id, image.controller_epoch) == (known, 9)
    assert image.version == EMPTY.version + 1
