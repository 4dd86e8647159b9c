"""What somebody may ask for: a rule that says which requests it is about, and what is done to them.

As JSON, which is how it comes over HTTP, from the command line and from Python alike:

    {"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    {"client": "billing-*", "delay_ms": 500, "probability": 0.1, "seed": 7}
    {"api": ["JoinGroup", "Heartbeat"], "script": [{"error": "NOT_COORDINATOR"}, {}, {"die": true}]}
    {"preset": "leader-moved", "topic": "orders", "partition": 0, "times": 1}

Which requests: `api` (one or several), `topic`, `partition`, `client` (a client id, `*` stands for
anything), `group`, `transactional_id`; what is not said is any.  How often: `skip` so many of those
that match, then befall `times` of them (for ever, if it is not said), each with `probability`,
drawn from `seed`.  `script` is a list of actions for one matching request after the other, of which
an empty one lets it pass.

What is done, the fields of an action:

    error           the name of an error code: what matches is not carried out, and told so; other
                    partitions of the same request are served
    delay_ms        it waits before it is carried out
    throttle_ms     it is carried out, told to rest so long, and not heard meanwhile (KIP-219)
    disconnect      the connection is closed instead of an answer
    truncate        the answer is cut off after so many bytes, then the connection is closed
    silence         there is never an answer, and the connection stays open
    die             the broker's process is killed
    carried_out     true: the request is carried out first.  So an error is a lie, a delay makes the
                    answer late, and a disconnect loses it

A rule about the `disk` is about calls of the log and not about requests: see
kwire.testing.hooks.faults.disk.
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
    SLOW_MS,
    WHAT_TAKES_ROOM,
    Disk,
    OfDisk,
    Operation,
    Touched,
)
from kwire.testing.hooks.faults.parts import OF_PARTITIONS, OF_TOPICS, has_place_for_error

T = TypeVar("T")
E = TypeVar("E", Disk, Operation)


class BadRule(ValueError):
    """What was asked for cannot be; the message says what of it."""


class Ending(Enum):
    """What there is instead of an answer."""

    DISCONNECT = "disconnect"
    TRUNCATE = "truncate"
    SILENCE = "silence"
    DIE = "die"


@dataclass(frozen=True, slots=True)
class Action:
    """What is done to one request: see the module."""

    error: ErrorCode | None = None
    delay_ms: int = 0
    throttle_ms: int = 0
    ending: Ending | None = None
    reply_bytes: int = 0
    """Of a truncated answer, with its size: how much is sent."""
    carried_out: bool = False

    @property
    def passes(self) -> bool:
        """Whether nothing is done."""
        return self == PASS


PASS: Final = Action()


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which requests are meant."""

    apis: frozenset[int] = frozenset()
    topic: str | None = None
    partition: int | None = None
    client: str | None = None
    group: str | None = None
    transactional_id: str | None = None

    def is_of(self, api_key: int, client_id: str | None) -> bool:
        """Whether it may be about such a request, by its header alone."""
        if self.apis and api_key not in self.apis:
            return False
        return self.client is None or fnmatchcase(client_id or "", self.client)

    def picks(self, topic: str, partition: int | None) -> bool:
        """Whether it is about this part of a request; a request about a topic has no partition."""
        return self.topic in (None, topic) and (
            self.partition is None or partition is None or self.partition == partition
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Which):
    """Which requests, how often, and what is done to one after the other."""

    said: Mapping[str, Any]
    """As it was asked for."""
    steps: tuple[Action, ...]
    of_disk: OfDisk | None = None
    """What it asks of a disk; then it is about no request."""
    skip: int = 0
    times: int | None = None
    probability: float = 1.0
    seed: int = 0

    def is_about_call(self, touched: Touched) -> bool:
        """Whether it is about this call of the log."""
        if self.of_disk is None or touched.operation not in self.of_disk.on:
            return False
        if self.topic is None:
            return True
        return touched.topic is not None and self.picks(touched.topic, touched.partition)


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
"""What happens to a cluster, by its name: requests that see it, and what they see."""
DISK_PRESETS: Final[Mapping[str, Disk]] = {
    "full-disk": Disk.FULL,
    "failed-disk": Disk.FAILED,
    "slow-disk": Disk.SLOW,
}
"""What happens to a broker's disk, by its name."""

WHICH: Final = ("api", "topic", "partition", "client", "group", "transactional_id")
HOW_OFTEN: Final = ("skip", "times", "probability", "seed")
ACTION: Final = (
    "error", "delay_ms", "throttle_ms", "disconnect", "truncate", "silence", "die", "carried_out",
)  # fmt: skip
FIELDS: Final = (*WHICH, *HOW_OFTEN, *ACTION, "script", "preset", "disk", "on")
DISK_FIELDS: Final = ("disk", "on", "topic", "partition", "delay_ms", *HOW_OFTEN)
INT32_MAX: Final = 2**31 - 1


def read_rule(said: object) -> Rule:
    """The rule that a JSON object asks for.  Raises BadRule."""
    if not isinstance(said, dict):
        raise BadRule('a rule is a JSON object, as {"api": "Produce", "error": ...}')
    _known(said, FIELDS, "field")
    disk = DISK_PRESETS.get(str(said.get("preset")))
    if disk is not None:
        said = {"disk": disk.value, **said}
    if "disk" in said:
        return _disk_rule(said)
    if "on" in said:
        raise BadRule("on says which calls of a disk are meant: it takes a disk")
    apis, steps = _apis(said), _steps(said)
    if "preset" in said:
        apis, steps = _preset(said, apis, steps)
    if not steps:
        raise BadRule(f"the rule does nothing: it takes one of {', '.join(ACTION[:-1])}")
    rule = _rule(said, apis, steps)
    _check_places(rule)
    return rule


def _rule(
    said: Mapping[str, Any],
    apis: Iterable[ApiKey],
    steps: tuple[Action, ...],
    of_disk: OfDisk | None = None,
) -> Rule:
    which = _which(said, apis)
    return Rule(
        said=dict(said),
        steps=steps,
        of_disk=of_disk,
        **{each.name: getattr(which, each.name) for each in fields(which)},
        skip=_number(said, "skip", 0),
        times=_number(said, "times", None if "script" not in said else len(steps)),
        probability=_probability(said),
        seed=_number(said, "seed", 0),
    )


def _disk_rule(said: Mapping[str, Any]) -> Rule:
    for name in said:
        if name not in (*DISK_FIELDS, "preset"):
            raise BadRule(f"a disk has no {name}: such a rule takes {', '.join(DISK_FIELDS)}")
    disk = _one_of(Disk, "disk", said["disk"])
    if disk is not Disk.SLOW and "delay_ms" in said:
        raise BadRule(f"a {disk.value} disk has no delay_ms: try a slow one")
    of_disk = OfDisk(disk, _operations(said, disk), _number(said, "delay_ms", SLOW_MS))
    return _rule(said, (), (Action(delay_ms=of_disk.delay_ms),), of_disk)


def _operations(said: Mapping[str, Any], disk: Disk) -> frozenset[Operation]:
    if "on" not in said:
        return WHAT_TAKES_ROOM if disk is Disk.FULL else EVERYTHING
    names = said["on"] if isinstance(said["on"], list) else [said["on"]]
    return frozenset(_one_of(Operation, "on", name) for name in names)


def _one_of(kind: type[E], field: str, name: object) -> E:
    """The member of that value.  Raises BadRule."""
    found = {each.value: each for each in kind}
    if isinstance(name, str) and name in found:
        return found[name]
    raise BadRule(f"{field} is one of {', '.join(found)}, and not {name!r}")


def read_which(said: object) -> Which:
    """Those requests that a JSON object of such fields is about.  Raises BadRule."""
    if not isinstance(said, dict):
        raise BadRule('which requests is a JSON object, as {"api": "Produce"}')
    _known(said, WHICH, "field")
    return _which(said, _apis(said))


def _which(said: Mapping[str, Any], apis: Iterable[ApiKey]) -> Which:
    which = Which(
        apis=frozenset(apis),
        topic=_text(said, "topic"),
        partition=_number(said, "partition", None),
        client=_text(said, "client"),
        group=_text(said, "group"),
        transactional_id=_text(said, "transactional_id"),
    )
    if which.partition is not None and which.topic is None:
        raise BadRule("partition takes a topic")
    return which


def _preset(
    said: Mapping[str, Any], apis: tuple[ApiKey, ...], steps: tuple[Action, ...]
) -> tuple[tuple[ApiKey, ...], tuple[Action, ...]]:
    """Its requests, and what is done; of both the rule may say something else."""
    name = said["preset"]
    if name not in PRESETS:
        presets = (*PRESETS, *DISK_PRESETS)
        raise BadRule(f"there is no preset {name!r}{_near(str(name), presets)}")
    preset_apis, action = PRESETS[name]
    return apis or preset_apis, steps or (action,)


def _check_places(rule: Rule) -> None:
    """That errors can be told where they are asked for.  Raises BadRule."""
    if all(step.error is None for step in rule.steps):
        return
    for key in sorted(rule.apis):
        name = API_NAMES[key]
        if rule.topic is not None and key not in OF_PARTITIONS and key not in OF_TOPICS:
            raise BadRule(f"{name} cannot be answered with an error of one topic")
        if not has_place_for_error(key):
            raise BadRule(f"{name} has no place for an error: try disconnect")


def _steps(said: Mapping[str, Any]) -> tuple[Action, ...]:
    if "script" not in said:
        action = _action({name: said[name] for name in ACTION if name in said})
        return () if action.passes else (action,)
    if any(name in said for name in ACTION):
        raise BadRule("a rule has a script or an action of its own, not both")
    script = said["script"]
    if not isinstance(script, list) or not script:
        raise BadRule('script is a list of actions, as [{"error": ...}, {}]')
    for each in script:
        if not isinstance(each, dict):
            raise BadRule(f"in the script {each!r} is no action: it is a JSON object")
        _known(each, ACTION, "field in the script")
    return tuple(map(_action, script))


def _action(said: Mapping[str, Any]) -> Action:
    for name in ("disconnect", "silence", "die"):
        _flag(said, name)
    endings = [each for each in Ending if _is_asked_for(said.get(each.value))]
    if len(endings) > 1:
        raise BadRule(f"{' and '.join(each.value for each in endings)} exclude each other")
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
    """An ending: true, or of a truncated answer how many bytes are sent, which may be none."""
    return value is not None and value is not False


def _error(said: Mapping[str, Any]) -> ErrorCode | None:
    name = said.get("error")
    if name is None:
        return None
    if isinstance(name, str) and name.upper() in ErrorCode.__members__:
        return ErrorCode[name.upper()]
    raise BadRule(f"there is no error {name!r}{_near(str(name), ErrorCode.__members__)}")


def _apis(said: Mapping[str, Any]) -> tuple[ApiKey, ...]:
    names = said.get("api", [])
    names = [names] if isinstance(names, str | int) else names
    if not isinstance(names, list):
        raise BadRule('api is a name, as "Produce", or a list of names')
    return tuple(map(api_of, names))


def api_of(name: object) -> ApiKey:
    """The key of an API by its name, however it is written, or its number.  Raises BadRule."""
    if isinstance(name, int) and name in ApiKey._value2member_map_:
        return ApiKey(name)
    by_name = {API_NAMES[key].lower(): key for key in ApiKey}
    if isinstance(name, str) and name.replace("_", "").lower() in by_name:
        return by_name[name.replace("_", "").lower()]
    raise BadRule(f"there is no API {name!r}{_near(str(name), API_NAMES.values())}")


def _number(said: Mapping[str, Any], name: str, default: T) -> Any:  # noqa: ANN401 - int or `default`
    value = said.get(name)
    if value is None:
        return default
    if type(value) is int and 0 <= value <= INT32_MAX:  # a bool is no number here
        return value
    raise BadRule(f"{name} is a number from 0 on, and not {value!r}")


def _probability(said: Mapping[str, Any]) -> float:
    value = said.get("probability", 1.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise BadRule(f"probability is a number between 0 and 1, and not {value!r}")


def _flag(said: Mapping[str, Any], name: str) -> bool:
    value = said.get(name, False)
    if isinstance(value, bool):
        return value
    raise BadRule(f"{name} is true or false, and not {value!r}")


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadRule(f"{name} is text, and not {value!r}")


def _known(said: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    for name in said:
        if name not in known:
            raise BadRule(f"unknown {what} {name!r}{_near(name, known)}")


def _near(name: str, known: Iterable[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1)
    return f": did you mean {by_lower[near[0]]}?" if near else ""


Draw = Callable[[], float]
"""The next random number in [0, 1)."""
