"""Forks a child process that does its work and ends, at the latest when its parent ends."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable
from typing import Final

from kwire.cli.grammar.statuses import EXIT_FAILURE

log = logging.getLogger("kwire.serve")

HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
"""The signals that the parent handles."""


def fork(work: Callable[[], None], who: str, alive: int, inherited: Iterable[int]) -> int:
    """The id of a child process that does `work` and ends.  The log calls it `who` if it fails.

    `alive` becomes its standard input, which ends when this process ends.  `inherited` are
    descriptors that the child closes.
    """
    # Block signals until the child has its own handlers, so that none runs the parent's.
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return pid
    status = EXIT_FAILURE
    try:
        _become_child(alive, inherited)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else EXIT_FAILURE
    except BaseException:
        log.exception("%s ends", who)
    finally:
        logging.shutdown()
        os._exit(status)


def _become_child(alive: int, inherited: Iterable[int]) -> None:
    """Reset signal handlers, leave the process group of the terminal's Ctrl-C, and set stdin."""
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    os.setpgid(0, 0)
    os.dup2(alive, 0)
    for descriptor in inherited:
        os.close(descriptor)


def how_it_ended(status: int) -> str:
    """A status of `waitpid` in words."""
    if os.WIFSIGNALED(status):
        return f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with status {os.WEXITSTATUS(status)}"
