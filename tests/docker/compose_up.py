"""Runs a compose file of docker/ as `docker compose up` does, in network namespaces.

`python -m tests.docker.compose_up FILE FOLDER` enters namespaces of its own, starts each service of
the file, uses the brokers as the file's readers would, and ends everything.  Each broker is the
image's entry point with only the file's variables.  A controller is Apache Kafka, which its image's
own program sets up by the variables.  Both have their own host name and an empty
/var/lib/kafka/data.  Published ports are forwarded from localhost, as Docker does.  Prometheus and
Grafana are not started: what Prometheus would read is read from its container.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio
import yaml

from kwire.conformance import apache_kafka
from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.chaos.cluster.network import Network, enter
from kwire.testing import Host
from kwire.testing.zookeeper import ZooKeeperProcess

ROOT = Path(__file__).resolve().parents[2]
ZOOKEEPER_PORT = 2181
WAIT_S = 120
OWN_DATA = "mount -t tmpfs none /var/lib && mkdir -p /var/lib/kafka/data"
RUN_BROKER = f"{OWN_DATA} && exec docker/run"
BROKER_IMAGE = "kwire"
APACHE_IMAGE = "apache/kafka:"
PROMETHEUS_IMAGE = "prom/prometheus:"
PROMETHEUS_FILE = ROOT / "docker/grafana/prometheus.yml"
SET_UP = "kafka.docker.KafkaDockerWrapper"
"""The class with which the image apache/kafka writes its settings and formats its data."""
ENDED_BY_SIGTERM = 143
IN_IMAGE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}

Service = Mapping[str, Any]


def name_hosts(hosts: Mapping[str, Host], folder: Path) -> None:
    """Make each service's name resolve to its address, in this mount namespace only."""
    lines = ["127.0.0.1 localhost", *(f"{host.address} {name}" for name, host in hosts.items())]
    file = folder / "hosts"
    file.write_text("".join(f"{line}\n" for line in lines))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", file, "/etc/hosts"], check=True)


def broker(name: str, service: Service, host: Host, folder: Path) -> AbstractContextManager[None]:
    return container(name, RUN_BROKER, service, host, folder)


def controller(
    name: str, service: Service, host: Host, folder: Path
) -> AbstractContextManager[None]:
    """Run Apache Kafka as its image does: write the settings, format the data, start."""
    for part in ("defaults", "config"):
        (folder / name / part).mkdir(parents=True)
    for file in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (folder / name / "defaults" / file).touch()
    set_up = apache_kafka.command(
        SET_UP,
        [
            "setup",
            *("--default-configs-dir", folder / name / "defaults"),
            *("--mounted-configs-dir", folder / name / "none"),
            *("--final-configs-dir", folder / name / "config"),
        ],
    )
    start = apache_kafka.command(
        "kafka.Kafka", [folder / name / "config" / "server.properties"], version=VERSION
    )
    script = f"hostname {name} && {OWN_DATA} && {shlex.join(set_up)} && exec {shlex.join(start)}"
    return container(name, script, service, host, folder, status_of_end=ENDED_BY_SIGTERM)


@contextmanager
def container(
    name: str, script: str, service: Service, host: Host, folder: Path, *, status_of_end: int = 0
) -> Iterator[None]:
    """Run a script on a host with the service's variables; it must end so after SIGTERM."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*host.launcher, "unshare", "--mount", "--uts", "sh", "-c", script],
            env=environment_of(service),
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
    try:
        yield
    finally:
        process.terminate()
        status = process.wait(WAIT_S)
        print(log.read_text())
    assert status == status_of_end, f"{name} ended with status {status}"


def environment_of(service: Service) -> dict[str, str]:
    return {**IN_IMAGE, **service.get("environment", {})}


@contextmanager
def zookeeper(host: Host, folder: Path) -> Iterator[None]:
    """Run a ZooKeeper at the port of the official image."""
    settings = {"forceSync": "no", "clientPort": str(ZOOKEEPER_PORT)}
    process = ZooKeeperProcess(folder / "zookeeper", settings, host=host)
    process.port = ZOOKEEPER_PORT
    with process:
        yield


def run(command: list[str], host: Host | None, environment: Mapping[str, str]) -> str:
    """The output of a command in that container, or on the machine; its status must be 0."""
    launcher = () if host is None else host.launcher
    done = subprocess.run(
        [*launcher, *command], env=environment, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_until_healthy(service: Service, host: Host) -> None:
    """Wait until the health check of the image succeeds."""
    deadline = time.monotonic() + WAIT_S
    command = [*host.launcher, "kwire", "ping", "--container"]
    while subprocess.run(command, env=environment_of(service), capture_output=True).returncode:
        assert time.monotonic() < deadline, "the health check fails"
        time.sleep(0.1)


async def publish(services: Mapping[str, Service], hosts: Mapping[str, Host]) -> None:
    """Forward the published ports from localhost, until cancelled."""
    async with trio.open_nursery() as nursery:
        for name, service in services.items():
            for mapping in service.get("ports", ()):
                outside, inside = mapping.split(":")
                target = hosts[name].address, int(inside)

                async def forward(
                    client: trio.SocketStream, target: tuple[str, int] = target
                ) -> None:
                    server = await trio.open_tcp_stream(*target)
                    async with server, trio.open_nursery() as both:
                        both.start_soon(copy, client, server)
                        both.start_soon(copy, server, client)

                listeners = await trio.open_tcp_listeners(int(outside), host="127.0.0.1")
                nursery.start_soon(trio.serve_listeners, forward, listeners)


async def copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        async for data in source:
            await target.send_all(data)
        await target.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await target.aclose()  # one side has gone, so the other is closed


def ask_brokers(services: Mapping[str, Service], hosts: Mapping[str, Host]) -> None:
    """Produce and consume from this machine by the published ports, and from a container by name.

    Clients get one address of each broker, and then use those that it advertises.
    """
    brokers = {
        name: of for name, of in services.items() if "ports" in of and of["image"] == BROKER_IMAGE
    }
    for name, service in brokers.items():
        wait_until_healthy(service, hosts[name])
    from_machine = ",".join(f"localhost:{of['ports'][0].split(':')[0]}" for of in brokers.values())
    from_container = ",".join(f"{name}:19092" for name in brokers)
    container = next(hosts[name] for name, of in services.items() if "profiles" in of)
    produce = f"echo from-%s | kwire produce t -b {from_machine}"
    run(["sh", "-ec", produce % "machine"], None, IN_IMAGE)
    run(
        ["sh", "-ec", produce.replace(from_machine, from_container) % "container"],
        container,
        IN_IMAGE,
    )
    consume = ["kwire", "consume", "t", "--from-beginning", "--exit", "-b"]
    for where, bootstrap in ((None, from_machine), (container, from_container)):
        output = run([*consume, bootstrap], where, IN_IMAGE)
        assert output == "from-machine\nfrom-container\n", output
    print(run(["kwire", "topics", "describe", "t", "-b", from_machine], None, IN_IMAGE))
    for name, service in services.items():
        if "profiles" in service:  # docker compose run --rm NAME
            print(run(service["command"], hosts[name], IN_IMAGE))
        elif service["image"].startswith(PROMETHEUS_IMAGE):
            read_metrics(hosts[name])


def read_metrics(host: Host) -> None:
    """Read the endpoints of prometheus.yml from Prometheus's container."""
    for job in yaml.safe_load(PROMETHEUS_FILE.read_text())["scrape_configs"]:
        for static in job["static_configs"]:
            for target in static["targets"]:
                read = f"print(urlopen('http://{target}/metrics').read().decode())"
                script = f"from urllib.request import urlopen; {read}"
                text = run([sys.executable, "-c", script], host, IN_IMAGE)
                assert "kafka_server_brokertopicmetrics_messagesin_total" in text, text


def services_of(file: Path) -> dict[str, Service]:
    services: dict[str, Service] = yaml.safe_load(file.read_text())["services"]
    return services


async def up(services: Mapping[str, Service], folder: Path) -> None:
    with Network(len(services)) as network, ExitStack() as running:
        hosts = dict(zip(services, network.hosts, strict=True))
        name_hosts(hosts, folder)
        for name, service in services.items():
            if name == "zookeeper":
                running.enter_context(zookeeper(hosts[name], folder))
            elif service["image"].startswith(APACHE_IMAGE):
                running.enter_context(controller(name, service, hosts[name], folder))
            elif service["image"] == BROKER_IMAGE and "profiles" not in service:
                running.enter_context(broker(name, service, hosts[name], folder))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, services, hosts)
            await trio.to_thread.run_sync(ask_brokers, services, hosts)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    enter([sys.executable, "-m", "tests.docker.compose_up", *sys.argv[1:]])
    trio.run(up, services_of(Path(sys.argv[1])), Path(sys.argv[2]).resolve())
    print("all services answered")
