"""Runs the start scripts of Testcontainers' Kafka modules in the image, and waits as they do.

`KWIRE_IMAGE_ROOT=ROOT python -m tests.docker.testcontainers_up FOLDER FILE...` starts, for each
file of tests/docker/testcontainers, a container with the module's variables and command.  It puts
the module's script there, and waits for the module's log line, or for its port where the module
waits for that.  The files hold what the modules' sources say, with the mapped port in place.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import yaml

from kwire.client.cluster import Cluster
from kwire.conformance.chaos.cluster.network import enter
from tests.docker.public_up import WAIT_S, container, name_everything, wait_for_port


def start(path: Path, folder: Path) -> None:
    """Start one module's container, print when it is ready, and use it from outside."""
    module = yaml.safe_load(path.read_text())
    environ, port = module["environment"], module["port"]
    with container(folder, "kafka-host", environ, module["command"]) as running:
        # The command waits for the script inside the image, as after Docker's start.
        inside = Path(f"/proc/{running.process.pid}/root/etc/confluent/docker/run")
        while not inside.exists():
            assert running.process.poll() is None, running.log.read_text()
            time.sleep(0.01)
        begin = time.monotonic()
        running.put(module["path"], module["script"])
        if module["line"]:
            while not re.search(module["line"], running.log.read_text()):
                assert running.process.poll() is None, running.log.read_text()
                assert time.monotonic() < begin + WAIT_S, running.log.read_text()
                time.sleep(0.005)
        else:
            wait_for_port(port)
        taken_s = time.monotonic() - begin
        with Cluster(f"127.0.0.1:{port}", timeout_s=WAIT_S) as cluster:
            cluster.topic("t", create=True)
            (node,) = cluster.nodes.values()
            assert (node.host, node.port) == ("localhost", port), node
    print(f"{path.stem}: ready after {taken_s:.2f} s by {module['line'] or 'the port'}", flush=True)


if __name__ == "__main__":
    enter([sys.executable, "-m", "tests.docker.testcontainers_up", *sys.argv[1:]])
    target = Path(sys.argv[1]).resolve()
    name_everything([], target)
    for name in sys.argv[2:]:
        start(Path(name), target)
    print(f"{len(sys.argv[2:])} modules are ready")
