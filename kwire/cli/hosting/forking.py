"""A child that is forked, does its work, and ends with the process that forked it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable
from typing import Final

from kwire.cli.grammar.statuses import EXIT_FAILURE

log = logging.getLogger("kwire.serve")

HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
"""Signals that say to the process that forks what is to be done."""


def fork(work: Callable[[], None], who: str, alive: int, inherited: Iterable[int]) -> int:
    """The id of a process that does `work` and ends; its log says `who` it is where that fails.

    `alive` becomes its standard input, which ends when this process does, who holds the other end;
    `inherited` are descriptors that it is not to have.
    """
    # What is sent to the child at once is not for this process: until it has its own, all wait.
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
    """Ctrl-C on a terminal is the parent's affair."""
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    os.setpgid(0, 0)
    os.dup2(alive, 0)
    for descriptor in inherited:
        os.close(descriptor)


def how_it_ended(status: int) -> str:
    """What `waitpid` gave, in words."""
    if os.WIFSIGNALED(status):
        return f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with status {os.WEXITSTATUS(status)}"
