"""A broker's lifecycle, driven by scripts, and beside requests of an Apache Kafka broker.

data/lifecycle-4.4.txt has the registrations and heartbeats of an Apache Kafka 4.4.0 broker and
their answers: a start, a controlled shutdown, a fast restart, another shutdown.  Each line has the
API key, the version, the request and the answer; repetitions are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import Endpoint
from kwire.cluster.stores.kraft.lifecycle import (
    FEATURES,
    AskLeader,
    BrokerIdentity,
    Effect,
    Lifecycle,
    Registered,
    Stop,
    Turn,
)
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.codecs.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.cluster.stores.kraft.features import LEVELS
from tests.cluster.stores.kraft.lifecycle_stage import IDENTITY, Stage
from tests.conftest import CheckScript

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "lifecycle_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_broker_does_what_the_script_says(path: Path, check_script: CheckScript) -> None:
    check_script(path, Stage().run)


@dataclass
class Exchange:
    """A request of the Apache Kafka broker, and the answer of its controller."""

    version: int
    sent: bytes
    request: BrokerRegistrationRequest | BrokerHeartbeatRequest
    answer: BrokerRegistrationResponse | BrokerHeartbeatResponse


def recorded() -> Iterator[Exchange]:
    for line in (HERE / "data" / "lifecycle-4.4.txt").read_text().splitlines():
        key, version, *parts = line.split()
        sent, answered = map(bytes.fromhex, parts)
        if int(key) == BrokerRegistrationRequest.API_KEY:
            yield Exchange(
                int(version),
                sent,
                BrokerRegistrationRequest.decode(sent, int(version)),
                BrokerRegistrationResponse.decode(answered, int(version)),
            )
        else:
            yield Exchange(
                int(version),
                sent,
                BrokerHeartbeatRequest.decode(sent, int(version)),
                BrokerHeartbeatResponse.decode(answered, int(version)),
            )


def identity_of(request: BrokerRegistrationRequest) -> BrokerIdentity:
    """The identity of the process that sent the request; its features are in no fixed order."""
    features = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    assert features == LEVELS
    return BrokerIdentity(
        request.cluster_id,
        request.broker_id,
        request.incarnation_id,
        tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners),
        tuple(request.log_dirs),
        request.rack,
        features,
    )


def test_requests_are_those_of_an_apache_kafka_broker() -> None:
    lifecycle = Lifecycle(IDENTITY)
    processes: list[list[Effect]] = []
    now_ms = 0
    for exchange in recorded():
        request = exchange.request
        if isinstance(request, BrokerRegistrationRequest):
            if request.incarnation_id != lifecycle.identity.incarnation:
                lifecycle = Lifecycle(identity_of(request), previous_epoch=lifecycle.epoch)
                processes.append([])
        else:
            lifecycle.offset = request.current_metadata_offset
            if request.cordoned_log_dirs is not None:
                lifecycle.set_directories((), tuple(request.cordoned_log_dirs), now_ms)
            if not request.want_fence:
                lifecycle.ready()
            if request.want_shut_down:
                lifecycle.leave(now_ms)
        ask = lifecycle.step(now_ms)
        assert isinstance(ask, AskLeader), ask
        assert ask.request.encode(exchange.version) == exchange.sent
        processes[-1] += lifecycle.answered(ask, exchange.answer, now_ms)
        if isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down:
            assert lifecycle.step(now_ms) == Stop(is_controlled=True)
        now_ms += 2_000
    turns = [Turn.CAUGHT_UP, Turn.UNFENCED, Turn.FENCED]
    assert processes == [[Registered(21), *turns], [Registered(60), *turns]]


def test_registered_features_are_those_of_apache_kafka_from_the_oldest_supported_level_on() -> None:
    assert dict(FEATURES) == {**LEVELS, "metadata.version": (21, 33)}


def test_clean_stop_is_named_in_the_next_registration() -> None:
    assert Stage(previous_epoch=29).run("next") == [
        "register: directories a b, epoch before 29 (9000 ms)"
    ]


def test_second_request_before_the_answer_is_an_error() -> None:
    lifecycle = Lifecycle(IDENTITY)
    ask = lifecycle.step(0)
    assert isinstance(ask, AskLeader)
    with pytest.raises(RuntimeError, match="not answered yet"):
        lifecycle.step(0)
    lifecycle.failed(ask, "no answer", 0)
    with pytest.raises(RuntimeError, match="not this broker's last one"):
        lifecycle.failed(ask, "no answer", 0)
