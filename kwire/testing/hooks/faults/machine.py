"""Decides for each request which fault is injected into it, and records the injections.

The first rule that matches a request and is not used up decides; later rules do not count the
request.  Each rule has a random generator of its own, so that its decisions depend only on its seed
and on the requests that match it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import API_NAMES
from kwire.codecs.primitives import Message
from kwire.testing.hooks.faults.disk import DiskAction, DiskInjection, LogCall
from kwire.testing.hooks.faults.moved import Moved
from kwire.testing.hooks.faults.parts import NameOf, Part, groups_of, parts_of, transactional_id_of
from kwire.testing.hooks.faults.rules import Action, Draw, FaultRule, RequestFilter

HAPPENED_MAX: Final = 10_000
"""How many injections are kept; the oldest are dropped."""
HELPERS: Final = "kwire-testing"
"""Client id of kwire.testing's own requests.  A rule matches them, and requests of other brokers,
only if its `client` does."""
_OTHER_BROKERS: Final = re.compile(
    r"broker-\d+-(fetcher-\d+|to-controller|txn-marker-sender|share-states|telemetry)"
    r"|AddPartitionsManager"
)
_OF_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""Requests between brokers: a rule matches them only if its `api` names them."""


class RequestInfo:
    """One request, with what rules match on."""

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None,
        request: Message,
        name_of: NameOf,
        unnamed: Callable[[], Iterable[Part]] = tuple,
    ) -> None:
        """`name_of` returns the name of a topic id.  `unnamed` returns partitions that the request
        is about without naming them, as those of a fetch session."""
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.request = request
        self._name_of = name_of
        self._unnamed = unnamed

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The topics and partitions that the request is about, without duplicates."""
        named = parts_of(self.api_key, self.request, self._name_of)
        return tuple(dict.fromkeys([*named, *self._unnamed()]))


class Injection(NamedTuple):
    """One injection of a rule into a request."""

    rule: int
    time_ms: int
    api: str
    api_version: int
    client: str | None
    parts: tuple[Part, ...]
    """The topics and partitions of the request that the rule matches."""
    action: Action

    def to_json(self) -> dict[str, Any]:
        """The injection as GET /faults/happened returns it."""
        action = {
            "error": None if self.action.error is None else self.action.error.name,
            "delay_ms": self.action.delay_ms or None,
            "throttle_ms": self.action.throttle_ms or None,
            "ending": None if self.action.ending is None else self.action.ending.value,
            "carried_out": self.action.carried_out or None,
        }
        return {
            "rule": self.rule,
            "time_ms": self.time_ms,
            "api": self.api,
            "version": self.api_version,
            "client": self.client,
            "partitions": [{"topic": topic, "partition": index} for topic, index in self.parts],
            **{name: value for name, value in action.items() if value is not None},
        }


class FaultDecision(NamedTuple):
    """The action that is injected into a request, and the rule that injects it."""

    number: int
    rule: FaultRule
    action: Action


@dataclass(slots=True)
class _ActiveRule:
    rule: FaultRule
    draw: Draw
    matched: int = 0
    """Number of requests that matched."""
    injected: int = 0
    """Number of injections."""

    @property
    def is_used_up(self) -> bool:
        return self.rule.times is not None and self.injected >= self.rule.times

    def take(self) -> Action | None:
        """Count a matching request; returns the action to inject, or None to let it pass."""
        self.matched += 1
        if self.matched <= self.rule.skip:
            return None
        if self.rule.probability < 1 and self.draw() >= self.rule.probability:
            return None
        steps = self.rule.steps
        action = steps[self.injected % len(steps)]
        self.injected += 1
        return action


@dataclass(slots=True)
class FaultMachine:
    """All fault rules of a broker, and their injections.

    `chance` returns a random generator for a seed; `now_ms` returns the time.
    """

    chance: Callable[[int], Draw]
    now_ms: Callable[[], int]
    happened: deque[Injection | DiskInjection | Moved] = field(
        default_factory=lambda: deque(maxlen=HAPPENED_MAX)
    )
    _rules: dict[int, _ActiveRule] = field(default_factory=dict)
    _last: int = 0

    def __bool__(self) -> bool:
        """Whether there are any rules."""
        return bool(self._rules)

    def add(self, rule: FaultRule) -> int:
        """Add a rule; returns its number."""
        self._last += 1
        self._rules[self._last] = _ActiveRule(rule, self.chance(rule.seed))
        return self._last

    def remove(self, number: int) -> bool:
        """Remove a rule; returns whether it existed."""
        return self._rules.pop(number, None) is not None

    def clear(self) -> None:
        """Remove all rules and forget their injections."""
        self._rules.clear()
        self.happened.clear()

    def to_json(self) -> list[dict[str, Any]]:
        """The rules, with their numbers of matching requests and of injections."""
        return [
            {
                "rule": number,
                **active.rule.said,
                "matched": active.matched,
                "happened": active.injected,
                "used_up": active.is_used_up,
            }
            for number, active in self._rules.items()
        ]

    def decide(self, request: RequestInfo) -> FaultDecision | None:
        """Decide which action is injected into this request; None lets it pass."""
        for number, active in self._rules.items():
            if active.is_used_up or active.rule.of_disk or not is_about(active.rule, request):
                continue
            action = active.take()
            if action is None:
                continue
            if action.passes:  # an empty step of a script: no later rule applies, either
                return None
            parts = tuple(part for part in request.parts if active.rule.picks(*part))
            injection = Injection(
                number,
                self.now_ms(),
                API_NAMES[request.api_key],
                request.api_version,
                request.client_id,
                parts,
                action,
            )
            self.happened.append(injection)
            return FaultDecision(number, active.rule, action)
        return None

    def decide_disk(self, call: LogCall) -> DiskAction | None:
        """Decide which fault is injected into this call of the log; None lets it pass.

        May be called from any thread, but not from two at a time.
        """
        for number, active in list(self._rules.items()):
            of_disk = active.rule.of_disk
            if of_disk is None or active.is_used_up or not active.rule.is_about_call(call):
                continue
            if active.take() is None:
                continue
            self.happened.append(
                DiskInjection(number, self.now_ms(), of_disk.disk, call, of_disk.delay_ms)
            )
            return of_disk
        return None


def is_about(request_filter: RequestFilter, request: RequestInfo) -> bool:
    """Whether the filter of a rule or a trace matches a request."""
    if not request_filter.is_of(request.api_key, request.client_id):
        return False
    if request_filter.client is None and _is_internal_client(request.client_id):
        return False
    if not request_filter.apis and request.api_key in _OF_BROKERS:
        return False
    if request_filter.group is not None and request_filter.group not in groups_of(request.request):
        return False
    wanted = request_filter.transactional_id
    if wanted is not None and wanted != transactional_id_of(request.request):
        return False
    return request_filter.topic is None or any(
        request_filter.picks(*part) for part in request.parts
    )


def _is_internal_client(client_id: str | None) -> bool:
    """Whether the request comes from kwire.testing itself, or from another broker."""
    return client_id == HELPERS or _OTHER_BROKERS.fullmatch(client_id or "") is not None
