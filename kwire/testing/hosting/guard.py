"""Kills a process when the one that started it ends; for programs that do not watch their input."""

from __future__ import annotations

import subprocess

from kwire.testing.hosting.process import hold_lifeline


class Guard:
    """A shell that kills a process when its own standard input ends.

    That happens when this process ends, also by SIGKILL, and all processes that were started with
    `lifeline` among their `pass_fds`.  So what needs the guarded process to stop cleanly can.
    """

    def __init__(self, pid: int) -> None:
        """Start to guard the process with that id."""
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", f"read -r _; kill -9 {pid}"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._shell.stdin is not None
        hold_lifeline(self._shell.stdin)

    @property
    def lifeline(self) -> int:
        """The file descriptor that keeps the shell's standard input open."""
        assert self._shell.stdin is not None
        return self._shell.stdin.fileno()

    def release(self) -> None:
        """End the shell without killing the process.  Call it while the process still exists."""
        self._shell.kill()
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()
