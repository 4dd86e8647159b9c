"""Hosts on this machine with a network between them that can be cut, also in one direction.

Each host is a network namespace that a pair of virtual interfaces joins to the namespace of this
process, which routes between the hosts. A cut is a routing rule that drops packets silently, as a
broken cable does. This process must have a network namespace of its own, see `enter`; everything
disappears with it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from kwire.testing import Host

INSIDE: Final = "KWIRE_CHAOS_INSIDE"
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
START_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.005


class NetworkMissing(RuntimeError):
    """This system gives this user no network namespaces; the message says what failed."""


def own_namespaces() -> list[str]:
    """Return the words before a command that give it its own network and mounts."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--"]


def enter(command: Sequence[str]) -> None:
    """Continue as `command` in new namespaces, unless this process has its own already.

    Raises NetworkMissing.
    """
    if os.environ.get(INSIDE):
        return
    words = own_namespaces()
    try:
        probe = subprocess.run([*words, "ip", "rule"], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NetworkMissing(str(error)) from error
    if probe.returncode:
        raise NetworkMissing(probe.stderr.strip())
    os.execvpe(words[0], [*words, *command], {**os.environ, INSIDE: "1"})


class Network:
    """`count` hosts; overlapping cuts are counted, so that the last `mend` ends the cut."""

    def __init__(self, count: int) -> None:
        """Create `count` hosts and the routing between them; after an error nothing is left."""
        _ip("link set lo up")
        FORWARDING.write_text("1")
        self._holders: list[subprocess.Popen[bytes]] = []
        self._cuts: Counter[tuple[str, str]] = Counter()
        self.hosts: list[Host] = []
        try:
            self.hosts += [self._host(number) for number in range(1, count + 1)]
        except BaseException:
            self.close()
            raise

    def _host(self, number: int) -> Host:
        """A namespace exists as long as a process in it; this one waits for the end of its
        input."""
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "read _"], stdin=subprocess.PIPE, bufsize=0
        )
        self._holders.append(holder)
        _wait_until_apart(holder.pid)
        enter = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        here, there = f"10.77.{number}.1", f"10.77.{number}.2"
        _ip(f"link add host{number} type veth peer name eth0 netns {holder.pid}")
        _ip(f"address add {here}/24 dev host{number}")
        _ip(f"link set host{number} up")
        for words in (
            "link set lo up",
            f"address add {there}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {here}",
        ):
            _ip(words, enter)
        return Host(there, enter)

    def cut(self, source: str, target: str) -> None:
        """Drop all packets from one address to the other."""
        self._cuts[source, target] += 1
        if self._cuts[source, target] == 1:
            _ip(f"rule add pref 100 from {source} to {target} blackhole")

    def mend(self, source: str, target: str) -> None:
        """Undo one `cut`."""
        self._cuts[source, target] -= 1
        if self._cuts[source, target] == 0:
            _ip(f"rule del pref 100 from {source} to {target} blackhole")

    def close(self) -> None:
        """End the processes that hold the namespaces; the kernel removes these."""
        for holder in self._holders:
            assert holder.stdin is not None
            holder.stdin.close()
            holder.wait()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove all hosts."""
        self.close()


def _wait_until_apart(pid: int) -> None:
    """Wait until the process has another network namespace than this one.

    Raise NetworkMissing after START_TIMEOUT_S seconds.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == own:
        if time.monotonic() > deadline:
            raise NetworkMissing("a process did not get a network namespace of its own")
        time.sleep(POLL_S)


def _ip(words: str, launcher: Sequence[str] = ()) -> None:
    subprocess.run([*launcher, "ip", *words.split()], check=True)
