"""Histories for tests: each call adds an operation, one nanosecond after the last one."""

from __future__ import annotations

from kwire.conformance.chaos.history import Event, History, Type, Value

GROUP = "g"
TP = "t-0"


class Script:
    """Builds a history; operations follow each other unless `begin` and `end` are called apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._now_ns = 0

    @property
    def history(self) -> History:
        return History(self.events)

    def begin(self, process: str, f: str, **arguments: object) -> Event:
        self._now_ns += 1
        started = Event(self._now_ns, process, Type.INVOKE, f, len(self.events), arguments)
        self.events.append(started)
        return started

    def end(self, started: Event, type_: Type = Type.OK, **result: object) -> None:
        self._now_ns += 1
        self.events.append(
            Event(self._now_ns, started.process, type_, started.f, started.op, result)
        )

    def do(
        self, process: str, f: str, arguments: Value, type_: Type = Type.OK, **result: object
    ) -> None:
        self.end(self.begin(process, f, **arguments), type_, **result)

    # The operations of a stream's clients

    def produce(
        self, number: int, offset: int, *, process: str = "p", type_: Type = Type.OK,
        error: str = "", idempotent: bool = True,
    ) -> None:  # fmt: skip
        result: Value = {"offset": offset} if type_ is Type.OK else {"error": error}
        arguments = {"partition": TP, "number": number, "idempotent": idempotent}
        self.do(process, "produce", arguments, type_, **result)

    def log(self, *records: tuple[int, str | None, int | None], end: int | None = None) -> None:
        """Add the end state of the log, which starts at 0."""
        last = len(records) if end is None else end
        arguments = {"partition": TP}
        self.do("judge", "read_log", arguments, start=0, end=last, records=list(records))

    def ends(self, offset: int) -> None:
        self.do("o", "ends", {}, offsets=[(TP, offset)])

    def assign(self, process: str = "r") -> None:
        self.do(process, "assign", {"group": GROUP, "partitions": [TP]})

    def revoke(self, process: str = "r") -> None:
        self.do(process, "revoke", {"group": GROUP, "partitions": [TP]})

    def poll(self, *records: tuple[int, str, int], process: str = "r") -> None:
        """(offset, producer, number) each."""
        read = [(TP, *record) for record in records]
        self.do(process, "poll", {"group": GROUP}, records=read)

    def commit(self, offset: int, type_: Type = Type.OK, process: str = "r") -> None:
        self.do(process, "commit", {"group": GROUP, "offsets": [(TP, offset)]}, type_)

    def committed(self, offset: int) -> None:
        self.do("o", "committed", {"group": GROUP}, offsets=[(TP, offset)])
