"""Clients of librdkafka that do what they are told, a JSON line each: `clients` says which.

python confluent.py
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

Told = dict[str, Any]
QUICK = {
    "log_level": 0,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
OF_PRODUCER = {
    "idempotent": "enable.idempotence",
    "transactional_id": "transactional.id",
    "transaction_timeout_ms": "transaction.timeout.ms",
    "acks": "acks",
    "delivery_timeout_ms": "message.timeout.ms",
    "request_timeout_ms": "socket.timeout.ms",
    "batch_bytes": "batch.size",
}
OF_CONSUMER = {
    "group": "group.id",
    "reset": "auto.offset.reset",
    "isolation": "isolation.level",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_ms": "heartbeat.interval.ms",
    "request_timeout_ms": "socket.timeout.ms",
}
FOR_EVER_S = 300.0


def named(error: KafkaError) -> str:
    """By Kafka's name of its code; what is the client's own by librdkafka's."""
    name = error.name()
    if name in ("_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE"):
        return "TIMED_OUT"
    older = {
        "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
        "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    }
    return older.get(name, name)


class Producing:
    """A producer."""

    def __init__(self, told: Told) -> None:
        given = {OF_PRODUCER[name]: told[name] for name in OF_PRODUCER if name in told}
        if told.get("request_timeout_ms"):
            given["request.timeout.ms"] = told["request_timeout_ms"]
        idempotent = {"enable.idempotence": True}
        servers = {"bootstrap.servers": told["bootstrap"]}
        self._producer = Producer({**servers, "linger.ms": 0, **QUICK, **idempotent, **given})

    def send(self, told: Told) -> list[int | str]:
        """For each value where it was written, or why not."""
        outcomes: list[int | str] = [""] * len(told["values"])
        for at, value in enumerate(told["values"]):
            self._produce(told, value, at, outcomes)
        if self._producer.flush(FOR_EVER_S):
            raise TimeoutError("not all records were delivered or given up")
        return outcomes

    def _produce(self, told: Told, value: str, at: int, outcomes: list[int | str]) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:  # noqa: ANN401 - librdkafka's
            outcomes[at] = message.offset() if error is None else named(error)

        try:
            self._producer.produce(
                told["topic"], value, partition=told.get("partition", 0), on_delivery=delivered
            )
        except KafkaException as refused:
            outcomes[at] = named(refused.args[0])

    def init(self, _: Told) -> None:
        self._producer.init_transactions(FOR_EVER_S)

    def begin(self, _: Told) -> None:
        self._producer.begin_transaction()

    def commit(self, _: Told) -> None:
        self._producer.commit_transaction(FOR_EVER_S)

    def abort(self, _: Told) -> None:
        self._producer.abort_transaction(FOR_EVER_S)

    def close(self, _: Told) -> None:
        self._producer.purge()
        self._producer.flush(1)


class Consuming:
    """A member of a group."""

    def __init__(self, told: Told) -> None:
        given = {OF_CONSUMER[name]: told[name] for name in OF_CONSUMER if name in told}
        own = {"enable.auto.commit": False, "fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 20}
        servers = {"bootstrap.servers": told["bootstrap"]}
        self._consumer = Consumer({**servers, **QUICK, **own, **given})
        self._consumer.subscribe(told["topics"])

    def poll(self, told: Told) -> list[list[Any]]:
        """So many records, as [partition, offset, value]; fewer where the time is over."""
        found: list[list[Any]] = []
        deadline = time.monotonic() + told["timeout_ms"] / 1000
        while len(found) < told["count"] and time.monotonic() < deadline:
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            value = message.value()
            found.append(
                [message.partition(), message.offset(), None if value is None else value.decode()]
            )
        return found

    def commit(self, _: Told) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError._NO_OFFSET:  # all is committed already
                raise

    def close(self, _: Told) -> None:
        self._consumer.close()


class Administering:
    """An administrator."""

    def __init__(self, told: Told) -> None:
        self._admin = AdminClient({"bootstrap.servers": told["bootstrap"], **QUICK})

    def create(self, told: Told) -> None:
        self._admin.create_topics([NewTopic(told["topic"])])[told["topic"]].result(FOR_EVER_S)

    def delete_records(self, told: Told) -> None:
        at = TopicPartition(told["topic"], told["partition"], told["before"])
        next(iter(self._admin.delete_records([at]).values())).result(FOR_EVER_S)

    def close(self, _: Told) -> None:
        """Nothing is open."""


KINDS: dict[str, Callable[[Told], Any]] = {
    "producer": Producing,
    "consumer": Consuming,
    "admin": Administering,
}
saying = threading.Lock()


def say(answer: Told) -> None:
    with saying:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def answered(told: Told, does: Callable[[], object]) -> Told:
    try:
        return {"id": told["id"], "value": does()}
    except KafkaException as problem:
        error = problem.args[0]
        return {"id": told["id"], "error": named(error), "message": error.str()}
    except Exception as problem:  # whoever asked is told of it
        return {"id": told["id"], "error": type(problem).__name__, "message": str(problem)}


def serve(orders: queue.Queue[Told]) -> None:
    """One client, from the order that makes it to that which closes it."""
    made: dict[str, Any] = {}

    def do(told: Told) -> object:
        if told["do"] in KINDS:
            made["client"] = KINDS[told["do"]](told)
            return None
        return getattr(made["client"], told["do"])(told)

    while True:
        told = orders.get()
        say(answered(told, lambda told=told: do(told)))  # type: ignore[misc]  # bound here
        if told["do"] == "close":
            return


def main() -> None:
    clients: dict[str, queue.Queue[Told]] = {}
    for line in sys.stdin:
        told = json.loads(line)
        if told["who"] not in clients:
            clients[told["who"]] = queue.Queue()
            threading.Thread(target=serve, args=(clients[told["who"]],), daemon=True).start()
        clients[told["who"]].put(told)


if __name__ == "__main__":
    main()
