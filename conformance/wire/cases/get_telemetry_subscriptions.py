"""Cases of GetTelemetrySubscriptions: a client's subscription, and how often it may request it."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.client_telemetry import (
    get_subscription,
    instance_id,
    introduce,
    push,
    subscription,
)
from kwire.conformance.wire.cases.turns import in_turn
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)


def access_request(version: int, topic_id: bytes) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest()


@case("a client without an id")
@in_turn
def new(stage: Stage) -> None:
    response = get_subscription(stage, bytes(16))
    get_subscription(stage, response.client_instance_id)
    get_subscription(stage, bytes(16))


@case("ids that are nobody's")
@in_turn
def reserved(stage: Stage) -> None:
    get_subscription(stage, bytes(15) + b"\1")
    get_subscription(stage, bytes(15) + b"\2")


@case("twice")
@in_turn
def twice(stage: Stage) -> None:
    get_subscription(stage, instance_id(stage))
    get_subscription(stage, instance_id(stage))
    stage.send(GetTelemetrySubscriptionsRequest(instance_id(stage)), on="other")


@case("anew once its connection is closed")
@in_turn
def reconnected(stage: Stage) -> None:
    """A client asks again on another connection, also after the first one is closed."""
    stage.send(GetTelemetrySubscriptionsRequest(instance_id(stage)), on="first")
    get_subscription(stage, instance_id(stage))
    stage.close_connection("first")
    stage.await_cluster_changes()
    get_subscription(stage, instance_id(stage))


@case("subscriptions")
@in_turn
def subscriptions(stage: Stage) -> None:
    """Subscriptions of several metrics, of all metrics and with several intervals are reported.

    Each is asked for by a new client and by a client that has asked before.
    """
    for number, settings in enumerate(
        (
            {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.,a,b,c"},
            {"metrics": "*", "interval_ms": "100"},
            {"metrics": "a,*,b", "interval_ms": "3600000"},
            {"interval_ms": "299999"},
            {"metrics": ",".join(f"metric.{index}" for index in range(40))},
        )
    ):
        with subscription(stage, **settings):
            get_subscription(stage, instance_id(stage, number))
            get_subscription(stage, instance_id(stage))
    get_subscription(stage, instance_id(stage))


@case("whom a subscription means")
@in_turn
def matching(stage: Stage) -> None:
    """A subscription is for the clients that its patterns match; software, address, port and id
    match."""
    introduce(stage, "wire-client")
    for number, match in enumerate(
        (
            "client_software_name=wire-client",
            "client_software_name=wire",
            "client_software_name=wire.*,client_software_version=1[.]0",
            "client_software_name=wire.*,client_software_version=2",
            "client_id=wire, client_source_address=127.*",
            "client_id=other,client_id=wire",
            "client_id=wire=",
            "client_source_port=[0-9]+",
            "client_instance_id=.{22}",
        )
    ):
        with subscription(stage, metrics="m", match=match):
            get_subscription(stage, instance_id(stage, number))


@case("after an error")
@in_turn
def after_errors(stage: Stage) -> None:
    """After a push with a wrong subscription id or codec a client may ask again at once, once."""
    for number, (error, codec) in enumerate(((1, 0), (0, 9))):
        client = instance_id(stage, number)
        response = get_subscription(stage, client)
        stage.send(push(client, response.subscription_id + error, codec=codec))
        get_subscription(stage, client)
        get_subscription(stage, client)
