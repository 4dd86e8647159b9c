"""The OpenAPI document of the HTTP control, for readers and for generators of clients."""

from __future__ import annotations

from typing import Any, Final

from kwire import __version__
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.testing.hooks.faults.disk import DiskFault, LogOperation
from kwire.testing.hooks.faults.rules import DISK_PRESETS, PRESETS

JSON: Final = "application/json"


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kwire control",
            "version": __version__,
            "description": "Controls a broker for tests: see docs/testing.md.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }


# Returns the `paths` object of the document: each path of the API with its methods.
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
            "get": _operation(
                "listFaults", "List the fault rules with their numbers of injections", 200, _any()
            ),
            "post": {
                **_operation("addFaults", "Add one or several fault rules", 201, numbers),
                "requestBody": {"required": True, "content": _content(one_or_several)},
            },
            "delete": _operation("clearFaults", "Remove all rules, forget their injections", 204),
        },
        "/faults/{rule}": {
            "delete": {
                **_operation("removeFault", "Remove a rule", 204),
                "parameters": [number],
            },
        },
        "/faults/happened": {
            "get": {
                **_operation("listHappened", "List the injections and moves", 200, _any()),
                "parameters": [{**number, "in": "query", "required": False}],
            },
        },
        **_traces(number),
        "/clock": {
            "get": _operation(
                "time",
                "The broker's time, how far it is ahead of the real time, and whether it is held",
                200,
                _any(),
            ),
            "post": {
                **_operation(
                    "advance",
                    "Hold or release the broker's clock, or advance it so that timers fire",
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
            "post": _with_body(
                "moveLeader", "Move the leader of a partition to another broker", "Leader"
            )
        },
        "/coordinators": {
            "post": _with_body(
                "moveCoordinator",
                "Move the coordinator of a group or a transactional id to another broker",
                "Coordinator",
            )
        },
        **_snapshots(),
        **_forks(),
        "/death": {"post": _operation("die", "Kill the broker now, without a response", 200)},
    }


def _traces(number: dict[str, Any]) -> dict[str, Any]:
    """Return the paths about traces.  `number` is the parameter of a rule's number; these paths
    use it under other names."""
    return {
        "/traces": {
            "get": _operation(
                "listTraces", "List the traces with their numbers of events", 200, _any()
            ),
            "post": {
                **_operation("beginTrace", "Begin a trace of the matching requests", 201, _any()),
                "requestBody": {
                    "required": True,
                    "content": _content({"$ref": "#/components/schemas/Traced"}),
                },
            },
        },
        "/traces/{trace}": {
            "get": {
                **_operation("seen", "The events after the given number", 200, _any()),
                "parameters": [
                    {**number, "name": "trace"},
                    {**number, "name": "after", "in": "query", "required": False},
                ],
            },
            "delete": {
                **_operation("endTrace", "End a trace", 204),
                "parameters": [{**number, "name": "trace"}],
            },
        },
    }


def _with_body(name: str, summary: str, schema: str) -> dict[str, Any]:
    """An operation whose request has a body of the given schema."""
    body = {"$ref": f"#/components/schemas/{schema}"}
    return {
        **_operation(name, summary, 200, _any()),
        "requestBody": {"required": True, "content": _content(body)},
    }


def _snapshots() -> dict[str, Any]:
    """Return the paths that list, take, remove and restore snapshots."""
    text = {"type": "string"}
    folder = {"name": "folder", "in": "query", "required": False, "schema": text}
    name = {"name": "name", "in": "path", "required": True, "schema": text}
    taken = _content({"$ref": "#/components/schemas/Take"})
    return {
        "/snapshots": {
            "get": {
                **_operation("listSnapshots", "List the snapshots", 200, _any()),
                "parameters": [folder],
            },
            "post": {
                **_operation("takeSnapshot", "Take a snapshot of the broker", 201, _any()),
                "requestBody": {"required": True, "content": taken},
            },
        },
        "/snapshots/{name}": {
            "delete": {
                **_operation("removeSnapshot", "Delete a snapshot", 204),
                "parameters": [name, folder],
            },
        },
        "/snapshots/{name}/restore": {
            "post": {
                **_operation(
                    "restore",
                    "Shut the broker down and start it again with the snapshot; finished when"
                    " `restored` of listSnapshots has grown by one",
                    202,
                    _any(),
                ),
                "parameters": [name, folder],
            },
        },
    }


def _forks() -> dict[str, Any]:
    """Return the paths that list, start and end forks of the broker."""
    number = {"name": "fork", "in": "path", "required": True, "schema": {"type": "integer"}}
    asked = _content({"$ref": "#/components/schemas/NewFork"})
    fork: dict[str, Any] = {"$ref": "#/components/schemas/Fork"}
    forks = _object({"forks": {"type": "array", "items": fork}})
    return {
        "/forks": {
            "get": _operation("listForks", "List the forks that were not ended", 200, forks),
            "post": {
                **_operation(
                    "fork",
                    "Start another broker with the contents of a snapshot, or of this broker; it"
                    " ends with this broker at the latest",
                    201,
                    fork,
                ),
                "requestBody": {"required": True, "content": asked},
            },
        },
        "/forks/{fork}": {
            "delete": {
                **_operation("endFork", "End a fork at once and remove its data", 204),
                "parameters": [number],
            },
        },
    }


def _operation(
    name: str, summary: str, status: int, schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return an operation object: `status` is the status on success and `schema` the content of
    that response, or None if it has no body."""
    done: dict[str, Any] = {"description": summary}
    if schema is not None:
        done["content"] = _content(schema)
    error = {"$ref": "#/components/schemas/Error"}
    refused = {
        "description": "The request failed; `error` says why",
        "content": _content(error),
    }
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
    """Return the JSON schemas of the bodies by name; they mirror what `hooks.faults.rules`
    accepts."""
    text, number, flag = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
    api = {"type": "string", "enum": sorted(API_NAMES.values())}
    operation = {"type": "string", "enum": [each.value for each in LogOperation]}
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
        "disk": {"type": "string", "enum": [each.value for each in DiskFault]},
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
