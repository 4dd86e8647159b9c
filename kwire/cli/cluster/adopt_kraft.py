"""`kwire cluster adopt --kraft`: data directories become those of brokers beside KRaft controllers.

It writes in this order, and an interrupted run can be repeated:

    DIR of each controller     the metadata, meta.properties, controller.properties
    each broker's directories  the broker epoch; meta.properties; the metadata, in the first
    kwire-metadata.log         becomes kwire-metadata.log.adopted, so that nobody serves it alone

The metadata of an Apache Kafka node, which is its own controller, are its metadata log.  There
kwire-metadata.log is renamed before, and the new metadata in the broker's directory come last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kwire.cli.cluster.stopped import (
    NotAdopted,
    StoppedMetadata,
    broker_id_of,
    kraft_metadata_in,
    locked,
    metadata_in,
)
from kwire.cli.text.output import counted, say

if TYPE_CHECKING:
    from kwire.cluster.stores.kraft.adopting import Adopted, AdoptedBroker, FirstController
    from kwire.log import LogDir
    from kwire.log.directory.files import Files

PROPERTIES = "controller.properties"


class ControllerPlace(NamedTuple):
    """A controller that is to be: its id, its address, and its log directory."""

    id: int
    host: str
    port: int
    folder: Path


def places_of(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[ControllerPlace, ...]:
    """Return the controllers that the option names, each as ID@HOST:PORT=DIR."""
    return tuple(map(_place_of, values))


def _place_of(text: str) -> ControllerPlace:
    address, _, folder = text.partition("=")
    number, _, host_port = address.partition("@")
    host, _, port = host_port.rpartition(":")
    if not (number.isdecimal() and port.isdecimal() and host and folder):
        raise click.BadParameter(f"{text!r} is not like 100@localhost:9093=DIR")
    if int(number) >= 2**31 or not 0 < int(port) < 2**16:
        raise click.BadParameter(f"{text!r}: no node has such an id, or such a port")
    return ControllerPlace(int(number), host.strip("[]"), int(port), Path(folder))


class _Broker(NamedTuple):
    """A broker's directories, with their ids, and what the cluster has to know of them."""

    adopted: AdoptedBroker
    directories: list[LogDir]


def adopt_for_kraft(
    directories: Sequence[Path], places: Sequence[ControllerPlace], *, dry_run: bool
) -> None:
    """Give the metadata of a stopped node or cluster to new controllers.  Raises NotAdopted."""
    from kwire.cluster.stores.kraft.adopting import FirstController, NotAdoptable, adopted
    from kwire.storage.data_folder.admission import ServingWay
    from kwire.storage.data_folder.kinds import FolderKind, look

    if len({place.folder.resolve() for place in places}) < len(places):
        raise NotAdopted("each controller needs a directory of its own")
    with locked(directories, ServingWay.ADOPT_KRAFT) as found:
        kinds = {look(path).kind for path in directories}
        if FolderKind.CLUSTER in kinds and len(directories) > 1:
            raise NotAdopted(f"{directories[0]} is the folder of a cluster: name it alone")
        is_cluster = FolderKind.CLUSTER in kinds
        groups = [[each] for each in found[1:]] if is_cluster else [found]
        brokers = [_broker(group) for group in groups]
        metadata = _metadata(directories[0], brokers)
        controllers = [
            FirstController(
                place.id, place.host, place.port, _controller_directory(place, metadata)
            )
            for place in places
        ]
        try:
            made = adopted(
                metadata.image,
                metadata.offset,
                [broker.adopted for broker in brokers],
                controllers,
                new_id=_new_id,
                now_ms=int(time.time() * 1000),
            )
        except NotAdoptable as error:
            raise NotAdopted(str(error)) from error
        for path in _paths(directories[0], places, brokers, made):
            click.echo(path)
        if dry_run:
            topics = counted(made.topics, "topic")
            say(f"nothing is written: {topics} would be given to the controllers")
            return
        try:
            _write_controllers(places, controllers, made)
            _write_brokers(directories[0], brokers, made)
        except OSError as error:
            raise NotAdopted(f"{error}: repeat the command once this is mended") from error
        _say_how_to_go_on(places, brokers, made)


def _new_id() -> bytes:
    from kwire.codecs.uuids import random_uuid

    return random_uuid(os.urandom)


# -- what there is


def _broker(directories: Sequence[LogDir]) -> _Broker:
    """Return the broker of these directories.  Raises NotAdopted."""
    from kwire.cluster.stores.kraft.adopting import AdoptedBroker
    from kwire.log.directory.log_dir import CLEAN_SHUTDOWN, parse_partition_folder

    broker_id = broker_id_of(directories)
    ids: list[bytes] = []
    places: dict[tuple[str, int], bytes] = {}
    for directory in directories:
        ids.append(directory.id or _new_id())
        for name in directory.folders():
            if (key := parse_partition_folder(name)) is not None:
                places[key] = ids[-1]
    was_clean = all((each.path / CLEAN_SHUTDOWN).exists() for each in directories)
    return _Broker(AdoptedBroker(broker_id, tuple(ids), places, was_clean), [*directories])


def _metadata(first: Path, brokers: Sequence[_Broker]) -> StoppedMetadata:
    """Return the metadata in the first directory.  Raises NotAdopted."""
    from kwire.cluster.stores.kraft.first_folders import has_begun

    for directory in brokers[0].directories[1:]:
        if has_begun(directory.path):
            raise NotAdopted(f"the metadata log is in {directory.path}: name that directory first")
    return (
        kraft_metadata_in(first, brokers[0].adopted.id) if has_begun(first) else metadata_in(first)
    )


def _controller_directory(place: ControllerPlace, metadata: StoppedMetadata) -> bytes:
    """Return the id of a controller's log directory.

    It must be new, or from an interrupted adoption of the same cluster.  Raises NotAdopted.
    """
    from kwire.cluster.stores.kraft.first_folders import has_begun
    from kwire.codecs.uuids import uuid_bytes
    from kwire.log import LogDirError
    from kwire.log.directory import meta_properties
    from kwire.log.directory.files import Files

    folder = place.folder
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return _new_id()
    try:
        known = meta_properties.read(Files(), folder)
    except (LogDirError, OSError) as error:
        raise NotAdopted(f"{folder} cannot be used for a controller: {error}") from error
    if has_begun(folder):
        raise NotAdopted(f"{folder} has the metadata of a controller that has run: name a new one")
    if known is None or (known.node_id, known.cluster_id) != (place.id, metadata.image.cluster_id):
        raise NotAdopted(f"{folder} is not empty: name a new directory for the controller")
    return _new_id() if known.directory_id is None else uuid_bytes(known.directory_id)


# -- what is written


def _paths(
    first: Path, places: Sequence[ControllerPlace], brokers: Sequence[_Broker], made: Adopted
) -> Iterator[Path]:
    """Yield the files that are written."""
    from kwire.cluster.stores.kraft.metadata_log import FOLDER, checkpoint_name
    from kwire.cluster.stores.local import FILE_NAME as METADATA
    from kwire.log.directory.meta_properties import FILE_NAME
    from kwire.storage.data_folder.kinds import ADOPTED

    checkpoint = Path(FOLDER, checkpoint_name(made.snapshot))
    for place in places:
        yield from (place.folder / each for each in (checkpoint, FILE_NAME, PROPERTIES))
    for broker in brokers:
        yield broker.directories[0].path / checkpoint
        yield from (directory.path / FILE_NAME for directory in broker.directories)
    if (first / METADATA).exists():
        yield first / ADOPTED


def _write_controllers(
    places: Sequence[ControllerPlace], controllers: Sequence[FirstController], made: Adopted
) -> None:
    """Write the controllers' directories.  Raises OSError."""
    from kwire.cluster.stores.kraft import first_folders
    from kwire.codecs.uuids import uuid_text
    from kwire.log.directory.files import Files
    from kwire.log.directory.meta_properties import MetaProperties

    files = Files()
    for place, controller in zip(places, controllers, strict=True):
        directory_id = uuid_text(controller.directory)
        identity = MetaProperties(1, place.id, made.state.image.cluster_id, directory_id)
        batches = _batches(made)
        first_folders.write_controller(files, place.folder, identity, made.snapshot, batches)
        lines = (f"{name}={value}\n" for name, value in _controller_settings(place, places).items())
        files.replace(place.folder / PROPERTIES, "".join(lines).encode())


def _write_brokers(first: Path, brokers: Sequence[_Broker], made: Adopted) -> None:
    """Write the brokers' directories; see the module.  Raises OSError."""
    from kwire.cluster.stores.kraft import first_folders
    from kwire.codecs.uuids import uuid_text
    from kwire.log.directory.files import Files
    from kwire.log.directory.meta_properties import MetaProperties

    files = Files()
    is_kafkas = first_folders.has_begun(first)
    if is_kafkas:
        _set_metadata_aside(files, first)
    for broker in brokers:
        for directory_id, directory in zip(
            broker.adopted.directories, broker.directories, strict=True
        ):
            if broker.adopted.was_clean:
                directory.mark_clean_shutdown(made.broker_epochs[broker.adopted.id])
            cluster_id = made.state.image.cluster_id
            directory.set_identity(
                MetaProperties(1, broker.adopted.id, cluster_id, uuid_text(directory_id))
            )
        path = broker.directories[0].path
        first_folders.write_snapshot(files, path, made.snapshot, _batches(made))
    if not is_kafkas:
        _set_metadata_aside(files, first)


def _set_metadata_aside(files: Files, folder: Path) -> None:
    """Rename the metadata that kwire kept, so that no broker serves them alone."""
    from kwire.cluster.stores.local import FILE_NAME as METADATA
    from kwire.storage.data_folder.kinds import ADOPTED

    if (folder / METADATA).exists():
        files.rename(folder / METADATA, folder / ADOPTED)
        files.fsync_dir(folder)


def _batches(made: Adopted) -> Iterator[bytes]:
    """Yield the batches of the snapshot."""
    from kwire.cluster.stores.kraft import checkpoint

    return checkpoint.batches_of(made.state, made.state.time_ms)


def _address(place: ControllerPlace) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{host}:{place.port}"


def _quorum(places: Sequence[ControllerPlace]) -> dict[str, str]:
    """The settings by which each node finds the controllers."""
    from kwire.cluster.stores.kraft.adopting import LISTENER

    return {
        "controller.quorum.bootstrap.servers": ",".join(map(_address, places)),
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }


def _controller_settings(
    place: ControllerPlace, places: Sequence[ControllerPlace]
) -> dict[str, str]:
    """The settings of a controller: those that it cannot do without."""
    from kwire.cluster.stores.kraft.adopting import LISTENER

    return {
        "process.roles": "controller",
        "node.id": str(place.id),
        "listeners": f"{LISTENER}://:{place.port}",
        "advertised.listeners": f"{LISTENER}://{_address(place)}",
        **_quorum(places),
        "log.dirs": str(place.folder.absolute()),
    }


def _broker_settings(broker: _Broker, places: Sequence[ControllerPlace]) -> Mapping[str, str]:
    return {
        "process.roles": "broker",
        "node.id": str(broker.adopted.id),
        "log.dirs": ",".join(str(each.path) for each in broker.directories),
        **_quorum(places),
    }


def _say_how_to_go_on(
    places: Sequence[ControllerPlace], brokers: Sequence[_Broker], made: Adopted
) -> None:
    """Say which processes to start, and with which settings."""
    from kwire.security.authority import STANDARD

    what = "the controller" if len(places) == 1 else "the controllers"
    say(f"{counted(made.topics, 'topic')} given to {what}. Start {what}:")
    for place in places:
        say(f"  kafka-server-start.sh {place.folder / PROPERTIES}")
    say("Then start the brokers, kwire's or Apache Kafka's, with these settings:")
    for broker in brokers:
        settings = _broker_settings(broker, places).items()
        say("  kwire serve " + " ".join(f"--set {name}={value}" for name, value in settings))
    if len(made.state.acl_ids):
        say(
            "There are access control lists: give the controllers and the brokers"
            f" authorizer.class.name={STANDARD}, and super.users"
        )
    if len(made.state.image.tokens):
        say("There are delegation tokens: give the controllers delegation.token.secret.key, too")
