"""Tests that public compose files work with only the image changed: see tests/docker/public_up.py.

`make image-compose` also builds the image and runs the files, and the start scripts of
Testcontainers, in its root file system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kwire.conformance.chaos.cluster.network import own_namespaces

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((Path(__file__).parent / "public").glob("*.yaml"))
TESTCONTAINERS = sorted((Path(__file__).parent / "testcontainers").glob("*.yaml"))
BASE_IMAGE = os.environ.get("KWIRE_BASE_IMAGE")
IMAGE = "kwire-public-compose"
TIMEOUT_S = 900

pytestmark = pytest.mark.slow


def as_process(path: Path) -> bool:
    """Whether the brokers of a file run without the image.

    Several brokers are no cluster without their ZooKeeper, and vector's key store is in a folder
    of the image.
    """
    file = yaml.safe_load(path.read_text())
    return "refused" in file or (len(file["services"]) == 1 and path.stem != "vector")


def run(module: str, folder: Path, files: list[str], image_root: str = "") -> str:
    """The output of a driver on these files, which must succeed."""
    probe = subprocess.run([*own_namespaces(), "ip", "rule"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"NOT TESTED: no network namespaces here: {probe.stderr.strip()}")
    environ = {**os.environ, **({"KWIRE_IMAGE_ROOT": image_root} if image_root else {})}
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), *files],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_twenty_files_with_their_source() -> None:
    assert len(FILES) >= 20
    for path in FILES:
        assert {"repository", "file", "commit"} <= yaml.safe_load(path.read_text())["source"].keys()


def test_brokers_of_public_files_answer_at_every_advertised_address(tmp_path: Path) -> None:
    files = [str(path) for path in FILES if as_process(path)]
    output = run("tests.docker.public_up", tmp_path, files)
    assert output.endswith(f"{len(files)} files work\n")


def buildah(*words: str) -> str:
    done = subprocess.run(["buildah", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image_root() -> Iterator[str]:
    """The root file system of the image, built on KWIRE_BASE_IMAGE."""
    if BASE_IMAGE is None or shutil.which("buildah") is None or os.geteuid():
        pytest.skip(
            "NOT TESTED: the image is built where buildah is, as root, and KWIRE_BASE_IMAGE names "
            "its base"
        )
    environ = {**os.environ, "BUILDER": "buildah", "BASE_IMAGE": BASE_IMAGE, "IMAGE": IMAGE}
    subprocess.run([ROOT / "docker" / "build"], env=environ, check=True, timeout=1200)
    name = buildah("from", "--pull-never", IMAGE)
    yield buildah("mount", name)
    buildah("rm", name)
    buildah("rmi", IMAGE)


@pytest.mark.long
@pytest.mark.java
def test_image_works_in_every_public_file(image_root: str, tmp_path: Path) -> None:
    files = [str(path) for path in FILES]
    output = run("tests.docker.public_up", tmp_path, files, image_root)
    print(output)
    assert output.endswith(f"{len(files)} files work\n")


@pytest.mark.long
def test_start_scripts_of_testcontainers_run_in_the_image(image_root: str, tmp_path: Path) -> None:
    files = [str(path) for path in TESTCONTAINERS]
    output = run("tests.docker.testcontainers_up", tmp_path, files, image_root)
    print(output)
    assert output.endswith(f"{len(files)} modules are ready\n")
