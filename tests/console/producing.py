"""Writes records at a steady rate: `python -m tests.console.producing ADDRESS TOPIC RATE SECONDS`.

It is a process of its own, so that the rate does not depend on what the tests do meanwhile.
"""

from __future__ import annotations

import sys
import time

from kwire.client.cluster import Cluster
from kwire.client.producer import Producer

ROUNDS_A_SECOND = 20


def produce(bootstrap: str, topic: str, rate: int, seconds: float) -> int:
    """Write `rate` small JSON records a second for that time; returns how many it wrote."""
    cluster = Cluster(bootstrap, client_id="steady")
    producer = Producer(cluster, create_topics=False)
    began = time.monotonic()
    written = 0
    while (elapsed := time.monotonic() - began) < seconds:
        for number in range(written, int(elapsed * rate)):
            value = b'{"number": %d, "text": "a record of the steady load"}' % number
            producer.send(topic, value, b"key-%d" % (number % 1000))
            written += 1
        producer.flush()
        time.sleep(1 / ROUNDS_A_SECOND)
    cluster.close()
    return written


if __name__ == "__main__":
    bootstrap, topic, rate, seconds = sys.argv[1:]
    print(produce(bootstrap, topic, int(rate), float(seconds)))
