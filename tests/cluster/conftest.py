"""Fixtures of the tests of all stores."""

from __future__ import annotations

from functools import partial

import pytest

from kwire.cluster.stores.zookeeper import session
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    """A ZooKeeper in memory, to which all stores of the test connect instead of to a server."""
    made = Ensemble()
    monkeypatch.setattr(session, "KazooLink", partial(MemoryLink, made))
    return made
