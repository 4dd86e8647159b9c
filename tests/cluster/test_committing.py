"""What a client is told when the metadata store cannot commit its request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from kwire.cluster.decisions.config_changes import ConfigChange
from kwire.cluster.membership import committing
from kwire.cluster.membership.committing import (
    ask_for_client,
    commit_configs,
    commit_for_client,
    create_internal_topic,
    still_missing,
)
from kwire.cluster.membership.contract import ClusterMembership
from kwire.cluster.metadata.changes import Decision
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import Fenced, NotController, StoreError
from kwire.codecs.errors import ErrorCode
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings

LOG = logging.getLogger("kwire.test")
WRONG_BROKER = (ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
FULL_DISK = (ErrorCode.KAFKA_STORAGE_ERROR, "disk is full")
OUTCOMES = [
    (Fenced("fenced"), WRONG_BROKER),
    (NotController("another broker is"), WRONG_BROKER),
    (StoreError("disk is full"), FULL_DISK),
    (None, None),
]


class Membership:
    """A membership that raises `error` at each request, if it is not None."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.image = ClusterImage("c")
        self.requests: list[object] = []
        self.waits_ms: list[int] = []
        self.next_image: ClusterImage | None = None

    def _done(self, request: object) -> None:
        self.requests.append(request)
        if self.error is not None:
            raise self.error

    async def commit(self, decisions: Sequence[Decision]) -> None:
        self._done(list(decisions))

    async def ask(self, question: Callable[..., object]) -> str:
        self._done(question)
        return "reply"

    async def create_internal_topic(self, name: str) -> None:
        self._done(name)

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        self.waits_ms.append(timeout_ms)
        self.image = self.next_image or self.image
        return seen(self.image)


def membership(fake: Membership) -> ClusterMembership:
    return cast(ClusterMembership, fake)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{each.name}: {each.getMessage()}" for each in caplog.records]


@pytest.mark.parametrize(("error", "told"), OUTCOMES)
async def test_failed_commit_is_refused_and_errors_of_the_disk_are_logged(
    caplog: pytest.LogCaptureFixture, error: Exception | None, told: tuple[ErrorCode, str] | None
) -> None:
    fake, decision = Membership(error), cast(Decision, object())
    refusal = await commit_for_client(membership(fake), [decision], LOG, "Cannot do it")
    assert (None if refusal is None else refusal.args) == told
    assert fake.requests == [[decision]]
    is_failed_disk = told == FULL_DISK
    assert logged(caplog) == (["kwire.test: Cannot do it: disk is full"] if is_failed_disk else [])


@pytest.mark.parametrize(("error", "told"), OUTCOMES)
async def test_failed_question_is_refused_and_errors_of_the_disk_are_logged(
    caplog: pytest.LogCaptureFixture, error: Exception | None, told: tuple[ErrorCode, str] | None
) -> None:
    fake, question = Membership(error), cast(Any, object())
    if told is None:
        assert await ask_for_client(membership(fake), question, LOG, "Cannot do it") == "reply"
    else:
        with pytest.raises(Refusal) as raised:
            await ask_for_client(membership(fake), question, LOG, "Cannot do it")
        assert raised.value.args == told
    assert fake.requests == [question]
    is_failed_disk = told == FULL_DISK
    assert logged(caplog) == (["kwire.test: Cannot do it: disk is full"] if is_failed_disk else [])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers"), ["too few brokers"]),
        (StoreError("disk is full"), ["disk is full"]),
        (None, []),
    ],
)
async def test_internal_topic_that_cannot_be_created_is_only_logged(
    caplog: pytest.LogCaptureFixture, error: Exception | None, said: list[str]
) -> None:
    fake = Membership(error)
    await create_internal_topic(membership(fake), "__share")
    assert fake.requests == ["__share"]
    prefix = "kwire.broker: Cannot create internal topic __share:"
    assert logged(caplog) == [f"{prefix} {each}" for each in said]


async def test_still_missing_is_what_the_last_image_lacks() -> None:
    fake = Membership(None)

    def missing(image: ClusterImage) -> list[str]:
        return [name for name in ("a", "b") if (2, name) not in image.configs]

    assert await still_missing(membership(fake), missing, 17) == ["a", "b"]
    fake.next_image = fake.image.with_configs(2, "a", {"x": "1"})
    assert await still_missing(membership(fake), missing, 18) == ["b"]
    fake.next_image = fake.next_image.with_configs(2, "b", {"x": "1"})
    assert list(await still_missing(membership(fake), missing, 19)) == []
    assert fake.waits_ms == [17, 18, 19]


@pytest.mark.parametrize(("error", "told"), OUTCOMES)
async def test_failed_commit_refuses_the_config_changes_that_were_not_refused_before(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, told: tuple[ErrorCode, str] | None
) -> None:
    decided: list[tuple[object, list[ConfigChange]]] = []

    def decisions(settings: object, changes: Sequence[ConfigChange]) -> list[Decision]:
        decided.append((settings, list(changes)))
        return []

    monkeypatch.setattr(committing, "config_decisions", decisions)
    wanted, refused = (ConfigChange(2, name, lambda before: before) for name in ("a", "b"))
    refused.refusal = before = Refusal(ErrorCode.INVALID_CONFIG, "before")
    settings = LiveSettings(BrokerConfig({"node.id": "1"}))
    fake = Membership(error)
    await commit_configs(membership(fake), settings, [wanted, refused], LOG)
    assert decided == [(settings, [wanted])]
    assert (None if wanted.refusal is None else wanted.refusal.args) == told
    assert refused.refusal is before
