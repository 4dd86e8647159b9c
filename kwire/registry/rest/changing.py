"""The functions that write, at the primary."""

from __future__ import annotations

from typing import Any

from kwire.registry.rest.call import Call, context_name
from kwire.registry.subjects.changing import (
    delete_config,
    delete_context,
    delete_mode,
    delete_subject,
    delete_version,
    read_config,
    set_config,
    set_mode,
)
from kwire.registry.subjects.proposals import read_proposal
from kwire.registry.subjects.records import SchemaVersion, Write
from kwire.registry.subjects.registering import register
from kwire.registry.subjects.state import COMPATIBILITY

Answer = dict[str, Any]


def registered(call: Call) -> tuple[Answer, list[Write]]:
    """Decide about the schema in the body."""
    proposal = read_proposal(call.fields())
    service = call.service
    decision = register(
        service.registry, service.schemas, call.subject, proposal, normalize=call.flag("normalize")
    )
    return _answer(decision.version), decision.writes


def _answer(version: SchemaVersion) -> Answer:
    return {"id": version.id, "version": version.version, "guid": version.guid}


def version_deleted(call: Call) -> tuple[int, list[Write]]:
    """Decide about the deletion of a version."""
    return delete_version(
        call.service.registry, call.subject, call.version,
        permanent=call.flag("permanent"), shown=call.names["version"],
    )  # fmt: skip


def subject_deleted(call: Call) -> tuple[list[int], list[Write]]:
    """Decide about the deletion of a subject."""
    return delete_subject(call.service.registry, call.subject, permanent=call.flag("permanent"))


def config_set(call: Call) -> tuple[Answer, list[Write]]:
    """Decide about a config.  The answer repeats the request."""
    fields = call.fields()
    config = read_config(fields)
    writes = set_config(call.service.registry, call.level, config)
    answer = dict(config)
    if COMPATIBILITY in answer:
        answer["compatibility"] = answer.pop(COMPATIBILITY)
    return answer, writes


def config_deleted(call: Call) -> tuple[Answer, list[Write]]:
    """Decide about the deletion of a config.  The answer is what it was."""
    config, writes = delete_config(call.service.registry, call.level)
    return {name: value for name, value in config.items() if name != "subject"}, writes


def mode_set(call: Call) -> tuple[Answer, list[Write]]:
    """Decide about a mode."""
    mode = call.fields().get("mode")
    writes = set_mode(call.service.registry, call.level, mode, force=call.flag("force"))
    return {"mode": str(mode).upper()}, writes


def mode_deleted(call: Call) -> tuple[Answer, list[Write]]:
    """Decide about the deletion of a mode.  The answer is what it was."""
    mode, writes = delete_mode(call.service.registry, call.level)
    return {"mode": str(mode)}, writes


def context_deleted(call: Call) -> tuple[None, list[Write]]:
    """Decide about the deletion of a context."""
    name = call.names["context"]
    return None, delete_context(call.service.registry, context_name(name))
