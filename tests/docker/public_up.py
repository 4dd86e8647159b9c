"""Starts the brokers of public compose files with only the image changed, and uses them.

`python -m tests.docker.public_up FOLDER FILE...` enters namespaces of its own, runs the image's
entry point (docker/run) with each file's variables, and asks every address that the broker
advertises.  All names of a file are names of this machine there.  A broker that the file puts on a
ZooKeeper is alone here (KWIRE_ZOOKEEPER=ignore).

With ROOT in the variable KWIRE_IMAGE_ROOT, the root file system of the built image, each container
is the image itself: its user, its folders, empty volumes as Docker fills them, the file's command
and health check, and a real ZooKeeper.
"""

from __future__ import annotations

import base64
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from kwire.cli.image.settings import container_settings
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer
from kwire.client.producer import Producer
from kwire.client.security import ClientSecurity
from kwire.cluster.metadata.image import Endpoint
from kwire.conformance.chaos.cluster.network import enter
from kwire.settings import load

ROOT = Path(__file__).resolve().parents[2]
IMAGE_ROOT = os.environ.get("KWIRE_IMAGE_ROOT")
READY = "Transitioning from RECOVERY to RUNNING"
WAIT_S = 120.0
PATH_IN_IMAGE = (
    "/opt/kwire/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    ":/opt/kwire/tools:/opt/kwire/last"
)
IN_IMAGE = {"PATH": PATH_IN_IMAGE, "PYTHONUNBUFFERED": "1", "HOME": "/home/appuser"}
IN_CHECKOUT = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
DEFAULT_COMMAND = ["/etc/kafka/docker/run"]
NUMBER = 0
"""How many containers have been started."""


@dataclass
class Container:
    """A running container; `root` is its file system, as this process names it."""

    process: subprocess.Popen[bytes]
    log: Path
    root: Path
    environ: dict[str, str]

    def wait_for(self, text: str) -> str:
        """The log, when it has `text`."""
        deadline = time.monotonic() + WAIT_S
        while text not in (log := self.log.read_text()):
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {log}"
            assert time.monotonic() < deadline, log
            time.sleep(0.01)
        return log

    def run(self, script: str) -> str:
        """The output of a shell script in the container; it must succeed."""
        inside = ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt"]
        if IMAGE_ROOT:
            inside += ["chroot", "--userspec=1000:0", str(self.root)]
        done = subprocess.run(
            [*inside, "sh", "-c", script],
            env=self.environ, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def put(self, path: str, text: str) -> None:
        """Write an executable file into the container, as root, as Docker's copy does."""
        inside = ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt"]
        target = f"{self.root}{path}"
        script = f"cat > {target}.new && chmod 777 {target}.new && mv {target}.new {target}"
        subprocess.run([*inside, "sh", "-c", script], input=text.encode(), check=True)


@contextmanager
def container(
    folder: Path, name: str, environ: Mapping[str, str], command: list[str],
    volumes: tuple[str, ...] = (), files: Mapping[str, str | bytes] | None = None,
) -> Iterator[Container]:  # fmt: skip
    """Run a command as a container with a host name; it gets SIGTERM at the end."""
    global NUMBER
    NUMBER += 1
    log = folder / f"{NUMBER}-{name}.log"
    root = folder / f"root-{NUMBER}" if IMAGE_ROOT else Path("/")
    if IMAGE_ROOT:
        script = _in_image(root, command, volumes)
        variables = {**IN_IMAGE, **environ}
    else:
        data = "mount -t tmpfs none /var/lib && mkdir -p /var/lib/kafka/data"
        script = f"{data} && exec {shlex.join(command)}"
        variables = {**IN_CHECKOUT, **environ}
    for path, text in (files or {}).items():
        script = f"{_written(root, path, text)} && {script}" if not IMAGE_ROOT else script
    if IMAGE_ROOT and files:
        written = " && ".join(_written(root, path, text) for path, text in files.items())
        script = script.replace("exec chroot", f"{written} && exec chroot", 1)
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["unshare", "--mount", "--uts", "sh", "-ec", f"hostname {name}; {script}"],
            env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            cwd=ROOT, start_new_session=True,
        )  # fmt: skip
    try:
        yield Container(process, log, root, variables)
    finally:
        # All processes of the container end, also those that a shell has started.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(WAIT_S)


def _in_image(root: Path, command: list[str], volumes: tuple[str, ...]) -> str:
    """Lay the image's files below a layer of the container's own, fill volumes, and enter it."""
    layer = f"{root}.layer"
    steps = [
        f"mkdir -p {root} {layer}",
        f"mount -t tmpfs none {layer}",
        f"mkdir {layer}/upper {layer}/work",
        f"mount -t overlay none {root} -o lowerdir={IMAGE_ROOT},"
        f"upperdir={layer}/upper,workdir={layer}/work",
        f"mount --rbind /proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"touch {root}/etc/hosts",
        f"mount --bind /etc/hosts {root}/etc/hosts",
        f"chmod 1777 {root}/tmp",
    ]
    for volume in volumes:
        steps += [
            f"mkdir -p {root}{volume}",
            f"mount -t tmpfs none {root}{volume}",
            f"cp -a {IMAGE_ROOT}{volume}/. {root}{volume}/ || true",
            f"chown --reference={IMAGE_ROOT}{volume} {root}{volume} || true",
            f"chmod --reference={IMAGE_ROOT}{volume} {root}{volume} || true",
        ]
    entered = "cd /home/appuser && exec " + shlex.join(command)
    steps.append(f"exec chroot --userspec=1000:0 {root} sh -c {shlex.quote(entered)}")
    return " && ".join(f"{{ {step}; }}" if "||" in step else step for step in steps)


def _written(root: Path, path: str, content: str | bytes) -> str:
    """The command that writes a file; that of bytes is given as Base64."""
    target = f"{str(root).rstrip('/')}{path}"
    data = content if isinstance(content, bytes) else content.encode()
    text = base64.b64encode(data).decode()
    return (
        f"mkdir -p $(dirname {target}) && echo {text} | base64 -d > {target} && chmod 755 {target}"
    )


class Authority:
    """Certificates for the files that mount key stores of their own, which cannot be had."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("kafka", "localhost", "127.0.0.1")
        self.trusted, self.store = folder / "ca.pem", folder / "client.p12"
        authority.cert_pem.write_to_path(str(self.trusted))
        key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        self._key = key
        self._certificate = load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
        self._authority = load_pem_x509_certificate(authority.cert_pem.bytes())

    def key_store(self, password: str) -> bytes:
        """A PKCS#12 store with a key, its certificate and the authority's."""
        return serialize_key_and_certificates(
            b"kafka", self._key, self._certificate, [self._authority],
            BestAvailableEncryption(password.encode()),
        )  # fmt: skip

    def properties(self, password: str) -> dict[str, str]:
        """What a client of a listener with TLS sets."""
        self.store.write_bytes(self.key_store(password))
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.store),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "ssl.endpoint.identification.algorithm": "",
        }


def security_of(
    endpoint: Endpoint, file: Mapping[str, Any], tls: Mapping[str, str]
) -> ClientSecurity | None:
    """The login of a client of a listener."""
    protocol = endpoint.security_protocol
    if protocol == "PLAINTEXT":
        return None
    properties = {"security.protocol": protocol, **(tls if protocol.endswith("SSL") else {})}
    if protocol.startswith("SASL_"):
        login = file["login"]
        properties |= {
            "sasl.mechanism": login["sasl.mechanism"],
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{login["username"]}" password="{login["password"]}";',
        }
    return ClientSecurity(properties)


def use(endpoints: tuple[Endpoint, ...], file: Mapping[str, Any], tls: Mapping[str, str]) -> None:
    """Ask each listener for its advertised address, and produce and consume there."""
    for endpoint in endpoints:
        if endpoint.listener == "CONTROLLER":
            continue
        bootstrap = f"127.0.0.1:{endpoint.port}"
        with Cluster(
            bootstrap, timeout_s=WAIT_S, security=security_of(endpoint, file, tls)
        ) as cluster:
            cluster.refresh([])
            shown = [f"{node.host}:{node.port}" for node in cluster.nodes.values()]
            print(f"  {endpoint.listener} advertises {', '.join(shown)}")
            for number in cluster.nodes:
                cluster.node(number)
            if endpoint.security_protocol == "PLAINTEXT" and not file.get("anonymous", True):
                continue
            topic = f"asked-at-{endpoint.listener}-{endpoint.port}"
            cluster.topic(topic, create=True)
            producer = Producer(cluster)
            producer.send(topic, b"value", partition=0)
            producer.flush()
            consumer = Consumer(cluster)
            consumer.assign({TopicPartition(topic, 0): 0})
            assert [record.value for record in consumer.poll(WAIT_S)] == [b"value"]
            consumer.close()


def variables_of(
    service: Mapping[str, Any], file: Mapping[str, Any], folder: Path
) -> dict[str, str]:
    """The variables of a service; on a checkout, files are below `folder`, and it is alone."""
    environ = dict(service["environment"])
    if IMAGE_ROOT:
        return environ
    for path in {**file.get("files", {}), **file.get("written", {}), **file.get("stores", {})}:
        environ = {name: value.replace(path, f"{folder}{path}") for name, value in environ.items()}
    if "KAFKA_LOG_DIRS" in environ:
        environ["KAFKA_LOG_DIRS"] = str(folder / "data")
    if file.get("zookeeper"):
        environ["KWIRE_ZOOKEEPER"] = "ignore"
    return environ


def run_file(path: Path, folder: Path) -> None:
    """Start all brokers of a file, use them and end them."""
    file = yaml.safe_load(path.read_text())
    folder = folder / path.stem
    folder.mkdir(parents=True)
    print(path.stem, flush=True)
    authority = Authority(folder)
    stores = {where: authority.key_store(word) for where, word in file.get("stores", {}).items()}
    tls = authority.properties(next(iter(file.get("stores", {}).values()), "password"))
    with ExitStack() as running:
        if IMAGE_ROOT and file.get("zookeeper") and not file.get("refused"):
            running.enter_context(zookeeper(folder))
        started = []
        for name, service in file["services"].items():
            environ = variables_of(service, file, folder)
            host_name = service.get("hostname", name)
            files: dict[str, str | bytes] = {**file.get("files", {}), **stores}
            command = ["docker/run"]
            if IMAGE_ROOT:
                command = service.get("entrypoint") or service.get("command") or DEFAULT_COMMAND
            else:
                files = {f"{folder}{where}": text for where, text in
                         {**files, **file.get("written", {})}.items()}  # fmt: skip
            volumes = tuple(service.get("volumes", ()))
            each = running.enter_context(
                container(folder, host_name, environ, command, volumes, files)
            )
            started.append((each, service, environ))
        for each, service, environ in started:
            if refused := file.get("refused"):
                each.process.wait(WAIT_S)
                log = each.log.read_text()
                assert refused in log, log
                assert each.process.returncode == 1, log
                print("  refused:", log.strip().splitlines()[-1])
                continue
            is_quiet = environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "") in ("WARN", "ERROR")
            listeners = listeners_of(environ)
            log = each.wait_for("" if is_quiet else READY)
            wait_for_port(listeners[0].port)
            for line in log.splitlines():
                if "no effect" in line or "unknown setting" in line:
                    print("  ignored:", line.partition(": ")[2])
            use(listeners, file, tls)
            with Cluster(f"127.0.0.1:{listeners[0].port}", timeout_s=WAIT_S) as cluster:
                for topic in file.get("topics", ()):
                    cluster.topic(topic)
            if IMAGE_ROOT and (check := service.get("healthcheck")):
                each.run(check)
                print("  healthy:", check)


def listeners_of(environ: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The listeners that variables give; files that they name are those of the container."""
    known = {
        name: value
        for name, value in environ.items()
        if name != "KAFKA_OPTS" and not name.startswith("KAFKA_SSL_")
    }
    return load(*container_settings(known, {})).listeners


def wait_for_port(port: int) -> None:
    """Wait until something listens there: a broker with the log level WARN says nothing."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nothing listens on port {port}"
            time.sleep(0.01)


@contextmanager
def zookeeper(folder: Path) -> Iterator[None]:
    """Run a ZooKeeper at the port of the official image."""
    from kwire.testing.zookeeper import ZooKeeperProcess

    process = ZooKeeperProcess(folder / "zookeeper", {"forceSync": "no", "clientPort": "2181"})
    process.port = 2181
    with process:
        yield


def name_everything(paths: list[Path], folder: Path) -> None:
    """Make the names and addresses of all files those of this machine, in these namespaces."""
    names = {"kafka-host"}
    for path in paths:
        file = yaml.safe_load(path.read_text())
        names |= {file.get("zookeeper") or "zookeeper"}
        for name, service in file["services"].items():
            names |= {name, service.get("hostname", name)}
    hosts = folder / "hosts"
    # Each name has its own line, so that it is the canonical name of its address.
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ["localhost", *sorted(names)]))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", "192.168.99.100/32", "dev", "lo"], check=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


if __name__ == "__main__":
    enter([sys.executable, "-m", "tests.docker.public_up", *sys.argv[1:]])
    target = Path(sys.argv[1]).resolve()
    chosen = [Path(each) for each in sys.argv[2:]]
    name_everything(chosen, target)
    for each in chosen:
        run_file(each, target)
    print(f"{len(chosen)} files work")
