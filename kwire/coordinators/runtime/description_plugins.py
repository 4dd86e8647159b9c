"""Plug-ins that store the topology descriptions of streams groups (KIP-1331).

`group.streams.topology.description.plugin.class` names a Python class, as `package.module.Class`.
The broker calls it with its settings (texts by name).  It has these methods, which may wait:

    async def set_topology(self, group_id, topology_epoch, description)
    async def get_topology(self, group_id, topology_epoch)    the description, or None without one
    async def delete_topology(self, group_id)

`description` is a kwire.groups.streams.description.TopologyDescription.  An exception means that
the plug-in failed, and a member is asked again later.  If the exception has an attribute
`permanent` that is true, no member is asked again for the description of that epoch.  A class of
Java cannot be loaded: the broker starts without a plug-in, and says so.

`TopologyFile` comes with kwire.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

import trio

from kwire.groups.streams.description import (
    DescribedGlobalStore,
    DescribedSubtopology,
    TopologyDescription,
    TopologyNode,
)

log = logging.getLogger(__name__)

SETTING: Final = "group.streams.topology.description.plugin.class"
FILE_NAME: Final = "kwire-streams-topologies.json"


class DescriptionPlugin(Protocol):
    """See the module."""

    async def set_topology(
        self, group_id: str, topology_epoch: int, description: TopologyDescription
    ) -> None:
        """Store the description of a group's topology; it replaces an earlier one."""

    async def get_topology(self, group_id: str, topology_epoch: int) -> TopologyDescription | None:
        """Return the description of that epoch, or None without one."""

    async def delete_topology(self, group_id: str) -> None:
        """Delete the descriptions of a group; it is no error if there are none."""


def load_plugin(class_name: str | None, settings: Mapping[str, str]) -> DescriptionPlugin | None:
    """Return the plug-in of this class, or None if there is no such class in Python."""
    if not class_name:
        return None
    module_name, _, name = class_name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as problem:
        log.warning(
            "%s: cannot load %s (%s). Topology descriptions of streams groups are not stored.",
            SETTING,
            class_name,
            problem,
        )
        return None
    return cast("DescriptionPlugin", found(settings))


class TopologyFile:
    """Keeps the descriptions in a file of the first data directory.

    It is a file because Apache Kafka takes each folder there for a partition.  In a cluster each
    coordinator has only the descriptions that were sent to itself.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._path = trio.Path(settings["log.dirs"].split(",")[0].strip(), FILE_NAME)
        self._lock = trio.Lock()

    async def set_topology(
        self, group_id: str, topology_epoch: int, description: TopologyDescription
    ) -> None:
        """Raises OSError, ValueError."""
        async with self._lock:
            known = await self._read()
            known[group_id] = {
                "epoch": topology_epoch,
                "subtopologies": description.subtopologies,
                "global_stores": description.global_stores,
            }
            await self._write(known)

    async def get_topology(self, group_id: str, topology_epoch: int) -> TopologyDescription | None:
        """Raises OSError, ValueError."""
        async with self._lock:
            kept = (await self._read()).get(group_id)
        return _description(kept) if kept and kept["epoch"] == topology_epoch else None

    async def delete_topology(self, group_id: str) -> None:
        """Raises OSError, ValueError."""
        async with self._lock:
            known = await self._read()
            if known.pop(group_id, None) is not None:
                await self._write(known)

    async def _read(self) -> dict[str, Any]:
        """The descriptions by group id."""
        try:
            known: dict[str, Any] = json.loads(await self._path.read_text())
        except FileNotFoundError:
            return {}
        return known

    async def _write(self, known: Mapping[str, Any]) -> None:
        """Write the file beside the old one, and rename it."""
        fresh = self._path.with_suffix(".new")
        await fresh.write_text(json.dumps(known))
        await fresh.replace(self._path)


def _description(kept: Mapping[str, Any]) -> TopologyDescription:
    """A description as the file has it."""
    return TopologyDescription(
        tuple(
            DescribedSubtopology(name, tuple(_node(node) for node in nodes))
            for name, nodes in kept["subtopologies"]
        ),
        tuple(
            DescribedGlobalStore(_node(source), _node(processor))
            for source, processor in kept["global_stores"]
        ),
    )


def _node(kept: tuple[str, int, list[str], list[str], list[str]]) -> TopologyNode:
    name, node_type, topics, stores, successors = kept
    return TopologyNode(name, node_type, tuple(topics), tuple(stores), tuple(successors))
