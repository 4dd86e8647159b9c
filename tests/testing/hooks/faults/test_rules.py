"""What is read of a rule, and what is said of one that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.testing.hooks.faults.rules import PRESETS, Action, BadRule, Ending, read_rule


def test_rule_is_parsed() -> None:
    rule = read_rule(
        {
            "api": ["Produce", "list_offsets", 1],
            "topic": "t",
            "partition": 3,
            "client": "c-*",
            "skip": 1,
            "times": 2,
            "probability": 0.5,
            "seed": 9,
            "error": "not_leader_or_follower",
            "delay_ms": 5,
        }
    )
    assert rule.apis == {ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.FETCH}
    assert (rule.topic, rule.partition, rule.client) == ("t", 3, "c-*")
    assert (rule.skip, rule.times, rule.probability, rule.seed) == (1, 2, 0.5, 9)
    assert rule.steps == (Action(ErrorCode.NOT_LEADER_OR_FOLLOWER, delay_ms=5),)


def test_script_without_times_is_played_once() -> None:
    rule = read_rule({"script": [{"error": "NOT_COORDINATOR"}, {}, {"die": True}]})
    assert rule.times == 3
    assert rule.steps[1].passes
    assert rule.steps[2].ending is Ending.DIE


def test_truncated_request_is_carried_out() -> None:
    (action,) = read_rule({"truncate": 0}).steps
    assert action == Action(ending=Ending.TRUNCATE, carried_out=True)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_preset_is_parsed_to_its_apis_and_action(name: str) -> None:
    apis, action = PRESETS[name]
    rule = read_rule({"preset": name})
    assert rule.apis == set(apis)
    assert rule.steps == (action,)


def test_fields_of_a_rule_override_its_preset() -> None:
    rule = read_rule({"preset": "lost-reply", "api": "Fetch", "delay_ms": 7})
    assert rule.apis == {ApiKey.FETCH}
    assert rule.steps == (Action(delay_ms=7),)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "a rule must be a JSON object"),
        ({"api": "Produce"}, "the rule injects nothing"),
        ({"carried_out": True}, "the rule injects nothing"),
        ({"apis": "Produce", "die": True}, "unknown field 'apis': did you mean api?"),
        ({"api": "Prduce", "die": True}, "there is no API 'Prduce': did you mean Produce?"),
        ({"api": 999, "die": True}, "there is no API '?999"),
        ({"api": {}, "die": True}, "api must be a name"),
        ({"error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ({"error": 6}, "there is no error 6"),
        ({"die": True, "disconnect": True}, "disconnect and die cannot be combined"),
        ({"die": 1}, "die must be true or false, not 1"),
        ({"delay_ms": -1}, "delay_ms must be a number from 0 on, not -1"),
        ({"delay_ms": True}, "delay_ms must be a number"),
        ({"die": True, "probability": 2}, "probability must be a number between 0 and 1"),
        ({"die": True, "client": 7}, "client must be text, not 7"),
        ({"die": True, "partition": 1}, "partition takes effect only together with topic"),
        ({"script": []}, "script must be a list of actions"),
        ({"script": [1]}, "must be a JSON object, not 1"),
        ({"script": [{"times": 1}]}, "unknown field in the script 'times'"),
        ({"script": [{}], "die": True}, "not both"),
        ({"preset": "leader-move"}, "did you mean leader-moved?"),
        ({"api": "Heartbeat", "topic": "t", "error": "NOT_COORDINATOR"}, "an error of one topic"),
        ({"api": "SaslHandshake", "topic": "t", "disconnect": True}, ""),
        ({"api": "DescribeGroups", "error": "NOT_COORDINATOR"}, "a DescribeGroups response cannot"),
    ],
)  # fmt: skip
def test_invalid_rule_is_refused_with_a_reason(said: Any, why: str) -> None:  # noqa: ANN401 - any JSON
    if not why:
        assert read_rule(said)
        return
    with pytest.raises(BadRule, match=why.replace("?", r"\?").replace("'\\?", "'?")):
        read_rule(said)


@pytest.mark.parametrize(
    "said",
    [
        {"api": "CreateTopics", "topic": "t", "error": "NOT_CONTROLLER"},
        {"api": ["Fetch", "Metadata"], "topic": "t", "error": "UNKNOWN_TOPIC_OR_PARTITION"},
        {"api": ["FindCoordinator", "OffsetFetch"], "error": "NOT_COORDINATOR"},
        {"api": "Heartbeat", "topic": "t", "delay_ms": 5},
        {"api": "ElectLeaders", "disconnect": True},
    ],
)
def test_error_is_accepted_if_the_response_has_a_place_for_it(said: dict[str, Any]) -> None:
    assert read_rule(said).said == said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            {"api": ["Produce", "Heartbeat"], "topic": "t", "error": "NONE"},
            "^a Heartbeat response cannot",
        ),
        ({"api": ["Produce", "ElectLeaders"], "error": "NONE"}, "^a ElectLeaders response cannot"),
        (
            {"api": "ElectLeaders", "script": [{}, {"error": "NONE"}]},
            "^a ElectLeaders response cannot",
        ),
        ({"api": "PRODUCED", "die": True}, r": did you mean Produce\?$"),
        ({"DIES": True}, r"^unknown field 'DIES': did you mean die\?$"),
        ({"silence": True, "truncate": 0}, "^truncate and silence cannot be combined$"),
        ({"silence": "yes"}, "^silence must be true or false, not 'yes'$"),
        ({"die": True, "carried_out": 1}, "^carried_out must be true or false, not 1$"),
        ({"die": True, "topic": 1}, "^topic must be text, not 1$"),
        ({"die": True, "group": []}, "^group must be text"),
        ({"die": True, "transactional_id": 5}, "^transactional_id must be text"),
        (
            {"script": ""},
            r'^script must be a list of actions such as \[\{"error": \.\.\.\}, \{\}\]$',
        ),
        ("die", r'^a rule must be a JSON object such as \{"api": "Produce", "error": \.\.\.\}$'),
        ({"die": True, "api": {}}, '^api must be a name such as "Produce", or a list of names$'),
        ({"preset": "death", "script": [{}], "delay_ms": 1}, "not both$"),
        ({"script": [{"die": True}, {"delay": 1}]}, r"'delay': did you mean delay_ms\?$"),
    ],
)
def test_rule_is_refused_with_the_field_that_is_wrong(said: object, why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_rule(said)


def test_false_and_null_fields_are_ignored() -> None:
    nothing = {"disconnect": False, "silence": False, "error": None, "truncate": None}
    assert read_rule({**nothing, "die": True, "topic": None, "times": None}).steps == (
        Action(ending=Ending.DIE),
    )
    with pytest.raises(BadRule, match="the rule injects nothing"):
        read_rule(nothing)


@pytest.mark.parametrize("value", [0, 0.25, 1])
def test_probability_is_a_float_between_0_and_1(value: float) -> None:
    probability = read_rule({"die": True, "probability": value}).probability
    assert (probability, type(probability)) == (value, float)
