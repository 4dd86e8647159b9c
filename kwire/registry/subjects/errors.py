"""The errors of the registry, with the codes and texts of Confluent's REST interface.

Source: Confluent Schema Registry's documentation, API reference; the texts are those that its
clients show.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VALID_VERSIONS: Final = 'Allowed values are between [1, 2^31-1] and the string "latest"'


class RegistryError(Exception):
    """A request that the registry refuses, or cannot answer now."""

    def __init__(self, code: int, message: str) -> None:
        """`code` is an HTTP status, or a status with two further digits: 40401, 42201."""
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status of the response."""
        return self.code // 100 if self.code > 999 else self.code


def subject_not_found(subject: str) -> RegistryError:
    """There is no such subject, or all its versions are deleted."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: object = None) -> RegistryError:
    """There is no schema of this id, or the subject does not have the schema."""
    named = "" if schema_id is None else f"{schema_id} "
    return RegistryError(40403, f"Schema {named}not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    """The subject is deleted already."""
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(40404, text)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """A subject must be deleted before it is deleted permanently."""
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(40405, text)


def version_soft_deleted(subject: str, version: object) -> RegistryError:
    """The version is deleted already."""
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: object) -> RegistryError:
    """A version must be deleted before it is deleted permanently."""
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def compatibility_not_configured(subject: str) -> RegistryError:
    """The subject has no config of its own."""
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(40408, text)


def mode_not_configured(subject: str) -> RegistryError:
    """The subject has no mode of its own."""
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return RegistryError(40409, text)


def incompatible(subject: str, details: Iterable[str]) -> RegistryError:
    """The schema is not compatible with earlier ones of the subject."""
    return RegistryError(
        409,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(details)}]',
    )


def invalid_schema(reason: str) -> RegistryError:
    """The text is no schema, its type is unknown, or a reference does not exist."""
    return RegistryError(42201, reason)


def invalid_version(version: object) -> RegistryError:
    """The version in the URL is neither a number nor `latest`."""
    text = f"The specified version '{version}' is not a valid version id. {VALID_VERSIONS}"
    return RegistryError(42202, text)


def invalid_compatibility() -> RegistryError:
    """There is no such compatibility level."""
    return RegistryError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryError:
    """There is no such mode."""
    return RegistryError(
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.",
    )


def not_permitted(reason: str) -> RegistryError:
    """The mode forbids the change."""
    return RegistryError(42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    """Other schemas refer to the version that is to be deleted."""
    return RegistryError(
        42206,
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> RegistryError:
    """The name cannot be that of a subject."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large(reason: str) -> RegistryError:
    """The record of the schema is larger than the topic takes."""
    return RegistryError(42209, reason)


def context_not_empty(context: str) -> RegistryError:
    """A context with subjects cannot be deleted."""
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def store_failed(reason: str) -> RegistryError:
    """The topic could not be read or written."""
    return RegistryError(50001, reason)


def timed_out(reason: str) -> RegistryError:
    """The topic did not take the records in time; they may still be written."""
    return RegistryError(50002, reason)


def forwarding_failed(reason: str) -> RegistryError:
    """The primary did not answer."""
    return RegistryError(50003, reason)


def primary_unknown() -> RegistryError:
    """No instance is the primary now."""
    return RegistryError(50004, "Leader not known.")
