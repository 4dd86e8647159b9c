"""What the tests of the Produce shortcut share."""

from __future__ import annotations

import pytest

from kwire.broker.broker import Broker
from kwire.requests.shortcuts.produce import RepeatedProduce


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request used the shortcut, in the order of the requests."""
    went: list[bool] = []
    answer = RepeatedProduce.answer

    def counted(self: RepeatedProduce, frame: memoryview, broker: Broker) -> object:
        reply = answer(self, frame, broker)
        went.append(reply is not None)
        return reply

    monkeypatch.setattr(RepeatedProduce, "answer", counted)
    return went
