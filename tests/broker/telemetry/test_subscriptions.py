"""Who is asked for what, and by which id."""

from __future__ import annotations

import pytest

from kwire.broker.telemetry.subscriptions import (
    INTERVAL_MS_DEFAULT,
    AssignedSubscription,
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


def asked(*configs: dict[str, str], client: dict[str, str | None] = CLIENT) -> AssignedSubscription:
    subscriptions = Subscriptions()
    for number, each in enumerate(configs):
        subscriptions.set(f"s{number}", Subscription.of(each))
    return subscriptions.asked_of(ONE, client)


def test_client_is_asked_for_nothing_without_a_subscription() -> None:
    told = asked()
    assert (told.metrics, told.interval_ms) == ((), INTERVAL_MS_DEFAULT)


def test_matching_subscriptions_are_merged_at_the_shortest_interval() -> None:
    told = asked(
        {"metrics": "a,b", "interval.ms": "60000"},
        {"metrics": "b,c", "interval.ms": "500"},
        {"metrics": "no", "interval.ms": "100", "match": "client_id=other"},
    )
    assert sorted(told.metrics) == ["a", "b", "c"]
    assert told.interval_ms == 500


def test_interval_is_at_most_the_default() -> None:
    assert asked({"metrics": "a", "interval.ms": "3600000"}).interval_ms == INTERVAL_MS_DEFAULT


def test_all_metrics_replaces_other_prefixes() -> None:
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
def test_subscription_selects_clients_that_match_every_pattern_whole(
    match: str, means: bool
) -> None:
    assert bool(asked({"metrics": "a", "match": match}).metrics) is means


def test_client_without_an_attribute_does_not_match_its_pattern() -> None:
    nameless = {**CLIENT, "client_id": None}
    assert asked({"metrics": "a", "match": "client_id=.*"}, client=nameless).metrics == ()


def test_pattern_of_java_only_syntax_is_refused() -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        Subscription.of({"match": "client_id=(?!a).*"})


def test_version_grows_with_each_change_of_subscriptions() -> None:
    subscriptions = Subscriptions()
    subscriptions.set("a", None)
    assert subscriptions.version == 0
    subscriptions.set("a", Subscription.of({"metrics": "m"}))
    subscriptions.set("a", None)
    assert subscriptions.version == 2
    assert subscriptions.asked_of(ONE, CLIENT).metrics == ()


def test_subscription_id_is_signed_and_depends_on_the_instance() -> None:
    ids = {subscription_id(("a",), 100, bytes([number] * 16)) for number in range(64)}
    assert len({value ^ subscription_id(("a",), 100, bytes(16)) for value in ids}) == len(ids)
    assert all(-(1 << 31) <= value < 1 << 31 for value in ids)
