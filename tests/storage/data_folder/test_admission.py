"""Which process may serve a folder, and the errors for all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log import LogDirError
from kwire.storage.data_folder.admission import ServingWay, admit, admit_all, holds_cluster
from tests.storage.data_folder import folders


def member(path: Path) -> Path:
    return folders.cluster(path) / "broker-1"


def up_member(path: Path) -> Path:
    return folders.cluster_up(path) / "broker-1" / "data"


def node_of_kraft_up(path: Path) -> Path:
    return folders.kraft_up(path) / "broker-1" / "data"


def kraft(path: Path) -> Path:
    return folders.log_dir(path, 1, "__cluster_metadata-0")


def zookeeper(path: Path) -> Path:
    return folders.log_dir(path, 1, "t-0", version=0)


def partition(path: Path) -> Path:
    return folders.single(path, "t-0") / "t-0"


def kraft_up_member(path: Path) -> Path:
    return folders.log_dir(path / "broker-1" / "data", 1, "t-0")


def member_without_metadata(path: Path) -> Path:
    """As kafka-storage formats it, in a folder that has nothing else."""
    return folders.log_dir(path / "broker-1", 1)


ADOPTING = {ServingWay.ADOPT, ServingWay.ADOPT_KRAFT}
ONE, BY_ALL = {ServingWay.ALONE, ServingWay.ZOOKEEPER, *ADOPTING}, set(ServingWay)
KRAFT = ServingWay.KRAFT


@pytest.mark.parametrize(
    ("make", "ways", "sentence"),
    [
        (lambda path: path, BY_ALL, ""),
        (folders.single, {*ONE, ServingWay.SEVERAL}, "{data} is the folder of one broker"),
        (lambda path: folders.log_dir(path, 1, "t-0"), {*ONE, ServingWay.SEVERAL, KRAFT}, ""),
        (
            folders.cluster,
            {ServingWay.SEVERAL, ServingWay.ADOPT_KRAFT},
            "kwire serve --brokers 3 --data {data}",
        ),
        (member, set(), "kwire serve --brokers 3 --data {data}"),
        (folders.cluster_up, {ServingWay.CLUSTER_UP}, "kwire cluster up --data {data}"),
        (up_member, {ServingWay.ZOOKEEPER}, "kwire cluster up --data {data}"),
        (folders.kraft_up, {ServingWay.KRAFT_UP}, "kwire cluster up --kraft --data {data}"),
        (
            node_of_kraft_up,
            {ServingWay.KRAFT},
            "serve the cluster with kwire cluster up --kraft --data {data}",
        ),
        (kraft_up_member, {ServingWay.ZOOKEEPER, KRAFT}, "kwire cluster up --data {data}"),
        (member_without_metadata, {KRAFT}, "kwire serve --brokers 1 --data {data}"),
        (folders.adopted, set(), "kwire cluster adopt has given to KRaft controllers"),
        (
            lambda path: folders.adopted(path) / "broker-2",
            {*ONE, KRAFT},
            "takes it over as one broker",
        ),
        (kraft, {*ONE, KRAFT}, "kwire serve --data {data} takes it over"),
        (zookeeper, ONE, "kwire serve --data {data} takes it over"),
        (partition, set(), "log.dirs name the folder above, {data}"),
        (folders.mixed, set(), "Move broker-1, broker-2, broker-3 elsewhere"),
    ],
)
def test_folder_of_each_kind_is_admitted_only_in_its_ways(
    make: Callable[[Path], Path], ways: set[ServingWay], sentence: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "data")
    for way in ServingWay:
        if way in ways:
            assert admit(path, way).path == path
        else:
            with pytest.raises(LogDirError) as refusal:
                admit(path, way)
            assert sentence.format(data=tmp_path / "data") in str(refusal.value)
            with pytest.raises(LogDirError):
                admit_all([str(tmp_path / "new"), str(path)], way)


def test_folder_with_metadata_of_one_broker_goes_to_controllers_by_adoption(tmp_path: Path) -> None:
    with pytest.raises(LogDirError) as refusal:
        admit(folders.single(tmp_path), KRAFT)
    assert f"kwire cluster adopt --kraft ID@HOST:PORT=DIR {tmp_path}" in str(refusal.value)


def test_only_a_cluster_folder_is_served_as_a_cluster_by_default(tmp_path: Path) -> None:
    assert holds_cluster(folders.cluster(tmp_path / "a"))
    others = [folders.single(tmp_path / "b"), folders.cluster_up(tmp_path / "c"), tmp_path / "new"]
    assert not any(map(holds_cluster, others))
