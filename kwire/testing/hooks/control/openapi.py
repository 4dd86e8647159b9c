"""The OpenAPI document of what may be asked: for whoever generates a client, or reads."""

from __future__ import annotations

from typing import Any, Final

from kwire import __version__
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.testing.hooks.faults.disk import Disk, Operation
from kwire.testing.hooks.faults.rules import DISK_PRESETS, PRESETS

JSON: Final = "application/json"


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kwire control",
            "version": __version__,
            "description": "What a test may ask of a broker: see docs/testing.md.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }


def _paths() -> dict[str, Any]:
    rule = {"$ref": "#/components/schemas/Rule"}
    number = {
        "name": "rule",
        "in": "path",
        "required": True,
        "schema": {"type": "integer"},
    }
    one_or_several = {"oneOf": [rule, {"type": "array", "items": rule}]}
    numbers = _object({"rules": {"type": "array", "items": {"type": "integer"}}})
    return {
        "/faults": {
            "get": _operation("listFaults", "The rules, and how often each happened", 200, _any()),
            "post": {
                **_operation("addFaults", "Have rules hold from now on", 201, numbers),
                "requestBody": {"required": True, "content": _content(one_or_several)},
            },
            "delete": _operation("clearFaults", "Have none, and forget what happened", 204),
        },
        "/faults/{rule}": {
            "delete": {
                **_operation("removeFault", "Have a rule hold no longer", 204),
                "parameters": [number],
            },
        },
        "/faults/happened": {
            "get": {
                **_operation("listHappened", "What rules befell, and what has moved", 200, _any()),
                "parameters": [{**number, "in": "query", "required": False}],
            },
        },
        **_traces(number),
        "/clock": {
            "get": _operation(
                "time",
                "The broker's time, how far it is ahead, and whether it stands still",
                200,
                _any(),
            ),
            "post": {
                **_operation(
                    "advance",
                    "Have time stand still or go on, or pass and all be done that comes due",
                    200,
                    _any(),
                ),
                "requestBody": {
                    "required": True,
                    "content": _content({"$ref": "#/components/schemas/Advance"}),
                },
            },
        },
        "/leaders": {
            "post": _asking("moveLeader", "Have another broker lead a partition", "Leader")
        },
        "/coordinators": {
            "post": _asking("moveCoordinator", "Have another broker coordinate", "Coordinator")
        },
        **_snapshots(),
        **_forks(),
        "/death": {"post": _operation("die", "Have the broker killed now, unanswered", 200)},
    }


def _traces(number: dict[str, Any]) -> dict[str, Any]:
    return {
        "/traces": {
            "get": _operation("listTraces", "The traces, and how much each has seen", 200, _any()),
            "post": {
                **_operation("beginTrace", "See these requests from now on", 201, _any()),
                "requestBody": {
                    "required": True,
                    "content": _content({"$ref": "#/components/schemas/Traced"}),
                },
            },
        },
        "/traces/{trace}": {
            "get": {
                **_operation("seen", "The requests that were answered since", 200, _any()),
                "parameters": [
                    {**number, "name": "trace"},
                    {**number, "name": "after", "in": "query", "required": False},
                ],
            },
            "delete": {
                **_operation("endTrace", "See them no longer", 204),
                "parameters": [{**number, "name": "trace"}],
            },
        },
    }


def _asking(name: str, summary: str, schema: str) -> dict[str, Any]:
    body = {"$ref": f"#/components/schemas/{schema}"}
    return {
        **_operation(name, summary, 200, _any()),
        "requestBody": {"required": True, "content": _content(body)},
    }


def _snapshots() -> dict[str, Any]:
    text = {"type": "string"}
    folder = {"name": "folder", "in": "query", "required": False, "schema": text}
    name = {"name": "name", "in": "path", "required": True, "schema": text}
    taken = _content({"$ref": "#/components/schemas/Take"})
    return {
        "/snapshots": {
            "get": {
                **_operation("listSnapshots", "Those that are kept beside the data", 200, _any()),
                "parameters": [folder],
            },
            "post": {
                **_operation("takeSnapshot", "Keep what the broker holds at a moment", 201, _any()),
                "requestBody": {"required": True, "content": taken},
            },
        },
        "/snapshots/{name}": {
            "delete": {
                **_operation("removeSnapshot", "Keep it no longer", 204),
                "parameters": [name, folder],
            },
        },
        "/snapshots/{name}/restore": {
            "post": {
                **_operation(
                    "restore",
                    "Have the broker end and begin again with what it holds; done when `restored`"
                    " of listSnapshots is one more",
                    202,
                    _any(),
                ),
                "parameters": [name, folder],
            },
        },
    }


def _forks() -> dict[str, Any]:
    number = {"name": "fork", "in": "path", "required": True, "schema": {"type": "integer"}}
    asked = _content({"$ref": "#/components/schemas/NewFork"})
    fork: dict[str, Any] = {"$ref": "#/components/schemas/Fork"}
    forks = _object({"forks": {"type": "array", "items": fork}})
    return {
        "/forks": {
            "get": _operation("listForks", "Those that were begun and not ended", 200, forks),
            "post": {
                **_operation(
                    "fork",
                    "A second broker, which begins with what a snapshot holds, else with what this"
                    " one does now; it ends with this one at the latest",
                    201,
                    fork,
                ),
                "requestBody": {"required": True, "content": asked},
            },
        },
        "/forks/{fork}": {
            "delete": {
                **_operation("endFork", "Have it end at once, and its data be gone", 204),
                "parameters": [number],
            },
        },
    }


def _operation(
    name: str, summary: str, status: int, schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    done: dict[str, Any] = {"description": summary}
    if schema is not None:
        done["content"] = _content(schema)
    error = {"$ref": "#/components/schemas/Error"}
    refused = {"description": "It cannot be; `error` says why", "content": _content(error)}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {str(status): done, "default": refused},
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


def _object(properties: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _any() -> dict[str, Any]:
    return {"type": "object"}


def _schemas() -> dict[str, Any]:
    text, number, flag = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
    api = {"type": "string", "enum": sorted(API_NAMES.values())}
    operation = {"type": "string", "enum": [each.value for each in Operation]}
    action = {
        "error": {"type": "string", "enum": [error.name for error in ErrorCode if error]},
        "delay_ms": number,
        "throttle_ms": number,
        "disconnect": flag,
        "truncate": number,
        "silence": flag,
        "die": flag,
        "carried_out": flag,
    }
    which = {
        "api": {"oneOf": [api, {"type": "array", "items": api}]},
        "topic": text,
        "partition": number,
        "client": text,
        "group": text,
        "transactional_id": text,
    }
    rule = {
        **which,
        "skip": number,
        "times": number,
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
        "seed": number,
        **action,
        "script": {"type": "array", "items": _object(action, additionalProperties=False)},
        "preset": {"type": "string", "enum": sorted([*PRESETS, *DISK_PRESETS])},
        "disk": {"type": "string", "enum": [each.value for each in Disk]},
        "on": {"oneOf": [operation, {"type": "array", "items": operation}]},
    }
    return {
        "Rule": _object(rule, additionalProperties=False),
        "Traced": _object({**which, "bytes": flag}, additionalProperties=False),
        "Advance": _object(
            {"advance_ms": number, "held": {"type": "boolean"}}, additionalProperties=False
        ),
        "Leader": _object(
            {"topic": text, "partition": number, "to": number},
            required=["topic"],
            additionalProperties=False,
        ),
        "Coordinator": _object(
            {"group": text, "transactional_id": text, "to": number}, additionalProperties=False
        ),
        "Take": _object(
            {"name": text, "folder": text}, required=["name"], additionalProperties=False
        ),
        "NewFork": _object(
            {"snapshot": text, "folder": text, "port": number, "control": number},
            additionalProperties=False,
        ),
        "Fork": _object(
            {
                "fork": number,
                "snapshot": {"type": ["string", "null"]},
                "bootstrap": text,
                "control": text,
                "running": flag,
                "pid": number,
            },
            required=["fork", "snapshot", "bootstrap", "control", "running"],
        ),
        "Error": _object({"error": text}),
    }
