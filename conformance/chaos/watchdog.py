"""Runs a command in a process of its own with a deadline, and shows the stacks if it hangs.

A client library can block while it holds Python's global lock, and then no thread of its process
can notice it. So another process watches the deadline.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

DUMP_S: Final = 10.0
"""Time in which faulthandler must write the stacks of all threads."""
GDB_S: Final = 60.0
KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit statuses of `timeout` after it has killed its command, and itself with it."""
FRAMES_MAX: Final = 14
"""Frames of each native thread; the rest only show how the thread was started."""
CLEANUP_S: Final = 60.0
"""Time in which a process must clean up after SIGTERM; it stops three brokers and a ZooKeeper."""


def run(
    command: Sequence[str], output: Path, deadline_s: float, environ: Mapping[str, str]
) -> int | None:
    """Return the exit status of the command, or None if it was killed at the deadline.

    Its output and errors are appended to `output`, and so are the stacks after the deadline. The
    command must write the stacks of its threads when it gets SIGUSR1. All its descendants are
    ended.
    """
    with output.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environ,
            start_new_session=True,  # Ctrl-C goes to this process, which ends the other one
        )
    try:
        return process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        with output.open("a") as file:
            file.write(f"\n--- no end within {deadline_s:g} s; the stacks:\n")
        process.send_signal(signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(DUMP_S)
        with output.open("a") as file:
            file.write(native_stacks(process.pid))
        return None
    finally:
        _end_tree(process)


def native_stacks(pid: int) -> str:
    """Return the stacks of all threads of a process as gdb prints them, or why there are none.

    The process may be this one. gdb stops it meanwhile, so that it can neither read a pipe nor end
    gdb in time. So gdb writes to a file, and another process, `timeout`, watches the time.
    """
    if shutil.which("gdb") is None or shutil.which("timeout") is None:
        return "no native stacks: gdb or timeout is not installed\n"
    command = ["timeout", "--signal=KILL", f"{GDB_S:g}", "gdb", "--batch", "--nx", "-p", str(pid)]
    command += ["-ex", "set print frame-arguments none", "-ex", f"thread apply all bt {FRAMES_MAX}"]
    with tempfile.TemporaryFile("w+", errors="replace") as shown:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.STDOUT, check=False
        )
        shown.seek(0)
        text = shown.read()
    if done.returncode in KILLED:
        return f"{text}gdb took more than {GDB_S:g} s\n"
    return text if done.returncode == 0 else f"no native stacks: {text}\n"


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process with SIGTERM; if it does not end, kill it and all its descendants."""
    if process.poll() is not None:
        return
    started = descendants(process.pid)  # orphans have another parent, so list them first
    process.terminate()
    try:
        process.wait(CLEANUP_S)
    except subprocess.TimeoutExpired:
        started = descendants(process.pid)
        process.kill()
        process.wait()
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the children of a process, then their children, and so on."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, check=True)
    children = defaultdict(list)
    for line in listed.stdout.splitlines():
        child, parent = map(int, line.split())
        children[parent].append(child)
    reached = [pid]
    for parent in reached:
        reached += children[parent]
    return reached[1:]
