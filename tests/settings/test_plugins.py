"""The known settings of Apache Kafka's plug-ins, compared with the classes in its jars."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.settings.broker import BrokerConfig
from kwire.settings.plugins import NAMES, PREFIXES
from kwire.settings.topic_settings import TopicSettings

JARS = ("kafka-clients", "kafka-metadata", "kafka-server", "kafka-server-common", "kafka-storage")
DOTTED = re.compile(r"[a-z]+(\.[a-z]+)+")
OF_CLIENTS = re.compile(r"clients/|common/serialization/|common/telemetry/internals/Client")
"""Classes of clients, whose settings are no broker settings."""
NO_SETTINGS = {
    "allowed.paths": "a parameter of a config provider, behind its prefix",
    "allowlist.pattern": "a parameter of a config provider, behind its prefix",
    "cluster.id": "handed to tiered storage, not read",
    "sun.security.jgss.native": "a property of the Java machine",
}
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5}
SIZES |= {15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
"""Bytes of the other entries of a class file's constant pool, by tag (JVM specification, 4.4)."""
UTF8, LONG, DOUBLE, STRING = 1, 5, 6, 8


def constants(code: bytes) -> tuple[set[str], set[str]]:
    """(string literals, all names) of a class file's constant pool."""
    count = struct.unpack_from(">H", code, 8)[0]
    at, number = 10, 1
    names: dict[int, str] = {}
    literals: list[int] = []
    while number < count:
        tag = code[at]
        operand = struct.unpack_from(">H", code, at + 1)[0]
        if tag == UTF8:
            names[number] = code[at + 3 : at + 3 + operand].decode("utf-8", "replace")
            at += 3 + operand
        else:
            if tag == STRING:
                literals.append(operand)
            at += SIZES[tag]
        number += 2 if tag in (LONG, DOUBLE) else 1
    return {names[each] for each in literals}, set(names.values())


def configured_classes(libs: Path) -> Iterator[tuple[str, set[str]]]:
    """Each class that has a method `configure`, with its literals that look like settings."""
    for jar in JARS:
        (path,) = libs.glob(f"{jar}-[0-9.]*[0-9].jar")
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith(".class") or OF_CLIENTS.search(name):
                    continue
                literals, names = constants(archive.read(name))
                if "configure" in names:
                    yield name, {one for one in literals if DOTTED.fullmatch(one)}


@pytest.mark.java
@pytest.mark.slow
def test_settings_in_configurable_kafka_classes_are_all_known(apache_kafka_libs: Path) -> None:
    known = BrokerConfig.DEFINITIONS.keys() | TopicSettings.DEFINITIONS.keys() | NAMES.keys()
    classes = list(configured_classes(apache_kafka_libs))
    unknown = {
        literal: name
        for name, literals in classes
        for literal in literals - known - NO_SETTINGS.keys()
        if not literal.startswith((*PREFIXES, "remote.log.metadata.", "org.", "java", "kafka."))
    }
    assert unknown == {}
    assert {literal for _, found in classes for literal in found} >= NO_SETTINGS.keys()
