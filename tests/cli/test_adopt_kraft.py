"""`kwire cluster adopt --kraft`: what it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.client.cluster import Cluster
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.change_log import write_copy
from kwire.cluster.stores.kraft import first_folders
from kwire.cluster.stores.kraft.metadata_log import CHECKPOINT_NAME
from kwire.codecs.uuids import uuid_text
from kwire.log import LogDir, LogDirError
from kwire.log.directory import meta_properties
from kwire.log.directory.files import Files
from kwire.log.directory.meta_properties import MetaProperties
from kwire.security.authority import STANDARD
from kwire.storage.data_folder.admission import ServingWay, admit
from kwire.storage.data_folder.kinds import FolderKind, look
from kwire.testing import BrokerProcess
from tests.cli.test_adopt import SUPER_USERS, ends, fill, observed, transaction_level
from tests.storage.data_folder import folders
from tests.storage.data_folder.folders import image_of, partition

Kwire = Callable[..., CompletedProcess[str]]

ONE = image_of("t", partition((7,)), partition((7,)))
THREE = image_of("t", partition((3, 1, 2), (3, 2)))


@pytest.fixture
def single(tmp_path: Path) -> Path:
    return folders.single(tmp_path / "data", "t-0", "t-1", image=ONE, node_id=7)


@pytest.fixture
def adopt(kwire: Kwire, tmp_path: Path) -> Kwire:
    """Run the command with a controller in the folder `controller`."""

    def run(*words: str | Path, status: int = 0) -> CompletedProcess[str]:
        place = f"100@localhost:9093={tmp_path / 'controller'}"
        return kwire("cluster", "adopt", "--kraft", place, *map(str, words), status=status)

    return run


def identity(folder: Path) -> MetaProperties:
    known = meta_properties.read(Files(), folder)
    assert known is not None
    return known


def image_in(folder: Path) -> ClusterImage:
    """The image with which a node begins on this folder."""
    return first_folders.replayed(folder, "cluster").image


def broker_epoch(folder: Path) -> int:
    """The epoch in the mark of a clean stop."""
    return int(json.loads((folder / ".kafka_cleanshutdown").read_text())["brokerEpoch"])


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_single_node_is_given_to_a_controller(adopt: Kwire, single: Path, tmp_path: Path) -> None:
    controller = tmp_path / "controller"
    done = adopt(single)
    names = [str(Path(line).relative_to(tmp_path)) for line in done.stdout.splitlines()]
    checkpoint = names[0].rpartition("/")[2]
    assert CHECKPOINT_NAME.fullmatch(checkpoint)
    assert names == [
        f"controller/__cluster_metadata-0/{checkpoint}",
        "controller/meta.properties",
        "controller/controller.properties",
        f"data/__cluster_metadata-0/{checkpoint}",
        "data/meta.properties",
        "data/kwire-metadata.log.adopted",
    ]
    assert all((tmp_path / name).exists() for name in names)
    assert not (single / "kwire-metadata.log").exists()

    assert (identity(single).version, identity(single).node_id) == (1, 7)
    assert (identity(controller).node_id, identity(controller).cluster_id) == (100, "cluster")
    image = image_in(single)
    assert image == image_in(controller)
    assert image.topics["t"].id == folders.TOPIC_ID
    assert broker_epoch(single) == image.registered[7].epoch
    assert look(single).kind is FolderKind.KRAFT

    settings = (controller / "controller.properties").read_text()
    assert "listeners=CONTROLLER://:9093\n" in settings
    assert f"log.dirs={controller}\n" in settings
    assert done.stderr.startswith("1 topic given to the controller. Start the controller:\n")
    assert f"  kafka-server-start.sh {controller}/controller.properties\n" in done.stderr
    assert "--set node.id=7" in done.stderr


def test_cluster_of_serve_brokers_is_given_to_three_controllers(
    kwire: Kwire, tmp_path: Path
) -> None:
    data = folders.cluster(tmp_path / "data", image=THREE)
    (data / "broker-3" / ".kafka_cleanshutdown").unlink()
    places = [f"{number}@localhost:{number}=c-{number}" for number in (101, 102, 103)]
    words = [word for place in places for word in ("--kraft", place.replace("=", f"={tmp_path}/"))]
    done = kwire("cluster", "adopt", *words, str(data))
    assert look(data).kind is FolderKind.ADOPTED
    controllers = [tmp_path / f"c-{number}" for number in (101, 102, 103)]
    brokers = [data / f"broker-{number}" for number in (1, 2, 3)]
    images = [image_in(each) for each in (*controllers, *brokers)]
    assert images == [images[0]] * 6
    assert len({identity(each).directory_id for each in (*controllers, *brokers)}) == 6
    assert images[0].registered.keys() == {1, 2, 3}
    assert [broker_epoch(each) for each in brokers[:2]] == [
        images[0].registered[number].epoch for number in (1, 2)
    ]
    assert not (brokers[2] / ".kafka_cleanshutdown").exists()
    quorum = "controller.quorum.bootstrap.servers=localhost:101,localhost:102,localhost:103"
    assert done.stderr.count(quorum) == 3
    for number, each in enumerate(controllers, 101):
        assert f"{quorum}\n" in (each / "controller.properties").read_text()
        voters = first_folders.replayed(each, "cluster").voters
        assert voters is not None
        known = {voter.voter_id: voter.voter_directory_id for voter in voters.voters}
        assert uuid_text(known[number]) == identity(each).directory_id


def test_directories_of_several_log_dirs_belong_to_one_broker(adopt: Kwire, tmp_path: Path) -> None:
    first = folders.single(tmp_path / "first", "t-0", image=ONE, node_id=7)
    second = folders.log_dir(tmp_path / "second", 7, "t-1")
    adopt(first, second)
    states = image_in(first).topics["t"].partitions
    ids = [uuid_text(state.directories[0]) for state in states]
    assert ids == [identity(each).directory_id for each in (first, second)]
    assert broker_epoch(first) == broker_epoch(second)
    assert not (second / "__cluster_metadata-0").exists()


def test_dry_run_writes_nothing(adopt: Kwire, single: Path, tmp_path: Path) -> None:
    before = everything(tmp_path)
    planned = adopt(single, "--dry-run")
    assert everything(tmp_path) == before
    assert planned.stderr == "nothing is written: 1 topic would be given to the controllers\n"
    assert adopt(single).stdout == planned.stdout


def test_interrupted_adoption_is_finished_by_running_it_again(
    adopt: Kwire, single: Path, tmp_path: Path
) -> None:
    adopt(single)
    (single / "kwire-metadata.log.adopted").rename(single / "kwire-metadata.log")
    adopt(single)
    assert image_in(single) == image_in(tmp_path / "controller")
    assert broker_epoch(single) == image_in(single).registered[7].epoch


def test_adoption_is_undone_by_hand_before_the_controller_starts(
    adopt: Kwire, single: Path
) -> None:
    adopt(single)
    (single / "kwire-metadata.log.adopted").rename(single / "kwire-metadata.log")
    shutil.rmtree(single / "__cluster_metadata-0")
    assert admit(single, ServingWay.ALONE).kind is FolderKind.SINGLE
    with pytest.raises(LogDirError, match="kwire cluster adopt --kraft"):
        admit(single, ServingWay.KRAFT)


@pytest.mark.slow
def test_adopted_folder_goes_back_to_a_single_broker(adopt: Kwire, tmp_path: Path) -> None:
    """It reads the metadata that a controller would have read."""
    settings = {"node.id": "7", "authorizer.class.name": STANDARD, **SUPER_USERS}
    broker = BrokerProcess(tmp_path / "single", settings)
    with broker, Cluster(broker.bootstrap, timeout_s=240) as cluster:
        fill(cluster)
        before = observed(cluster)
    adopt(broker.data_dir)
    with broker, Cluster(broker.bootstrap, timeout_s=240) as cluster:
        assert observed(cluster) == before
        assert transaction_level(cluster) == 1
        assert ends(cluster) == {1}


def test_adopted_folder_is_not_adopted_again(adopt: Kwire, single: Path, tmp_path: Path) -> None:
    adopt(single)
    assert "kwire-metadata.log does not exist" in adopt(single, status=1).stderr
    (single / "__cluster_metadata-0" / f"{0:020}.log").touch()
    shutil.rmtree(tmp_path / "controller")
    refused = adopt(single, status=1).stderr
    assert "of a cluster with the controllers [100]: serve it with process.roles=broker" in refused


def test_metadata_of_an_apache_kafka_node_are_its_metadata_log(
    kwire: Kwire, adopt: Kwire, tmp_path: Path
) -> None:
    """The node 100 was its own controller, and a replica of each partition."""
    image = image_of("t", partition((8, 100)), partition((8, 100)))
    adopt(folders.single(tmp_path / "source", "t-0", "t-1", image=image, node_id=8))
    own = folders.log_dir(tmp_path / "own", 100, "t-0", "t-1")
    shutil.move(tmp_path / "controller" / "__cluster_metadata-0", own)
    (own / "__cluster_metadata-0" / f"{0:020}.log").touch()
    (own / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    write_copy(own / "kwire-metadata.log", ClusterImage("cluster"))
    before = first_folders.replayed(own, "cluster")
    kwire("cluster", "adopt", "--kraft", f"200@localhost:1={tmp_path / 'next'}", str(own))
    after = first_folders.replayed(own, "cluster")
    assert after.end_offset > before.end_offset
    assert after.epoch == before.epoch + 1
    assert after.image == image_in(tmp_path / "next")
    assert after.image.topics["t"].id == folders.TOPIC_ID
    assert after.image.registered.keys() == {100}
    assert broker_epoch(own) == after.image.registered[100].epoch
    assert after.voters is not None
    assert [voter.voter_id for voter in after.voters.voters] == [200]
    assert not (own / "__cluster_metadata-0" / "quorum-state").exists()
    assert (own / "kwire-metadata.log.adopted").exists()


def test_running_node_is_refused(adopt: Kwire, single: Path) -> None:
    directory = LogDir(single, Files())
    directory.open()
    try:
        assert "is in use" in adopt(single, status=1).stderr
    finally:
        directory.unlock()


def test_used_folder_is_refused_for_a_controller(
    adopt: Kwire, single: Path, tmp_path: Path
) -> None:
    controller = tmp_path / "controller"
    twice = adopt("--kraft", f"101@localhost:1={controller}", single, status=1).stderr
    assert "each controller needs a directory of its own" in twice
    controller.mkdir()
    (controller / "notes").touch()
    assert "is not empty: name a new directory" in adopt(single, status=1).stderr
    (controller / "notes").unlink()
    folders.log_dir(controller, 100, "__cluster_metadata-0")
    assert "a controller that has run: name a new one" in adopt(single, status=1).stderr
    (controller / "meta.properties").write_text("version=9\n")
    assert "cannot be used for a controller" in adopt(single, status=1).stderr


def test_folders_of_other_kinds_are_refused(adopt: Kwire, single: Path, tmp_path: Path) -> None:
    data = folders.cluster(tmp_path / "cluster", image=THREE)
    assert "kwire serve --brokers 3" in adopt(data / "broker-1", status=1).stderr
    assert "is the folder of a cluster: name it alone" in adopt(data, single, status=1).stderr
    other = folders.log_dir(tmp_path / "other", 8)
    assert "belong to several brokers: [7, 8]" in adopt(single, other, status=1).stderr
    assert "lack the logs of" not in adopt(single, "--dry-run").stderr
    shutil.rmtree(single / "t-1")
    assert "lack the logs of t-1" in adopt(single, status=1).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give either --zookeeper or --kraft"),
        (["--kraft", "1@a:1=c", "--zookeeper", "a:1"], "give either --zookeeper or --kraft"),
        (["--kraft", "localhost:9093=c"], "is not like 100@localhost:9093=DIR"),
        (["--kraft", "100@localhost:9093"], "is not like 100@localhost:9093=DIR"),
        (["--kraft", "100@localhost:99999=c"], "no node has such an id, or such a port"),
    ],
)
def test_wrong_controllers_are_an_error_of_the_command_line(
    kwire: Kwire, single: Path, words: list[str], sentence: str
) -> None:
    assert sentence in kwire("cluster", "adopt", *words, str(single), status=2).stderr
