"""A stage for scripts about a broker's lifecycle: a clock, an image, and answers of controllers.

time MS                       the time is MS
offset N                      the newest record in the broker's image has the offset N
next                          shows what the broker does next
registered EPOCH              the answer to a registration
refused CODE                  the same with an error
heard [WORDS]                 the answer to a heartbeat: caught-up, unfenced, shut-down
error CODE                    the same with an error
silent                        no answer came
ready                         the broker is ready to serve
leave                         the broker begins to shut down
offline NAMES                 the directories with these names failed
cordon [NAMES]                the directories with these names get no new replicas
session                       shows whether the broker has a session

Indented lines show requests, waits, ends and effects.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.cluster.metadata.image import Endpoint
from kwire.cluster.stores.kraft.lifecycle import (
    AskLeader,
    BrokerIdentity,
    Lifecycle,
    Registered,
    Stop,
)
from kwire.cluster.stores.kraft.observing import Refuse, Wait
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.codecs.messages.broker_registration import BrokerRegistrationResponse

DIRECTORIES = (b"a" * 16, b"b" * 16)
IDENTITY = BrokerIdentity(
    "cluster",
    1,
    b"i" * 16,
    (Endpoint("PLAINTEXT", "host", 9092),),
    DIRECTORIES,
    features={"metadata.version": (21, 33)},
)


def names(ids: list[bytes] | None) -> str:
    return "unknown" if ids is None else " ".join(each[:1].decode() for each in ids) or "none"


def ids(words: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(each.encode() * 16 for each in words)


class Stage:
    """Runs the lines of a script."""

    def __init__(self, previous_epoch: int = -1) -> None:
        self.lifecycle = Lifecycle(IDENTITY, previous_epoch=previous_epoch)
        self.now_ms = 0
        self.asked: AskLeader | None = None
        self.offline: tuple[bytes, ...] = ()
        self.cordoned: tuple[bytes, ...] | None = None

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        handler: Callable[..., list[str]] = getattr(self, f"_{command}")
        return handler(*words)

    def _time(self, ms: str) -> list[str]:
        self.now_ms = int(ms)
        return []

    def _offset(self, offset: str) -> list[str]:
        self.lifecycle.offset = int(offset)
        return []

    def _next(self) -> list[str]:
        step = self.lifecycle.step(self.now_ms)
        match step:
            case Wait(until_ms):
                return [f"wait until {until_ms}"]
            case Stop(is_controlled):
                return [f"stop, {'controlled' if is_controlled else 'not controlled'}"]
            case Refuse(why):
                return [f"refuse: {why}"]
        self.asked, request = step, step.request
        if isinstance(request, BrokerHeartbeatRequest):
            wants = ["fence"] if request.want_fence else []
            wants += ["shutdown"] if request.want_shut_down else []
            said = f"heartbeat: epoch {request.broker_epoch}, offset"
            said += f" {request.current_metadata_offset}, wants {' '.join(wants) or 'nothing'}"
            if request.offline_log_dirs:
                said += f", offline {names(request.offline_log_dirs)}"
            if request.cordoned_log_dirs is not None:
                said += f", cordoned {names(request.cordoned_log_dirs)}"
            return [f"{said} ({step.timeout_ms} ms)"]
        return [
            f"register: directories {names(request.log_dirs)},"
            f" epoch before {request.previous_broker_epoch} ({step.timeout_ms} ms)"
        ]

    def _answer(self, answer: BrokerRegistrationResponse | BrokerHeartbeatResponse) -> list[str]:
        assert self.asked is not None
        effects = self.lifecycle.answered(self.asked, answer, self.now_ms)
        return [
            f"registered in epoch {each.epoch}" if isinstance(each, Registered) else each.value
            for each in effects
        ]

    def _registered(self, epoch: str) -> list[str]:
        return self._answer(BrokerRegistrationResponse(broker_epoch=int(epoch)))

    def _refused(self, code: str) -> list[str]:
        return self._answer(BrokerRegistrationResponse(error_code=int(code)))

    def _heard(self, *words: str) -> list[str]:
        return self._answer(
            BrokerHeartbeatResponse(
                is_caught_up="caught-up" in words,
                is_fenced="unfenced" not in words,
                should_shut_down="shut-down" in words,
            )
        )

    def _error(self, code: str) -> list[str]:
        return self._answer(BrokerHeartbeatResponse(error_code=int(code)))

    def _silent(self) -> list[str]:
        assert self.asked is not None
        self.lifecycle.failed(self.asked, "the controllers: no answer", self.now_ms)
        return []

    def _ready(self) -> list[str]:
        self.lifecycle.ready()
        return []

    def _leave(self) -> list[str]:
        self.lifecycle.leave(self.now_ms)
        return []

    def _offline(self, *words: str) -> list[str]:
        self.offline = ids(words)
        return self._directories()

    def _cordon(self, *words: str) -> list[str]:
        self.cordoned = ids(words)
        return self._directories()

    def _directories(self) -> list[str]:
        self.lifecycle.set_directories(self.offline, self.cordoned, self.now_ms)
        return []

    def _session(self) -> list[str]:
        return ["yes" if self.lifecycle.has_session(self.now_ms) else "no"]
