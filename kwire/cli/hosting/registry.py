"""The schema registry of `kwire serve --registry`."""

from __future__ import annotations

from typing import Final

from kwire.cli.hosting.children import Child, check_extra

REGISTRY_PORT: Final = 8081
"""The port of the registry, unless an option names another; Confluent's has the same."""
NEEDED: Final = ("fastavro", "google.protobuf", "jsonschema")


def check_installed() -> None:
    """Exit with a message if the extra `registry` is not installed."""
    check_extra("registry", NEEDED)


class RegistryChild(Child):
    """`kwire registry` as a child process."""

    COMMAND = "registry"
