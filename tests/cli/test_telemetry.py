"""kwire telemetry: what a client of librdkafka is asked for, and pushes by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kwire.testing import BrokerProcess
from tests.commands.forked import run_kwire
from tests.inside import PATIENCE_S

pytestmark = pytest.mark.slow


def kwire(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap}
    done = run_kwire(*arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return done


def subscribe(broker: BrokerProcess, **settings: str) -> None:
    given = (("--set", f"{name.replace('_', '.')}={text}") for name, text in settings.items())
    kwire(
        broker,
        "configs",
        "alter",
        "client-metrics",
        "all",
        *(word for two in given for word in two),
    )


@contextmanager
def pushing(broker: BrokerProcess, client_id: str) -> Iterator[Producer]:
    """A producer that is at work."""
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": client_id, "log_level": 4}
    producer = Producer(settings)
    producer.produce("t", b"x")
    assert producer.flush(60) == 0
    yield producer
    del producer


def until(look: Callable[[], Any], producer: Producer) -> Any:  # noqa: ANN401 - what was looked for
    """What is there once the producer has pushed it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline
        producer.poll(0.1)
    return found


def test_telemetry_reports_missing_subscriptions_and_pushes(broker: BrokerProcess) -> None:
    assert "there are no subscriptions" in kwire(broker, "telemetry", "subscriptions").stderr
    for command in ("list", "show"):
        assert "no client has pushed metrics yet" in kwire(broker, "telemetry", command).stderr


def test_telemetry_shows_subscriptions_and_pushed_metrics(broker: BrokerProcess) -> None:
    subscribe(broker, metrics="org.apache.kafka.producer.", interval_ms="200")
    (told,) = json.loads(kwire(broker, "telemetry", "subscriptions", "--json").stdout)
    assert told == {
        "subscription": "all",
        "metrics": "org.apache.kafka.producer.",
        "interval.ms": "200",
        "match": "",
    }

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            kwire(broker, "telemetry", "list", "--json").stdout
        )
        return found

    with pushing(broker, "loader") as producer:
        until(lambda: listed()[0]["pushes"] > 1 if listed() else False, producer)
        (client,) = listed()
    assert client["client_id"] == "loader"
    assert "rdkafka" in client["client_software_version"]
    rows = kwire(broker, "telemetry", "list").stdout
    assert "loader" in rows
    assert client["client_instance_id"] in rows

    prefix = "org.apache.kafka.producer.connection"
    shown = kwire(broker, "telemetry", "describe", "loader", "--metric", prefix, "--json").stdout
    metrics = {each["name"]: each for each in json.loads(shown)["metrics"]}
    assert f"{prefix}.creation.total" in metrics
    assert metrics[f"{prefix}.creation.total"]["delta"] is True
    assert all(name.startswith(prefix) for name in metrics)
    table = kwire(broker, "telemetry", "show").stdout
    assert "org.apache.kafka.producer.request.latency.avg" in table
    assert kwire(broker, "telemetry", "show", "nobody").stdout == ""


def test_telemetry_watch_shows_new_pushes(broker: BrokerProcess) -> None:
    subscribe(broker, metrics="*", interval_ms="200")
    with pushing(broker, "loader") as producer:
        until(lambda: "loader" in kwire(broker, "telemetry", "list").stdout, producer)
        watching = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "telemetry", "describe", "--watch", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap},
        )
        with watching:
            assert watching.stdout is not None
            for line in (watching.stdout.readline() for _ in range(2)):
                assert json.loads(line)["client_id"] == "loader"
            watching.terminate()


def test_telemetry_skips_records_that_are_no_pushes(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("__client_telemetry", b"\xff nonsense", key=b"somebody")
    assert producer.flush(60) == 0
    done = kwire(broker, "telemetry", "show")
    assert "a push of 10 bytes is not OTLP" in done.stderr
    assert done.stdout == ""
