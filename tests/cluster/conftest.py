"""What the tests of all stores share."""

from __future__ import annotations

from functools import partial

import pytest

from kwire.cluster.stores.zookeeper import session
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    """A ZooKeeper in memory: every store of this test talks to it instead of a server."""
    made = Ensemble()
    monkeypatch.setattr(session, "Link", partial(MemoryLink, made))
    return made
