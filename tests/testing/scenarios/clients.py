"""Stock clients of three languages, told what to do over a pipe: one process for all scenarios.

    producer = clients.producer(kafka, idempotent=True)
    sending = producer.begin("send", topic="t", values=["a"])      # it goes on by itself
    kafka.move_leader("t")
    assert sending.result() == [0]

An answer is a value, or `Refused` with Kafka's name of the error; what a client gives up by itself
is TIMED_OUT in each of them.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

import pytest

PATIENCE_S: Final = 180.0


class Refused(Exception):
    """What a client has told its caller: `name` as Kafka calls it."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class HasBootstrap(Protocol):
    """A broker or a cluster."""

    @property
    def bootstrap(self) -> str: ...


class Asked:
    """What was told to a client, and is being done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.answers: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def result(self) -> Any:  # noqa: ANN401 - any JSON
        """Wait for it.  Raises Refused, TimeoutError."""
        try:
            answer = self.answers.get(timeout=PATIENCE_S)
        except Empty:
            raise TimeoutError(f"no answer in {PATIENCE_S:g} s to {self._what}") from None
        if answer.get("error"):
            raise Refused(answer["error"], answer["message"])
        return answer["value"]

    @property
    def is_done(self) -> bool:
        return not self.answers.empty()


class Client:
    """One of a process' clients."""

    def __init__(self, process: Clients, who: str) -> None:
        self._process = process
        self._who = who

    def begin(self, do: str, **how: object) -> Asked:
        """Tell it to do something; it does one thing after the other."""
        return self._process.tell(self._who, do, **how)

    def do(self, do: str, **how: object) -> Any:  # noqa: ANN401 - any JSON
        """What comes of it.  Raises Refused, TimeoutError."""
        return self.begin(do, **how).result()

    def send(self, topic: str, *values: str, partition: int = 0) -> list[int | str]:
        """Of each value its offset, or the name of an error."""
        outcomes: list[int | str] = self.do(
            "send", topic=topic, values=list(values), partition=partition
        )
        return outcomes

    def poll(self, count: int, timeout_s: float = PATIENCE_S / 2) -> list[str]:
        """The values of so many records, in the order of their offsets within each partition."""
        found = self.do("poll", count=count, timeout_ms=round(timeout_s * 1000))
        for partition in {each[0] for each in found}:
            offsets = [each[1] for each in found if each[0] == partition]
            assert offsets == sorted(set(offsets)), f"not each once, and in order: {found}"
        return [each[2] for each in found]


class Clients:
    """A process with clients of one language."""

    def __init__(self, language: str, command: Sequence[str]) -> None:
        self.language = language
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count()
        self._asked: dict[int, Asked] = {}
        self._open: set[str] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def producer(self, kafka: HasBootstrap, **settings: object) -> Client:
        return self._made("producer", kafka, settings)

    def consumer(self, kafka: HasBootstrap, topic: str, group: str, **settings: object) -> Client:
        """A member of a group, which does not commit by itself, and begins at the beginning."""
        given = {"topics": [topic], "group": group, "reset": "earliest", **settings}
        return self._made("consumer", kafka, given)

    def admin(self, kafka: HasBootstrap) -> Client:
        return self._made("admin", kafka, {})

    def _made(self, kind: str, kafka: HasBootstrap, settings: dict[str, object]) -> Client:
        made = Client(self, f"{kind}-{next(self._numbers)}")
        made.do(kind, bootstrap=kafka.bootstrap, **settings)
        return made

    def tell(self, who: str, do: str, **how: object) -> Asked:
        """Have a client do something."""
        number = next(self._numbers)
        asked = self._asked[number] = Asked(f"{self.language} {who}: {do} {how}")
        self._open.add(who)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "who": who, "do": do, **how}) + "\n")
        self._process.stdin.flush()
        return asked

    @contextmanager
    def closing(self) -> Iterator[Clients]:
        """All clients that are made within are closed behind it; nobody waits for that."""
        self._open.clear()
        yield self
        for who in list(self._open):
            self.tell(who, "close")

    def end(self) -> None:
        """End the process, whatever its clients do."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                answer = json.loads(line)
                self._asked.pop(answer["id"]).answers.put(answer)
        except ValueError:  # it was ended, and its output closed
            return


def assert_refused(asked: Asked, *names: str) -> None:
    """Fail unless its caller is told one of these errors."""
    __tracebackhide__ = True
    with pytest.raises(Refused) as refused:
        asked.result()
    assert refused.value.name in names, refused.value
