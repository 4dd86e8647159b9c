"""Takes samples on a thread of its own, so that keys are answered while the cluster is asked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType

from kwire.cli.operating.live.sample import TopSample
from kwire.client.errors import ClientError


class TopSampler:
    """The newest sample, and a descriptor that is readable when there is a newer one."""

    def __init__(self, take: Callable[[], TopSample], interval_s: float) -> None:
        """`take` is called at once, and then `interval_s` seconds after each call."""
        self._take = take
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._newest: TopSample | None = None
        self._trouble: str | None = None
        self._failure: BaseException | None = None
        self.readable, self._written = os.pipe()
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def __enter__(self) -> TopSampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The thread may wait for a broker that hangs: it is a daemon, and ends with the process.
        with self._lock:
            self._stopped.set()
            os.close(self.readable)
            os.close(self._written)

    def newest(self) -> tuple[TopSample | None, str | None]:
        """The newest sample, if any, and the error of the last attempt, if it failed.

        Raises what ended the thread.
        """
        os.read(self.readable, 1)
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return self._newest, self._trouble

    def _run(self) -> None:
        while not self._stopped.is_set():
            sample, trouble, failure = None, None, None
            try:
                sample = self._take()
            except ClientError as error:
                trouble = str(error)
            except BaseException as error:
                failure = error
            with self._lock:
                if self._stopped.is_set():
                    return
                self._newest = sample or self._newest
                self._trouble, self._failure = trouble, failure
                os.write(self._written, b"x")
            if failure is not None:
                return
            self._stopped.wait(self._interval_s)
