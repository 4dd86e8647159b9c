"""Tests `make image`: the builder and its arguments, and the image itself if possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer
from kwire.client.producer import Producer
from kwire.testing import free_port

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "docker" / "build"

BASE_IMAGE = os.environ.get("KWIRE_BASE_IMAGE")
"""An image with Python 3.11+ that buildah has or can pull, for a test of the real build."""


def built_with(tmp_path: Path, builders: dict[str, int], **environ: str) -> list[str]:
    """The output of `docker/build` with only these builders, each with its exit status."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname"):
        (tools / name).symlink_to(shutil.which(name) or name)
    for name, status in builders.items():
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*"\nexit {status}\n')
        (tools / name).chmod(0o755)
    done = subprocess.run(
        [tools / "sh", BUILD],
        env={"PATH": str(tools), **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [*done.stdout.splitlines(), *done.stderr.splitlines(), str(done.returncode)]


def test_image_is_built_with_docker_if_it_runs(tmp_path: Path) -> None:
    output = built_with(tmp_path, {"docker": 0, "buildah": 0})
    assert output[0] == "docker/build: docker builds kwire on python:3.12-slim"
    assert output[1].startswith("docker build --file docker/Dockerfile --tag kwire ")


def test_image_is_built_with_buildah_if_docker_has_no_daemon(tmp_path: Path) -> None:
    options = {"BASE_IMAGE": "base:1", "IMAGE": "mine", "BUILD_OPTIONS": "--isolation chroot"}
    output = built_with(tmp_path, {"docker": 1, "buildah": 0}, **options)
    assert output[0] == "docker/build: buildah builds mine on base:1"
    assert output[1].startswith("buildah build --format docker ")
    assert output[1].endswith("--build-arg BASE_IMAGE=base:1 --isolation chroot .")


def test_image_build_without_a_builder_says_what_to_install(tmp_path: Path) -> None:
    output = built_with(tmp_path, {})
    assert output == [
        "docker/build: no running docker, no podman and no buildah here: one of them is needed",
        "1",
    ]


@pytest.fixture
def container() -> Iterator[str]:
    """A container of the image, built on KWIRE_BASE_IMAGE."""
    if BASE_IMAGE is None or shutil.which("buildah") is None:
        pytest.skip(
            "NOT TESTED: the image is built where buildah is and KWIRE_BASE_IMAGE names one"
        )
    name = f"kwire-test-{uuid.uuid4().hex[:8]}"
    environ = {**os.environ, "BUILDER": "buildah", "BASE_IMAGE": BASE_IMAGE, "IMAGE": name}
    subprocess.run([BUILD], env=environ, check=True, timeout=1200)
    created = subprocess.run(
        ["buildah", "from", "--pull-never", name], capture_output=True, text=True, check=True
    )
    yield created.stdout.strip()
    subprocess.run(["buildah", "rm", created.stdout.strip()], check=False, capture_output=True)
    subprocess.run(["buildah", "rmi", name], check=False, capture_output=True)


def in_container(container: str, settings: dict[str, str], *command: str) -> list[str]:
    variables = [f"--env={name}={value}" for name, value in settings.items()]
    return ["buildah", "run", *variables, container, "--", *command]


@pytest.mark.slow
def test_image_runs_a_broker_as_an_ordinary_user(container: str) -> None:
    port = free_port()
    address = f"PLAINTEXT://127.0.0.1:{port}"
    settings = {"KAFKA_LISTENERS": address, "KAFKA_ADVERTISED_LISTENERS": address}
    user = subprocess.run(
        in_container(container, {}, "id", "-u"), capture_output=True, text=True, check=True
    )
    assert user.stdout.strip() == "1000"
    run = subprocess.Popen(in_container(container, settings, "/etc/kafka/docker/run"))
    try:
        waited = in_container(container, {}, "kwire", "ping", "-b", f"127.0.0.1:{port}", "-w", "30")
        subprocess.run(waited, check=True, timeout=60)
        subprocess.run(
            in_container(container, settings, "kwire", "ping", "--container"), check=True
        )
        with Cluster(f"127.0.0.1:{port}", timeout_s=60) as cluster:
            producer = Producer(cluster)
            producer.send("t", b"from outside")
            producer.flush()
            consumer = Consumer(cluster)
            consumer.assign({TopicPartition("t", 0): 0})
            assert [record.value for record in consumer.poll(10)] == [b"from outside"]
            consumer.close()
    finally:
        run.terminate()
        run.wait(30)
