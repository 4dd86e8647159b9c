"""Fixtures with brokers for the tests of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.requests.handlers.node import Node


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes a broker without sockets, with its own settings."""
    made: list[Node] = []

    def make(settings: Mapping[str, str] | None = None) -> Node:
        made.append(Node(tmp_path / f"node-{len(made)}", settings))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()
