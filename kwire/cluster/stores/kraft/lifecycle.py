"""Lifecycle: a broker's registration and heartbeats with KRaft controllers (pure).

    registers       BrokerRegistration, repeated until the controllers accept it
    catches up      heartbeats that want to stay fenced, until this broker's image has its own
                    registration
    is ready        once the driver says so, a heartbeat asks to unfence this broker
    serves          a heartbeat each `broker.heartbeat.interval.ms`
    leaves          heartbeats that want to shut down, until the controllers have moved the
                    leaderships of this broker to others, or a limit

    step = lifecycle.step(now_ms)        an AskLeader to send, a Wait, or an end: Stop, Refuse
    effects = lifecycle.answered(...)    or `failed`, if no answer came

A Wait ends early when the driver has something new.  There is one request at a time.

STALE_BROKER_EPOCH says that the controllers no longer have this registration: an administrator
removed it, or another process with this node id took its place.  Then this broker registers anew,
with the incarnation id of its process, and gets another epoch.  (A broker of Apache Kafka repeats
its heartbeats until it is restarted.)

A session lasts `broker.session.timeout.ms` from each heartbeat on.  Without one the controllers may
have fenced this broker, and its leaders may have successors.  It still answers reads, which end at
the high watermark, and appends with acks=1, which can be lost.  Appends with acks=all wait: the
followers no longer fetch, and the controllers refuse to shrink the in-sync replicas.  If there are
no others, there is no successor either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from kwire.cluster.metadata.features import METADATA_VERSION, SUPPORTED, Levels
from kwire.cluster.metadata.image import SECURITY_PROTOCOL_NUMBERS, Endpoint
from kwire.cluster.stores.kraft.observing import Refuse, Wait
from kwire.cluster.stores.kraft.records import OLDEST_LEVEL
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.codecs.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

NO_EPOCH: Final = -1

FEATURES: Final[Levels] = MappingProxyType(
    {**SUPPORTED, METADATA_VERSION: (OLDEST_LEVEL, SUPPORTED[METADATA_VERSION][1])}
)
"""The levels that a broker beside KRaft controllers supports: they refuse any others then."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker registers with."""

    cluster_id: str
    broker_id: int
    incarnation: bytes
    """A random uuid of the process."""
    endpoints: tuple[Endpoint, ...]
    """As advertised, without the listeners of controllers."""
    directories: tuple[bytes, ...]
    """The ids of all log directories in `meta.properties`."""
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: FEATURES)


@dataclass(frozen=True, slots=True)
class LifecycleLimits:
    """Times in ms; the defaults are those of Apache Kafka's settings."""

    heartbeat_interval_ms: int = 2_000
    """broker.heartbeat.interval.ms."""
    session_timeout_ms: int = 9_000
    """broker.session.timeout.ms."""
    registration_timeout_ms: int = 60_000
    """initial.broker.registration.timeout.ms."""
    directory_failure_timeout_ms: int = 30_000
    """log.dir.failure.timeout.ms."""
    shutdown_timeout_ms: int = 300_000
    """How long a controlled shutdown may take."""


# -- steps


class _News(NamedTuple):
    """What a heartbeat says beside an offset."""

    wants_fence: bool
    has_registration: bool
    """Whether this broker's image has its own registration."""
    offline: tuple[bytes, ...]
    cordoned: tuple[bytes, ...] | None


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Send the request to the leading controller, and wait at most `timeout_ms`."""

    request: BrokerRegistrationRequest | BrokerHeartbeatRequest
    timeout_ms: int
    sent_ms: int
    news: _News


@dataclass(frozen=True, slots=True)
class Stop:
    """The shutdown has ended.  Without `is_controlled`, leaderships may still be here."""

    is_controlled: bool


# -- effects


@dataclass(frozen=True, slots=True)
class Registered:
    """The controllers have accepted this broker; all its other requests name this epoch."""

    epoch: int


class Turn(Enum):
    """What else a heartbeat may change."""

    CAUGHT_UP = "caught up"
    UNFENCED = "unfenced"
    FENCED = "fenced"


Effect = Registered | Turn

_REFUSED: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
    }
)


@dataclass(slots=True)
class Lifecycle:
    """See the module.  All times are ms of any clock that does not go back.

    `offset` is the offset of the newest record in this broker's image; the driver sets it before
    each step.  `previous_epoch` is the epoch before a clean stop; -1 if there was none, or after a
    kill.
    """

    identity: BrokerIdentity
    limits: LifecycleLimits = field(default_factory=LifecycleLimits)
    previous_epoch: int = NO_EPOCH
    offset: int = -1
    epoch: int = NO_EPOCH
    """That of the newest registration; -1 before the first one."""
    is_registered: bool = False
    is_caught_up: bool = False
    is_fenced: bool = True
    """What the controllers said last."""
    is_ready: bool = False
    trouble: str | None = None
    """Why the last request did not succeed; None if it did."""
    session_ends_ms: int = -1
    """The controllers do not fence this broker for its silence before that time."""
    _offline: tuple[bytes, ...] = ()
    _cordoned: tuple[bytes, ...] | None = None
    _offline_since_ms: int | None = None
    """When a directory failed that the controllers do not know of yet."""
    _told: _News | None = None
    """What the last answered heartbeat said; None if this registration has had none."""
    _began_ms: int | None = None
    _leaving_since_ms: int | None = None
    _next_ms: int = 0
    _asked: AskLeader | None = None
    _end: Stop | Refuse | None = None

    # -- what the rest of the broker says

    def ready(self) -> None:
        """This broker is ready to serve: ask to unfence it as soon as it has caught up."""
        self.is_ready = True

    def set_directories(
        self, offline: tuple[bytes, ...], cordoned: tuple[bytes, ...] | None, now_ms: int
    ) -> None:
        """Take the directories that failed, and those that get no new replicas.

        `cordoned` is None while the cluster's metadata.version has no cordoned directories.
        """
        if set(offline) - set(self._offline) and self._offline_since_ms is None:
            self._offline_since_ms = now_ms
        self._offline, self._cordoned = offline, cordoned

    def leave(self, now_ms: int) -> None:
        """Begin a controlled shutdown."""
        if self._leaving_since_ms is None:
            self._leaving_since_ms = self._next_ms = now_ms

    @property
    def is_leaving(self) -> bool:
        """Whether a controlled shutdown has begun."""
        return self._leaving_since_ms is not None

    def has_session(self, now_ms: int) -> bool:
        """Whether the controllers certainly have not fenced this broker for its silence."""
        return self.is_registered and now_ms < self.session_ends_ms

    # -- what to do next

    def step(self, now_ms: int) -> AskLeader | Wait | Stop | Refuse:
        """Return the next request, until when to wait, or how this ends."""
        if self._asked is not None:
            raise RuntimeError("a request of this broker's lifecycle is not answered yet")
        if self._began_ms is None:
            self._began_ms = now_ms
        self._check_limits(now_ms)
        if self._end is not None:
            return self._end
        if now_ms < self._next_ms and not self._has_news():
            return Wait(min(self._next_ms, self._limit_ms(now_ms)))
        request = self._heartbeat() if self.is_registered else self._registration()
        timeout_ms = min(self.limits.session_timeout_ms, self._limit_ms(now_ms) - now_ms)
        self._asked = AskLeader(request, timeout_ms, now_ms, self._news)
        return self._asked

    def _check_limits(self, now_ms: int) -> None:
        """End what has taken too long."""
        if self._end is not None or now_ms < self._limit_ms(now_ms):
            return
        limits = self.limits
        if self._leaving_since_ms is not None:
            self._end = Stop(is_controlled=False)
        elif self.epoch == NO_EPOCH:
            self._end = Refuse(
                f"no controller has registered broker {self.identity.broker_id} within"
                f" {limits.registration_timeout_ms} ms"
                f" (initial.broker.registration.timeout.ms): {self.trouble or 'none answers'}"
            )
        else:
            self._end = Refuse(
                "the controllers could not be told of a failed log directory within"
                f" {limits.directory_failure_timeout_ms} ms (log.dir.failure.timeout.ms):"
                f" {self.trouble or 'none answers'}"
            )

    def _limit_ms(self, now_ms: int) -> int:
        """Return when the present state has lasted too long; a time far away if it may last."""
        limits = self.limits
        if self._leaving_since_ms is not None:
            no_session = not self.is_registered
            return now_ms if no_session else self._leaving_since_ms + limits.shutdown_timeout_ms
        if self.epoch == NO_EPOCH:
            return (self._began_ms or 0) + limits.registration_timeout_ms
        if self._offline_since_ms is not None:
            return self._offline_since_ms + limits.directory_failure_timeout_ms
        return now_ms + limits.session_timeout_ms

    @property
    def _wants_fence(self) -> bool:
        return not (self.is_ready and self.is_caught_up)

    def _has_news(self) -> bool:
        """Whether a heartbeat before its time would say something new.

        After a failure it waits all the same.
        """
        return self.is_registered and self.trouble is None and self._told != self._news

    @property
    def _news(self) -> _News:
        return _News(self._wants_fence, self.offset >= self.epoch, self._offline, self._cordoned)

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self.identity
        return BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation,
            listeners=[
                Listener(
                    each.listener,
                    each.host,
                    each.port,
                    SECURITY_PROTOCOL_NUMBERS[each.security_protocol],
                )
                for each in identity.endpoints
            ],
            features=[Feature(name, *levels) for name, levels in identity.features.items()],
            rack=identity.rack,
            log_dirs=[each for each in identity.directories if each not in self._offline],
            previous_broker_epoch=self.previous_epoch if self.epoch == NO_EPOCH else self.epoch,
        )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.identity.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.offset,
            want_fence=self._wants_fence,
            want_shut_down=self.is_leaving,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=None if self._cordoned is None else list(self._cordoned),
        )

    # -- what came

    def failed(self, ask: AskLeader, why: str, now_ms: int) -> None:
        """Note that `ask` got no answer: no connection, or no answer in time."""
        self._take(ask)
        self._repeat_later(why, now_ms)

    def answered(
        self,
        ask: AskLeader,
        answer: BrokerRegistrationResponse | BrokerHeartbeatResponse,
        now_ms: int,
    ) -> list[Effect]:
        """Return the effects of the answer to `ask`."""
        self._take(ask)
        if isinstance(answer, BrokerRegistrationResponse):
            return self._registration_answered(ask, answer, now_ms)
        assert isinstance(ask.request, BrokerHeartbeatRequest)
        return self._heartbeat_answered(ask, ask.request, answer, now_ms)

    def _take(self, ask: AskLeader) -> None:
        if ask is not self._asked:
            raise RuntimeError("an answer to a request that is not this broker's last one")
        self._asked = None

    def _repeat_later(self, why: str, now_ms: int) -> None:
        self.trouble = why
        self._next_ms = now_ms + self.limits.heartbeat_interval_ms

    def _registration_answered(
        self, ask: AskLeader, answer: BrokerRegistrationResponse, now_ms: int
    ) -> list[Effect]:
        if answer.error_code in _REFUSED:
            self._end = Refuse(self._why_refused(answer.error_code))
        elif answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._repeat_later(
                f"node.id {self.identity.broker_id} is registered by another process, whose session"
                " has not ended; if another broker runs with this node.id, give one of the two"
                " another",
                now_ms,
            )
        elif answer.error_code:
            self._repeat_later(
                f"they answer BrokerRegistration with {_name(answer.error_code)}", now_ms
            )
        elif answer.broker_epoch < self.epoch:
            self._repeat_later(
                f"they answer with broker epoch {answer.broker_epoch} after {self.epoch}", now_ms
            )
        else:
            self._began_session(ask, answer.broker_epoch, now_ms)
            return [Registered(self.epoch)]
        return []

    def _began_session(self, ask: AskLeader, epoch: int, now_ms: int) -> None:
        self.epoch, self.is_registered, self.trouble = epoch, True, None
        self.is_caught_up, self.is_fenced, self._told = False, True, None
        self._next_ms = now_ms
        self._hold_session(ask)

    def _hold_session(self, ask: AskLeader) -> None:
        """The controllers count from when they got the request, which is after it was sent."""
        self.session_ends_ms = ask.sent_ms + self.limits.session_timeout_ms

    def _why_refused(self, code: int) -> str:
        identity = self.identity
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers belong to another cluster than {identity.cluster_id}, the cluster"
                " id in meta.properties; correct controller.quorum.bootstrap.servers, or use the"
                " log directories of that cluster"
            )
        if code == ErrorCode.UNSUPPORTED_VERSION:
            levels = ", ".join(f"{name} {low}-{high}" for name, (low, high) in _levels(identity))
            return (
                "the cluster uses a level of a feature that this version of kwire does not support"
                f" ({levels}); lower it with kafka-features.sh, or use a version of kwire that"
                " supports it"
            )
        return (
            f"the controllers refuse the registration of broker {identity.broker_id}"
            " (INVALID_REGISTRATION); either another broker has registered a directory.id of this"
            " broker's log.dirs, as after a copy of a directory, or one of them is not valid: see"
            " meta.properties in each"
        )

    def _heartbeat_answered(
        self,
        ask: AskLeader,
        asked: BrokerHeartbeatRequest,
        answer: BrokerHeartbeatResponse,
        now_ms: int,
    ) -> list[Effect]:
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            return self._lost_registration(now_ms)
        if answer.error_code:
            self._repeat_later(
                f"they answer BrokerHeartbeat with {_name(answer.error_code)}", now_ms
            )
            return []
        self.trouble = None
        self._hold_session(ask)
        self._told = ask.news
        if set(ask.news.offline) >= set(self._offline):
            self._offline_since_ms = None
        self._next_ms = now_ms + self.limits.heartbeat_interval_ms
        if asked.want_shut_down and answer.should_shut_down:
            self._end = Stop(is_controlled=True)
        elif self.is_leaving and not asked.want_shut_down:
            self._next_ms = now_ms  # the shutdown began while this heartbeat was on its way
        effects: list[Effect] = []
        if answer.is_caught_up and not self.is_caught_up:
            self.is_caught_up = True
            effects.append(Turn.CAUGHT_UP)
        if answer.is_fenced != self.is_fenced:
            self.is_fenced = answer.is_fenced
            effects.append(Turn.FENCED if answer.is_fenced else Turn.UNFENCED)
        return effects

    def _lost_registration(self, now_ms: int) -> list[Effect]:
        """Register anew, with the usual time between requests."""
        was_fenced = self.is_fenced
        self.is_registered, self.is_caught_up, self.is_fenced = False, False, True
        self.session_ends_ms = now_ms
        self._repeat_later("they no longer have this broker's registration", now_ms)
        return [] if was_fenced else [Turn.FENCED]


def _levels(identity: BrokerIdentity) -> list[tuple[str, tuple[int, int]]]:
    return sorted(identity.features.items())


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
