"""A real Prometheus, built from its sources by Go, which reads the metrics of running brokers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kwire.conformance.apache_kafka import cache_dir
from kwire.testing.hosting.ending import end
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port

RELEASE: Final = "v3.16.0"
VERSION: Final = "v0.316.0"
"""The same release as a Go module."""
MODULE: Final = "github.com/prometheus/prometheus/cmd/prometheus"
TAGS: Final = "remove_all_sd"
"""Leave out the service discovery of clouds, of which building takes most of the time."""
BUILD_TIMEOUT_S: Final = 3600
START_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.1
INTERVAL: Final = "1s"


class PrometheusError(RuntimeError):
    """Prometheus could not be built or started; the message ends with its output."""


def executable() -> Path:
    """Return Prometheus's program, built once (minutes).  Raises PrometheusError."""
    folder = cache_dir().parent / "prometheus" / VERSION
    program = folder / "prometheus"
    if program.is_file():
        return program
    go = shutil.which("go")
    if go is None:
        raise PrometheusError("no go on PATH, which builds Prometheus")
    building = {"GOBIN": str(folder), "GOFLAGS": f"-tags={TAGS}"}
    done = subprocess.run(
        [go, "install", f"{MODULE}@{VERSION}"],
        env=os.environ | building,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode:
        raise PrometheusError(f"Prometheus {VERSION} cannot be built:\n{done.stderr[-3000:]}")
    return program


class Prometheus(Startable):
    """Prometheus in a folder, which reads each of the `targets` (HOST:PORT) once a second."""

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        self.directory = directory
        self.port = free_port()
        self._targets = list(targets)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return once it answers.  Raises PrometheusError."""
        program = executable()
        self.directory.mkdir(parents=True, exist_ok=True)
        jobs = [{"job_name": "kwire", "static_configs": [{"targets": self._targets}]}]
        config = {"global": {"scrape_interval": INTERVAL}, "scrape_configs": jobs}
        file = self.directory / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = [
            str(program),
            f"--config.file={file}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        log = self.directory / "prometheus.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, cwd=self.directory, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise PrometheusError(f"Prometheus did not start:\n{log.read_text()[-3000:]}")
            time.sleep(POLL_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as response:
                return int(response.status) == 200
        except OSError:
            return False

    def stop(self) -> int:
        """Stop it, and return its exit status; 0 if it did not run."""
        process, self._process = self._process, None
        return 0 if process is None else end(process)

    def query(self, query: str) -> list[tuple[Mapping[str, str], float]]:
        """Return the labels and values of an instant query.

        Raises PrometheusError if Prometheus refuses it, with its reason.
        """
        parameters = urllib.parse.urlencode({"query": query})
        request = urllib.request.Request(f"{self.url}/api/v1/query", parameters.encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer: Any = json.load(response)
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{query}: {error.read().decode()}") from error
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]
