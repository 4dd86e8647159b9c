"""Facts about the machine that affect the figures of a benchmark, without its name."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path

from kwire.conformance import apache_kafka, java


def facts() -> list[tuple[str, str]]:
    """Return (name, value) of each fact, for the head of a report."""
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
    """Raise the limit on open files of this process and its children, as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """Return the memory that is available without swapping; all memory if the system does not
    report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return memory_bytes()
    sizes = dict(line.split(":") for line in lines)
    return int(sizes["MemAvailable"].split()[0]) * 1024


def _processor() -> str:
    """Return the model of the processor; without /proc/cpuinfo, what the platform says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
