"""A process that has more descriptors than select() takes."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 2_000  # select() ends at 1,023


@contextmanager
def many_descriptors() -> Iterator[None]:
    """Meanwhile, what is opened has a descriptor above 2,000."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 100), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < MANY:
            held.append(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 0))
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
