"""A plug-in that keeps the topology descriptions of streams groups in memory (KIP-1331).

There is one for Apache Kafka and one for kwire, which do the same.  The id of a group says what the
plug-in does with its description:

    a group with this in its id   what the plug-in does
    ---------------------------   ---------------------------------------------
    fails                         it fails to store the description
    refuses                       it refuses the description for good
    unreadable                    it fails to return the description
    forgets                       it has no description, even if it stored one
    undeletable                   it fails to delete the description
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kwire.conformance.java_plugin import jar_of

CLASS: Final = "TopologyKeeper"
SETTING: Final = "group.streams.topology.description.plugin.class"
SETTINGS: Final = {SETTING: CLASS}
"""Settings of a node of Apache Kafka that has `jar()` among its plug-ins."""
OWN_SETTINGS: Final = {SETTING: f"kwire.conformance.topology_keeper.{CLASS}"}
"""Settings of a broker of kwire."""

SOURCE: Final = """
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.*;

public class TopologyKeeper implements StreamsGroupTopologyDescriptionPlugin {
    record Kept(int epoch, StreamsGroupTopologyDescription description) {}
    final Map<String, Kept> kept = new ConcurrentHashMap<>();

    public CompletableFuture<Void> setTopology(
            String group, int epoch, StreamsGroupTopologyDescription description) {
        if (group.contains("fails"))
            return CompletableFuture.failedFuture(new RuntimeException("cannot store " + epoch));
        if (group.contains("refuses"))
            return CompletableFuture.failedFuture(
                new StreamsTopologyDescriptionPermanentFailureException("never stores " + epoch));
        kept.put(group, new Kept(epoch, description));
        return CompletableFuture.completedFuture(null);
    }

    public CompletableFuture<Void> deleteTopology(String group) {
        if (group.contains("undeletable"))
            return CompletableFuture.failedFuture(new RuntimeException("cannot delete"));
        kept.remove(group);
        return CompletableFuture.completedFuture(null);
    }

    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        if (group.contains("unreadable"))
            return CompletableFuture.failedFuture(new RuntimeException("cannot read"));
        Kept of = group.contains("forgets") ? null : kept.get(group);
        return CompletableFuture.completedFuture(
            of == null || of.epoch() != epoch ? null : of.description());
    }

    public void configure(Map<String, ?> configs) {}
    public void close() {}
}
"""


def jar() -> Path:
    """Return Apache Kafka's plug-in, compiled once.  Raises JavaMissing, ApacheKafkaError."""
    return jar_of(CLASS, SOURCE)


class NeverStored(Exception):
    """The plug-in refuses a description for good."""

    permanent = True


class TopologyKeeper:
    """kwire's plug-in."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._kept: dict[str, tuple[int, object]] = {}

    async def set_topology(self, group_id: str, topology_epoch: int, description: object) -> None:
        if "fails" in group_id:
            raise RuntimeError(f"cannot store {topology_epoch}")
        if "refuses" in group_id:
            raise NeverStored(f"never stores {topology_epoch}")
        self._kept[group_id] = topology_epoch, description

    async def get_topology(self, group_id: str, topology_epoch: int) -> object:
        if "unreadable" in group_id:
            raise RuntimeError("cannot read")
        epoch, description = self._kept.get(group_id, (None, None))
        return description if epoch == topology_epoch and "forgets" not in group_id else None

    async def delete_topology(self, group_id: str) -> None:
        if "undeletable" in group_id:
            raise RuntimeError("cannot delete")
        self._kept.pop(group_id, None)
