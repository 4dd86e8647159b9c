"""The functions that read: schemas by id, subjects, versions, compatibility, configs and modes."""

from __future__ import annotations

from typing import Any

from kwire.client.connection import CLIENT_SOFTWARE_VERSION
from kwire.registry.rest.call import FORMAT, Call, Text
from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.subjects.errors import (
    RegistryError,
    compatibility_not_configured,
    mode_not_configured,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from kwire.registry.subjects.names import context_of
from kwire.registry.subjects.proposals import read_proposal
from kwire.registry.subjects.records import SchemaVersion
from kwire.registry.subjects.registering import LEVEL_DEFAULT, find, problems
from kwire.registry.subjects.state import COMPATIBILITY, Mode

Answer = dict[str, Any]


def text_of(call: Call, version: SchemaVersion) -> str:
    """The text of a version's schema in the format that the query names.

    Deserializers of Protobuf ask for `serialized`.  Raises RegistryError.
    """
    name = call.query.get(FORMAT)
    return call.service.schemas.of_version(version).formatted(name) if name else version.schema


def shown(call: Call, version: SchemaVersion) -> Answer:
    """A version in JSON, its schema in the format that the query names."""
    fields: Answer = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.guid,
        **version.described(),
        "schema": text_of(call, version),
    }
    if version.deleted:
        fields["deleted"] = True
    return fields


# -- by id


def types(call: Call) -> list[str]:
    """The types of schemas."""
    return [kind.value for kind in SchemaKind]


def by_id(call: Call) -> Answer:
    """The schema of an id."""
    version = _of_id(call)
    fields = {**version.described(), "schema": text_of(call, version), "guid": version.guid}
    if call.flag("fetchMaxId"):
        fields["maxId"] = call.service.registry.context(version.subject).max_id
    return fields


def text_by_id(call: Call) -> Text:
    """The text of the schema of an id."""
    return Text(text_of(call, _of_id(call)))


def subjects_of_id(call: Call) -> list[str]:
    """The subjects that have the schema of an id."""
    uses = call.service.registry.uses(_of_id(call), deleted=call.flag("deleted"))
    return call.page(list(dict.fromkeys(each.subject for each in uses)))


def versions_of_id(call: Call) -> list[Answer]:
    """The subjects and versions that have the schema of an id."""
    uses = call.service.registry.uses(_of_id(call), deleted=call.flag("deleted"))
    return call.page([{"subject": each.subject, "version": each.version} for each in uses])


def by_guid(call: Call) -> Answer:
    """The schema of a globally unique id."""
    found = call.service.registry.by_guid(call.names["guid"])
    if not found:
        raise schema_not_found(call.names["guid"][:100])
    version = found[0]
    return {**version.described(), "schema": text_of(call, version), "guid": version.guid}


def ids_of_guid(call: Call) -> list[Answer]:
    """The ids in each context of the schema of a globally unique id."""
    found = call.service.registry.by_guid(call.names["guid"])
    if not found:
        raise schema_not_found(call.names["guid"][:100])
    return [{"context": context_of(each.subject), "id": each.id} for each in found]


def _of_id(call: Call) -> SchemaVersion:
    found = call.service.registry.by_id(call.schema_id, call.subject_hint)
    if found is None:
        raise schema_not_found(call.schema_id)
    return found


# -- subjects and versions


def schemas(call: Call) -> list[Answer]:
    """The versions of all subjects that begin with a prefix."""
    registry = call.service.registry
    found: list[SchemaVersion] = []
    which, latest_only = call.which, call.flag("latestOnly")
    for subject in registry.matching(call.prefix):
        versions = registry.versions(subject, which)
        found += versions[-1:] if latest_only else versions
    return [shown(call, version) for version in call.page(found)]


def subjects(call: Call) -> list[str]:
    """The names of subjects."""
    registry, which = call.service.registry, call.which
    found = [
        subject
        for subject in registry.matching(call.prefix)
        if any(which.takes(each) for each in list(registry.subjects[subject].values()))
    ]
    return call.page(found)


def versions(call: Call) -> list[int]:
    """The numbers of a subject's versions."""
    registry = call.service.registry
    if not registry.has_subjects(call.subject, deleted=call.which.value > 0):
        raise subject_not_found(call.subject)
    return call.page([each.version for each in registry.versions(call.subject, call.which)])


def version(call: Call) -> Answer:
    """A version."""
    return shown(call, _version(call))


def text_of_version(call: Call) -> Text:
    """The text of a version's schema."""
    return Text(text_of(call, _version(call)))


def referenced_by(call: Call) -> list[int]:
    """The ids of the schemas that refer to a version."""
    found = _version(call, deleted=True)
    referrers = call.service.registry.referrers.get((found.subject, found.version), {})
    return call.page(sorted(set(list(referrers.values()))))


def latest_with_metadata(call: Call) -> Answer:
    """The latest version whose metadata has the properties in the query."""
    names = [value for name, value in call.pairs if name == "key"]
    values = [value for name, value in call.pairs if name == "value"]
    wanted = dict(zip(names, values, strict=False))
    for each in reversed(call.service.registry.versions(call.subject, call.which)):
        properties = (each.metadata or {}).get("properties") or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return shown(call, each)
    if not call.service.registry.has_subjects(call.subject):
        raise subject_not_found(call.subject)
    raise schema_not_found()


def _version(call: Call, *, deleted: bool = False) -> SchemaVersion:
    """The version in the path.  Raises RegistryError."""
    registry, number, subject = call.service.registry, call.version, call.subject
    deleted = deleted or call.flag("deleted")
    found = registry.version(subject, number, deleted=deleted)
    if found is not None:
        return found
    if not registry.has_subjects(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise version_not_found(-1 if number is None else number)


# -- what needs to be parsed


def look_up(call: Call) -> Answer:
    """The version of a subject that has the schema in the body."""
    service, subject = call.service, call.subject
    deleted = call.flag("deleted")
    proposal = read_proposal(call.fields())
    if not service.registry.has_subjects(subject, deleted=deleted):
        raise subject_not_found(subject)
    normalize = call.flag("normalize")
    found = find(
        service.registry, service.schemas, subject, proposal, normalize=normalize, deleted=deleted
    )
    if found is None:
        raise schema_not_found()
    return shown(call, found)


def compatible(call: Call) -> Answer:
    """Whether a schema is compatible with a version, or with all that its level asks for."""
    service, subject = call.service, call.subject
    registry = service.registry
    proposal = read_proposal(call.fields())
    if "version" in call.names:
        number = call.version
        old = registry.version(subject, number)
        if old is None and number is not None:
            raise version_not_found(number)
        earlier = [] if old is None else [old]
    else:
        earlier = registry.versions(subject)
    verbose = call.flag("verbose")
    try:
        if proposal.is_empty:
            raise RegistryError(42201, "Empty schema")
        candidate, parsed = service.schemas.candidate(
            subject, proposal, normalize=call.flag("normalize")
        )
    except RegistryError as error:
        if verbose and error.code == 42201:
            return {"is_compatible": False, "messages": [error.message]}
        raise
    found = problems(registry, service.schemas, subject, candidate, parsed, earlier)
    answer: Answer = {"is_compatible": not found}
    return {**answer, "messages": found} if verbose else answer


# -- configs, modes, contexts


def config(call: Call) -> Answer:
    """The config of a level."""
    registry, level = call.service.registry, call.level
    own = registry.config(level)
    if own is None and level and not call.flag("defaultToGlobal"):
        raise compatibility_not_configured(level)
    if level and not call.flag("defaultToGlobal"):
        return _config(own or {})
    return _config({COMPATIBILITY: LEVEL_DEFAULT, **registry.config_in_scope(level), **(own or {})})


def _config(fields: Answer) -> Answer:
    """A config as clients see it."""
    return {name: value for name, value in fields.items() if name != "subject"}


def mode(call: Call) -> Answer:
    """The mode of a level."""
    registry, level = call.service.registry, call.level
    own = registry.mode(level)
    if own is None and level and not call.flag("defaultToGlobal"):
        raise mode_not_configured(level)
    if registry.mode(None) == Mode.READONLY_OVERRIDE:
        return {"mode": Mode.READONLY_OVERRIDE.value}
    return {"mode": str(own or registry.mode_in_scope(level))}


def contexts(call: Call) -> list[str]:
    """The names of the contexts."""
    return call.page(sorted(list(call.service.registry.contexts)))


# -- about the registry


def root(call: Call) -> Answer:
    """The answer at `/`, by which clients see that the registry is there."""
    return {}


def cluster_id(call: Call) -> Answer:
    """The ids of the Kafka cluster and of the registry."""
    clusters = {
        "kafka-cluster": call.service.cluster_id or "",
        "schema-registry-cluster": call.service.settings.group_id,
    }
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


def release(call: Call) -> Answer:
    """The version of the program."""
    return {"version": f"kwire {CLIENT_SOFTWARE_VERSION}", "commitId": ""}
