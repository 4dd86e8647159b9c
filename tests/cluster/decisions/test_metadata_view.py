"""The views from which Metadata is answered follow the image by its deltas."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata.changes import Conflict, RegisterBroker, UnregisterBroker, apply
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.metadata.views import MetadataView, MetadataViews
from tests.cluster.metadata.histories import NAMES, change_of

LISTENER = "PLAINTEXT"
OWN = BrokerImage(1, (Endpoint(LISTENER, "here", 9092),))


def contents_of(view: MetadataView) -> object:
    return view.brokers, view.names(), [view.topic(name) for name in NAMES]


def contents_of_new_view(image: ClusterImage) -> object:
    return contents_of(MetadataView(image, LISTENER, True, OWN))


def test_view_follows_registered_and_unregistered_brokers() -> None:
    views, image = MetadataViews(OWN), ClusterImage("c")
    other = BrokerImage(2, (Endpoint(LISTENER, "there", 9092),))
    for change in (RegisterBroker(other), UnregisterBroker(2)):
        contents_of(views.of(image, LISTENER, True))
        after = apply(image, change)
        views.follow(image, after, delta_of(image, after, [change]))
        image = after
        assert contents_of(views.of(image, LISTENER, True)) == contents_of_new_view(image)


def test_view_without_brokers_has_its_own_broker() -> None:
    views, image = MetadataViews(OWN), ClusterImage("c")
    assert [broker.node_id for broker in views.of(image, LISTENER, True).brokers] == [1]
    after = apply(image, RegisterBroker(BrokerImage(2, (Endpoint(LISTENER, "there", 9092),))))
    assert [broker.node_id for broker in views.of(after, LISTENER, True).brokers] == [2]


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_updated_view_equals_a_new_view(data: st.DataObject) -> None:
    views, image = MetadataViews(OWN), ClusterImage("c")
    for _ in range(data.draw(st.integers(1, 10))):
        if data.draw(st.booleans()):
            assert contents_of(views.of(image, LISTENER, True)) == contents_of_new_view(image)
        change = data.draw(change_of(image))
        try:
            after = apply(image, change)
        except Conflict:
            continue
        views.follow(image, after, delta_of(image, after, [change]))
        image = after
    assert contents_of(views.of(image, LISTENER, True)) == contents_of_new_view(image)
