"""Facts about the machine a benchmark ran on: what its figures depend on, nothing that names it."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path

from kwire.conformance import apache_kafka, java


def facts() -> list[tuple[str, str]]:
    """(what, value) pairs for the head of a report."""
    return [
        ("processor", _processor()),
        ("cores", str(os.cpu_count())),
        ("memory", f"{memory_bytes() / 1e9:.0f} GB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("trio, confluent-kafka", f"{version('trio')}, {version('confluent-kafka')}"),
        ("Java", java.version(java.executable())),
        ("Apache Kafka", apache_kafka.VERSION),
    ]


def allow_open_files(wanted: int) -> None:
    """For this process and those it starts, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """Memory that can be had without swapping; all of it where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return memory_bytes()
    sizes = dict(line.split(":") for line in lines)
    return int(sizes["MemAvailable"].split()[0]) * 1024


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
