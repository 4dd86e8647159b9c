"""Images are values: each change is a new image and leaves the old one unchanged."""

from __future__ import annotations

import dataclasses

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from tests.cluster.metadata.images import topic

TOPIC, GROUP = 2, 32


def test_topics_are_found_by_name_and_by_id() -> None:
    empty = ClusterImage("c")
    image = empty.with_topics([topic("a", 1), topic("b", 2)])
    assert empty.topics == {}
    assert image.topic_by_id(topic("b", 2).id) == image.topics["b"]
    assert image.topic_by_id(bytes(16)) is None
    assert dict(image.names_by_id) == {topic("a", 1).id: "a", topic("b", 2).id: "b"}


def test_recreated_topic_is_found_only_by_its_new_id() -> None:
    image = ClusterImage("c").with_topics([topic("a", 1)]).with_topics([topic("a", 7)])
    assert dict(image.names_by_id) == {topic("a", 7).id: "a"}


def test_added_partitions_do_not_change_the_topic_id() -> None:
    image = ClusterImage("c").with_topics([topic("a", 1)]).with_topics([topic("a", 1, 3)])
    assert len(image.topics["a"].partitions) == 3
    assert dict(image.names_by_id) == {topic("a", 1).id: "a"}


def test_names_like_finds_topics_with_the_same_metric_name() -> None:
    image = ClusterImage("c").with_topics([topic("a.b", 1), topic("a_b", 2), topic("ab", 3)])
    assert set(image.names_like("a.b")) == set(image.names_like("a_b")) == {"a.b", "a_b"}
    assert image.names_like("ab") == ()
    assert image.with_topics([topic("a.b", 9)]).names_like("a_b") == ("a_b", "a.b")
    left = image.without_topics(["a.b", "a_b"])
    assert image.without_topics(["a.b"]).names_like("a.b") == ("a_b",)
    assert dict(left.names_by_metric) == {}


def test_deleting_a_topic_deletes_its_configs() -> None:
    image = ClusterImage("c").with_topics([topic("a", 1), topic("b", 2)])
    for name in ("a", "b"):
        image = image.with_configs(TOPIC, name, {"retention.ms": "1"})
    image = image.with_configs(GROUP, "a", {"consumer.session.timeout.ms": "50000"})
    after = image.without_topics(["a", "unknown"])
    assert set(after.topics) == {"b"}
    assert set(after.names_by_id.values()) == {"b"}
    assert set(after.configs) == {(TOPIC, "b"), (GROUP, "a")}
    assert set(image.topics) == {"a", "b"}


def test_resource_without_configs_has_no_entry() -> None:
    image = ClusterImage("c").with_configs(TOPIC, "a", {"retention.ms": "1"})
    assert image.configs_of(TOPIC, "a") == {"retention.ms": "1"}
    assert image.with_configs(TOPIC, "a", {}).configs == {}
    assert image.configs_of(TOPIC, "b") == {}


def test_image_copies_the_configs_it_gets() -> None:
    given = {"retention.ms": "1"}
    image = ClusterImage("c").with_configs(TOPIC, "a", given)
    given["retention.ms"] = "2"
    assert image.configs_of(TOPIC, "a") == {"retention.ms": "1"}


def test_broker_has_an_endpoint_for_each_listener() -> None:
    inside, outside = Endpoint("IN", "10.0.0.1", 9092), Endpoint("OUT", "example.org", 19092)
    image = ClusterImage("c").with_broker(BrokerImage(1, (inside, outside)))
    assert image.brokers[1].endpoint("OUT") is outside
    assert image.brokers[1].endpoint("OTHER") is None


def test_image_is_immutable() -> None:
    image = ClusterImage("c").with_topics([topic("a", 1)])
    with pytest.raises(dataclasses.FrozenInstanceError):
        image.version = 2  # type: ignore[misc] # that it cannot is what is tested
    with pytest.raises(TypeError):
        image.topics["b"] = topic("b", 2)  # type: ignore[index] # likewise
