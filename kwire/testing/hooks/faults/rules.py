"""Fault rules: which requests a rule matches, and what it injects into them.

A rule is a JSON object, whether it comes over HTTP, from the command line or from Python:

    {"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    {"client": "billing-*", "delay_ms": 500, "probability": 0.1, "seed": 7}
    {"api": ["JoinGroup", "Heartbeat"], "script": [{"error": "NOT_COORDINATOR"}, {}, {"die": true}]}
    {"preset": "leader-moved", "topic": "orders", "partition": 0, "times": 1}

Fields that match requests (a missing field matches all):

    api, topic, partition, group, transactional_id      `api` is one name, or a list of names
    client          the client id; `*` stands for any characters

Fields that say how often the rule injects:

    skip            number of matching requests to let pass first
    times           number of injections; without it, there is no limit
    probability     of an injection, for each matching request; the draws depend on `seed`
    script          a list of actions, one per matching request; an empty action lets it pass

Fields of an action, that is, what the rule injects:

    error           name of an error code.  The matching partitions get this error and are not
                    carried out; other partitions of the same request are served.
    delay_ms        the request waits before it is carried out
    throttle_ms     the request is carried out, its response has this throttle time, and the
                    connection is muted for as long (KIP-219)
    disconnect      the connection is closed instead of a response
    truncate        the response is cut off after this many bytes, then the connection is closed
    silence         the request is never answered, and the connection stays open
    die             the broker's process is killed
    carried_out     true: the request is carried out first.  With it, an `error` is reported
                    although the request succeeded, a delay makes the response late, and a
                    disconnect loses the response.

A `preset` is a name for some of these fields.  A rule with `disk` matches calls of the log instead
of requests: see kwire.testing.hooks.faults.disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.testing.hooks.faults.disk import (
    EVERYTHING,
    NEEDS_SPACE,
    SLOW_MS,
    DiskAction,
    DiskFault,
    LogCall,
    LogOperation,
)
from kwire.testing.hooks.faults.parts import OF_PARTITIONS, OF_TOPICS, has_place_for_error

T = TypeVar("T")
E = TypeVar("E", DiskFault, LogOperation)


class BadRule(ValueError):
    """The rule is invalid; the message says what is wrong with it."""


class Ending(Enum):
    """What happens instead of a complete response."""

    DISCONNECT = "disconnect"
    TRUNCATE = "truncate"
    SILENCE = "silence"
    DIE = "die"


@dataclass(frozen=True, slots=True)
class Action:
    """What is injected into one request; the head of the module explains the fields."""

    error: ErrorCode | None = None
    delay_ms: int = 0
    throttle_ms: int = 0
    ending: Ending | None = None
    reply_bytes: int = 0
    """How many bytes of a truncated response are sent, including its size field."""
    carried_out: bool = False

    @property
    def passes(self) -> bool:
        """Whether the action injects nothing."""
        return self == PASS


PASS: Final = Action()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """Which requests a rule or a trace matches; None and empty match all."""

    apis: frozenset[int] = frozenset()
    topic: str | None = None
    partition: int | None = None
    client: str | None = None
    group: str | None = None
    transactional_id: str | None = None

    def is_of(self, api_key: int, client_id: str | None) -> bool:
        """Whether API key and client id match."""
        if self.apis and api_key not in self.apis:
            return False
        return self.client is None or fnmatchcase(client_id or "", self.client)

    def picks(self, topic: str, partition: int | None) -> bool:
        """Whether topic and partition match; a request about a whole topic has no partition."""
        return self.topic in (None, topic) and (
            self.partition is None or partition is None or self.partition == partition
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule(RequestFilter):
    """A parsed rule: which requests it matches, how often it injects, and what."""

    said: Mapping[str, Any]
    """The JSON object that the rule was parsed from."""
    steps: tuple[Action, ...]
    """The actions that are injected one after the other, again and again."""
    of_disk: DiskAction | None = None
    """What a rule about the disk injects; such a rule matches no requests."""
    skip: int = 0
    times: int | None = None
    probability: float = 1.0
    seed: int = 0

    def is_about_call(self, call: LogCall) -> bool:
        """Whether the rule matches this call of the log."""
        if self.of_disk is None or call.operation not in self.of_disk.on:
            return False
        if self.topic is None:
            return True
        return call.topic is not None and self.picks(call.topic, call.partition)


GROUP_APIS: Final = (
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.TXN_OFFSET_COMMIT,
)  # fmt: skip
TRANSACTION_APIS: Final = (
    ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
)  # fmt: skip
LEADER_APIS: Final = (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip

PRESETS: Final[Mapping[str, tuple[tuple[ApiKey, ...], Action]]] = {
    "leader-moved": (LEADER_APIS, Action(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    "coordinator-moved": (
        (*GROUP_APIS, *TRANSACTION_APIS),
        Action(ErrorCode.NOT_COORDINATOR),
    ),
    "coordinator-loading": (
        (*GROUP_APIS, *TRANSACTION_APIS),
        Action(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ),
    "stale-metadata": ((ApiKey.METADATA,), Action(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    "lost-reply": ((), Action(ending=Ending.DISCONNECT, carried_out=True)),
    "death": ((), Action(ending=Ending.DIE)),
}
"""Named events in a cluster: the APIs that notice each of them, and what is injected into them."""
DISK_PRESETS: Final[Mapping[str, DiskFault]] = {
    "full-disk": DiskFault.FULL,
    "failed-disk": DiskFault.FAILED,
    "slow-disk": DiskFault.SLOW,
}
"""Named faults of a broker's disk."""

FILTER: Final = ("api", "topic", "partition", "client", "group", "transactional_id")
HOW_OFTEN: Final = ("skip", "times", "probability", "seed")
ACTION: Final = (
    "error", "delay_ms", "throttle_ms", "disconnect", "truncate", "silence", "die", "carried_out",
)  # fmt: skip
FIELDS: Final = (*FILTER, *HOW_OFTEN, *ACTION, "script", "preset", "disk", "on")
DISK_FIELDS: Final = ("disk", "on", "topic", "partition", "delay_ms", *HOW_OFTEN)
INT32_MAX: Final = 2**31 - 1


def read_rule(said: object) -> FaultRule:
    """Parse a rule from its JSON object.  Raises BadRule."""
    if not isinstance(said, dict):
        raise BadRule('a rule must be a JSON object such as {"api": "Produce", "error": ...}')
    _check_known(said, FIELDS, "field")
    disk = DISK_PRESETS.get(str(said.get("preset")))
    if disk is not None:
        said = {"disk": disk.value, **said}
    if "disk" in said:
        return _disk_rule(said)
    if "on" in said:
        raise BadRule("on takes effect only together with disk")
    apis, steps = _apis(said), _steps(said)
    if "preset" in said:
        apis, steps = _preset(said, apis, steps)
    if not steps:
        raise BadRule(f"the rule injects nothing: add one of {', '.join(ACTION[:-1])}")
    rule = _rule(said, apis, steps)
    _check_error_places(rule)
    return rule


def _rule(
    said: Mapping[str, Any],
    apis: Iterable[ApiKey],
    steps: tuple[Action, ...],
    of_disk: DiskAction | None = None,
) -> FaultRule:
    """Builds a rule from the fields of its JSON object and from its parsed parts.  A script without
    `times` is injected once, step by step."""
    request_filter = _filter(said, apis)
    return FaultRule(
        said=dict(said),
        steps=steps,
        of_disk=of_disk,
        **{field.name: getattr(request_filter, field.name) for field in fields(request_filter)},
        skip=_number(said, "skip", 0),
        times=_number(said, "times", None if "script" not in said else len(steps)),
        probability=_probability(said),
        seed=_number(said, "seed", 0),
    )


def _disk_rule(said: Mapping[str, Any]) -> FaultRule:
    """Parses a rule about a disk.  Raises BadRule for fields that only rules about requests have,
    and for `delay_ms` with a disk fault other than slow."""
    for name in said:
        if name not in (*DISK_FIELDS, "preset"):
            raise BadRule(
                f"a rule about a disk cannot have {name}: it can have {', '.join(DISK_FIELDS)}"
            )
    disk = _one_of(DiskFault, "disk", said["disk"])
    if disk is not DiskFault.SLOW and "delay_ms" in said:
        raise BadRule(f"delay_ms is for a slow disk, not for a {disk.value} one")
    of_disk = DiskAction(disk, _operations(said, disk), _number(said, "delay_ms", SLOW_MS))
    return _rule(said, (), (Action(delay_ms=of_disk.delay_ms),), of_disk)


def _operations(said: Mapping[str, Any], disk: DiskFault) -> frozenset[LogOperation]:
    """Parses which log operations a rule about a disk affects; by default all, or for a full disk
    those that need space."""
    if "on" not in said:
        return NEEDS_SPACE if disk is DiskFault.FULL else EVERYTHING
    names = said["on"] if isinstance(said["on"], list) else [said["on"]]
    return frozenset(_one_of(LogOperation, "on", name) for name in names)


def _one_of(kind: type[E], field: str, name: object) -> E:
    """The member with that value.  Raises BadRule."""
    members = {member.value: member for member in kind}
    if isinstance(name, str) and name in members:
        return members[name]
    raise BadRule(f"{field} must be one of {', '.join(members)}, not {name!r}")


def read_filter(said: object) -> RequestFilter:
    """Parse a request filter, as of a trace, from its JSON object.  Raises BadRule."""
    if not isinstance(said, dict):
        raise BadRule('a filter of requests must be a JSON object such as {"api": "Produce"}')
    _check_known(said, FILTER, "field")
    return _filter(said, _apis(said))


def _filter(said: Mapping[str, Any], apis: Iterable[ApiKey]) -> RequestFilter:
    """Parses which requests match.  Raises BadRule for a partition without a topic, which would
    match any topic's partition."""
    request_filter = RequestFilter(
        apis=frozenset(apis),
        topic=_text(said, "topic"),
        partition=_number(said, "partition", None),
        client=_text(said, "client"),
        group=_text(said, "group"),
        transactional_id=_text(said, "transactional_id"),
    )
    if request_filter.partition is not None and request_filter.topic is None:
        raise BadRule("partition takes effect only together with topic")
    return request_filter


def _preset(
    said: Mapping[str, Any], apis: tuple[ApiKey, ...], steps: tuple[Action, ...]
) -> tuple[tuple[ApiKey, ...], tuple[Action, ...]]:
    """The APIs and actions of a preset, unless the rule has its own."""
    name = said["preset"]
    if name not in PRESETS:
        presets = (*PRESETS, *DISK_PRESETS)
        raise BadRule(f"there is no preset {name!r}{_near(str(name), presets)}")
    preset_apis, action = PRESETS[name]
    return apis or preset_apis, steps or (action,)


def _check_error_places(rule: FaultRule) -> None:
    """Check that the responses of the rule's APIs have a place for its errors.

    Raises BadRule.
    """
    if all(step.error is None for step in rule.steps):
        return
    for key in sorted(rule.apis):
        name = API_NAMES[key]
        if rule.topic is not None and key not in OF_PARTITIONS and key not in OF_TOPICS:
            raise BadRule(f"a {name} response cannot contain an error of one topic")
        if not has_place_for_error(key):
            raise BadRule(f"a {name} response cannot contain an error: try disconnect")


def _steps(said: Mapping[str, Any]) -> tuple[Action, ...]:
    """Parses the actions of a rule: those of its script, or the single action in its own fields.
    Returns an empty tuple if the rule injects nothing."""
    if "script" not in said:
        action = _action({name: said[name] for name in ACTION if name in said})
        return () if action.passes else (action,)
    if any(name in said for name in ACTION):
        raise BadRule("a rule can have a script or an action, not both")
    script = said["script"]
    if not isinstance(script, list) or not script:
        raise BadRule('script must be a list of actions such as [{"error": ...}, {}]')
    for action in script:
        if not isinstance(action, dict):
            raise BadRule(f"an action in the script must be a JSON object, not {action!r}")
        _check_known(action, ACTION, "field in the script")
    return tuple(map(_action, script))


def _action(said: Mapping[str, Any]) -> Action:
    """Parses one action; returns PASS if it lets the request through unchanged.  Raises BadRule if
    it has more than one way to end the request."""
    for name in ("disconnect", "silence", "die"):
        _flag(said, name)
    endings = [each for each in Ending if _is_asked_for(said.get(each.value))]
    if len(endings) > 1:
        raise BadRule(f"{' and '.join(each.value for each in endings)} cannot be combined")
    ending = endings[0] if endings else None
    action = Action(
        error=_error(said),
        delay_ms=_number(said, "delay_ms", 0),
        throttle_ms=_number(said, "throttle_ms", 0),
        ending=ending,
        reply_bytes=_number(said, "truncate", 0) if ending is Ending.TRUNCATE else 0,
        carried_out=_flag(said, "carried_out") or ending is Ending.TRUNCATE,
    )
    return PASS if action == Action(carried_out=True) else action


def _is_asked_for(value: object) -> bool:
    """Whether the field of an ending asks for it: true, or a number of bytes, which may be 0."""
    return value is not None and value is not False


def _error(said: Mapping[str, Any]) -> ErrorCode | None:
    """Parses the name of a Kafka error, in any case; None if the action injects no error.  Raises
    BadRule with the nearest name for an unknown one."""
    name = said.get("error")
    if name is None:
        return None
    if isinstance(name, str) and name.upper() in ErrorCode.__members__:
        return ErrorCode[name.upper()]
    raise BadRule(f"there is no error {name!r}{_near(str(name), ErrorCode.__members__)}")


def _apis(said: Mapping[str, Any]) -> tuple[ApiKey, ...]:
    """Parses the APIs of a rule: one name or number, or a list; empty for all APIs."""
    names = said.get("api", [])
    names = [names] if isinstance(names, str | int) else names
    if not isinstance(names, list):
        raise BadRule('api must be a name such as "Produce", or a list of names')
    return tuple(map(api_of, names))


def api_of(name: object) -> ApiKey:
    """The API key for a name, in any case and with or without underscores, or for a number.

    Raises BadRule.
    """
    if isinstance(name, int) and name in ApiKey._value2member_map_:
        return ApiKey(name)
    by_name = {API_NAMES[key].lower(): key for key in ApiKey}
    if isinstance(name, str) and name.replace("_", "").lower() in by_name:
        return by_name[name.replace("_", "").lower()]
    raise BadRule(f"there is no API {name!r}{_near(str(name), API_NAMES.values())}")


def _number(said: Mapping[str, Any], name: str, default: T) -> Any:  # noqa: ANN401 - int or `default`
    """Return the number in the field `name`, or `default` if the field is missing or null.  Raises
    BadRule if it is not an integer from 0 to INT32_MAX."""
    value = said.get(name)
    if value is None:
        return default
    if type(value) is int and 0 <= value <= INT32_MAX:  # JSON's true is not a number
        return value
    raise BadRule(f"{name} must be a number from 0 on, not {value!r}")


def _probability(said: Mapping[str, Any]) -> float:
    """Return the probability of a rule, by default 1.  Raises BadRule if it is not from 0 to 1."""
    value = said.get("probability", 1.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise BadRule(f"probability must be a number between 0 and 1, not {value!r}")


def _flag(said: Mapping[str, Any], name: str) -> bool:
    """Return a boolean field, by default false.  Raises BadRule if it is another type."""
    value = said.get(name, False)
    if isinstance(value, bool):
        return value
    raise BadRule(f"{name} must be true or false, not {value!r}")


def _text(said: Mapping[str, Any], name: str) -> str | None:
    """Return a text field, or None if it is missing.  Raises BadRule if it is another type."""
    value = said.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadRule(f"{name} must be text, not {value!r}")


def _check_known(said: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    for name in said:
        if name not in known:
            raise BadRule(f"unknown {what} {name!r}{_near(name, known)}")


def _near(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that is most similar, empty if none is."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1)
    return f": did you mean {by_lower[near[0]]}?" if near else ""


Draw = Callable[[], float]
"""The next random number in [0, 1)."""
