"""Tests a link to a cluster whose brokers may have applied different metadata."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from kwire.codecs.primitives import Message
from kwire.conformance.chaos.cluster_link import ClusterLink
from kwire.conformance.chaos.wire import Link, Refused


def cluster_of(monkeypatch: pytest.MonkeyPatch, *lists: list[str]) -> ClusterLink:
    """A link to brokers that report these topics."""
    addresses = [("broker", number) for number in range(len(lists))]
    by_link: dict[Link, list[str]] = {}

    def ask(self: Link, request: Message) -> Any:  # noqa: ANN401 - any response
        topics = [MetadataResponseTopic(name=name, partitions=[]) for name in by_link[self]]
        return MetadataResponse(topics=topics)

    monkeypatch.setattr(Link, "ask", ask)
    link = ClusterLink(addresses)
    by_link.update(zip(link._links.values(), lists, strict=True))
    return link


def test_topics_are_refused_while_brokers_report_different_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = cluster_of(monkeypatch, ["a"], ["a", "b"], ["a", "b"])
    with pytest.raises(Refused, match="TOPICS_DIFFER"):
        link.topics()


def test_topics_that_all_brokers_report_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    link = cluster_of(monkeypatch, ["a", "b"], ["b", "a"], ["a", "b"])
    assert sorted(link.topics()) == ["a", "b"]
