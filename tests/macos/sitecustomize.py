"""Hide from every Python process what macOS lacks, as far as Linux can: for tests/test_macos.py.

Python imports a module of this name at its start where it finds one, so that a PYTHONPATH with this
folder does it for pytest, for the brokers that its tests start, and for their children.

What makes Python and trio go on Linux at all (their own epoll) is imported before, and keeps what
it has.  The rest is gone: names are not there, files of /proc and /sys are not found.
"""

import asyncio
import ctypes.util
import fcntl
import logging.handlers
import multiprocessing.util
import os
import platform
import resource
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import types
import urllib.request
import uuid
from collections.abc import Callable

import trio._core._io_epoll as trios

HIDDEN = {
    fcntl: r"F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_OFD_SETLK F_OFD_SETLKW F_OFD_GETLK"
    " F_NOTIFY F_SETSIG F_GETSIG",
    os: "RWF_NOWAIT RWF_HIPRI RWF_DSYNC RWF_SYNC RWF_APPEND posix_fadvise posix_fallocate fdatasync"
    " POSIX_FADV_NORMAL POSIX_FADV_SEQUENTIAL POSIX_FADV_RANDOM POSIX_FADV_WILLNEED"
    " POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE O_DIRECT O_TMPFILE O_PATH O_NOATIME O_LARGEFILE"
    " O_RSYNC copy_file_range splice memfd_create eventfd eventfd_read eventfd_write pidfd_open"
    " getrandom pipe2 sched_getaffinity sched_setaffinity sched_setscheduler sched_getscheduler"
    " getxattr setxattr listxattr removexattr getresuid setresuid getresgid setresgid",
    resource: "prlimit RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING RLIMIT_MSGQUEUE"
    " RLIMIT_OFILE",
    select: "epoll",
    selectors: "EpollSelector",
    signal: "SIGPOLL SIGPWR SIGSTKFLT SIGRTMIN SIGRTMAX SIGCLD sigtimedwait sigwaitinfo",
    socket: "MSG_NOSIGNAL MSG_MORE MSG_CMSG_CLOEXEC MSG_ERRQUEUE SOCK_CLOEXEC SOCK_NONBLOCK"
    " SO_DOMAIN SO_PROTOCOL SO_PASSCRED SO_PEERCRED SO_MARK SO_BINDTODEVICE TCP_CORK TCP_QUICKACK"
    " TCP_USER_TIMEOUT TCP_DEFER_ACCEPT TCP_INFO TCP_KEEPIDLE AF_NETLINK AF_PACKET AF_VSOCK",
}
ON_LINUX = (ctypes.util, logging.handlers, multiprocessing.util, subprocess, urllib.request, uuid)
"""They choose what they do as they are imported: imported here, they choose what works on Linux."""

GET_PATH = 50
NO_FOLDERS = ("/proc", "/sys")


def hide() -> None:
    sysconfig.get_config_vars()  # from a module that is called as the platform is
    platform.uname()
    put(tempfile, _O_TMPFILE_WORKS=False)
    put(shutil, _copyxattr=lambda *of, **named: None)
    put(fcntl, F_GETPATH=GET_PATH, fcntl=with_path(fcntl.fcntl))
    put(trios, select=types.SimpleNamespace(**vars(select)))
    put(asyncio.DefaultEventLoopPolicy, _loop_factory=OnPoll)
    for module, names in HIDDEN.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in [each for each in vars(select) if each.startswith("EPOLL")]:
        delattr(select, name)
    put(selectors, DefaultSelector=selectors.PollSelector)
    sys.addaudithook(find_no_folder)
    for function in (os.stat, os.lstat, os.readlink, os.access):
        put(os, **{function.__name__: without_folders(function)})
    put(sys, platform="darwin")


def put(place: object, **made: object) -> None:
    for name, value in made.items():
        setattr(place, name, value)


class OnPoll(asyncio.SelectorEventLoop):
    """asyncio's loop, which chose epoll as it was imported."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector or selectors.PollSelector())


def with_path(function: Callable[..., object]) -> object:
    """What macOS has in place of /proc/self/fd."""
    readlink = os.readlink

    def asked(fd: int, command: int, argument: object = 0) -> object:
        if command == GET_PATH:
            return os.fsencode(readlink(f"/proc/self/fd/{fd}")) + b"\0"
        return function(fd, command, argument)

    return asked


def is_missing(path: object) -> bool:
    if isinstance(path, bytes | os.PathLike):
        path = os.fsdecode(path)
    return isinstance(path, str) and any(
        path == folder or path.startswith(f"{folder}/") for folder in NO_FOLDERS
    )


def find_no_folder(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and is_missing(arguments[0]):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))


def without_folders(function: Callable[..., object]) -> object:
    def looked(path: object, *arguments: object, **named: object) -> object:
        if is_missing(path):
            if function.__name__ == "access":
                return False
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return function(path, *arguments, **named)

    for kinds in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if function in kinds:
            kinds.add(looked)
    return looked


hide()
