"""Who is asked for what, and by which id."""

from __future__ import annotations

import pytest

from kwire.broker.telemetry.subscriptions import (
    INTERVAL_MS_DEFAULT,
    Asked,
    Subscription,
    Subscriptions,
    subscription_id,
)
from kwire.settings import ConfigError

ONE = bytes(range(16))
CLIENT: dict[str, str | None] = {
    "client_id": "loader",
    "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "10.0.0.7",
    "client_source_port": "50001",
}


def asked(*configs: dict[str, str], client: dict[str, str | None] = CLIENT) -> Asked:
    subscriptions = Subscriptions()
    for number, each in enumerate(configs):
        subscriptions.set(f"s{number}", Subscription.of(each))
    return subscriptions.asked_of(ONE, client)


def test_nobody_is_asked_for_anything_without_a_subscription() -> None:
    told = asked()
    assert (told.metrics, told.interval_ms) == ((), INTERVAL_MS_DEFAULT)


def test_all_that_match_count_together_at_the_shortest_interval() -> None:
    told = asked(
        {"metrics": "a,b", "interval.ms": "60000"},
        {"metrics": "b,c", "interval.ms": "500"},
        {"metrics": "no", "interval.ms": "100", "match": "client_id=other"},
    )
    assert sorted(told.metrics) == ["a", "b", "c"]
    assert told.interval_ms == 500


def test_an_interval_never_is_longer_than_the_default() -> None:
    assert asked({"metrics": "a", "interval.ms": "3600000"}).interval_ms == INTERVAL_MS_DEFAULT


def test_all_metrics_is_all_there_is_to_say() -> None:
    assert asked({"metrics": "a"}, {"metrics": "b,*"}).metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "means"),
    [
        ("", True),
        ("client_id=loader", True),
        ("client_id=load", False),
        ("client_id=load.*,client_source_port=5[0-9]+", True),
        ("client_id=load.*,client_source_port=6[0-9]+", False),
        ("client_id=other,client_id=loader", True),
        ("client_id=loader,client_id=other", False),
        (" client_software_version = 4[.]3[.].+ ", True),
        ("client_id=loader==", True),
    ],
)
def test_every_pattern_must_match_the_whole(match: str, means: bool) -> None:
    assert bool(asked({"metrics": "a", "match": match}).metrics) is means


def test_who_does_not_say_a_thing_does_not_match_it() -> None:
    nameless = {**CLIENT, "client_id": None}
    assert asked({"metrics": "a", "match": "client_id=.*"}, client=nameless).metrics == ()


def test_a_pattern_that_only_java_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        Subscription.of({"match": "client_id=(?!a).*"})


def test_each_change_is_a_new_version_but_the_end_of_nothing() -> None:
    subscriptions = Subscriptions()
    subscriptions.set("a", None)
    assert subscriptions.version == 0
    subscriptions.set("a", Subscription.of({"metrics": "m"}))
    subscriptions.set("a", None)
    assert subscriptions.version == 2
    assert subscriptions.asked_of(ONE, CLIENT).metrics == ()


def test_the_id_is_signed_and_of_the_instance() -> None:
    ids = {subscription_id(("a",), 100, bytes([number] * 16)) for number in range(64)}
    assert len({value ^ subscription_id(("a",), 100, bytes(16)) for value in ids}) == len(ids)
    assert all(-(1 << 31) <= value < 1 << 31 for value in ids)
