"""Cases of PushTelemetry: the metrics that it accepts from a client, and when."""

from __future__ import annotations

import gzip

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.compression import Compression, compress
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.client_telemetry import (
    get_subscription,
    instance_id,
    push,
    subscription,
)
from kwire.conformance.wire.cases.turns import in_turn
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.PUSH_TELEMETRY)


def access_request(version: int, topic_id: bytes) -> PushTelemetryRequest:
    return PushTelemetryRequest()


LIMIT = 1_048_576
"""The default of telemetry.max.bytes."""


@case("before it asked")
@in_turn
def unasked(stage: Stage) -> None:
    """A client pushes before it has asked for its subscription, then twice after it."""
    client = instance_id(stage)
    stage.send(push(client, 1))
    response = get_subscription(stage, client)
    stage.send(push(client, response.subscription_id))
    stage.send(push(client, response.subscription_id))


@case("ids that are nobody's")
def reserved(stage: Stage) -> None:
    stage.send(push(bytes(16), 0))
    stage.send(push(bytes(15) + b"\1", 0))


@case("too soon")
@in_turn
def too_soon(stage: Stage) -> None:
    """A client that pushes before its interval has passed is throttled; other errors come first."""
    client = instance_id(stage)
    response = get_subscription(stage, client)
    for _ in range(2):
        stage.send(push(client, response.subscription_id, b"abc"))
    stage.send(push(client, response.subscription_id + 1))
    stage.send(push(client, response.subscription_id, codec=9))
    get_subscription(stage, client)


@case("the last one")
@in_turn
def terminating(stage: Stage) -> None:
    """A client may push once more when it ends, even early, and nothing after that."""
    client = instance_id(stage)
    response = get_subscription(stage, client)
    stage.send(push(client, response.subscription_id, b"abc"))
    stage.send(push(client, response.subscription_id, b"abc", terminating=True))
    stage.send(push(client, response.subscription_id, b"abc", terminating=True))
    stage.send(push(client, response.subscription_id, b"abc"))
    stage.send(push(client, response.subscription_id, b"abc"))
    get_subscription(stage, client)


@case("a last one that is refused")
@in_turn
def terminating_refused(stage: Stage) -> None:
    """A last push with a wrong subscription id is refused; further pushes follow."""
    client = instance_id(stage)
    response = get_subscription(stage, client)
    stage.send(push(client, response.subscription_id + 1, terminating=True))
    stage.send(push(client, response.subscription_id))
    stage.send(push(client, response.subscription_id))


@case("each codec")
@in_turn
def codecs(stage: Stage) -> None:
    """Metrics are accepted in each codec; the codecs -1, 5 and 127 do not exist."""
    for codec in (-1, *Compression, 5, 127):
        client = instance_id(stage, codec)
        response = get_subscription(stage, client)
        known = Compression(codec) if 0 <= codec <= 4 else Compression.NONE
        metrics = compress(known, b"some metrics" * 100)
        stage.send(push(client, response.subscription_id, metrics, codec))


@case("what cannot be decompressed")
@in_turn
def spoiled(stage: Stage) -> None:
    """Metrics that are not valid in their codec, empty or truncated are pushed."""
    for number, (codec, metrics) in enumerate(
        (
            *((codec, b"nonsense") for codec in Compression),
            *((codec, b"") for codec in Compression),
            (Compression.GZIP, gzip.compress(b"x" * 1000)[:-30]),
            (Compression.ZSTD, compress(Compression.ZSTD, b"x" * 1000)[:-3]),
            (Compression.LZ4, compress(Compression.LZ4, b"abc" * 1000)[:-20]),
            (Compression.SNAPPY, compress(Compression.SNAPPY, b"abc" * 1000)[:-5]),
        )
    ):
        client = instance_id(stage, number)
        response = get_subscription(stage, client)
        stage.send(push(client, response.subscription_id, metrics, codec))


@case("how much")
@in_turn
def sizes(stage: Stage) -> None:
    """Metrics have LIMIT bytes, one more, and compressed ones far more after decompression."""
    for number, (codec, size_bytes) in enumerate(
        (
            (Compression.NONE, LIMIT),
            (Compression.NONE, LIMIT + 1),
            (Compression.GZIP, LIMIT),
            (Compression.GZIP, LIMIT + 1),
            (Compression.ZSTD, 50 * LIMIT),
        )
    ):
        client = instance_id(stage, number)
        response = get_subscription(stage, client)
        metrics = compress(codec, bytes(size_bytes))
        stage.send(push(client, response.subscription_id, metrics, codec))


@case("what was asked for")
@in_turn
def subscribed(stage: Stage) -> None:
    """A push is valid for the current subscription only; its id changes when the subscription ends.

    The two pushed bytes are a valid empty message of OpenTelemetry.
    """
    client = instance_id(stage)
    with subscription(stage, metrics="*", interval_ms="300000"):
        response = get_subscription(stage, client)
        stage.send(push(client, response.subscription_id, b"\x0a\x00"))
        stage.send(push(client, response.subscription_id, b"\x0a\x00"))
    stage.send(push(client, response.subscription_id, b"\x0a\x00"))
    response = get_subscription(stage, client)
    stage.send(push(client, response.subscription_id, b"\x0a\x00"))
