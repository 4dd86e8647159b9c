"""The variables of the image wurstmeister/kafka: host names, commands, and topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kwire.cli.image.reading import ImageTopic, VariableReading
from kwire.settings.error import ConfigError

COMMANDS: Final = {
    "HOSTNAME_COMMAND": "KAFKA_ADVERTISED_HOST_NAME",
    "PORT_COMMAND": "KAFKA_ADVERTISED_PORT",
    "BROKER_ID_COMMAND": "KAFKA_BROKER_ID",
    "RACK_COMMAND": "KAFKA_BROKER_RACK",
}
"""The variable that the output of a command stands for."""
COMMAND_TIMEOUT_S: Final = 20
PLACEHOLDER = re.compile(r"_\{(HOSTNAME_COMMAND|PORT_COMMAND)\}")
PORT_DEFAULT: Final = "9092"
POLICIES: Final = ("compact", "delete")
_SEPARATORS: Final = {"$'\\n'": "\n", "\\n": "\n"}
"""How compose files write a line feed as separator; the shell of the original image reads it so."""
_NAMES: Final = ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT", "KAFKA_HOST_NAME")


def run_commands(environ: dict[str, str]) -> None:
    """Replace *_COMMAND variables by what the commands print.  Raises ConfigError."""
    outputs: dict[str, str] = {}
    used = {name for value in environ.values() for name in PLACEHOLDER.findall(value)}
    for command, variable in COMMANDS.items():
        text = environ.get(command, "").strip()
        if not text or (environ.get(variable, "").strip() and command not in used):
            continue
        outputs[command] = _output(command, text, variable)
        environ.setdefault(variable, outputs[command])
    for name, value in environ.items():
        if name.startswith("KAFKA_") and PLACEHOLDER.search(value):
            environ[name] = PLACEHOLDER.sub(lambda match: _filled(match, outputs), value)


def _filled(match: re.Match[str], outputs: dict[str, str]) -> str:
    if match[1] not in outputs:
        raise ConfigError(f"a variable has {match[0]}, but {match[1]} is not set: set it")
    return outputs[match[1]]


def _output(name: str, command: str, variable: str) -> str:
    """The first line that a command prints.  Raises ConfigError if it fails or prints nothing."""
    import subprocess

    try:
        done = subprocess.run(
            ["sh", "-c", command],
            capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"{name} takes more than {COMMAND_TIMEOUT_S} seconds: set {variable} instead"
        ) from None
    printed = done.stdout.strip().splitlines()
    if done.returncode or not printed:
        reason = " ".join(done.stderr.split()) or f"status {done.returncode}, no output"
        raise ConfigError(
            f"{name} fails ({reason}): this image has a shell, but neither docker nor route; set "
            f"{variable} instead"
        )
    return printed[0].strip()


def finish(reading: VariableReading) -> None:
    """Read what several variables say together.  Raises ConfigError."""
    _listeners(reading)
    for name, topic in topics(
        reading.environ.get("KAFKA_CREATE_TOPICS", ""),
        reading.environ.get("KAFKA_CREATE_TOPICS_SEPARATOR", ","),
    ):
        if reading.topics.setdefault(name, topic) != topic:
            raise ConfigError(f"KAFKA_CREATE_TOPICS has the topic {name} twice: leave one out")


def topics(text: str, separator: str) -> Iterator[tuple[str, ImageTopic]]:
    """Yield (name, topic) of NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY; the numbers may be missing.

    Each character of `separator` separates topics.  Raises ConfigError.
    """
    marks = _SEPARATORS.get(separator, separator) or ","
    for entry in re.split(f"[{re.escape(marks)}]", text):
        if not entry.strip():
            continue
        name, *rest = (part.strip() for part in entry.split(":"))
        numbers, policy = rest[:2], rest[2:]
        if not name or len(policy) > 1 or any(not part.isdecimal() for part in numbers if part):
            raise ConfigError(
                f"KAFKA_CREATE_TOPICS: {entry.strip()!r} is not NAME:PARTITIONS:REPLICAS or "
                "NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY"
            )
        partitions, replicas = ([int(part) if part else None for part in numbers] + [None] * 2)[:2]
        if 0 in (partitions, replicas):
            raise ConfigError(f"KAFKA_CREATE_TOPICS: {entry.strip()!r}: the numbers begin at 1")
        configs = {}
        if policy and policy[0]:
            wanted = policy[0].split("+") if "+" in policy[0] else [policy[0]]
            if any(each not in POLICIES for each in wanted):
                raise ConfigError(
                    f"KAFKA_CREATE_TOPICS: {entry.strip()!r}: the cleanup policy is compact, "
                    "delete or compact+delete"
                )
            configs["cleanup.policy"] = ",".join(wanted)
        yield name, ImageTopic(partitions, replicas, configs)


def _listeners(reading: VariableReading) -> None:
    """Turn host names and ports into `listeners` and `advertised.listeners`."""
    given = {name: reading.given(name) for name in _NAMES}
    port = reading.given("KAFKA_PORT")
    if port.startswith("tcp://"):
        port = ""  # Kubernetes sets it, for a service with the name kafka
    if not (port or any(given.values())):
        return
    for name, value in (
        ("KAFKA_ADVERTISED_PORT", given["KAFKA_ADVERTISED_PORT"]),
        ("KAFKA_PORT", port),
    ):
        if value and not value.isdecimal():
            raise ConfigError(f"{name}={value} is no port: write a number")
    if "advertised.listeners" in reading.settings:
        for name in (*(name for name in _NAMES if given[name]), *(["KAFKA_PORT"] if port else [])):
            reading.ignored[name] = "KAFKA_ADVERTISED_LISTENERS says more"
        return
    advertised_port = given["KAFKA_ADVERTISED_PORT"] or port or PORT_DEFAULT
    outside = reading.given("KAFKA_ADVERTISED_PROTOCOL_NAME")
    if outside and "listener.security.protocol.map" in reading.settings:
        inside = reading.given("KAFKA_PROTOCOL_NAME") or outside
        bound = {outside: advertised_port}
        bound.setdefault(inside, port or PORT_DEFAULT)
        hosts = {outside: given["KAFKA_ADVERTISED_HOST_NAME"]}
        hosts.setdefault(inside, given["KAFKA_HOST_NAME"])
        listeners = [f"{name}://:{number}" for name, number in bound.items()]
        advertised = [f"{name}://{hosts[name]}:{number}" for name, number in bound.items()]
        reading.default("listeners", ",".join(listeners), "KAFKA_ADVERTISED_PROTOCOL_NAME")
        reading.default("inter.broker.listener.name", inside, "KAFKA_PROTOCOL_NAME")
    else:
        own = f"PLAINTEXT://{given['KAFKA_HOST_NAME']}:{port or PORT_DEFAULT}"
        reading.default("listeners", own, "KAFKA_PORT")
        name = reading.settings["listeners"].partition("://")[0]
        advertised = [f"{name}://{given['KAFKA_ADVERTISED_HOST_NAME']}:{advertised_port}"]
    origin = next((name for name in _NAMES if given[name]), "KAFKA_PORT")
    reading.default("advertised.listeners", ",".join(advertised), origin)
