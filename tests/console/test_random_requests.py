"""1,000 random requests: whatever is asked, the console has no defect, and goes on."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from kwire.client.cluster import Cluster
from kwire.testing import Kafka
from tests.console.conftest import ConsoleFactory
from tests.console.consoles import ask
from tests.console.lively import SETTINGS, fill
from tests.console.random_requests import RequestSource

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("KWIRE_CONSOLE_REQUESTS", "1000"))
DEFECT = 500


def test_random_requests_give_no_defect(
    console_factory: ConsoleFactory, rng: random.Random
) -> None:
    with Kafka(SETTINGS) as kafka:
        cluster = Cluster(kafka.bootstrap)
        fill(cluster, now_ms=time.time_ns() // 1_000_000, orders=60)
        cluster.close()
        console = console_factory(kafka.bootstrap)
        source = RequestSource(rng, console.origin)
        statuses: Counter[int] = Counter()
        for _ in range(REQUESTS):
            request = source.draw()
            answer = ask(
                console.origin, request.target, request.method, request.headers, request.body
            )
            statuses[answer.status] += 1
            assert answer.status != DEFECT, f"{request}\n{answer.text}\n{console.log}"
            assert b"Traceback" not in answer.body, request
            console.check_log()
        print(statuses)
        assert statuses[200] > REQUESTS / 20
        assert ask(console.origin, "/topics").status == 200
