"""Which request is befallen by what: rules in, a decision for each request out, and what happened.

The first rule that matches a request and is not used up decides; the others do not see it.  A rule
draws from a chance of its own, so that what it befalls depends on its seed and on the requests that
match it, and on nothing else.
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
from kwire.testing.hooks.faults.disk import OfDisk, OnDisk, Touched
from kwire.testing.hooks.faults.moved import Moved
from kwire.testing.hooks.faults.parts import NameOf, Part, groups_of, parts_of, transactional_id_of
from kwire.testing.hooks.faults.rules import Action, Draw, Rule, Which

HAPPENED_MAX: Final = 10_000
"""How many are remembered, the last ones."""
HELPERS: Final = "kwire-testing"
"""The client id of those who look into the broker for a test: only a rule that names it, or `*`,
is about them.  So it is with the other brokers of the cluster."""
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
"""What brokers ask each other: a rule is about it that names it."""


class Asked:
    """One request, as far as rules look at it."""

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None,
        request: Message,
        name_of: NameOf,
        unnamed: Callable[[], Iterable[Part]] = tuple,
    ) -> None:
        """`unnamed` are parts that it is about and does not name."""
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.request = request
        self._name_of = name_of
        self._unnamed = unnamed

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The topics and partitions it is about, each once."""
        named = parts_of(self.api_key, self.request, self._name_of)
        return tuple(dict.fromkeys([*named, *self._unnamed()]))


class Happened(NamedTuple):
    """A request that a rule befell."""

    rule: int
    time_ms: int
    api: str
    api_version: int
    client: str | None
    parts: tuple[Part, ...]
    """Those that the rule is about, of those that the request names."""
    action: Action

    def to_json(self) -> dict[str, Any]:
        """As it is told over HTTP."""
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


class Decision(NamedTuple):
    """What is done to a request, and by which rule."""

    number: int
    rule: Rule
    action: Action


@dataclass(slots=True)
class _Active:
    rule: Rule
    draw: Draw
    seen: int = 0
    """Requests that matched."""
    befallen: int = 0

    @property
    def is_used_up(self) -> bool:
        return self.rule.times is not None and self.befallen >= self.rule.times

    def take(self) -> Action | None:
        """What is done to a request that matches; None where it is not this one's turn."""
        self.seen += 1
        if self.seen <= self.rule.skip:
            return None
        if self.rule.probability < 1 and self.draw() >= self.rule.probability:
            return None
        steps = self.rule.steps
        action = steps[self.befallen % len(steps)]
        self.befallen += 1
        return action


@dataclass(slots=True)
class Faults:
    """All rules of a broker.  `chance` gives what draws for a seed, `now_ms` the time."""

    chance: Callable[[int], Draw]
    now_ms: Callable[[], int]
    happened: deque[Happened | OnDisk | Moved] = field(
        default_factory=lambda: deque(maxlen=HAPPENED_MAX)
    )
    _rules: dict[int, _Active] = field(default_factory=dict)
    _last: int = 0

    def __bool__(self) -> bool:
        """Whether there are any rules."""
        return bool(self._rules)

    def add(self, rule: Rule) -> int:
        """Have it hold from now on; its number."""
        self._last += 1
        self._rules[self._last] = _Active(rule, self.chance(rule.seed))
        return self._last

    def remove(self, number: int) -> bool:
        """Have it hold no longer; whether there was one."""
        return self._rules.pop(number, None) is not None

    def clear(self) -> None:
        """Have none, and forget what happened."""
        self._rules.clear()
        self.happened.clear()

    def to_json(self) -> list[dict[str, Any]]:
        """The rules, with how often each matched and befell a request."""
        return [
            {
                "rule": number,
                **active.rule.said,
                "matched": active.seen,
                "happened": active.befallen,
                "used_up": active.is_used_up,
            }
            for number, active in self._rules.items()
        ]

    def decide(self, asked: Asked) -> Decision | None:
        """What is done to this request; None lets it pass."""
        for number, active in self._rules.items():
            if active.is_used_up or active.rule.of_disk or not is_about(active.rule, asked):
                continue
            action = active.take()
            if action is None:
                continue
            if action.passes:
                return None
            parts = tuple(part for part in asked.parts if active.rule.picks(*part))
            happened = Happened(
                number,
                self.now_ms(),
                API_NAMES[asked.api_key],
                asked.api_version,
                asked.client_id,
                parts,
                action,
            )
            self.happened.append(happened)
            return Decision(number, active.rule, action)
        return None

    def touch(self, touched: Touched) -> OfDisk | None:
        """What is wrong with the disk for this call of the log; None lets it pass.

        It may be asked from any thread, one at a time.
        """
        for number, active in list(self._rules.items()):
            of_disk = active.rule.of_disk
            if of_disk is None or active.is_used_up or not active.rule.is_about_call(touched):
                continue
            if active.take() is None:
                continue
            self.happened.append(
                OnDisk(number, self.now_ms(), of_disk.disk, touched, of_disk.delay_ms)
            )
            return of_disk
        return None


def is_about(rule: Which, asked: Asked) -> bool:
    """Whether a request is among those that are meant."""
    if not rule.is_of(asked.api_key, asked.client_id):
        return False
    if rule.client is None and _is_nobodys_client(asked.client_id):
        return False
    if not rule.apis and asked.api_key in _OF_BROKERS:
        return False
    if rule.group is not None and rule.group not in groups_of(asked.request):
        return False
    wanted = rule.transactional_id
    if wanted is not None and wanted != transactional_id_of(asked.request):
        return False
    return rule.topic is None or any(rule.picks(*part) for part in asked.parts)


def _is_nobodys_client(client_id: str | None) -> bool:
    """Whether it is no client of what is tested: the test's own helper, or another broker."""
    return client_id == HELPERS or _OTHER_BROKERS.fullmatch(client_id or "") is not None
