"""Tests the generated requests: valid ones, and damaged ones that differ from them."""

from __future__ import annotations

import random
from collections import Counter

from kwire.codecs.api_keys import request_header_version
from kwire.codecs.messages import request_class
from kwire.codecs.messages.request_header import RequestHeader
from kwire.conformance.hostile.attack import plan
from kwire.conformance.hostile.mutations import Attack, mutate
from kwire.conformance.hostile.requests import LEFT_OUT, RequestMaker, ValidRequest
from kwire.requests.routes import ROUTES

SERVED = {int(route.api_key): (route.min_version, route.max_version) for route in ROUTES}


def maker(seed: int) -> RequestMaker:
    return RequestMaker(random.Random(seed), SERVED, [b"i" * 16])


def test_every_served_version_has_a_valid_request() -> None:
    requests = maker(1).all()
    expected = {
        (key, version)
        for key, (low, high) in SERVED.items()
        if key not in LEFT_OUT
        for version in range(low, high + 1)
    }
    assert {(sent.api_key, sent.version) for sent in requests} == expected
    for sent in requests:
        frame = memoryview(sent.frame)[4:]
        assert int.from_bytes(sent.frame[:4]) == len(frame)
        header_version = request_header_version(sent.api_key, sent.version)
        header, position = RequestHeader.read(frame, header_version, 0)
        assert (header.request_api_key, header.request_api_version) == (sent.api_key, sent.version)
        message, end = request_class(sent.api_key).read(frame, sent.version, position)
        assert end == len(frame)
        assert message.encode(sent.version) == bytes(frame[position:])


def test_same_seed_generates_the_same_frames() -> None:
    def frames(seed: int) -> list[bytes]:
        made = plan(random.Random(seed), maker(seed), 600)
        return [
            item.frame if isinstance(item, ValidRequest) else b"".join(item.pieces) for item in made
        ]

    assert frames(7) == frames(7)
    assert frames(7) != frames(8)


def test_every_mutation_changes_its_frame() -> None:
    rng = random.Random(3)
    draw = maker(3)
    kinds: Counter[str] = Counter()
    unchanged = 0
    for _ in range(3000):
        frame = draw.draw().frame
        spoiled = mutate(rng, frame)
        assert isinstance(spoiled, Attack)
        assert spoiled.pieces
        kinds[spoiled.kind] += 1
        unchanged += spoiled.kind != "slow" and b"".join(spoiled.pieces) == frame
    assert len(kinds) == 13
    assert unchanged < 300  # a 0 that was written over a 0
