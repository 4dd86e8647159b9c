"""Cases with damaged frames of every API key, and with valid frames in unusual deliveries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from struct import pack, unpack_from
from typing import Any

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.messages import request_class
from kwire.codecs.messages.add_raft_voter import AddRaftVoterRequest
from kwire.codecs.messages.produce import ProduceRequest
from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.codecs.primitives import DecodeError
from kwire.conformance.hostile import mutations
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.mutations import Attack
from kwire.conformance.hostile.sound_requests import SOUND_REQUESTS
from kwire.conformance.hostile.stage import PROBE, PROBE_REQUEST, HostileStage, sent_request_of
from kwire.conformance.wire.broker import CaseTopic, Served
from kwire.conformance.wire.cases.build import UNKNOWN_ID, batch, fill
from kwire.conformance.wire.peer import frame

Spoil = Callable[[random.Random, bytes], Attack]

MUTATIONS: Mapping[str, Spoil] = {
    "flipped bits": mutations.flip_bits,
    "cut short": mutations.truncate,
    "lying numbers": mutations.replace_number,
    "lying varints": mutations.replace_varint,
    "shifted bytes": mutations.shift,
    "noise": mutations.randomise_body,
    "another version": mutations.change_version,
    "another key": mutations.change_key,
}
CHANGES: Mapping[int, str] = {
    ApiKey.CREATE_TOPICS: "num_partitions",
    ApiKey.CREATE_PARTITIONS: "count",
    ApiKey.DELETE_TOPICS: "",
    ApiKey.ELECT_LEADERS: "",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "",
}
"""Requests that change a cluster, with the field that has a number of partitions, if any."""
PARTITIONS_MAX = 16
"""A random number of partitions must not exceed it: a billion stops a node of Apache Kafka."""
BROKER_IDS_MAX = 1000
"""The brokers that are compared have lower ids."""
TIMEOUT_MS_MIN = 1000
"""A shorter timeout is over before Apache Kafka's controller begins."""

LOOKED_INTO = (*CHANGES, ApiKey.PRODUCE, ApiKey.ADD_RAFT_VOTER, ApiKey.UNREGISTER_BROKER)
"""API keys whose damaged frames are decoded before they are sent."""

_HEADER_END = 14  # of a frame: size, API key, version, correlation id, size of the client id

FRAMES = 6
"""Frames of each mutation of each request."""

PAUSE_S = 0.002
"""Pause between two bytes of a slow frame, so that each one has a packet of its own."""


def mutation_cases(served: Served, seed: str) -> Iterator[HostileCase]:
    """Randomly damaged requests of all APIs that both brokers serve, in their most different
    versions."""
    for key, (low, high) in sorted(served.items()):
        if key not in SOUND_REQUESTS:
            continue
        flexible = request_class(key).FLEXIBLE_SINCE
        for version in sorted({max(low, 3 if key == ApiKey.PRODUCE else 0), flexible or low, high}):
            for what, spoil in MUTATIONS.items():
                name = f"mutation/{ApiKey(key).name} v{version}: {what}"
                rng_seed = f"{seed}: {name}"
                play = partial(
                    _mutate, key=ApiKey(key), version=version, spoil=spoil, seed=rng_seed
                )
                yield HostileCase(name, play)


def _mutate(stage: HostileStage, key: ApiKey, version: int, spoil: Spoil, seed: str) -> None:
    """Send spoiled copies of a valid request, the same ones to both brokers.

    Left out are those that only one broker serves, that would overload or end it, or that have null
    where Apache Kafka fails for another reason.
    """
    rng = random.Random(seed)
    topic = _topic(stage)
    # The brokers have different ids for the topic, and shifted bytes may become another field.
    sound = _sound(stage, topic, key, version).replace(topic.id, UNKNOWN_ID)
    for _ in range(FRAMES):
        spoiled = b"".join(spoil(rng, sound).pieces)
        if not _is_for_both(stage.broker.served, spoiled):
            continue
        request = request_in(spoiled)
        if not (_overtaxes(request) or ends_a_broker(request) or has_null_records(request)):
            stage.spoiled(spoiled)


def _is_for_both(served: Served, spoiled: bytes) -> bool:
    """Return whether both brokers serve the API and version of a frame, or no broker can.

    If only one of them serves it, their responses differ; and some of the others would stop the
    node.
    """
    request = sent_request_of(spoiled)
    if request.api_key in served:
        low, high = served[request.api_key]
        return low <= request.version <= high or request.version not in range(100)
    return request.api_key not in ApiKey.__members__.values()


def request_in(spoiled: bytes) -> Any:  # noqa: ANN401 - a request of any key
    """Return the request in a damaged frame, or None if it cannot be decoded."""
    sent = sent_request_of(spoiled)
    if sent.api_key not in LOOKED_INTO or len(spoiled) < _HEADER_END:
        return None
    (client_id_size,) = unpack_from(">h", spoiled, _HEADER_END - 2)
    tags = 1 if request_header_version(sent.api_key, sent.version) >= 2 else 0
    body = spoiled[_HEADER_END + max(client_id_size, 0) + tags :]
    try:
        return request_class(sent.api_key).decode(body, sent.version)
    except DecodeError:
        return None


def _overtaxes(request: Any) -> bool:  # noqa: ANN401 - of any key
    """Return whether a frame requests too many partitions, or has too short a timeout."""
    if request is None or request.API_KEY not in CHANGES:
        return False
    count = CHANGES[request.API_KEY]
    topics = request.topics if count else ()
    too_many = any(getattr(topic, count) > PARTITIONS_MAX for topic in topics)
    return too_many or request.timeout_ms < TIMEOUT_MS_MIN


def ends_a_broker(request: Any) -> bool:  # noqa: ANN401 - of any key
    """Return whether a broker would end, or leave its cluster, because of the request.

    Apache Kafka 4.4.0 ends at an AddRaftVoter with a listener without a name.
    """
    if isinstance(request, AddRaftVoterRequest):
        return any(not listener.name for listener in request.listeners)
    return isinstance(request, UnregisterBrokerRequest) and (
        0 <= request.broker_id <= BROKER_IDS_MAX
    )


def has_null_records(request: Any) -> bool:  # noqa: ANN401 - of any key
    """Return whether a damaged size has become negative, which means null records.

    Apache Kafka then fails internally and never answers. The case `batch/set: null` covers this
    with its excuse; here every silence would need one.
    """
    return isinstance(request, ProduceRequest) and any(
        partition.records is None
        for topic in request.topic_data
        for partition in topic.partition_data
    )


def _sound(stage: HostileStage, topic: CaseTopic, key: ApiKey, version: int) -> bytes:
    request = SOUND_REQUESTS[key](stage, topic, version)
    return frame(key, version, 7, request.encode(version), "hostile")


def _topic(stage: HostileStage) -> CaseTopic:
    """Return a topic for this case alone, with two records."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b"))
    return topic


# Valid frames in unusual deliveries


def delivery_cases(served: Served) -> Iterator[HostileCase]:
    """Yield a case of every API in its newest version, in every kind of delivery."""
    for key, (_, high) in sorted(served.items()):
        if key in SOUND_REQUESTS:
            for what, deliver in DELIVERIES.items():
                name = f"delivery/{ApiKey(key).name} v{high}: {what}"
                play = partial(_deliver, key=ApiKey(key), version=high, deliver=deliver)
                yield HostileCase(name, play)


def _deliver(
    stage: HostileStage, key: ApiKey, version: int, deliver: Callable[[HostileStage, bytes], None]
) -> None:
    deliver(stage, _sound(stage, _topic(stage), key, version))


def _byte_by_byte(stage: HostileStage, sound: bytes) -> None:
    pieces = [bytes([byte]) for byte in sound + PROBE]
    stage.deliver(pieces, [sent_request_of(sound), PROBE_REQUEST], pause_s=PAUSE_S)


def _half_closed(stage: HostileStage, sound: bytes) -> None:
    stage.deliver([sound], [sent_request_of(sound)], half_close=True)


def _half_closed_in_the_middle(stage: HostileStage, sound: bytes) -> None:
    for size in (2, 4, 9, len(sound) // 2, len(sound) - 1):
        stage.deliver([sound[:size]], [], half_close=True)


def _many_at_once(stage: HostileStage, sound: bytes) -> None:
    requests = [sent_request_of(sound)] * 5
    stage.deliver([sound * 5 + PROBE], [*requests, PROBE_REQUEST])


def _sound_then_cut(stage: HostileStage, sound: bytes) -> None:
    """The second frame is cut and its size fits; the response to the first one must still come."""
    cut = pack(">i", len(sound) - 4 - 3) + sound[4:-3]
    stage.deliver(
        [sound + cut + PROBE], [sent_request_of(sound), sent_request_of(cut), PROBE_REQUEST]
    )


def _sizes(stage: HostileStage, sound: bytes) -> None:
    """Frames with a size of zero, negative, above the limit, one too large and one too small."""
    (true,) = unpack_from(">i", sound)
    for size in (0, -1, -(1 << 31), (1 << 31) - 1, 104_857_601):
        stage.deliver([pack(">i", size) + sound[4:]], [sent_request_of(sound)])
    for size in (true + 1, true - 1):
        spoiled = pack(">i", size) + sound[4:]
        stage.deliver([spoiled], [sent_request_of(spoiled)], half_close=True)


def _send_announced_size(stage: HostileStage, sound: bytes) -> None:
    """A large size within the limit with few bytes behind it: the broker waits until we close."""
    announced = pack(">i", 104_857_600) + sound[4:]
    stage.deliver([announced], [], half_close=True)


DELIVERIES: Mapping[str, Callable[[HostileStage, bytes], None]] = {
    "byte by byte": _byte_by_byte,
    "half closed behind it": _half_closed,
    "half closed within it": _half_closed_in_the_middle,
    "five at once": _many_at_once,
    "one cut short behind it": _sound_then_cut,
    "sizes that lie": _sizes,
    "announced and not sent": _send_announced_size,
}
